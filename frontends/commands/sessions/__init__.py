"""The commands for stored sessions: list, read, change, import, and maintain the store.

- `writable_home`: changes, through the running service or a temporary one
- `list_lines`, `transcript`: a list of sessions and a conversation as lines for a terminal; pure functions
- `read_commands`: `sessions` and `show`, which work beside a running process
- `edit_commands`: `rename`, `archive`, `restore`, `delete`, `fork`
- `undo`: `undo`
- `import_session`: `import`
- `store_commands`: `store verify`, `rebuild`, `compact`, `stats`, `backup`, `restore`

Stdout carries the requested output; remarks go to stderr.
"""
