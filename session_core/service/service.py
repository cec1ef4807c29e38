"""`SessionService`, the entry point. Commands go through the mailbox in order; stops and answers bypass it."""

import logging
from collections.abc import AsyncGenerator, Callable, Collection, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, TypeVar, cast

import attrs
import trio

from session_core import limits
from session_core.agent.hooks import NO_HOOKS
from session_core.error_capture import ErrorCapture
from session_core.errors import (
    Conflict,
    Forbidden,
    InternalError,
    InvalidInput,
    Overloaded,
    ServiceClosed,
    SessionCoreError,
)
from session_core.foreign_faults import FOREIGN_FAULTS, must_propagate
from session_core.ids import LOCAL_CLIENT, ClientId, Cursor, RequestId, SessionId
from session_core.service import retention
from session_core.service.config import BackgroundTask, ServiceConfig
from session_core.service.core import ServiceCore
from session_core.service.extension_api import extension_of
from session_core.service.feed import Feed
from session_core.service.handler_api import Caller, PendingReply
from session_core.service.handlers import HANDLERS
from session_core.service.idempotency import RememberedReplies
from session_core.service.mailbox import Mailbox, MailboxEntry, MailboxStatistics
from session_core.service.preparation import (
    SeenRequest,
    ask_hooks,
    enters_folder,
    hold_folder,
    hold_session,
    wants_hooks,
)
from session_core.service.speaker_chain import ACTS_OF_PEOPLE, begin_anew
from session_core.service.validation import checked_client_id, checked_name, checked_ui
from session_core.storage.base import OpenedStore
from session_core.stream.event_stream import StreamStatistics
from session_core.stream.follower import Snapshot
from session_core.stream.subscription import Subscription
from session_core.vocabulary import events as ev
from session_core.vocabulary.argument_checks import build_check, describe
from session_core.vocabulary.commands import Command, CommandRequest, RequestStop
from session_core.vocabulary.extensions import ExtensionInfo, UiKind
from session_core.vocabulary.methods import SessionMethods
from session_core.vocabulary.replies import WaitForTurnReply
from session_core.vocabulary.sessions import Approval, ClientKind, ClientPresence, ClientRole, Dialog
from session_core.vocabulary.snapshots import SessionSummary
from session_core.wire.codec import encode

log = logging.getLogger(__name__)
R = TypeVar("R")


class AttachedClient(SessionMethods):
    """A service as one client sees it: the same methods, run in its name."""

    def __init__(self, service: "SessionService", client_id: ClientId) -> None:
        self.client_id = client_id
        self._service = service

    async def execute(self, command: Command[R], *, idempotency_key: str | None = None) -> R:
        """Run a command in this client's name."""
        return await self._service.execute(command, idempotency_key=idempotency_key, client_id=self.client_id)

    def follow(
        self, session_id: SessionId | None = None, *, after: Cursor | None = None, max_bytes: int | None = None
    ) -> Feed:
        """Follow one session, or the list of all; see `SessionService.follow`."""
        return self._service.follow(session_id, after=after, max_bytes=max_bytes)


@attrs.frozen(kw_only=True)
class ServiceStatistics:
    """Counts for people and tests."""

    sessions: int
    in_memory: int
    running: int
    clients: int
    mailbox: MailboxStatistics
    stream: StreamStatistics
    read_only: str | None = None


