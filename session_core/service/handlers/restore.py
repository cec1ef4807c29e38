"""Goes back to an earlier message: the conversation and the files together."""

import logging
from collections.abc import Callable, Sequence
from typing import Final

import attrs
import trio

from session_core.checkpoints.store import CheckpointStore
from session_core.checkpoints.values import (
    CheckpointFailed,
    RestorePlan,
    SkippedFile,
    TurnCheckpoint,
    UndoDescription,
    UndoReport,
)
from session_core.errors import (
    Conflict,
    FilesChanged,
    InternalError,
    InvalidInput,
    NotFound,
    ReadOnly,
    SessionCoreError,
    Unavailable,
)
from session_core.ids import MessageId, SessionId, TurnId
from session_core.sandbox.workspace import WorkspaceRefused
from session_core.service.compact_and_restore import start_restore
from session_core.service.core import ServiceCore
from session_core.service.handler_api import Caller, Handlers, PendingReply, refuse_if_overtaken
from session_core.service.handlers.history import is_only_in_store, load_old_path, restore_branch
from session_core.service.turn_host import checkpoint_turn_id, workspace_of
from session_core.session.deferred import Deferred
from session_core.session.session import Session
from session_core.session.shell_lines import as_typed_text
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary import replies as r
from session_core.vocabulary.messages import Message

# --- finding the undo to take back, and explaining why files prevent an undo ------------------------------------------
_NAMED_FILES: Final = 20
"""How many files one sentence names; the rest are counted."""


def build_files_changed(files: Sequence[SkippedFile]) -> FilesChanged:
    """Return an error that names each file that prevents an undo, and why."""
    return FilesChanged(
        f"nothing was done, because files have changed since the turn ({describe_files(files)}); "
        "with force they are overwritten where possible, and their current contents are saved first",
        files=tuple((each.path, each.why) for each in files),
    )


def describe_files(files: Sequence[SkippedFile]) -> str:
    """Describe files, each with its reason, but not too many."""
    sentences = [f"{each.path!r}: {each.why}" for each in files[:_NAMED_FILES]]
    if len(files) > _NAMED_FILES:
        sentences.append(f"and {len(files) - _NAMED_FILES:,} more")
    return "; ".join(sentences)


def build_undo_failure(failure: Exception) -> Conflict:
    """Describe why an undo failed, and what it has left behind."""
    reason = failure.message if isinstance(failure, CheckpointFailed) else str(failure)
    if isinstance(failure, CheckpointFailed) and failure.unrestored:
        return Conflict(
            f"the undo failed in the middle ({reason}), and files that it had changed could not be put back "
            f"({describe_files(failure.unrestored)}); the conversation is as it was, "
            "and the same undo can be repeated to continue where it stopped"
        )
    return Conflict(f"the files could not be restored, so nothing was done: {reason}")


def build_other_folder_conflict() -> Conflict:
    """Return the error for files in another folder than the session's current one."""
    return Conflict(
        "files were changed in another working folder: change back to it first, or leave the files as they are",
        field="files",
    )


def find_undo(turns: Sequence[TurnCheckpoint], wanted: TurnId | None) -> TurnCheckpoint:
    """Find the undo to take back: the named one, or the newest that is still in effect."""
    taken: set[TurnId] = set()
    for turn in reversed(turns):
        if turn.undoes is None or (wanted is None and turn.turn_id in taken):
            continue
        if turn.turn_id == wanted and turn.turn_id in taken:
            raise Conflict("this undo was taken back already", field="undo_turn_id")
        if turn.turn_id == wanted or (wanted is None and turn.undoes.takes_back is None):
            if turn.dropped:
                raise Conflict(
                    "this undo is too old: its saved files were dropped to save space, so it cannot be taken back",
                    field="undo_turn_id",
                )
            return turn
        if turn.finished and turn.undoes.takes_back is not None and turn.turn_id not in taken:
            taken.add(turn.undoes.takes_back)
    if wanted is None:
        raise Conflict("there is no undo to take back in this session", field="session_id")
    raise NotFound(f"there is no undo {wanted!r} in this session", field="undo_turn_id")


def plan_take_back(session: Session, undo: TurnCheckpoint, *, force: bool) -> UndoDescription:
    """Describe what taking back an undo does.

    Raises:
        Conflict: The session works elsewhere now, or has continued since.
    """
    was, state = undo.undoes, session.state
    assert was is not None
    if undo.files and was.root != state.settings.cwd:
        raise build_other_folder_conflict()
    if was.conversation and state.head not in {was.head_after, was.head_before} and not force:
        raise Conflict(
            "the conversation has continued since this undo; with force it is taken back anyway", field="force"
        )
    return UndoDescription(
        turn_ids=(undo.turn_id,),
        root=state.settings.cwd,
        takes_back=undo.turn_id,
        conversation=was.conversation,
        # An undo that was interrupted after the conversation had moved is resumed as it was.
        head_before=was.head_after if state.head == was.head_before else state.head,
        head_after=was.head_before,
    )


