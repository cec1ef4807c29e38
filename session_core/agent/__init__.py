"""How a turn runs: ask the model, run the tools it wants, again, until it has answered.

- `turn`: `Agent.run_turn`, the interpreter of a protocol's driver (`session_core.protocols`)
- `protocol_work`: cells of code, frames, and what code leaves behind
- `direct_model_call`: questions to models beside the conversation
- `plugin_processes`: programs that a protocol runs, confined, ended with the turn
- `model_call`: one call of a model: retries, a conversation that is too long, what it costs
- `streamed_answer`: the model's answer as it streams in, put together into a message
- `context`: what a model gets to see of a long conversation
- `compaction`: a summary that takes a conversation's place; `compaction_policy`: when one is made
- `budget`: tokens and money that a turn and its helpers share; `bounds`: how many model calls it may make
- `tool_runner`: prepare a tool call, ask for it, run it; `tool_results`: what it says, checked and cut
- `tool_calls`: what a call would do and whether it may, for all who make calls
- `permissions`: which calls run and which need approval, as a table; `standing_grants`: those that are always allowed
- `path_filter`: files that rules withhold from tools that come across many; `folder_settings`: rules of a folder
- `joined`: two mappings seen as one
- `hooks`: the ten places where extensions take part, one narrow seam
- `prompt`, `instructions`, `skills`: what a model is told first

In comes a `TurnHandle`, bound to one session; out go events recorded at it. Failures of models and tools are events.
What always holds, whatever a driver, a model, a tool or a hook does: every tool call gets exactly one result before
anything else is said, no text appears twice, what starts has an end, and nothing runs that a person was shown
differently.
"""
