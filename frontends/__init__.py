"""The programs people use: each is a client of `session_core` and knows nothing but its public door.

- `entry`: the `session-core` command; reads the arguments and loads the frontend that was asked for
- `arguments`, `help_texts`: the words of that command: options, help, examples; `parsing`: how they are read
- `cli`: one prompt in, one answer out, for people and scripts
- `stored`: the sessions that are kept: list, read, change, export, import, look after
- `serving`: the service as a process of its own: start, find, ask, end; `watching`: look at what runs there, stop it
- `extensions`: the extensions there are: list, look at, trust, switch, check
- `demo`: a guided tour of the service, live and offline
- `console`: what frontends that print share: safe text, colours, output that never stalls the service

Frontends import `session_core` only, never a module inside it; `tests/architecture` watches over that.
"""