# --- restore ----------------------------------------------------------------------------------------------------------

log = logging.getLogger(__name__)

_FINISHING_S = 5.0


def restore_to_message(core: ServiceCore, command: c.RestoreToMessage, caller: Caller) -> PendingReply:
    session = _get_resting_session(core, command.session_id, caller)
    if not (command.files or command.conversation):
        raise InvalidInput("files and conversation are both false, so there is nothing to do", field="files")
    if command.files and core.config.checkpoints is None and not command.conversation:
        raise Unavailable("this service was set up without checkpoints, so it cannot restore files")
    target, after = _find_target(session, command.message_id)
    cwd = session.state.settings.cwd
    turn_ids = dict.fromkeys(each.turn_id for each in after if each.turn_id is not None)
    turns = tuple(turn_ids) if command.files else ()
    wish = _RestoreRequest(
        undoing=UndoDescription(
            turn_ids=tuple(checkpoint_turn_id(turn_id, cwd) for turn_id in turns),
            root=cwd,
            conversation=command.conversation,
            head_before=session.state.head,
            head_after=target.parent_id,
        ),
        turns=turns,
        files=command.files,
        text=as_typed_text(target),
    )
    return _RestoreRun(core, session, caller, wish, command.force).start()


def take_back_undo(core: ServiceCore, command: c.TakeBackUndo, caller: Caller) -> PendingReply:
    session = _get_resting_session(core, command.session_id, caller)
    if core.config.checkpoints is None:
        raise Unavailable("this service was set up without checkpoints, so no undo can be taken back")

    def find(store: CheckpointStore) -> _RestoreRequest:
        undo = find_undo(store.turns(session.state.session_id), command.undo_turn_id)
        return _RestoreRequest(undoing=plan_take_back(session, undo, force=command.force), turns=(), files=True)

    return _RestoreRun(core, session, caller, find, command.force).start()


def _get_resting_session(core: ServiceCore, session_id: SessionId, caller: Caller) -> Session:
    session = core.require_idle_session(session_id, "go back")
    refuse_if_overtaken(session, caller)
    return session


@attrs.frozen(kw_only=True)
class _RestoreRequest:
    """What to do; `turns` are those whose files are restored, by their ids in the session."""

    undoing: UndoDescription
    turns: tuple[TurnId, ...]
    files: bool
    text: str = ""


@attrs.frozen(kw_only=True)
class _FilesOutcome:
    """What became of the files."""

    plan: RestorePlan
    report: UndoReport

    def list_results(self) -> tuple[r.RestoredFile, ...]:
        report = self.report
        return (
            *(r.RestoredFile(path=path, done="restored") for path in report.restored),
            *(r.RestoredFile(path=path, done="recreated") for path in report.recreated),
            *(r.RestoredFile(path=path, done="removed") for path in report.deleted),
            *(r.RestoredFile(path=each.path, done="skipped", why=each.why) for each in report.skipped),
        )


