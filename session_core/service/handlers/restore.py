"""Going back to an earlier message: the conversation and the files together."""

import logging
from collections.abc import Callable, Iterator

import attrs
import trio

from session_core.checkpoints.store import CheckpointStore
from session_core.checkpoints.values import (
    CheckpointFailed,
    RestorePlan,
    RestoreReport,
    SkippedFile,
    Undoing,
)
from session_core.errors import (
    Conflict,
    InternalError,
    InvalidInput,
    NotFound,
    ReadOnly,
    SessionCoreError,
    Unavailable,
)
from session_core.ids import MessageId, SessionId, TurnId
from session_core.sandbox.workspace import WorkspaceRefused
from session_core.service.child_sessions import kept_as, workspace_of
from session_core.service.compact_and_restore import start_restore
from session_core.service.core import Caller, Handlers, Later, ServiceCore
from session_core.service.handlers.history import bring_back, left_memory, old_path
from session_core.service.handlers.undo_records import elsewhere, failed, named, refusal, taking_back, undo_meant
from session_core.session.deferred import Deferred
from session_core.session.session import Session
from session_core.session.shell_lines import as_typed
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary import replies as r
from session_core.vocabulary.messages import Message

log = logging.getLogger(__name__)

_FINISHING_S = 5.0


def restore_to_message(core: ServiceCore, command: c.RestoreToMessage, caller: Caller) -> Later:
    session = _at_rest(core, command.session_id, caller)
    if not (command.files or command.conversation):
        msg = "files or conversation: one of them must be wanted, or there is nothing to do"
        raise InvalidInput(msg, field="files")
    if command.files and core.config.checkpoints is None and not command.conversation:
        msg = "this service was set up without checkpoints, so it cannot bring files back"
        raise Unavailable(msg)
    target, after = _target(session, command.message_id)
    cwd = session.state.settings.cwd
    turns = tuple(_turns(after)) if command.files else ()
    wish = _Wish(
        undoing=Undoing(
            turn_ids=tuple(kept_as(turn_id, cwd) for turn_id in turns),
            root=cwd,
            conversation=command.conversation,
            head_before=session.state.head,
            head_after=target.parent_id,
        ),
        turns=turns,
        files=command.files,
        text=as_typed(target),
    )
    return _start(core, session, caller, wish, force=command.force)


def take_back_undo(core: ServiceCore, command: c.TakeBackUndo, caller: Caller) -> Later:
    session = _at_rest(core, command.session_id, caller)
    if core.config.checkpoints is None:
        msg = "this service was set up without checkpoints, so no undo can be taken back"
        raise Unavailable(msg)

    def find(store: CheckpointStore) -> _Wish:
        undo = undo_meant(store.turns(session.state.session_id), command.undo_turn_id)
        return _Wish(undoing=taking_back(session, undo, force=command.force), turns=(), files=True)

    return _start(core, session, caller, find, force=command.force)


def _at_rest(core: ServiceCore, session_id: SessionId, caller: Caller) -> Session:
    session = core.session_at_rest(session_id, "go back")
    if caller.number <= session.stop_mark:
        msg = "a stop was requested after this command was sent, so nothing was done"
        raise Conflict(msg, field="session_id")
    return session


@attrs.frozen(kw_only=True)
class _Wish:
    """What is to be done; `turns` are those whose files come back, by the names that the session gives them."""

    undoing: Undoing
    turns: tuple[TurnId, ...]
    files: bool
    text: str = ""


@attrs.frozen(kw_only=True)
class _Files:
    """What became of the files."""

    plan: RestorePlan
    report: RestoreReport

    def told(self) -> tuple[r.RestoredFile, ...]:
        report = self.report
        done = [
            *(r.RestoredFile(path=path, done="restored") for path in report.restored),
            *(r.RestoredFile(path=path, done="recreated") for path in report.recreated),
            *(r.RestoredFile(path=path, done="removed") for path in report.deleted),
            *(r.RestoredFile(path=each.path, done="skipped", why=each.why) for each in report.skipped),
        ]
        return tuple(done)


def _start(
    core: ServiceCore,
    session: Session,
    caller: Caller,
    wish: "_Wish | Callable[[CheckpointStore], _Wish]",
    *,
    force: bool,
) -> Later:
    restore = _Restore(core, session, caller, wish, force)
    # It counts as work, so that no turn starts before the files are as they were.
    start_restore(core, session, restore.run)
    return Later(restore.outcome)


