"""What a turn offers to protocols that want more than a driver; built only when a protocol asks for it.

- `before_call`: asks the protocol before each model call
- `direct_model_call`: model calls outside the conversation
- `turn_children`: child sessions that a protocol runs itself
- `turn_processes`: sandboxed programs that a protocol runs, ended with the turn
"""
