"""The public values of the checkpoint store, and its bounds."""

from typing import Final, Literal

import attrs

from session_core.errors import SessionCoreError
from session_core.ids import SessionId, TurnId

StateKind = Literal["content", "missing", "too_large", "not_saved"]
Action = Literal["restore", "delete", "unchanged", "conflict", "not_saved", "too_large"]
Origin = Literal["tool", "command", "background"]
"""The kind of change: by a tool that names the file, a command that may change anything, or a background command."""


class CheckpointFailed(SessionCoreError):
    """A file could not be saved before a change; the change must not go ahead.

    `unrestored` is empty unless an undo failed midway: then it has the files that could not be put back, and why.
    """

    code = "checkpoint_failed"

    def __init__(self, message: str, *, field: str | None = None, unrestored: "tuple[SkippedFile, ...]" = ()) -> None:
        super().__init__(message, field=field)
        self.unrestored = unrestored


@attrs.frozen(kw_only=True)
class CheckpointLimits:
    """The bounds of checkpoints, each with its reason.

    Attributes:
        file_bytes: Larger files are data rather than source; they are noted, not stored.
        session_bytes: Total size of contents stored for one session; the oldest turns are dropped to make room.
        session_files: Files noted in all turns of one session; the oldest turns are dropped to make room.
        dropped_turns: How many records without files are listed: dropped turns, undos of the conversation alone.
        tree_files: Files recorded before a command runs.
        tree_bytes: Their total size.
        tree_file_bytes: Larger files are only noted before a command, not stored.
        tree_entries: Names visited in one walk, including folders.
        tree_seconds: How long a command may be delayed.
    """

    file_bytes: int = 10_000_000
    session_bytes: int = 500_000_000
    session_files: int = 5_000
    dropped_turns: int = 200
    tree_files: int = 2_000
    tree_bytes: int = 20_000_000
    tree_file_bytes: int = 1_000_000
    tree_entries: int = 20_000
    tree_seconds: float = 1.0


@attrs.frozen(kw_only=True)
class FileState:
    """The state of a file at one moment.

    `content` means a regular file whose bytes are known by their hash; `not_saved` comes with a reason. The hash of a
    file that is too large is unknown; its size and time stand in for it.
    """

    kind: StateKind
    sha256: str | None = None
    size: int = 0
    mode: int = 0
    mtime_ns: int = 0
    why: str = ""

    def same_as(self, other: "FileState") -> bool:
        """Return whether both certainly have the same content and the same mode."""
        if self.kind == "missing" or other.kind == "missing":
            return self.kind == other.kind
        if self.mode != other.mode or self.size != other.size:
            return False
        if self.sha256 is not None and other.sha256 is not None:
            return self.sha256 == other.sha256
        return self.kind == other.kind == "too_large" and self.mtime_ns == other.mtime_ns


MISSING: Final = FileState(kind="missing")


@attrs.frozen(kw_only=True)
class FileSaveResult:
    """The result of saving a file before a write.

    Attributes:
        path: The name under which the file is recorded.
        state: The state of the file before the first change of this turn.
        first: Whether this call saved it; false if the turn had saved it before.
        dropped: Turns that were dropped to make room and can no longer be undone.
    """

    path: str
    state: FileState
    first: bool
    dropped: tuple[TurnId, ...] = ()


@attrs.frozen(kw_only=True)
class SavedFile:
    """A file that a turn changed or was about to change; `after` is how the turn left it, if that was noted."""

    path: str
    before: FileState
    after: FileState | None
    origin: Origin


@attrs.frozen(kw_only=True)
class UndoDescription:
    """What an undo reverts, stored with it so the undo can be reverted itself.

    Attributes:
        turn_ids: The turns whose files it restores.
        root: The folder to which its file names are relative.
        takes_back: The undo that it reverts, if it does not undo turns.
        conversation: Whether the conversation moved too: from `head_before` to `head_after`.
    """

    turn_ids: tuple[TurnId, ...]
    root: str
    takes_back: TurnId | None = None
    conversation: bool = False
    head_before: str | None = None
    head_after: str | None = None


@attrs.frozen(kw_only=True)
class TurnCheckpoint:
    """The recorded changes of one turn, which can be undone.

    Attributes:
        undo: Whether it was made by an undo rather than by a turn of the agent.
        undoes: What that undo reverted.
        finished: Whether that undo is finished, including the conversation.
        dropped: It was dropped to make room for later turns, so nothing of it can be restored.
        damaged: Lines of its record that could not be read.
        remarks: Remarks for people, such as that not all changes of a command may be included.
    """

    turn_id: TurnId
    saved_at: int
    files: tuple[SavedFile, ...]
    undo: bool = False
    undoes: UndoDescription | None = None
    finished: bool = False
    dropped: bool = False
    damaged: int = 0
    remarks: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class TreeSnapshot:
    """The record of the folder before a command runs; if not `complete`, `why` says what is missing."""

    files: int
    saved_bytes: int
    complete: bool
    why: str = ""


@attrs.frozen(kw_only=True)
class PlannedFile:
    """The planned effect of an undo on one file.

    Attributes:
        action: For a conflict, `target` is restored only if the caller insists, and if `stuck` not even then.
        target: The state of the file before the turns to undo.
        present: Its state when the plan was made, which must be unchanged when the plan is carried out.
        why: For people, if the file cannot simply be restored.
        stuck: Nothing can be done about this file, because its current content could not be saved.
    """

    path: str
    action: Action
    target: FileState
    present: FileState
    why: str = ""
    stuck: bool = False


@attrs.frozen(kw_only=True)
class RestorePlan:
    """The planned effect of undoing some turns, file by file; making it changes none of the user's files."""

    session_id: SessionId
    turn_ids: tuple[TurnId, ...]
    files: tuple[PlannedFile, ...]
    remarks: tuple[str, ...] = ()

    @property
    def conflicts(self) -> tuple[PlannedFile, ...]:
        """The files that were changed by others since."""
        return tuple(each for each in self.files if each.action == "conflict")


@attrs.frozen(kw_only=True)
class SkippedFile:
    """A file that was left as it is, and why."""

    path: str
    why: str


@attrs.frozen(kw_only=True)
class UndoReport:
    """The result of an undo; to revert it, restore the turn `undo_turn_id`, which is None if nothing was stored for it.

    `restored` files existed and have their old content again, `recreated` files did not exist.
    """

    undo_turn_id: TurnId | None
    restored: tuple[str, ...]
    recreated: tuple[str, ...]
    deleted: tuple[str, ...]
    skipped: tuple[SkippedFile, ...]