@attrs.define
class _RestoreRun:
    """One restore; it completes even if its caller leaves."""

    core: ServiceCore
    session: Session
    caller: Caller
    request: _RestoreRequest | Callable[[CheckpointStore], _RestoreRequest]
    """What to do, or a function that determines it from the checkpoints."""
    force: bool
    _done: Deferred[r.RestoreReply | SessionCoreError] = attrs.field(factory=Deferred)

    def start(self) -> PendingReply:
        """Start it as work of the session: no turn starts before the files are restored."""
        start_restore(self.core, self.session, self.run)
        return PendingReply(self._wait)

    async def _wait(self) -> r.RestoreReply:
        """Wait for the end of the restore."""
        done = await self._done.wait()
        if isinstance(done, SessionCoreError):
            raise done.fresh_copy()
        return done

    async def run(self) -> None:
        """Restore the files, then the conversation; if the files cannot be restored, change nothing."""
        store = self.core.config.checkpoints
        files: _FilesOutcome | None = None
        try:
            wish = self.request
            if not isinstance(wish, _RestoreRequest):
                assert store is not None, "the request is determined from the checkpoints"
                wish = await trio.to_thread.run_sync(wish, store)
            path = await self._load_branch(wish.undoing)
            undo: TurnId | None = None
            if store is not None and wish.files:
                files = await trio.to_thread.run_sync(self._restore_files, store, wish)
                undo = files.report.undo_turn_id
            elif store is not None:
                undo = await trio.to_thread.run_sync(self._note, store, wish.undoing)
            self.core.refuse_if_unsaved()
            reply = self._record(wish, files, undo, path)
            if store is not None and undo is not None:
                await self._finish(store, undo)
            self._done.set(reply)
        except (CheckpointFailed, WorkspaceRefused, OSError) as failure:
            self._done.set(build_undo_failure(failure))
        except (Conflict, NotFound) as refused:
            self._done.set(refused)
        except ReadOnly as failure:
            done = "the files were restored, the conversation was not" if files else "nothing was done"
            self._done.set(ReadOnly(f"{done}: {failure.message}"))
        except Exception as bug:
            log.exception("going back failed because of a bug")
            self._done.set(
                InternalError(f"going back failed because of a bug in the service: {type(bug).__name__}: {bug}")
            )

    async def _load_branch(self, undoing: UndoDescription) -> tuple[Message, ...]:
        """Read the branch to switch back to, if it is no longer in memory."""
        head = None if undoing.head_after is None else MessageId(undoing.head_after)
        if undoing.conversation and head is not None and is_only_in_store(self.session, head):
            return await load_old_path(self.session, head)
        return ()

    def _note(self, store: CheckpointStore, undoing: UndoDescription) -> TurnId | None:
        try:
            return store.note_undo(self.session.state.session_id, undoing)
        except CheckpointFailed as failure:
            log.warning("%s", failure.message)  # the conversation needs no checkpoint: all of it stays in the tree
            return None

    async def _finish(self, store: CheckpointStore, undo: TurnId) -> None:
        """Close the undo once the conversation is durable too; until then the same undo would be resumed."""
        try:
            with trio.move_on_after(_FINISHING_S):
                await self.session.wait_until_durable()
                await trio.to_thread.run_sync(store.finish_undo, self.session.state.session_id, undo)
        except SessionCoreError as failure:
            log.warning("%s", failure.message)

    def _record(
        self, wish: _RestoreRequest, files: _FilesOutcome | None, undo: TurnId | None, path: tuple[Message, ...]
    ) -> r.RestoreReply:
        session, by, undoing = self.session, self.caller.client_id, wish.undoing
        if files is not None and files.plan.turn_ids:
            report = files.report
            restored = ev.FilesRestored(
                turn_ids=tuple(_original_turn_id(each) for each in files.plan.turn_ids),
                restored=(*report.restored, *report.recreated),
                removed=report.deleted,
                kept=tuple(each.path for each in report.skipped),
                undo_turn_id=undo,
            )
            session.record(restored, by)
        if undoing.conversation and path:
            restore_branch(session, path, self.caller)
        elif undoing.conversation:
            head = None if undoing.head_after is None else MessageId(undoing.head_after)
            session.record(ev.BranchSwitched(head=head), by)
        return r.RestoreReply(
            files=files.list_results() if files is not None else (),
            remarks=files.plan.remarks if files is not None else (),
            undo_turn_id=undo,
            text=wish.text,
            cursor=session.cursor,
        )

    def _restore_files(self, store: CheckpointStore, wish: _RestoreRequest) -> _FilesOutcome:
        settings, session_id = self.session.state.settings, self.session.state.session_id
        undoing = wish.undoing
        others = [each for each in store.turns(session_id) if each.files and each.turn_id not in undoing.turn_ids]
        if any(not each.undo and _original_turn_id(each.turn_id) in wish.turns for each in others):
            raise build_other_folder_conflict()
        workspace = workspace_of(settings, self.core.config.hidden)
        plan = store.plan_restore(session_id, undoing.turn_ids, workspace)
        if plan.conflicts and not self.force:
            raise build_files_changed([SkippedFile(path=each.path, why=each.why) for each in plan.conflicts])
        report = store.restore(plan, workspace, force=self.force, undoing=undoing)
        lost = {each.path for each in plan.files if each.action in {"not_saved", "too_large"}}
        surprises = [each for each in report.skipped if each.path not in lost]
        if surprises and not self.force:
            if report.undo_turn_id is not None and (
                unrestored := store.abandon_undo(plan, workspace, report.undo_turn_id)
            ):
                raise CheckpointFailed(describe_files(surprises), unrestored=unrestored)
            raise build_files_changed(surprises)
        return _FilesOutcome(plan=plan, report=report)


def _find_target(session: Session, message_id: MessageId | None) -> tuple[Message, tuple[Message, ...]]:
    """Find the message to go back to, and everything from it on."""
    transcript = session.state.transcript
    for place in range(len(transcript) - 1, -1, -1):
        message = transcript[place]
        said_by_user = message.role == "user" and message.source is None
        if message.message_id == message_id or (message_id is None and said_by_user):
            if message.role != "user":
                raise Conflict(
                    f"only user messages can be gone back to; this one is from: {message.role}", field="message_id"
                )
            return message, transcript[place:]
    if message_id is None:
        raise Conflict("there is nothing to go back to: the conversation is empty", field="session_id")
    if is_only_in_store(session, message_id):
        raise Conflict(
            "this message is too far back, or does not exist; go back to a newer one first", field="message_id"
        )
    raise NotFound(f"there is no message {message_id!r} in the conversation being shown", field="message_id")


def _original_turn_id(stored_id: TurnId) -> TurnId:
    return TurnId(stored_id.rpartition("-")[0] or stored_id)


HANDLERS: Handlers = {c.RestoreToMessage: restore_to_message, c.TakeBackUndo: take_back_undo}
