"""The commands for sessions that are kept: list, read, change, carry elsewhere, and look after the store.

- `session_lookup`: finds the session that an id or name stands for, and the shortest form of an id; pure functions
- `home`: where the sessions are, and reading the list without disturbing whoever writes
- `writable_home`: changing something, by the service that runs there or by one for just this purpose
- `patience`: waiting a moment for a home that is in use
- `list_lines`, `transcript`: a list of sessions and a conversation as lines for a terminal; pure functions
- `read_commands`: `sessions` and `show`, which work beside a running process
- `edit_commands`: `rename`, `archive`, `restore`, `delete`, `fork`
- `undo`: `undo`
- `export_import`: `export` and `import`
- `store_commands`: `store verify`, `rebuild`, `compact`, `stats`, `backup`, `restore`

Stdout carries what was asked for; remarks go to stderr.
"""
