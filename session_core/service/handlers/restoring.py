"""Going back to an earlier message: the conversation and the files together."""

import logging
from collections.abc import Iterator

import attrs
import trio

from session_core.checkpoints.store import CheckpointStore
from session_core.checkpoints.values import CheckpointFailed, RestorePlan, RestoreReport
from session_core.confine.workspace import WorkspaceRefused
from session_core.errors import (
    Conflict,
    InternalError,
    InvalidInput,
    NotFound,
    ReadOnly,
    SessionCoreError,
    Unavailable,
)
from session_core.ids import MessageId, TurnId
from session_core.service.core import Caller, Handlers, Later, ServiceCore
from session_core.service.handlers.history import left_memory
from session_core.service.other_work import start_restore
from session_core.service.tool_host import kept_as, workspace_of
from session_core.session.deferred import Deferred
from session_core.session.session import Session
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary import replies as r
from session_core.vocabulary.messages import Message

log = logging.getLogger(__name__)


@attrs.frozen
class _Files:
    """What became of the files."""

    plan: RestorePlan
    report: RestoreReport

    @property
    def unsaved(self) -> tuple[str, ...]:
        return tuple(each.path for each in self.plan.files if each.action in {"not_saved", "too_large"})

    @property
    def kept(self) -> tuple[str, ...]:
        return tuple(each.path for each in self.report.skipped if each.path not in self.unsaved)


def restore_to_message(core: ServiceCore, command: c.RestoreToMessage, caller: Caller) -> Later:
    session = core.session_at_rest(command.session_id, "go back")
    if caller.number <= session.stop_mark:
        msg = "a stop was requested after this command was sent, so nothing was done"
        raise Conflict(msg, field="session_id")
    if not (command.files or command.conversation):
        msg = "files or conversation: one of them must be wanted, or there is nothing to do"
        raise InvalidInput(msg, field="files")
    if command.files and core.config.checkpoints is None and not command.conversation:
        msg = "this service was set up without checkpoints, so it cannot bring files back"
        raise Unavailable(msg)
    target, after = _target(session, command.message_id)
    restore = _Restore(core, session, command, caller, target, tuple(_turns(after)))
    # It counts as work, so that no turn starts before the files are as they were.
    start_restore(core, session, restore.run)
    return Later(restore.outcome)


@attrs.define
class _Restore:
    """Going back once; whoever asked for it may leave, it is done all the same."""

    core: ServiceCore
    session: Session
    command: c.RestoreToMessage
    caller: Caller
    target: Message
    turns: tuple[TurnId, ...]
    _done: Deferred[r.RestoreReply | SessionCoreError] = attrs.field(factory=Deferred)

    async def outcome(self) -> r.RestoreReply:
        """Wait for the end of it."""
        done = await self._done.wait()
        if isinstance(done, SessionCoreError):
            raise type(done)(done.message, field=done.field)  # one of its own for each who waits: they get tracebacks
        return done

    async def run(self) -> None:
        """Bring the files back, then the conversation; if the files cannot be, nothing is done."""
        store = self.core.config.checkpoints if self.command.files else None
        files: _Files | None = None
        try:
            if store is not None:
                files = await trio.to_thread.run_sync(self._restore_files, store)
            self.core.refuse_if_unsaved()
            self._done.set(self._record(files))
        except (CheckpointFailed, WorkspaceRefused, OSError) as failure:
            told = failure.message if isinstance(failure, CheckpointFailed) else str(failure)
            self._done.set(Conflict(f"the files could not be brought back, so nothing was done: {told}"))
        except Conflict as refused:
            self._done.set(refused)
        except ReadOnly as failure:
            done = "the files were brought back, the conversation was not" if files else "nothing was done"
            self._done.set(ReadOnly(f"{done}: {failure.message}"))
        except Exception as bug:
            log.exception("going back failed by a bug")
            self._done.set(InternalError(f"going back failed by a bug in the service: {type(bug).__name__}: {bug}"))

    def _record(self, files: _Files | None) -> r.RestoreReply:
        session, by = self.session, self.caller.client_id
        restored, removed, kept, unsaved = (
            (files.report.restored, files.report.deleted, files.kept, files.unsaved) if files else ((), (), (), ())
        )
        if files is not None and files.plan.turn_ids:
            turns = tuple(_turn_of(each) for each in files.plan.turn_ids)
            session.record(ev.FilesRestored(turn_ids=turns, restored=restored, removed=removed, kept=kept), by)
        if self.command.conversation:
            session.record(ev.BranchSwitched(head=self.target.parent_id), by)
        return r.RestoreReply(
            restored=restored,
            removed=removed,
            kept=kept,
            unsaved=unsaved,
            text=self.target.text,
            cursor=session.cursor,
        )

    def _restore_files(self, store: CheckpointStore) -> _Files:
        settings, session_id = self.session.state.settings, self.session.state.session_id
        here = [kept_as(turn_id, settings.cwd) for turn_id in self.turns]
        elsewhere = (each for each in store.turns(session_id) if each.files and each.turn_id not in here)
        if any(_turn_of(each.turn_id) in self.turns for each in elsewhere):
            msg = (
                "files were changed in another working folder: change back to it first, or leave the files as they are"
            )
            raise Conflict(msg, field="files")
        workspace = workspace_of(settings, self.core.config.hidden)
        plan = store.plan_restore(session_id, here, workspace)
        return _Files(plan, store.restore(plan, workspace, force=self.command.force))


def _target(session: Session, message_id: MessageId | None) -> tuple[Message, tuple[Message, ...]]:
    """Find the message to go back to, and everything from it on."""
    transcript = session.state.transcript
    for place in range(len(transcript) - 1, -1, -1):
        message = transcript[place]
        if message.message_id == message_id or (message_id is None and message.role == "user"):
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
    return TurnId(kept.rpartition("-")[0])


def _turns(messages: tuple[Message, ...]) -> Iterator[TurnId]:
    return iter(dict.fromkeys(message.turn_id for message in messages if message.turn_id is not None))


HANDLERS: Handlers = {c.RestoreToMessage: restore_to_message}
