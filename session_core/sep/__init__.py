"""The host of SEP extensions: programs of any language that speak JSON-RPC over their pipes.

One process per extension serves all sessions of a service. What it may do is decided here, what its actions do to
sessions is the business of the `Delegate`, which turns them into ordinary commands of the service.

- `names`: hooks, events, kinds of dialogs, capabilities, error codes
- `manifest`, `places`, `discovery`: `extension.toml`, where extensions lie, which count and why others do not
- `consent`, `folder_digest`: what people have agreed to, pinned to the content of all files
- `registrations`, `render_blocks`, `fields`: what an extension brings, read strictly
- `launch`, `process`, `listening`, `extension_log`: a child process, its pipes, what else it says, its end
- `life`, `starting`: one process from greeting to end
- `extension`, `callbacks`: one extension through crash, restart and reload, and its host as it sees it
- `contexts`: tokens of dispatches: who may act in which session, and for how long
- `inbound`, `notes`, `ui_requests`: what an extension asks of us and tells us, checked in a fixed order
- `registering`, `publishing`: large updates of what is registered, aside and in order; how much it may publish
- `commanding`: having a command done
- `delegate`: what the service does for extensions
- `hooks`: asking extensions in order, and what their answers mean
- `events`, `translations`: from session events to the events that extensions know
- `tools`, `tool_calls`, `tool_search`: tools of extensions as ours, and the search for those not shown at once
- `providers`, `provider_*`, `logins`, `credentials`: models that an extension brings, and logging in to them
- `telling`: what people get to know of extensions, and how what they type reaches one
- `host`, `host_setting`: all of it together
- `sdk`: the other side: writing extensions in Python, with a host for their tests
- `scaffold`: new extensions from templates
- `conformance`: schemas of the protocol, and a runner that checks an extension in any language against them
"""
