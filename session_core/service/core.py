"""The state that handlers share: the sessions, and the work that runs in them.

Rules:
1. Everything here is synchronous except the tasks it starts. A handler checks first and records afterwards: a refused
   command has changed nothing.
2. Work runs in its own task inside its own cancel scope. However it ends (answer, stop, failure, bug, end of the
   service), `Session.close_work` closes it in the same step.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import NoReturn

import attrs
import trio

from session_core.agent.compaction import CompactionPolicy
from session_core.agent.model_call import Models, clean_error
from session_core.agent.tool_runner import ToolConfig
from session_core.agent.turn import Agent
from session_core.checkpoints.values import CheckpointFailed
from session_core.errors import Conflict, NotFound, ReadOnly, StorageFailed, StoreDamaged
from session_core.foreign_faults import FOREIGN_FAULTS, must_propagate
from session_core.ids import CallId, ClientId, MessageId, SessionId, TurnId, WakeupId, new_id
from session_core.protocols.lifecycle import SessionProtocol
from session_core.protocols.registry import ProtocolRegistry
from session_core.service.config import ServiceConfig
from session_core.service.extension_api import extension_of
from session_core.service.file_finder import FileFinder
from session_core.service.loaded_sessions import LoadedSessions
from session_core.service.mailbox import begin_work
from session_core.service.protocols import SessionProtocols
from session_core.service.session_tree import SessionTree
from session_core.service.side_tasks import SideTasks
from session_core.service.turn_host import TurnHost, checkpoint_turn_id
from session_core.service.validation import has_queue_room, queue_item, text_parts, user_message, wants_turn
from session_core.session.recorder import EventRecorder
from session_core.session.restore import close_after_crash, needs_memory
from session_core.session.session import Session, SpeakerChain, Work
from session_core.session.state import SessionState
from session_core.session.turn_handle import TurnHandle, message_from_queue
from session_core.storage.base import OpenedStore
from session_core.storage.memory import MemoryStore
from session_core.stream.event_stream import EventStream
from session_core.tools.base import current_turn_id
from session_core.tools.output_files import OutputFiles
from session_core.vocabulary import events as ev
from session_core.vocabulary.commands import CommandRequest
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import UserPart
from session_core.vocabulary.sessions import DeliverAs, QueueItem, TurnStatus
from session_core.vocabulary.snapshots import SessionSnapshot, SessionSummary

# --- wake-ups: one task that sleeps until the next one is due ---------------------------------------------------------
LONGEST_NAP_S = 30.0  # check the wall clock at least this often: it may have been set


class WakeupClock:
    """Calls `fire` for each wake-up when it is due, in the order of their times."""

    def __init__(self, now: Callable[[], int], fire: Callable[[SessionId, WakeupId], None]) -> None:
        self._now = now
        self._fire = fire
        self._due: dict[WakeupId, tuple[int, WakeupId, SessionId]] = {}
        self._changed = trio.Event()

    def arm(self, session_id: SessionId, wakeup_id: WakeupId, due_at: int) -> None:
        """Add a wake-up."""
        self._due[wakeup_id] = (due_at, wakeup_id, session_id)
        self._changed.set()

    def disarm(self, wakeup_id: WakeupId) -> None:
        """Remove a wake-up, if it still exists."""
        self._due.pop(wakeup_id, None)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> NoReturn:
        """Sleep and fire until cancelled."""
        task_status.started()
        while True:
            now = self._now()
            for _, wakeup_id, session_id in sorted(due for due in self._due.values() if due[0] <= now):
                del self._due[wakeup_id]
                self._fire(session_id, wakeup_id)
            self._changed = trio.Event()
            next_due = min((due_at for due_at, _, _ in self._due.values()), default=None)
            nap = LONGEST_NAP_S if next_due is None else (next_due - now) / 1000
            with trio.move_on_after(min(max(nap, 0.0), LONGEST_NAP_S)):
                await self._changed.wait()


# --- core -------------------------------------------------------------------------------------------------------------

log = logging.getLogger(__name__)

RETRY_WAKEUP_MS = 10_000  # a wake-up that finds the queue full retries after this long


class ServiceCore:
    """The inside of a service.

    Args:
        config: The settings.
        nursery: Where work runs.
        list_waiting_commands: Returns the commands that were sent and not handled yet.
    """

    def __init__(
        self,
        config: ServiceConfig,
        nursery: trio.Nursery,
        list_waiting_commands: Callable[[], Iterable[CommandRequest]] = tuple,
    ) -> None:
        self.config = config
        self.nursery = nursery
        self.list_waiting_commands = list_waiting_commands
        self.stream = EventStream(capacity=config.stream_capacity, session_capacity=config.session_stream_capacity)
        self.recorder = EventRecorder(self.stream, config.store, config.now)
        self.store = config.store
        self.protocols = SessionProtocols(
            ProtocolRegistry(config.protocols), config.protocol, config.protocol_options, nursery
        )
        self.loaded_sessions = LoadedSessions(
            recorder=self.recorder,
            stay_ms=config.session_stay_ms,
            is_wanted=self._is_wanted,
            on_leave=self.protocols.forget,
        )
        self.sessions = self.loaded_sessions.sessions
        self.tree = SessionTree(self.recorder.session_list, self.sessions)
        self.side_tasks = SideTasks(nursery)
        self.files = FileFinder(config.hidden)
        self.outputs = OutputFiles(config.outputs) if config.outputs is not None else None
        models = Models(providers=config.models, infos=config.model_infos, folders=config.folders)
        self.agent = Agent(
            models=models,
            tools={tool.spec.name: tool for tool in config.tools},
            sources=config.tool_sources,
            system_prompt=config.system_prompt,
            hooks=config.hooks,
            tool_config=ToolConfig(
                rules=config.rules,
                folders=config.folders,
                hooks=config.hooks,
                standing=config.standing,
                find_outputs=self._find_outputs,
                hidden=config.hidden,
                make_host=self._make_host,
            ),
            compaction_policy=CompactionPolicy(
                models=models, hooks=config.hooks, compactor=config.compactor, compact_at=config.compact_at
            ),
        )
        self.wakeups = WakeupClock(config.now, self._wake_up)

    def _is_wanted(self, session_id: SessionId) -> bool:
        """Return whether a command waits for a session, or something runs for it that a stop must find."""
        jobs = self.config.jobs.list(session_id) if self.config.jobs is not None else ()
        busy = bool(self.side_tasks.running_for(session_id)) or any(job.state == "running" for job in jobs)
        protocol = self.protocols.find_live(session_id)
        busy = busy or (protocol is not None and protocol.dirty)
        return busy or any(request.command.session_id == session_id for request in self.list_waiting_commands())

    # --- the store ----------------------------------------------------------------------------------------------------

    async def recover(self, opened: OpenedStore) -> None:
        """Load the list of all sessions, and the sessions that a crash or a wake-up affects, from the store."""
        self.recorder.session_list.load(opened.summaries)
        for summary in filter(needs_memory, opened.summaries):
            try:
                await self.loaded_sessions.load_session(summary.session_id)
            except StoreDamaged as damage:
                log.error("%s", damage.message)  # noqa: TRY400 - no bug of ours, so no traceback
                continue
            session = self.sessions[summary.session_id]
            close_after_crash(session)
            for wakeup in session.state.wakeups:
                self.wakeups.arm(summary.session_id, wakeup.wakeup_id, wakeup.due_at)

    @property
    def seq(self) -> int:
        """The number of the newest event."""
        return self.stream.seq

    def summary_of(self, session_id: SessionId) -> SessionSummary | None:
        """Return a session's line in the list."""
        return self.recorder.session_list.sessions.get(session_id)

    def state_of(self, session_id: SessionId) -> SessionSnapshot | None:
        """Return a session's state, for a store to keep."""
        session = self.sessions.get(session_id)
        return session.snapshot() if session is not None else None

    def refuse_if_unsaved(self) -> None:
        """Refuse changes that cannot be saved, for handlers that have waited since their command was admitted."""
        if self.store.failure is not None:
            raise ReadOnly(f"the service is read-only: {self.store.failure.message}")

    def storage_failed(self, failure: StorageFailed) -> None:
        """Interrupt all work, as none of it can be saved, and notify all clients."""
        if not self.stream.closed:
            self.recorder.record_event(None, ev.StorageStopped(reason=failure.message))
        for session in self.sessions.values():
            session.interrupt("the store has failed")

    @property
    def ending(self) -> bool:
        """Whether all work is being interrupted, because the service closes or its store has failed."""
        return self.nursery.cancel_scope.cancel_called or self.store.failure is not None

    # --- sessions -----------------------------------------------------------------------------------------------------

    def session(self, session_id: SessionId, *, even_damaged: bool = False) -> Session:
        """Look up a session; return an unreadable one only with `even_damaged`."""
        session = self.loaded_sessions.find(session_id, even_damaged=even_damaged)
        if session is None:
            raise NotFound(f"there is no session {session_id!r}", field="session_id")
        return session

    def snapshot_of(self, session_id: SessionId) -> SessionSnapshot:
        """Take a snapshot for a follower of a session, even while it is being deleted."""
        return (self.sessions.get(session_id) or self.session(session_id)).snapshot()

    def require_idle_session(self, session_id: SessionId, what: str) -> Session:
        """Look up a session; refuse if something runs in it."""
        session = self.session(session_id)
        if session.work is not None:
            raise Conflict(
                f"cannot {what} while a {session.work.kind} is running; stop it first or wait for it",
                field="session_id",
            )
        return session

    def add_session(self, protocol: SessionProtocol, created: ev.SessionCreated, by: ClientId | None) -> Session:
        """Create a session with the protocol that was decided for it."""
        session = Session(SessionState(session_id=protocol.session_id), self.recorder)
        self.loaded_sessions.add(session)
        session.record(attrs.evolve(created, protocol=protocol.record), by)
        self.protocols.adopt(session, protocol)
        return session

    def remove_session(self, session: Session, by: ClientId | None) -> None:
        """Remove a session at rest and everything stored for it."""
        session_id = session.state.session_id
        self.side_tasks.stop(session_id)
        self.agent.active.forget(session_id)
        for wakeup in session.state.wakeups:
            self.wakeups.disarm(wakeup.wakeup_id)
        session.record(ev.SessionDeleted(), by)
        self.loaded_sessions.remove(session_id)
        self.store.forget(session_id)
        if self.config.jobs is not None:
            self.nursery.start_soon(self.config.jobs.stop_session, session_id)
        if self.config.checkpoints is not None:
            self.nursery.start_soon(self._delete_files, self.config.checkpoints.forget, session_id)
        if self.outputs is not None:
            self.nursery.start_soon(self._delete_files, self.outputs.delete_outputs, session_id)

    @staticmethod
    async def _delete_files(delete: Callable[[SessionId], object], session_id: SessionId) -> None:
        try:
            with trio.CancelScope(shield=True):  # a deletion is not left half done when the service ends
                await trio.to_thread.run_sync(delete, session_id)
        except CheckpointFailed as failure:
            log.warning("%s", failure.message)
        except OSError as error:
            log.warning("files of session %s could not be deleted: %s", session_id, error.strerror or error)

    async def delete_orphaned_outputs(self) -> None:
        """Delete the outputs of sessions that were deleted while no service ran, or just before one was killed."""
        if self.outputs is None or isinstance(self.store, MemoryStore):  # that one knows only its own sessions
            return
        try:
            found = await trio.to_thread.run_sync(self.outputs.list_sessions)
        except OSError as error:
            log.warning("the outputs of deleted sessions cannot be looked for: %s", error.strerror or error)
            return
        for session_id in found:
            if session_id not in self.recorder.session_list.sessions:
                await self._delete_files(self.outputs.delete_outputs, session_id)

    def _find_outputs(self, session_id: SessionId) -> str | None:
        return self.outputs.find_folder(self.tree.find_topmost(session_id)) if self.outputs is not None else None

    def _make_host(self, handle: TurnHandle, call_id: CallId) -> TurnHost:
        session = self.sessions[handle.state.session_id]
        root = self.tree.find_root_session(session)
        turn = root.work or handle.work
        return TurnHost(
            core=self,
            session=session,
            work=handle.work,
            call_id=call_id,
            undo_turn=(root.state.session_id, checkpoint_turn_id(turn.turn_id, session.state.settings.cwd)),
        )

    # --- work ---------------------------------------------------------------------------------------------------------

    def start_turn(
        self,
        session: Session,
        by: ClientId | None,
        parts: tuple[UserPart, ...] = (),
        *,
        after: MessageId | None = None,
        branch: bool = False,
        output_schema: JsonObject | None = None,
        extension: JsonObject | None = None,
        resumes: bool = False,
    ) -> tuple[TurnId, MessageId | None]:
        """Start a turn in a session at rest; it may resume the last one.

        Queued messages are delivered first, in their order, then the new one. With `branch` the new message becomes
        a child of `after` (None is the root) instead, and queued messages follow it.
        """
        protocol = self.protocols.get_protocol(session)
        work = Work(kind="turn", turn_id=TurnId(new_id("turn")))
        if session.state.archived:
            session.record(ev.SessionRestored(), by)  # nothing runs out of sight
        started = ev.TurnStarted(
            turn_id=work.turn_id, output_schema=output_schema, extension=extension, resumes=resumes
        )
        session.record(started, by)
        if not branch:
            self._deliver_queue(session, work.turn_id)
        message_id = None
        if parts:
            parent = after if branch else session.state.head
            message = user_message(parts, parent, work.turn_id, session.now(), source=extension_of(by))
            session.record(ev.MessageAdded(message=message), by)
            message_id = message.message_id
        if branch:
            self._deliver_queue(session, work.turn_id)
        session.work = work
        run = partial(self.agent.run_turn, protocol=protocol)
        self.nursery.start_soon(self.run_turn, session, work, run, name=f"turn {work.turn_id}")
        return work.turn_id, message_id

    def enqueue(
        self,
        session: Session,
        parts: tuple[UserPart, ...],
        deliver_as: DeliverAs,
        by: ClientId | None,
        *,
        restart: bool = True,
    ) -> QueueItem:
        """Queue a message. One that arrives while the work is being stopped starts a turn afterwards."""
        item = queue_item(parts, deliver_as, session.now(), by)
        session.record(ev.MessageQueued(item=item), by)
        if session.work is not None and session.work.stop_requested and restart and deliver_as != "next_turn":
            session.work.restart = True
        return item

    def _deliver_queue(self, session: Session, turn_id: TurnId) -> None:
        for item in session.state.queue:
            session.record(message_from_queue(session.state, item, turn_id, session.now()), item.client_id)

    def deliver_quiet_messages(self, session: Session) -> None:
        """Add queued messages that need no turn to the conversation of a session at rest."""
        for item in session.state.queue:
            if item.quiet:
                session.record(message_from_queue(session.state, item, None, session.now()), item.client_id)

    async def run_turn(
        self,
        session: Session,
        work: Work,
        run: Callable[[TurnHandle], Awaitable[None]],
        *,
        deliver_queue: bool = False,
    ) -> None:
        """Run a turn in its own task and close it, however it ends; see `after_work`."""
        current_turn_id.set(work.turn_id)
        begin_work()
        error: str | None = None
        try:
            with work.scope:
                await run(self.make_turn_handle(session, work))
        except StorageFailed:
            log.warning("turn %s was interrupted: nothing can be saved any more", work.turn_id)
        except StoreDamaged as damage:
            error = clean_error(damage.message)
        except FOREIGN_FAULTS as bug:
            if must_propagate(bug):
                raise
            log.exception("turn %s failed because of a bug", work.turn_id)
            error = clean_error(f"internal error: {type(bug).__name__}: {bug}")
        finally:
            if session.work is work:
                session.close_work(self.status_after(work, error), error=error)
            self.after_work(session, work, deliver_queue=deliver_queue)

    def make_turn_handle(self, session: Session, work: Work) -> TurnHandle:
        """Return a piece of work's view of the session."""
        return TurnHandle(
            session,
            work,
            approval_timeout_ms=self.config.approval_timeout_ms,
            lineage=lambda: self.tree.lineage(session),
        )

    def after_work(self, session: Session, work: Work, *, deliver_queue: bool = False) -> None:
        """Do what was postponed until the end of the work, in the same step.

        With `deliver_queue`, messages that were sent meanwhile start a turn, unless the work was stopped: nothing else
        would deliver them.
        """
        if deliver_queue and not work.stop_requested and wants_turn(session.state.queue):
            work.restart = True
        for call in work.on_end:
            call()
        if self.store.failure is not None:
            return
        if session.closing or session.work is not None:
            return
        if work.restart and self.protocols.can_start_turn(session):
            self.start_turn(session, None)
        else:
            self.deliver_quiet_messages(session)

    @staticmethod
    def status_after(work: Work, error: str | None) -> TurnStatus:
        """Return the status of work that did not end normally."""
        if work.stop_requested:
            return "stopped"
        return "failed" if error else "interrupted"

    # --- wake-ups -----------------------------------------------------------------------------------------------------

    def cancel_wakeup(self, session: Session, wakeup_id: WakeupId, by: ClientId | None) -> None:
        """Cancel a wake-up."""
        self.wakeups.disarm(wakeup_id)
        session.record(ev.WakeupCancelled(wakeup_id=wakeup_id), by)

    def _wake_up(self, session_id: SessionId, wakeup_id: WakeupId) -> None:
        if self.store.failure is not None:
            return  # its firing could not be recorded; the next run of the service fires it
        session = self.sessions.get(session_id)
        wakeup = next((w for w in session.state.wakeups if w.wakeup_id == wakeup_id), None) if session else None
        if session is None or wakeup is None or session.closing:
            return
        parts = text_parts(f"[scheduled wake-up] {wakeup.text}")
        if not has_queue_room(session, parts):
            self.wakeups.arm(session_id, wakeup_id, session.now() + RETRY_WAKEUP_MS)
            return
        if not self.protocols.can_start_turn(session):
            return  # the next run of the service may have what it needs
        session.record(ev.WakeupFired(wakeup_id=wakeup.wakeup_id))
        session.chain = SpeakerChain()  # no extension can schedule one, so a person has
        if session.work is None:
            self.start_turn(session, None, parts)
        else:
            self.enqueue(session, parts, "follow_up", None)
