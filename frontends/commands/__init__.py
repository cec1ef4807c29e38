"""The subcommands of `session-core`, one package each.

- `run`: one prompt in, one answer out, for people and scripts
- `sessions`: stored sessions: list, show, rename, archive, delete, fork, undo, export, import; and the store itself
- `export`: a session as a Markdown text or an HTML page
- `settings`: configuration, models, MCP servers, trusted folders
- `extensions`: list, inspect, trust, create, check and debug extensions
- `watch`: follow running sessions from a shell, and stop them
- `doctor`: checks the installation and says what to do
- `demo`: a guided tour
"""
