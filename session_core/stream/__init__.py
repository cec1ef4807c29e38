"""How events get from the one writer to any number of readers.

- `ring`: a bounded run of numbered events; pure
- `event_stream`: `EventStream`: publishing, the rings of all sessions, waking readers
- `subscription`: `Subscription`: one reader's place, `receive_batch`, exact `Lagged`
- `coalesce`: merging adjacent deltas for a reader that is far behind; pure
- `follower`: `Follower`: snapshot, follow, gap, resync; sans-IO, used by every frontend near or far

In come events by `publish`; out go `SessionEvent`s in order. What the events mean is not its business.
"""
