"""The server of a home: connects any number of frontends, from any process, to one running service.

| module | holds |
| --- | --- |
| `server` | shared by all connections: the service, the attached clients, the shutdown |
| `connection` | one connection: greeting, commands, feeds, heartbeats |
| `feeds`, `frames` | the feeds of a client, encoded once for all clients that read the same |
| `access`, `guest_rights` | what a client may do and see; which commands are for guests |
| `client_names` | what clients may call themselves |
| `unix_listener` | the home's own socket, for programs of the same user |
| `home_service` | the service of a home, opened in this process |
| `http` | the HTTP listener, for browsers and other machines, opened on request |
| `daemon` | the service of a home as a background process: start, find, query, shut down |
| `telemetry` | OpenTelemetry spans of turns, model calls and tool calls, sent on request |
"""
