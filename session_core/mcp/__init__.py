"""Servers of the Model Context Protocol: other programs whose tools, resources and prompts a model can use.

- `config`: reads and checks the servers in `mcp.json` files; problems are returned as sentences, not raised
- `json_fields`: reads the fields of such a file
- `variables`: expands `${NAME}` in environments and headers, from a short list plus what the user has released
- `names`: `mcp__server__tool`: names that show where a tool comes from and that every provider accepts
- `client`: `open_mcp_servers`: all servers of a session service, and what they offer together
- `connection`: one server: connecting, listing, requests, disconnects, reconnecting
- `stdio`, `remote`: the transports: the pipes of a child process, and streamable HTTP
- `diagnostics`: the last lines that a server wrote besides its messages
- `sdk_calls`: the handshake, and complete listings
- `transport`: the interface of every transport, what they share, and `McpFailed`
- `content`, `results`: a server's answers, as bounded values of our own types
- `tools`: a server's tools as tools of the agent, and the tools that list and read resources
- `sdk`: the official SDK, imported when the first server is connected, because that takes more than a second

Input comes from programs that others wrote, so sizes, counts and times are bounded everywhere. Output is tools of
`session_core.tools.base`, and `McpFailed` or `ToolFailed` with a plain message. A server that is slow, broken or gone
affects its own calls and nothing else.

Out of scope: whether a call is allowed (tools declare their effects), and where the files and the trust in a folder
come from.

To change how answers are read, see `results`. To add a transport, write a context manager like `stdio.open_stdio` and
name it in `Connection`.
"""
