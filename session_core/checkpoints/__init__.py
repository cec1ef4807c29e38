"""Files as they were before the agent changed them, so that a turn can be undone.

- `values`: what callers get to see: `FileSaveResult`, `TurnCheckpoint`, `RestorePlan`, `RestoreReport`, and the bounds
- `store`: `CheckpointStore`, the door: save before a write, note how a turn left its files, list, plan, restore, forget
- `file_state`: how a file is at this moment, and the one name under which it is remembered
- `session_folder`: what is kept of one session, and how old turns make room for new ones
- `manifest`: one file of JSON lines per turn, each line with a checksum
- `blobs`: contents by their SHA-256
- `folder_snapshot`: what a command changed: the whole folder before it ran, and what differs afterwards
- `command_changes`: commands that run side by side or on in the background, and to which turn their changes belong
- `restore`: what an undo would do, file by file, and doing it

What comes in: a `Workspace`, the only way to the user's files, and paths that nobody trusts. What goes out: values that
say of every file whether it can be brought back and, if not, why.

Rules: the old content and the line that names it are on the disk before a tool may write. A line torn by a crash is as
good as not written, because then the write has not begun. Nothing that somebody else changed is overwritten unless the
caller insists, and what is there is saved first, so an undo can be undone. An undo notes what it is about before it
begins: one that was cut short is gone on with, not begun anew.

All of it blocks: call it in a worker thread.
"""
