"""How a turn runs: ask the model, run the tools it wants, again, until it has answered.

- `turn`: `Agent.run_turn`, the interpreter of a protocol's driver (`session_core.protocols`)
- `protocol_work`: cells of code, frames, and what code leaves behind; `before_call`: a protocol's word before a call
- `direct`: questions to models beside the conversation; `turn_processes`: programs of a turn, confined, ended with it
- `model_call`: one call of a model: retries, a conversation that is too long, what it costs
- `answer`: the model's answer as it streams in, put together into a message
- `context`: what a model gets to see of a long conversation
- `compaction`: a summary that takes a conversation's place; `summarising`, `making_room`: when one is made
- `budget`: tokens and money that a turn and its helpers share; `bounds`: how many model calls it may make
- `tool_runner`: prepare a tool call, ask for it, run it; `tool_results`: what it says, checked and cut
- `tool_calls`: what a call would do and whether it may, for all who make calls
- `permissions`: which calls run, which need a person's yes, as a table; `standing`: those that were allowed for good
- `hooks`: the ten places where extensions take part, one narrow seam
- `prompt`, `instructions`, `skills`: what a model is told first

In comes a `TurnDesk`, bound to one session; out go events recorded at it. Failures of models and tools are events. What
always holds, whatever a driver, a model, a tool or a hook does: every tool call gets exactly one result before anything
else is said, no text appears twice, what starts has an end, and nothing runs that a person was shown differently.
"""
