"""The commands for stored sessions: list, read, change, import, and maintain the store.

- `writable_home`: changes, through the running service or a temporary one
- `list_command`, `list_lines`: `sessions`, beside a running process; a list of sessions as lines, by pure functions
- `show_command`, `transcript`: `show`, and a conversation as lines
- `edit_commands`: `rename`, `archive`, `restore`, `delete`, `fork`
- `undo`: `undo`
- `import_session`: `import`
- `store_commands`: `store verify`, `rebuild`, `compact`, `stats`, `backup`, `restore`

Stdout carries the requested output; remarks go to stderr.
"""
