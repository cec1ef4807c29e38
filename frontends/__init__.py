"""The programs people use. Each is a client of `session_core` and knows only its public names.

Each imports only those above it, and the commands do not import each other (`tests/architecture` checks it):
- `shared`: what several frontends share: safe text, colours, output that never stalls the service, what is in a home
- `client`: a connection to a running service, for programs on trio and asyncio
- `server`: serves clients over a Unix socket and HTTP; `server.daemon`: the service as a background process
- `commands`: the subcommands: run, sessions, export, settings, extensions, watch, doctor, demo
- `terminal`: the full-screen terminal
- `arguments`, `help_texts`, `error_exit`: all options, help with examples, and an error as a sentence and an exit code
- `entry`: the `session-core` command; parses the arguments and loads the frontend they ask for

Frontends import `session_core` and its few sub-doors, never a module inside it; `tests/architecture` checks that.
"""
