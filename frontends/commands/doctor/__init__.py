"""`session-core doctor`: checks the installation, and says how to fix problems.

- `finding`: the result of one check: a state, a sentence, a hint
- `home_checks`: the home, its store, its running server
- `setting_checks`: configuration, models and keys, extensions, MCP servers
- `system_checks`: user and container, sandbox, terminal, Python and its packages, git
- `command`: all of them in order, as lines or as JSON

Nothing is changed or started except bubblewrap, which is tried out, and no network is used. Checks that other commands
make reuse their functions: `config check`, `store verify`, `ext list` and `status` see the same things.
"""
