"""One session: its state, the fold that makes it, and the single place where it changes.

- `state`: `SessionState`, the working form of a `SessionSnapshot`; `fold` for snapshots and events
- `appliers`: what each event does to the state, one small function each
- `session_list`: the same for the list of all sessions; `cwd_history`: where they worked before
- `activity`: what a session is doing, as a table of rules
- `message_tree`: branches of the conversation
- `message_window`: how much of a long conversation a state holds
- `finish_work`: which events bring unfinished work to a truthful end, after a stop, a failure or a crash
- `cells`: code that a protocol has run, as part of the conversation; `executor_points`: what that has left behind
- `new_messages`: how messages come into a state; `prompts`: which messages people have written themselves
- `shell_lines`: a command that a person typed, as part of the conversation
- `restore`: from what a store has kept back to a state, and to rest after a crash
- `recorder`: the step in which an event becomes true; `deferred`: a value that will be there later
- `session`: `Session.record`, the one writer; the running turn; approvals and dialogs that wait
- `turn_handle`: the narrow view of a session that a turn gets to see

In come events by `record`; out go state, journal entries and stream events. Models and tools are not its business.
"""