class SessionService(SessionMethods):
    """A running service, opened by `open_session_service`; the methods are those of `SessionMethods`."""

    def __init__(self, config: ServiceConfig, nursery: trio.Nursery) -> None:
        self._mailbox = Mailbox(self._perform, capacity=config.mailbox_capacity)
        self._core = core = ServiceCore(config, nursery, self._mailbox.waiting_requests)
        self._replies = RememberedReplies(core.store.remember)

    @property
    def core(self) -> ServiceCore:
        """The inside of the service, for its parts that are built separately."""
        return self._core

    async def execute(
        self, command: Command[R], *, idempotency_key: str | None = None, client_id: ClientId = LOCAL_CLIENT
    ) -> R:
        """Run a command and return its reply, or raise one typed error.

        Args:
            command: Any command of the vocabulary.
            idempotency_key: Sending the same command again with the same key returns the first reply.
            client_id: Who asks; events name it.

        Cancellation: a command that has not started is skipped; one that has started takes effect, and only the wait
        for its reply ends.
        """
        if type(command) not in HANDLERS:
            raise InvalidInput(f"unknown command: {type(command).__name__}", field="command")
        if client_id != LOCAL_CLIENT and client_id not in self._clients:
            checked_client_id(client_id)
        self._refuse_if_closed()
        request = CommandRequest(command=command, client_id=client_id, idempotency_key=idempotency_key)
        if type(command) in ACTS_OF_PEOPLE:
            self._refuse_observer(request)
            begin_anew(self._core, command.session_id, client_id)  # before hooks are asked: what they send follows
        try:
            if command.lane == "beside":
                async with hold_session(self._core, command):
                    reply = self._perform(request, self._mailbox.last_number)
                    await trio.lowlevel.cancel_shielded_checkpoint()
                    return cast("R", await self._finish(request, reply))
            if not self._has_to_prepare(request):
                return cast("R", await self._finish(request, await self._mailbox.call(request)))
            self._refuse_observer(request)
            with self._mailbox.enter(request) as entry:
                await self._mailbox.wait_for_turn(entry)
                return cast("R", await self._prepare_and_run(entry))
        except SessionCoreError:
            raise
        except Exception as bug:
            log.exception("command %s failed because of a bug", type(command).__name__)
            raise InternalError(
                f"{type(command).__name__} failed because of a bug in the service: {type(bug).__name__}: {bug}"
            ) from bug

    def _has_to_prepare(self, request: CommandRequest) -> bool:
        """Return whether a command may have to wait before it is ready."""
        core, command = self._core, request.command
        return (
            (command.session_id is not None and command.session_id not in core.sessions)
            or enters_folder(core, command)
            or self._mailbox.must_wait(request)
            or (core.config.hooks is not NO_HOOKS and wants_hooks(core.config.hooks, command))
        )

    async def _prepare_and_run(self, entry: MailboxEntry) -> object:
        core, request = self._core, entry.request
        command, key = request.command, request.idempotency_key
        async with AsyncExitStack() as held:
            if not self._replies.knows(request.client_id, key):
                if core.config.hooks is not NO_HOOKS:
                    with self._mailbox.while_asking_hooks(entry):
                        seen = await ask_hooks(core.config.hooks, command)
                    request = SeenRequest(command=seen, sent=command, client_id=request.client_id, idempotency_key=key)
                await held.enter_async_context(hold_folder(core, command))
            await held.enter_async_context(hold_session(core, command))
            return await self._finish(request, await self._mailbox.call(request, entry))

    async def _finish(self, request: CommandRequest, reply: object) -> object:
        """Wait for a reply that takes time, and until what it reports is durable."""
        if isinstance(reply, PendingReply):
            reply = await reply.wait()
        if not request.command.reads_only or _tells_of_success(reply):
            await self._core.recorder.wait_until_durable(with_replies=request.idempotency_key is not None)
        return reply

    async def _start(self, opened: OpenedStore, nursery: trio.Nursery) -> None:
        """Recover from the store and begin to serve."""
        self._replies.restore(opened.replies)
        await self._core.recover(opened)
        core = self._core
        for part in (
            core.stream.run,
            self._mailbox.run,
            *([core.wakeups.run] if core.config.wakeups else []),
            core.loaded_sessions.run,
        ):
            await nursery.start(part)
        nursery.start_soon(core.delete_orphaned_outputs)
        nursery.start_soon(retention.run, self, core.config.retention, core.config.now)
        for task in core.config.background_tasks:
            nursery.start_soon(self._run_background_task, task)

    async def _run_background_task(self, task: BackgroundTask) -> None:
        try:
            await task(self)
        except FOREIGN_FAULTS as bug:
            if must_propagate(bug):
                raise
            log.exception("a background task failed; the service continues without it")

    def _perform(self, request: CommandRequest, number: int) -> object:
        """Run one command now; synchronous, so nothing can interleave."""
        command = request.command
        self._refuse_observer(request)
        remembered = self._replies.recall(request)
        if remembered is not None:
            return remembered
        if not command.reads_only:
            self._refuse_if_unsaved(command)
        reply = HANDLERS[type(command)](self._core, command, Caller(client_id=request.client_id, number=number))
        return self._replies.remember(request, reply)

    def _refuse_if_unsaved(self, command: Command[Any]) -> None:
        """Refuse changes that cannot be saved; a stop still acts, and its caller is told that nothing is saved."""
        if not isinstance(command, RequestStop):
            self._core.refuse_if_unsaved()
        if self._core.store.backlog > limits.MAX_BACKLOG_BYTES and command.lane != "beside":
            raise Overloaded("the disk cannot keep up with the changes to save; try again in a moment")

    # --- reading ------------------------------------------------------------------------------------------------------

    def subscribe(
        self, session_id: SessionId | None = None, *, after: Cursor | None = None, max_bytes: int | None = None
    ) -> Subscription:
        """Read raw events from now on, or from right after a cursor; see `EventStream.subscribe`."""
        self._check_place(session_id, after)
        return self._core.stream.subscribe(session_id, after=after, max_bytes=max_bytes)

    def follow(
        self, session_id: SessionId | None = None, *, after: Cursor | None = None, max_bytes: int | None = None
    ) -> Feed:
        """Follow one session, or the list of all: a snapshot first, then events, a new snapshot after a lag.

        With `after`, it resumes there: without a snapshot if possible, otherwise with exactly one.
        """
        self._check_place(session_id, after)
        core = self._core

        def take_snapshot() -> Snapshot:
            if session_id is None:
                return core.recorder.session_list.snapshot(core.stream.cursor)
            return core.snapshot_of(session_id)

        async def load_session() -> None:
            if session_id is not None:
                await core.loaded_sessions.load_session(session_id)

        return Feed(core.stream, session_id, take_snapshot, load_session, after=after, max_bytes=max_bytes)

    def _check_place(self, session_id: SessionId | None, after: Cursor | None) -> None:
        if after is not None and not build_check(Cursor)(after):
            raise InvalidInput(f"after must be a cursor, not {after!r}", field="after")
        if session_id is not None:
            if not build_check(str)(session_id):
                raise InvalidInput(f"session_id must be text, not {session_id!r}", field="session_id")
            if session_id not in self._core.recorder.session_list.sessions or session_id in self._core.sessions:
                self._core.session(session_id)
            if (summary := self._core.summary_of(session_id)) is not None:
                self._core.config.folders.visit(summary.cwd)

    def change_defaults(self, change: Callable[[ServiceConfig], ServiceConfig]) -> None:
        """Change the settings of sessions created from now on; existing ones keep theirs.

        Raises:
            InvalidInput: The service cannot work with the new settings; nothing has changed.
        """
        config = change(self._core.config)
        config.check()
        self._core.config = config

    def tell(self, event: ev.ConfigurationChanged | ev.ExtensionChanged | ev.ExtensionRemoved) -> None:
        """Tell all followers of the session list that settings or extensions have changed."""
        if isinstance(event, ev.ExtensionChanged):
            event = ev.ExtensionChanged(extension=self._fit_extension(event.extension))
        if not self._core.stream.closed:
            self._core.recorder.record_event(None, event)

    def _fit_extension(self, changed: ExtensionInfo) -> ExtensionInfo:
        """Return what the list of all sessions says about an extension: no more than there is room for."""
        known = self._core.recorder.session_list.extensions
        others = tuple(each for key, each in known.items() if key != (changed.name, changed.folder))
        if len(encode((*others, changed))) <= limits.MAX_LISTED_EXTENSIONS_BYTES:
            return changed
        log.warning("extension %s is listed without what it provides: the list has no room for it", changed.name)
        return attrs.evolve(changed, commands=(), shortcuts=(), tools=(), renderers=(), providers=())

    def statistics(self) -> ServiceStatistics:
        """Return the current counts."""
        core, session_list = self._core, self._core.recorder.session_list
        return ServiceStatistics(
            sessions=len(session_list.sessions),
            in_memory=len(core.sessions),
            read_only=session_list.read_only,
            running=sum(1 for session in core.sessions.values() if session.work is not None),
            clients=len(session_list.clients),
            mailbox=self._mailbox.statistics(),
            stream=core.stream.statistics(),
        )

    def list_all_sessions(self) -> tuple[SessionSummary, ...]:
        """Return all sessions, oldest first, including those that a snapshot no longer lists."""
        return tuple(self._core.recorder.session_list.sessions.values())

    def find_request(self, session_id: SessionId, request_id: RequestId) -> Approval | Dialog | None:
        """Return an open approval or dialog, for whoever checks an answer before passing it on; None if there is none.

        A session that is not in memory has none: its requests were closed when it left.
        """
        session = self._core.sessions.get(session_id)
        if session is None:
            return None
        requests: tuple[Approval | Dialog, ...] = (*session.state.approvals, *session.state.dialogs)
        return next((each for each in requests if each.request_id == request_id), None)

    def has_work(self) -> bool:
        """Return whether anything runs, waits for a person, or is scheduled for later."""
        core = self._core
        busy = any(session.work is not None for session in core.sessions.values())
        jobs = core.config.jobs is not None and core.config.jobs.running_count > 0
        return (
            busy
            or jobs
            or any(each.wakeups or each.open_requests for each in core.recorder.session_list.sessions.values())
        )

    # --- clients ------------------------------------------------------------------------------------------------------

    @contextmanager
    def attach(
        self,
        client_id: str,
        *,
        role: ClientRole = "controller",
        ui: Collection[UiKind] = frozenset(),
        name: str = "",
        kind: ClientKind = "other",
    ) -> Generator["AttachedClient"]:
        """Attach a client: everything done through the yielded object carries its id. Observers may only watch.

        `ui` lists what it can show and ask for extensions, `name` is its display name, `kind` the kind of client.

        Raises:
            InvalidInput: Something about it is wrong.
            Conflict: A client with that id is attached already, or the id belongs to the service itself.
        """
        checked = checked_client_id(client_id)
        for field, value, allowed in (("role", role, ClientRole), ("kind", kind, ClientKind)):
            if not build_check(allowed)(value):
                raise InvalidInput(f"{field} must be {describe(allowed)}, not {value!r}", field=field)
        kinds = checked_ui(ui)
        called = checked_name(name) if name != "" else ""
        of_the_service = checked in {LOCAL_CLIENT, retention.CLIENT} or extension_of(checked) is not None
        if checked in self._clients or of_the_service:
            raise Conflict(f"a client called {checked!r} is already attached", field="client_id")
        self._refuse_if_closed()
        record_event = self._core.recorder.record_event
        record_event(None, ev.ClientAttached(client_id=checked, role=role, ui=kinds, name=called, kind=kind))
        try:
            yield AttachedClient(self, checked)
        finally:
            if not self._core.stream.closed:
                record_event(None, ev.ClientDetached(client_id=checked))

    @property
    def _clients(self) -> dict[ClientId, ClientPresence]:
        return self._core.recorder.session_list.clients

    def _refuse_observer(self, request: CommandRequest) -> None:
        presence = self._clients.get(request.client_id)
        if not request.command.reads_only and presence is not None and presence.role == "observer":
            raise Forbidden(f"client {request.client_id!r} is an observer: it may watch but not act")

    def _refuse_if_closed(self) -> None:
        if self._core.stream.closed:
            raise ServiceClosed("the service is closed")


