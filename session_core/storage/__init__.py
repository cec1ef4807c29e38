"""Where events are kept.

- `base`: `SessionStore`, what the service needs of a store
- `memory`: `MemoryStore`, which keeps them as long as the process lives

In come recorded events, synchronously; out come the events of a session, and the number of the last durable one.
"""
