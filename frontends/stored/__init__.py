"""The commands for sessions that are kept: list, read, change, carry elsewhere, and look after the store.

- `which`: from what a person types to the one session that is meant, and the shortest form of an id; pure functions
- `home`: where the sessions are, and reading the list without disturbing whoever writes
- `acting`: changing something, by the service that runs there or by one for just this purpose
- `patience`: waiting a moment for a home that is in use
- `listing`, `transcript`: a list of sessions and a conversation as lines for a terminal; pure functions
- `reading`: `sessions` and `show`, which work beside a running process
- `changing`: `rename`, `archive`, `restore`, `delete`, `fork`
- `undo`: `undo`
- `transfer`: `export` and `import`
- `upkeep`: `store verify`, `rebuild`, `compact`, `stats`, `backup`, `restore`

Stdout carries what was asked for; remarks go to stderr.
"""
