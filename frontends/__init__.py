"""The programs people use. Each is a client of `session_core` and knows only its public names.

- `entry`: the `session-core` command; parses the arguments and loads the frontend they ask for
- `arguments`, `parser`, `help_texts`: the command line: options, how they are parsed, help with examples
- `error_exit`: turns an error into a sentence and an exit code
- `shared`: what all frontends share: safe text, colours, output that never stalls the service
- `client`: a connection to a running service, for programs on trio and asyncio
- `server`: serves clients over a Unix socket and HTTP; `server.daemon`: the service as a background process
- `commands`: the subcommands: run, sessions, export, settings, extensions, watch, doctor, demo
- `terminal`: the full-screen terminal

Frontends import `session_core` and its few sub-doors, never a module inside it; `tests/architecture` checks that.
"""
