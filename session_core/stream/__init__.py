"""How events get from the one writer to any number of readers.

- `ring`: a bounded run of numbered events; pure
- `event_stream`: `EventStream`: publishing, the rings of all sessions, waking readers
- `subscription`: `Subscription`: one reader's position, `receive_batch`, exact `Lagged`
- `coalesce`: merging adjacent deltas for a reader that is far behind; pure
- `follower`: `Follower`: snapshot, follow, gap, resync; sans-IO, used by every local or remote frontend

Input: events through `publish`. Output: `SessionEvent`s in order. The meaning of the events is out of scope.
"""
