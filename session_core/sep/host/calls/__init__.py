"""What extensions ask of us, and what we ask of them.

- `contexts`: tokens of dispatches: who may act in which session, and for how long
- `requests`: what an extension asks, checked in a fixed order
- `notifications`: what an extension tells without waiting for an answer
- `rate_limit`: how much it may publish
- `commands`: running a command of an extension
- `hooks`: asking extensions in order, and what their answers mean
- `events`: telling extensions of events
"""
