"""Servers of the Model Context Protocol: other programs whose tools, resources and prompts a model can use.

- `config`: the servers named in `mcp.json` files, checked; what is wrong comes back as sentences, not as exceptions
- `json_fields`: the fields of such a file, one by one
- `variables`: `${NAME}` in environments and headers, from a short list of variables and those the user has released
- `names`: `mcp__server__tool`, a name that says where a tool comes from and that every provider accepts
- `client`: `open_mcp_servers`, all servers of a session service and what they offer together
- `no_servers`: the same where no server is named, without loading any of it
- `connection`: one server: connecting, listing, requests, losing it, connecting again
- `stdio`, `remote`: how messages get there, over the pipes of a child process or over streamable HTTP
- `diagnostics`: the end of what a server wrote beside its messages
- `sdk_calls`: the greeting and whole listings
- `transport`: what every transport gives, and `McpFailed`
- `content`, `results`: what a server answered, as bounded values of ours
- `tools`: a server's tool as one of ours, and the tools that list and read resources
- `sdk`: the official SDK, imported when the first server is connected; it takes more than a second

What comes in: whatever a program that someone else wrote cares to say, so sizes, counts and times are bounded
everywhere. What goes out: tools of `session_core.tools.base`, and `McpFailed` or `ToolFailed` in plain words. A server
that is slow, broken or gone costs its own calls and nothing else.

Not its business: whether a call is allowed (tools state their effects), and where the files and the trust in a folder
come from.

To change what is understood of an answer, see `results`; to add a kind of transport, write a context manager as
`stdio.open_stdio` is one and name it in `Connection`.
"""
