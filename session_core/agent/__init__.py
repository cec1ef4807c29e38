"""How a turn runs: ask the model, run the tools it wants, again, until it has answered.

- `turn`: `Agent.run_turn`, the loop
- `answer`: the model's answer as it streams in, put together into a message
- `tool_runner`: prepare tool calls in order, run them, report in order
- `permissions`: which tool calls need a person's yes, as a table
- `faults`: what foreign code may raise, and what must pass through

In comes a `TurnDesk`, bound to one session; out go events recorded at it. Failures of models and tools are events.
"""
