"""The commands for stored sessions: list, read, change, move elsewhere, and maintain the store.

- `session_lookup`: finds a session by id or name, and the shortest form of an id; pure functions
- `home`: where the sessions are, and reading the list without disturbing a writer
- `writable_home`: changes, through the running service or a temporary one
- `wait_for_home`: waiting a moment for a home that is in use
- `list_lines`, `transcript`: a list of sessions and a conversation as lines for a terminal; pure functions
- `read_commands`: `sessions` and `show`, which work beside a running process
- `edit_commands`: `rename`, `archive`, `restore`, `delete`, `fork`
- `undo`: `undo`
- `export_import`: `export` and `import`
- `store_commands`: `store verify`, `rebuild`, `compact`, `stats`, `backup`, `restore`

Stdout carries the requested output; remarks go to stderr.
"""
