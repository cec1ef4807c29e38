"""One session: its state, the fold that makes it, and the single place where it changes.

- `state`: `SessionState`, the working form of a `SessionSnapshot`; `fold` for snapshots and events
- `appliers`: what each event does to the state, one small function each (`extension_appliers`: those of extensions)
- `fleet`: the same for the list of all sessions; `whereabouts`: where they worked before
- `activity`: what a session is doing, as a table of rules
- `tree`: branches of the conversation
- `window`: how much of a long conversation a state holds
- `closing`: which events bring unfinished work to a truthful end, after a stop, a failure or a crash
- `cells`: code that a protocol has run, as part of the conversation; `executor_points`: what that has left behind
- `prompts`: which messages people have written themselves
- `shell_lines`: a command that a person typed, as part of the conversation
- `known_path`: the conversation a model was shown last, kept for its next step
- `restore`: from what a store has kept back to a state, and to rest after a crash
- `session`: `Session.record`, the one writer; the running turn; approvals and dialogs that wait
- `desk`: the narrow view of a session that a turn gets to see

In come events by `record`; out go state, journal entries and stream events. Models and tools are not its business.
"""
