"""The folders that sessions work in, each with its own rules, defaults, MCP servers and extensions.

- `registry`: `Folders`: opens a folder for the first session in it, and closes it after the last
- `folder`: one open folder
- `files`: reads the files of a folder
- `mcp_servers`: opens the MCP servers of a folder
- `extension_hosts`: runs the extensions of a project
- `extensions`: combines these with the user's own
"""
