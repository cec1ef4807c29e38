"""Checkpoints: files as they were before the agent changed them, to undo turns.

- `values`: the public values: `FileSaveResult`, `TurnCheckpoint`, `RestorePlan`, `UndoReport`, and the bounds
- `store`: `CheckpointStore`, the API: save before a write, note how a turn left its files, list, plan, restore, forget
- `file_state`: the current state of a file, and the one name under which it is recorded
- `session_folder`: the stored data of one session, and dropping old turns to make room for new ones
- `manifest`: one file of JSON lines per turn, each line with a checksum
- `blobs`: contents by their SHA-256
- `folder_snapshot`: the changes of a command: the whole folder before it ran, and the differences afterwards
- `command_changes`: commands that run side by side or in the background, and the turns their changes belong to
- `restore`: plans an undo, file by file, and carries it out

Input: a `Workspace`, the only access to the user's files, and untrusted paths. Output: values that say for every file
whether it can be restored and, if not, why.

Rules: the old content and the line that names it are on the disk before a tool may write. A line torn by a crash counts
as not written, because then the write has not begun. Changes by others are overwritten only if the caller
insists, and the current content is saved first, so an undo can be undone. An undo records its purpose before it begins:
an interrupted one is resumed, not restarted.

All of it blocks: call it in a worker thread.
"""
