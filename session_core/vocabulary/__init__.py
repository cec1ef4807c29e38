"""The vocabulary of the system: pure, deeply frozen attrs values that all other packages exchange.

- `commands`: what a client may ask for, each bound to the type of its reply in `replies`
- `events`: what has happened, and the `SessionEvent` envelope with its place in the order
- `added_messages`: which messages an event adds, for the fold and for stores
- `messages`: the conversation: messages, their parts, the half-finished message, live tools
- `sessions`: the rest of a session's state: activity, settings, queue, approvals, dialogs, wake-ups, outcomes
- `strictness`: what each permission mode lets run; which of two modes or sandbox policies is the stricter one
- `snapshots`: the whole state at a cursor; `session_fields`: what it has in common with the working state
- `models`: models as people choose among them
- `protocols`: which protocol a session uses, its frames and what its executor keeps
- `client_protocol`: what a client and a server exchange besides commands and events
- `extensions`: extensions, what they provide and what they display
- `prompt_input`: what a person means by what they typed: a command, a shell line, or a message
- `tools`: how a tool is described to a model
- `frozen`: `Vector`, `Rope` and `JsonObject`, containers that stay frozen all the way down
- `argument_checks`: type checks on values from callers
- `methods`: one async method per command, shared by the service and by remote clients

Nothing here does I/O, reads the clock, or imports any of our modules except `ids`, `errors` and `limits`.
"""
