"""How a turn runs: ask the model, run the tools it calls, and repeat until it has answered.

- `turn`: `Agent.run_turn`, the interpreter of a protocol's driver (`session_core.protocols`)
- `protocol_work`: cells of code, frames, and the state that code leaves behind
- `plugin_support`: what protocols may do before a model call: change it, ask models directly, run programs
- `model_call`: one model call: retries, a conversation that is too long, its cost
- `streamed_answer`: builds a message from the model's answer as it streams in
- `context`: what a model sees of a long conversation
- `compaction`: a summary that replaces a conversation, when to make one, and by which model. A turn compacts by itself
  in `turn` (`AutoCompaction`), a person by command in `service/compact_and_restore`
- `budget`: tokens and money that a turn and its subagents share, and how many model calls it may make
- `tool_runner`: prepares and runs a tool call, and gets the approval for it, if one is needed, through
  `TurnHandle.ask_approval` (`session/turn_handle`); `tool_results`: its output, checked and cut
- `call_preview`: what a call would do, for `session_core.permissions` and for people; `folder_settings`: rules of a
  folder
- `joined_mapping`: two mappings seen as one
- `hooks`: the ten hooks of extensions, behind one narrow interface
- `prompt`, `instructions`, `skills`: the parts of the system prompt

A turn gets a `TurnHandle`, bound to one session, and records events on it. Failures of models and tools are events.
Whatever a driver, a model, a tool or a hook does, every tool call gets exactly one result before anything else is
said, no text is shown twice, everything that starts has an end, and nothing runs that differs from what a person was
shown.
"""
