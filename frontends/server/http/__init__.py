"""HTTP for browsers and other machines: the same contract as on the home's own socket, opened when asked for.

| module | holds |
| --- | --- |
| `door` | `open_http_door`: everything below put together for a running server |
| `installed` | whether the packages that it needs are there |
| `settings` | where to listen and how much is taken; what is not safe is refused |
| `request_checks` | who may come in: Host, Origin, token, content type, size, in this order; no I/O |
| `tokens`, `logins` | the token of a home and those with fewer rights; one-time codes and cookies for browsers |
| `issued_tokens` | the list of tokens with fewer rights that are good |
| `leases` | those who are being served, until what they came in by ends |
| `buckets` | how many requests a client may send |
| `app`, `routes`, `command_endpoint` | letting requests in, the routes, and how errors become answers |
| `events` | server-sent events: a feed for those who speak nothing but HTTP |
| `websocket` | a WebSocket as a pair of streams, for the JSON-RPC of all doors |
| `openapi`, `metrics` | the description for programs, the figures for Prometheus |
| `hypercorn_guards` | hypercorn, with bounds on time, space and patience |
| `access_log` | what is written about requests: no secrets |
"""
