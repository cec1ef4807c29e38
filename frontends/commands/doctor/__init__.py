"""`session-core doctor`: is everything as it should be, and if not, what to do.

- `finding`: what one check has to say: a state, a sentence, a hint
- `home_checks`: the home, its store, the server that runs for it
- `setting_checks`: configuration, models and keys, extensions, MCP servers
- `system_checks`: user and container, sandbox, terminal, Python and its packages, git
- `command`: all of them in order, as lines or as JSON

Nothing is changed or started, but for bubblewrap, which is tried out, and no network is used. What other commands check
is asked of their own functions: `config check`, `store verify`, `ext list` and `status` see the same things.
"""