@attrs.define
class _Restore:
    """Going back once; whoever asked for it may leave, it is done all the same."""

    core: ServiceCore
    session: Session
    caller: Caller
    wish: _Wish | Callable[[CheckpointStore], _Wish]
    """What to do, or how to find that out in the checkpoints."""
    force: bool
    _done: Deferred[r.RestoreReply | SessionCoreError] = attrs.field(factory=Deferred)

    async def outcome(self) -> r.RestoreReply:
        """Wait for the end of it."""
        done = await self._done.wait()
        if isinstance(done, SessionCoreError):
            raise done.anew()
        return done

    async def run(self) -> None:
        """Bring the files back, then the conversation; if the files cannot be, nothing is done."""
        store = self.core.config.checkpoints
        files: _Files | None = None
        try:
            wish = await self._found(store)
            path = await self._way_to(wish.undoing)
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
            self._done.set(failed(failure))
        except (Conflict, NotFound) as refused:
            self._done.set(refused)
        except ReadOnly as failure:
            done = "the files were brought back, the conversation was not" if files else "nothing was done"
            self._done.set(ReadOnly(f"{done}: {failure.message}"))
        except Exception as bug:
            log.exception("going back failed by a bug")
            self._done.set(InternalError(f"going back failed by a bug in the service: {type(bug).__name__}: {bug}"))

    async def _found(self, store: CheckpointStore | None) -> _Wish:
        if isinstance(self.wish, _Wish):
            return self.wish
        assert store is not None, "only there it can be found"
        return await trio.to_thread.run_sync(self.wish, store)

    async def _way_to(self, undoing: Undoing) -> tuple[Message, ...]:
        """Read the branch to show again, if it has left memory."""
        head = None if undoing.head_after is None else MessageId(undoing.head_after)
        if undoing.conversation and head is not None and left_memory(self.session, head):
            return await old_path(self.session, head)
        return ()

    def _note(self, store: CheckpointStore, undoing: Undoing) -> TurnId | None:
        try:
            return store.note_undo(self.session.state.session_id, undoing)
        except CheckpointFailed as failure:
            log.warning("%s", failure.message)  # the conversation needs no checkpoint: all of it stays in the tree
            return None

    async def _finish(self, store: CheckpointStore, undo: TurnId) -> None:
        """Close the undo when the conversation is safe too; until then the same undo would be gone on with."""
        try:
            with trio.move_on_after(_FINISHING_S):
                await self.session.until_durable()
                await trio.to_thread.run_sync(store.finish_undo, self.session.state.session_id, undo)
        except SessionCoreError as failure:
            log.warning("%s", failure.message)

    def _record(
        self, wish: _Wish, files: _Files | None, undo: TurnId | None, path: tuple[Message, ...]
    ) -> r.RestoreReply:
        session, by, undoing = self.session, self.caller.client_id, wish.undoing
        if files is not None and files.plan.turn_ids:
            report = files.report
            restored = ev.FilesRestored(
                turn_ids=tuple(_turn_of(each) for each in files.plan.turn_ids),
                restored=(*report.restored, *report.recreated),
                removed=report.deleted,
                kept=tuple(each.path for each in report.skipped),
                undo_turn_id=undo,
            )
            session.record(restored, by)
        if undoing.conversation and path:
            bring_back(session, path, self.caller)
        elif undoing.conversation:
            head = None if undoing.head_after is None else MessageId(undoing.head_after)
            session.record(ev.BranchSwitched(head=head), by)
        return r.RestoreReply(
            files=files.told() if files is not None else (),
            remarks=files.plan.remarks if files is not None else (),
            undo_turn_id=undo,
            text=wish.text,
            cursor=session.cursor,
        )

    def _restore_files(self, store: CheckpointStore, wish: _Wish) -> _Files:
        settings, session_id = self.session.state.settings, self.session.state.session_id
        undoing = wish.undoing
        others = [each for each in store.turns(session_id) if each.files and each.turn_id not in undoing.turn_ids]
        if any(not each.undo and _turn_of(each.turn_id) in wish.turns for each in others):
            raise elsewhere()
        workspace = workspace_of(settings, self.core.config.hidden)
        plan = store.plan_restore(session_id, undoing.turn_ids, workspace)
        if plan.conflicts and not self.force:
            raise refusal([SkippedFile(path=each.path, why=each.why) for each in plan.conflicts])
        report = store.restore(plan, workspace, force=self.force, undoing=undoing)
        lost = {each.path for each in plan.files if each.action in {"not_saved", "too_large"}}
        surprises = [each for each in report.skipped if each.path not in lost]
        if surprises and not self.force:
            if report.undo_turn_id is not None and (left := store.abandon_undo(plan, workspace, report.undo_turn_id)):
                raise CheckpointFailed(named(surprises), left=left)
            raise refusal(surprises)
        return _Files(plan=plan, report=report)


def _target(session: Session, message_id: MessageId | None) -> tuple[Message, tuple[Message, ...]]:
    """Find the message to go back to, and everything from it on."""
    transcript = session.state.transcript
    for place in range(len(transcript) - 1, -1, -1):
        message = transcript[place]
        said_by_user = message.role == "user" and message.source is None
        if message.message_id == message_id or (message_id is None and said_by_user):
            if message.role != "user":
                msg = f"going back is possible to messages of the user; this one is from: {message.role}"
                raise Conflict(msg, field="message_id")
            return message, transcript[place:]
    if message_id is None:
        msg = "there is nothing to go back to: the conversation is empty"
        raise Conflict(msg, field="session_id")
    if left_memory(session, message_id):
        msg = "this message is too far back, or not there at all; go back to a newer one first"
        raise Conflict(msg, field="message_id")
    msg = f"there is no message {message_id!r} in the conversation being shown"
    raise NotFound(msg, field="message_id")


def _turn_of(kept: TurnId) -> TurnId:
    return TurnId(kept.rpartition("-")[0] or kept)


def _turns(messages: tuple[Message, ...]) -> Iterator[TurnId]:
    return iter(dict.fromkeys(message.turn_id for message in messages if message.turn_id is not None))


HANDLERS: Handlers = {c.RestoreToMessage: restore_to_message, c.TakeBackUndo: take_back_undo}
