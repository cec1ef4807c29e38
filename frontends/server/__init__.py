"""The server of a home: any number of frontends, of any process, at one running service.

| module | holds |
| --- | --- |
| `server` | what all connections share: the service, who is attached, when it ends |
| `connection` | one connection: greeting, commands, feeds, heartbeats |
| `feeds`, `frames` | what a client reads, written once for all who read the same |
| `size_limits`, `text_cuts` | making whatever is sent fit into a line |
| `access` | what a client may do and see |
| `admission`, `unix_door` | letting clients in; the home's own socket, for programs of the same user |
| `http` | the door for browsers and other machines, opened when asked for |
| `telemetry` | OpenTelemetry spans of turns, model calls and tool calls, sent when asked for |
"""
