"""The HTTP listener, for browsers and other machines: the same contract as the home's own socket, opened on request.

| module | holds |
| --- | --- |
| `listener` | `open_http_listener`: everything below put together for a running server |
| `installed` | whether the required packages are installed |
| `settings` | the listening address and the limits; refuses unsafe settings |
| `request_checks` | admission of requests: Host, Origin, token, content type, size, in this order; no I/O |
| `tokens`, `logins` | the token of a home and the scoped ones; one-time codes and cookies for browsers |
| `scoped_tokens` | the list of valid scoped tokens |
| `served_clients` | the clients being served, until their credential ends |
| `rate_limits` | rate limits per client |
| `app`, `routes`, `command_endpoint` | admitting requests, the routes, and how errors become responses |
| `events` | server-sent events: a feed for clients that speak only HTTP |
| `websocket` | a WebSocket as a pair of streams, for the JSON-RPC of all listeners |
| `openapi`, `metrics` | the description for programs, the figures for Prometheus |
| `hypercorn_guards` | hypercorn, with limits on time, memory and waiting |
| `access_log` | the log of requests, without secrets |
"""
