"""One session: its state, the fold that produces it, and the single place where it changes.

- `state`: `SessionState`, the working form of a `SessionSnapshot`; `fold` for snapshots and events
- `appliers`: how each event changes the state, one small function each
- `session_list`: the same for the list of all sessions; `cwd_history`: their previous working directories
- `activity`: what a session is doing, as a table of rules
- `message_tree`: branches of the conversation
- `message_window`: how much of a long conversation a state holds
- `finish_work`: which events close unfinished work truthfully after a stop, a failure or a crash
- `cells`: code and child sessions that a protocol has run; `executor_points`: the state that code left behind
- `prompts`: which messages people have written themselves
- `shell_lines`: a command that a person typed, as part of the conversation
- `restore`: restores a state from a store, and closes what a crash left running
- `recorder`: the step that records an event; `deferred`: a value that arrives later
- `session`: `Session.record`, the one writer; the running turn; approvals and dialogs that wait
- `turn_handle`: the narrow view of a session that a turn gets; it also asks for approvals of tool calls

Input: events through `record`. Output: state, journal entries and stream events. Models and tools are out of scope.
"""
