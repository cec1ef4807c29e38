"""One extension through start, crash, restart, reload and end.

1. At most one process answers at any time. `generation` identifies it, a number that is never reused.
2. After a crash the extension is restarted after one, five and twenty-five seconds; then it has failed. A healthy
   period clears earlier crashes. Errors that cannot go away on their own fail at once.
3. A reload starts the new process before it ends the old one; if the new one does not start, nothing has changed.
4. Registrations stay known while nothing runs, so errors can name what is missing.
5. Nothing that a process does raises here or blocks anyone: it ends up in `state` and `problem`.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, Literal, NoReturn, Protocol

import trio

from session_core import limits
from session_core.errors import ExtensionFailed, InvalidInput
from session_core.ids import SessionId
from session_core.rpc.deadlines import ExtendableTimeout
from session_core.rpc.failures import INTERNAL_ERROR, RpcClosed, RpcFailed
from session_core.rpc.messages import Notification, Request
from session_core.sep.host.calls.commands import as_arguments, parse_completions
from session_core.sep.host.calls.contexts import Contexts, HostContext
from session_core.sep.host.catalogue.discovery import DiscoveredExtension
from session_core.sep.host.process.extension_log import ExtensionLog, ProcessLog
from session_core.sep.host.process.launch_command import ExtensionLaunch, prepare_launch
from session_core.sep.host.process.process import open_extension_process
from session_core.sep.host.process.process_session import ExtensionTimeouts, OpenProcess, ProcessSession, StartFailed
from session_core.sep.host.process.startup import ProcessStartup, StartedSession, describe_own_fault, with_last_words
from session_core.sep.host.registrations import Registrations, clamp_subscriptions, filter_permitted, handled_hooks
from session_core.sep.protocol.manifest import Manifest
from session_core.sep.protocol.names import FAIL_CLOSED, HookName
from session_core.vocabulary.extensions import Completion


# --- callbacks to the host --------------------------------------------------------------------------------------------
class Callbacks(Protocol):
    """What the host does for an extension."""

    def initialize_params(self, found: DiscoveredExtension) -> dict[str, Any]:
        """Return the params of the greeting of a process with this manifest."""
        ...

    async def on_request(self, extension: "HostedExtension", generation: int, request: Request) -> Any:
        """Answer a request of a process; raises `RpcFailed` to answer with an error."""
        ...

    def on_notification(self, extension: "HostedExtension", generation: int, notification: Notification) -> None:
        """Handle a notification of a process; must not block."""
        ...

    def on_changed(self, extension: "HostedExtension") -> None:
        """React to a change of the state, the generation or the registrations; must not block."""
        ...


# --- extension --------------------------------------------------------------------------------------------------------

log = logging.getLogger(__name__)

State = Literal["starting", "ready", "restarting", "reloading", "failed", "stopped"]
_NO_CONTEXT: Final = {"token": "over", "tier": "event"}
"""A context that permits nothing, for a process that is about to end."""
COMMAND_SECONDS: Final = 120.0
COMPLETION_SECONDS: Final = 5.0
_ANNOUNCE_SECONDS: Final = limits.EXTENSION_PROGRESS_EVERY_MS / 1000
_FAREWELL_SECONDS: Final = limits.RPC_FLUSH_MS / 1000


class ReloadFailed(ExtensionFailed):
    """An extension was not reloaded; the old process still runs."""


async def prepare_from_manifest(found: DiscoveredExtension) -> ExtensionLaunch:
    """Return how to start an extension, as its manifest says."""
    return await prepare_launch(found, os.environ)


class HostedExtension:
    """An extension with its current process, if any; `run` it in a task, and `stop` it in the end.

    Args:
        found: The discovered extension.
        callbacks: The host.
        extension_log: Gets everything the extension writes outside the protocol.
        prepare: Returns how to start it; called at each start.
        pace: Its timeouts.
        open_process: Starts a process.

    Attributes:
        log: The log for its author.
        problem: Why it does not run, or not as it should.
        generation: The number of the process that currently speaks for it.
        registrations: What it has registered so far, as far as its manifest permits it.
        subscriptions: The events it gets.
        hooks: The hooks it handles; None if it did not say.
    """

    def __init__(
        self,
        found: DiscoveredExtension,
        callbacks: Callbacks,
        extension_log: ExtensionLog,
        *,
        prepare: Callable[[DiscoveredExtension], Awaitable[ExtensionLaunch]] = prepare_from_manifest,
        pace: ExtensionTimeouts | None = None,
        open_process: OpenProcess = open_extension_process,
    ) -> None:
        self.found = found
        self.log = extension_log
        self.state: State = "starting"
        self.problem: str | None = None
        self.generation = 0
        self.registrations = Registrations()
        self.subscriptions: frozenset[str] = frozenset()
        self.hooks: frozenset[HookName] | None = frozenset()
        self._callbacks = callbacks
        self._prepare = prepare
        self.pace = pace or ExtensionTimeouts()
        self._open_process = open_process
        self._has_vetoed = False
        self._crashes = 0
        self._last_generation = 0
        self._life: ProcessSession | None = None
        self._life_log: ProcessLog | None = None  # of the process in that life
        self._manifests: dict[int, Manifest] = {}  # of all existing processes
        self._revived = trio.Event()
        self._changing = trio.Lock()
        self._beginning: trio.CancelScope | None = None
        self._supervising = trio.CancelScope()
        self.stopping = False
        self._nursery: trio.Nursery | None = None
        self._settled = trio.Event()
        self._gone = trio.Event()
        self._unannounced = self._announcing = False

    @property
    def name(self) -> str:
        """Its name in the manifest, whatever it calls itself."""
        return self.found.name

    @property
    def manifest(self) -> Manifest:
        """The manifest of the process that answers."""
        return self.found.manifest

    def manifest_of(self, generation: int) -> Manifest:
        """Return the manifest of one process: during a reload there are two, each with its own rights."""
        return self._manifests.get(generation, self.manifest)

    @property
    def running(self) -> bool:
        """Whether a process answers, even while its replacement is being started."""
        return self._life is not None and self._life.alive

    async def run_command(self, contexts: Contexts, session_id: SessionId, name: str, arguments: str) -> str:
        """Run one of its commands, and return its text.

        Raises:
            RpcFailed: The command failed; the code is the extension's own.
        """
        generation, command = self.generation, self.registrations.command(name)
        typed = as_arguments(arguments, "" if command is None else command.description)
        with contexts.dispatch(self.name, generation, session_id) as context:
            params = {"command": name, "context": context.wire, "arguments": typed}
            try:
                result = await self.request("command/execute", params, timeout=COMMAND_SECONDS)
            except RpcClosed as closed:
                why = self._describe_interruption(generation)
                raise RpcFailed(INTERNAL_ERROR, f"{why} while /{self.name}.{name} ran", closed.data) from None
        content = result.get("content") if isinstance(result, dict) else None
        return content if isinstance(content, str) else ""

    async def complete_command(
        self, contexts: Contexts, session_id: SessionId, name: str, partial: str
    ) -> tuple[Completion, ...]:
        """Return completions for a command's arguments; none if it fails to answer."""
        with contexts.dispatch(self.name, self.generation, session_id) as context:
            params = {"command": name, "context": context.wire, "partial": partial}
            try:
                result = await self.request("command/complete", params, timeout=COMPLETION_SECONDS)
            except RpcFailed:
                return ()
        return tuple(parse_completions(result))

    def _describe_interruption(self, generation: int) -> str:
        """Describe why the process that ran a command is gone."""
        if self.stopping:
            return f"the extension {self.name} was switched off or ended"
        if self.generation != generation:
            seconds = f"{self.pace.stop:g} s"
            return f"the extension {self.name} was reloaded, and its old process did not finish within {seconds},"
        return f"the process of the extension {self.name} ended"

    def _in_use(self) -> bool:
        return self._nursery is not None and not self.stopping

    @property
    def can_veto_when_dead(self) -> bool:
        """Whether its silence counts as a veto where one protects something: it declared that hook, or has used it."""
        if self.hooks is None:
            return self._has_vetoed
        return not self.hooks.isdisjoint(FAIL_CLOSED)

    def remember_veto(self) -> None:
        """Record that it answered a hook with more than "continue", in case it did not declare its hooks."""
        self._has_vetoed = True

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep it running until `stop`; reports started once the first attempt has succeeded or failed.

        Cancellation: its processes are killed, with their process groups.
        """
        try:
            async with trio.open_nursery() as keeping:
                keeping.start_soon(self.log.write_lines)
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    nursery.start_soon(self._supervise)
                    await self._settled.wait()
                    task_status.started()
                keeping.cancel_scope.cancel()
        finally:
            self.stopping = True
            self._nursery = self._life = None
            self.generation = self._last_generation + 1  # nothing speaks for it: what its processes began is void
            self._set_state("stopped", None)
            self._gone.set()

    async def stop(self) -> None:
        """Shut it down: ask it to end, wait for its exit, and kill it if that takes too long.

        Cancellation: it is shut down all the same.
        """
        self.stopping = True
        self._supervising.cancel(reason="it is stopped")
        if self._beginning is not None:
            self._beginning.cancel(reason="it is stopped")
        if self._nursery is not None:
            await self._gone.wait()
        else:
            await trio.lowlevel.checkpoint()

    def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, timeout: float | ExtendableTimeout | None
    ) -> Coroutine[Any, Any, Any]:
        """Send it a request, and wait for the result.

        Raises:
            RpcFailed: It is not running, answered with an error, or not in time; see `RpcConnection.request`.
            InvalidInput: The params cannot be written as JSON, or are too large; nothing was sent.

        Cancellation: it is told that the request was cancelled.
        """
        life = self._life
        if life is None or not life.alive:
            return self._refuse()
        return life.request(method, params, timeout=timeout)

    async def _refuse(self) -> NoReturn:
        await trio.lowlevel.checkpoint()
        raise RpcFailed(INTERNAL_ERROR, f"the extension {self.name} is not running")

    def push_event(self, name: str, payload: Mapping[str, Any] | None, context: HostContext) -> None:
        """Send it an event; never blocks, and does nothing while no process runs."""
        if (life := self._life) is not None and life.alive:
            self._push(life, name, payload, context.wire)

    def note_lost(self, count: int) -> None:
        """Have it told, before its next event, how many events never got this far."""
        if self._life is not None:
            self._life.connection.note_lost(count)

    def update_registrations(self, registrations: Registrations) -> None:
        """Replace its registrations; frequent changes are reported to others only now and then."""
        if registrations == self.registrations:
            return
        self._register(registrations)
        self._unannounced = True
        if not self._announcing:
            self._announce()

    def _announce(self) -> None:
        self._unannounced = False
        self._callbacks.on_changed(self)
        if self._nursery is not None:
            self._announcing = True
            self._nursery.start_soon(self._announce_later)

    async def _announce_later(self) -> None:
        await trio.sleep(_ANNOUNCE_SECONDS)
        self._announcing = False
        if self._unannounced:
            self._announce()

    async def reload(self, found: DiscoveredExtension | None = None) -> None:
        """Replace its process with a new one that runs the same files, or the given ones.

        Raises:
            ReloadFailed: The new process did not start; the old one still runs.

        Cancellation: either nothing has changed, or it is reloaded and the old process is on its way out.
        """
        async with self._changing:
            if not self._in_use():
                raise self._build_reload_failure("it is not in use")
            state, problem = self.state, self.problem
            self._set_state("reloading", problem)
            adopted = False
            try:
                begun = await self._begin(found or self.found)
                old = self._life
                await self._say_farewell(old)
                if not self._in_use():
                    begun.life.retire()
                    raise StartFailed("it is being stopped")
                self._crashes = 0
                self._adopt(begun)
                adopted = True
                if old is not None:
                    old.retire(until_quiet=True)
            except StartFailed as error:
                raise self._build_reload_failure(error.reason) from error
            finally:
                if not adopted:
                    self._set_state(state, problem)
        if old is not None:
            await old.gone.wait()

    async def _say_farewell(self, life: ProcessSession | None) -> None:
        """Tell a process that it is being replaced, and make sure it reads this before it is asked to shut down."""
        if life is not None and life.alive:
            with trio.move_on_after(_FAREWELL_SECONDS, shield=True):
                self._push(life, "session_shutdown", {"reason": "reload"}, _NO_CONTEXT)
                await life.connection.flush()

    def _build_reload_failure(self, why: str) -> ReloadFailed:
        return ReloadFailed(f"the extension {self.name} was not reloaded: {why}")

    async def _supervise(self) -> None:
        with self._supervising:
            try:
                async with self._changing:
                    await self._attempt()
            finally:
                self._settled.set()
            while True:
                await self._next_change()
        if self._life is not None:
            self._life.retire()

    async def _next_change(self) -> None:
        """Wait for the end of the current life and begin another, or for another caller to begin one."""
        if (life := self._life) is not None:
            await life.over.wait()
            async with self._changing:
                if self._life is life:
                    self._life = None
                    self._handle_crash(life.reason, life.seconds)
                    await life.gone.wait()
                    assert self._life_log is not None
                    self._set_state(self.state, with_last_words(life.reason, self._life_log))
        elif self.state == "failed":
            await self._revived.wait()
        else:
            with trio.move_on_after(self.pace.backoffs[self._crashes - 1]):
                await self._revived.wait()
            async with self._changing:
                if self._life is None:  # otherwise it was reloaded meanwhile
                    await self._attempt()

    async def _attempt(self) -> None:
        try:
            begun = await self._begin(self.found)
        except StartFailed as error:
            if error.final:
                self._crashes = len(self.pace.backoffs)
            self._handle_crash(error.reason, 0)
        else:
            self._adopt(begun)

    async def _begin(self, found: DiscoveredExtension) -> StartedSession:
        """Start a process and greet it; when this raises, the process is gone.

        Raises:
            StartFailed: Any error, because an error in one extension must not end the others.
        """
        assert self._nursery is not None
        self._last_generation += 1
        try:
            start = ProcessStartup(
                found=found,
                generation=self._last_generation,
                log=self.log.open_process_log(),
                pace=self.pace,
                prepare=self._prepare,
                open_process=self._open_process,
                greeting=self._callbacks.initialize_params(found),
                answer=partial(self._callbacks.on_request, self),
                note=self._note,
                manifests=self._manifests,
            )
            with trio.CancelScope() as self._beginning:
                try:
                    begun: StartedSession = await self._nursery.start(start.run)
                    return begun
                finally:
                    self._beginning = None
        except StartFailed:
            raise
        except Exception as error:
            log.exception("%s: starting it failed", self.name)
            raise StartFailed(describe_own_fault(error), final=False) from error
        raise StartFailed("it is being stopped", final=True)

    def _adopt(self, begun: StartedSession) -> None:
        self.found = begun.found
        self._life, self._life_log = begun.life, begun.log
        self.generation = begun.life.generation
        self._register(begun.registrations)
        self._set_state("ready", None)
        begun.listens = True
        begun.early.report_dropped(begun.log)
        for notification in begun.early.take():
            try:
                self._note(self.generation, notification)
            except Exception:
                log.exception("%s: handling the notification %s failed", self.name, notification.method[:100])
        revived, self._revived = self._revived, trio.Event()
        revived.set()

    def _note(self, generation: int, notification: Notification) -> None:
        # A replaced process may still report on its work, but cannot register anything new.
        if notification.method != "registry/update" or generation == self.generation:
            self._callbacks.on_notification(self, generation, notification)

    def _register(self, registrations: Registrations) -> None:
        self.registrations = filter_permitted(registrations, self.manifest)
        self.subscriptions = clamp_subscriptions(registrations, self.manifest)
        self.hooks = handled_hooks(registrations)

    def _handle_crash(self, reason: str, seconds: float) -> None:
        if seconds >= self.pace.healthy:
            self._crashes = 0
        self._crashes += 1
        self.log.note("host", reason)
        self._set_state("failed" if self._crashes > len(self.pace.backoffs) else "restarting", reason)

    def _set_state(self, state: State, problem: str | None) -> None:
        problem = problem and problem[: limits.MAX_ERROR_CHARS]
        if (self.state, self.problem) != (state, problem) or state == "ready":
            self.state, self.problem = state, problem
            self._callbacks.on_changed(self)

    def _push(
        self, life: ProcessSession, name: str, payload: Mapping[str, Any] | None, context: Mapping[str, str]
    ) -> None:
        try:
            life.connection.push_event(name, payload, context=dict(context))
        except InvalidInput as error:
            log.warning("%s: the event %s cannot be sent: %s", self.name, name, error.message)
            self.log.note("host", f"it was not told of {name}: {error.message}")
