"""Which undo is meant when one is taken back, and why files may refuse an undo."""

from collections.abc import Sequence
from typing import Final

from session_core.checkpoints.values import CheckpointFailed, SkippedFile, TurnCheckpoint, Undoing
from session_core.errors import Conflict, FilesChanged, NotFound
from session_core.ids import TurnId
from session_core.session.session import Session

_NAMED_FILES: Final = 20
"""In one sentence; more are counted."""


def refusal(files: Sequence[SkippedFile]) -> FilesChanged:
    """Name each file that stands in the way of an undo, and why."""
    msg = (
        f"nothing was done, because files are not as they were left ({named(files)}); "
        "with force they are overwritten where that is possible, and what is there now is saved first"
    )
    return FilesChanged(msg, files=tuple((each.path, each.why) for each in files))


def named(files: Sequence[SkippedFile]) -> str:
    """Name files, each with its reason, but not too many."""
    told = [f"{each.path!r}: {each.why}" for each in files[:_NAMED_FILES]]
    if len(files) > _NAMED_FILES:
        told.append(f"and {len(files) - _NAMED_FILES:,} more")
    return "; ".join(told)


def failed(failure: Exception) -> Conflict:
    """Say why an undo failed, and what it has left behind."""
    told = failure.message if isinstance(failure, CheckpointFailed) else str(failure)
    if isinstance(failure, CheckpointFailed) and failure.left:
        msg = (
            f"the undo failed in the middle ({told}), and files that it had changed could not be put back "
            f"({named(failure.left)}); the conversation is as it was, and the same undo again goes on where it stopped"
        )
        return Conflict(msg)
    return Conflict(f"the files could not be brought back, so nothing was done: {told}")


def elsewhere() -> Conflict:
    """Say that the files are in another folder than the one where the session works now."""
    msg = "files were changed in another working folder: change back to it first, or leave the files as they are"
    return Conflict(msg, field="files")


def undo_meant(turns: Sequence[TurnCheckpoint], wanted: TurnId | None) -> TurnCheckpoint:
    """Find the undo to take back: the one that is named, or the newest that still holds."""
    taken: set[TurnId] = set()
    for turn in reversed(turns):
        if turn.undoes is None or (wanted is None and turn.turn_id in taken):
            continue
        if turn.turn_id == wanted and turn.turn_id in taken:
            msg = "this undo was taken back already"
            raise Conflict(msg, field="undo_turn_id")
        if turn.turn_id == wanted or (wanted is None and turn.undoes.takes_back is None):
            if turn.dropped:
                msg = "this undo is too long ago: what it had saved had to make room, so it cannot be taken back"
                raise Conflict(msg, field="undo_turn_id")
            return turn
        if turn.finished and turn.undoes.takes_back is not None and turn.turn_id not in taken:
            taken.add(turn.undoes.takes_back)
    if wanted is None:
        msg = "there is no undo to take back in this session"
        raise Conflict(msg, field="session_id")
    msg = f"there is no undo {wanted!r} in this session"
    raise NotFound(msg, field="undo_turn_id")


def taking_back(session: Session, undo: TurnCheckpoint, *, force: bool) -> Undoing:
    """Say what taking back an undo does.

    Raises:
        Conflict: The session works elsewhere now, or has gone on since.
    """
    was, state = undo.undoes, session.state
    assert was is not None
    if undo.files and was.root != state.settings.cwd:
        raise elsewhere()
    if was.conversation and state.head not in {was.head_after, was.head_before} and not force:
        msg = "the conversation has gone on since this undo; with force it is taken back all the same"
        raise Conflict(msg, field="force")
    return Undoing(
        turn_ids=(undo.turn_id,),
        root=state.settings.cwd,
        takes_back=undo.turn_id,
        conversation=was.conversation,
        # One that was cut short when the conversation had moved already is gone on with as what it was.
        head_before=was.head_after if state.head == was.head_before else state.head,
        head_after=was.head_before,
    )