def _tells_of_success(reply: object) -> bool:
    """Return whether a read command's reply reports something that a crash must not take back."""
    return isinstance(reply, WaitForTurnReply) and reply.outcome.status != "interrupted"


@asynccontextmanager
async def open_session_service(config: ServiceConfig | None = None) -> AsyncGenerator[SessionService]:
    """Run a service for the length of the `async with` block.

    Leaving the block interrupts all work, records it as interrupted, and then ends all streams.
    """
    config = config or ServiceConfig()
    config.check()
    async with config.store.open() as opened, _run_service(config, opened) as service:
        yield service


@asynccontextmanager
async def _run_service(config: ServiceConfig, opened: OpenedStore) -> AsyncGenerator[SessionService]:
    own = ErrorCapture()
    core: ServiceCore | None = None
    try:
        with own.reraise():
            async with trio.open_nursery() as nursery:
                service = SessionService(config, nursery)
                core = service.core
                await nursery.start(core.store.run, core)
                await service._start(opened, nursery)  # noqa: SLF001 - the service's own part
                try:
                    with own.capture():
                        yield service
                finally:
                    nursery.cancel_scope.cancel(reason="the session service is closing")
    except BaseExceptionGroup as group:
        if own.error is None and len(group.exceptions) == 1 and isinstance(group.exceptions[0], SessionCoreError):
            raise group.exceptions[0] from None  # noqa: ASYNC123 - a typed error for the user: the service cannot start
        raise
    finally:
        if core is not None:
            for session in core.sessions.values():
                session.close_requests("restarted")  # the requesters must not keep waiting
            core.stream.close()
            await core.protocols.aclose()
