"""The start of a process: prepare, start, greet, read its registrations."""

import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

import attrs
import trio

from session_core import limits
from session_core.rpc.failures import INTERNAL_ERROR, RpcFailed
from session_core.rpc.messages import Notification, Request
from session_core.sep.host.catalogue.discovery import DiscoveredExtension
from session_core.sep.host.process.extension_log import ProcessLog
from session_core.sep.host.process.launch_command import ExtensionLaunch, LaunchRefused
from session_core.sep.host.process.process_session import ExtensionTimeouts, OpenProcess, ProcessSession, StartFailed
from session_core.sep.host.registrations import KINDS, Registrations, RegistrationsInvalid, read_registrations
from session_core.sep.host.registry_updates import size_in_bytes
from session_core.sep.protocol.manifest import Manifest

log = logging.getLogger(__name__)

_MAX_EARLY: Final = 256
"""Notifications kept between the answer to `initialize` and the moment we have processed it."""
_WEIGHT: Final = 64  # roughly what any value takes in memory, besides the characters of a string


class EarlyNotifications:
    """Notifications that came too early to be handled: the first ones, and how many more there were."""

    def __init__(self) -> None:
        self._notifications: list[Notification] = []
        self._room = limits.EXTENSION_EARLY_BYTES
        self._dropped = 0

    def add(self, notification: Notification) -> None:
        """Keep a notification if there is room."""
        weight = _weight([notification.method, notification.params], self._room)
        if len(self._notifications) < _MAX_EARLY and weight <= self._room:
            self._notifications.append(notification)
            self._room -= weight
        else:
            self._dropped += 1

    def take(self) -> list[Notification]:
        """Return the kept notifications, and clear them."""
        notifications, self._notifications = self._notifications, []
        return notifications

    def report_dropped(self, log: ProcessLog) -> None:
        """Log once how many were dropped."""
        if self._dropped:
            log.note("host", f"notifications that came too early and were dropped: {self._dropped:,}")
        self._dropped = 0


def _weight(value: object, most: int) -> int:
    """Return roughly how many bytes a JSON value takes in memory; stops counting when it is far too large."""
    weight, waiting = 0, [value]
    while waiting and weight <= most:
        each = waiting.pop()
        weight += _WEIGHT
        if isinstance(each, str):
            weight += len(each)
        elif isinstance(each, list):
            waiting += each
        elif isinstance(each, dict):
            waiting += each
            waiting += each.values()
    return weight


@attrs.define(kw_only=True, eq=False)
class StartedSession:
    """A started process; once `listens` is set, its notifications are handled, and those in `early` are due."""

    life: ProcessSession
    found: DiscoveredExtension
    log: ProcessLog
    registrations: Registrations
    early: EarlyNotifications
    listens: bool = False


@attrs.define(kw_only=True, eq=False)
class ProcessStartup:
    """The start of a process, which handles its messages from the first moment on.

    Attributes:
        generation: Its number.
        greeting: The params of `initialize`.
        answer: Answers requests of the process.
        note: Handles its notifications.
        manifests: The manifests of all existing processes, by generation.
    """

    found: DiscoveredExtension
    generation: int
    log: ProcessLog
    pace: ExtensionTimeouts
    prepare: Callable[[DiscoveredExtension], Awaitable[ExtensionLaunch]]
    open_process: OpenProcess
    greeting: dict[str, Any]
    answer: Callable[[int, Request], Awaitable[Any]]
    note: Callable[[int, Notification], None]
    manifests: dict[int, Manifest]
    _life: ProcessSession | None = attrs.field(init=False, default=None)
    _begun: StartedSession | None = attrs.field(init=False, default=None)
    _early: EarlyNotifications = attrs.field(init=False, factory=EarlyNotifications)

    async def run(self, *, task_status: trio.TaskStatus[StartedSession]) -> None:  # noqa: ASYNC128 - `_run_launched` calls it
        """Run a process from start to end; reports started once it has been greeted.

        Raises:
            StartFailed: It did not start; the process is gone.
        """
        with self._track_manifest():
            launch = await self.prepare(self.found)
            if launch.paths is not None:
                self.log.show_paths = launch.paths.show
            try:
                await self._run_launched(launch, task_status)
            finally:
                if launch.copies:
                    with trio.CancelScope(shield=True):
                        await trio.to_thread.run_sync(launch.release)

    async def _run_launched(self, launch: ExtensionLaunch, task_status: trio.TaskStatus[StartedSession]) -> None:
        for remark in (*self.found.manifest.remarks, *launch.remarks):
            self.log.note("host", remark)
        failure: StartFailed | None = None
        async with self.open_process(
            launch,
            self.log,
            name=self.found.name,
            handle_request=self._handle_request,
            handle_notification=self._handle_notification,
        ) as process:
            self._life = life = ProcessSession(process, self.generation, self.pace)
            try:
                registrations = await self._read(await life.greet(self.greeting))
            except StartFailed as error:
                failure = error
            else:
                self._begun = StartedSession(
                    life=life, found=self.found, log=self.log, registrations=registrations, early=self._early
                )
                task_status.started(self._begun)
                await life.wait_until_over()
        if failure is not None:
            raise StartFailed(with_last_words(failure.reason, self.log), final=failure.final)

    @contextmanager
    def _track_manifest(self) -> Generator[None]:
        """Keep its manifest known as long as it lives, however it ends."""
        self.manifests[self.generation] = self.found.manifest
        try:
            yield
        except LaunchRefused as error:
            raise StartFailed(str(error), final=error.final) from error
        except StartFailed:
            raise
        except Exception as error:
            if self._begun is None:
                raise
            log.exception("%s: its process could not be supervised", self.found.name)
            self._begun.life.end(describe_own_fault(error))
        finally:
            del self.manifests[self.generation]
            self._early.report_dropped(self.log)
            if self._life is not None:
                self._life.gone.set()

    async def _handle_request(self, request: Request) -> Any:
        if self._life is None:
            await trio.lowlevel.checkpoint()
            raise RpcFailed(INTERNAL_ERROR, "the host is not ready yet")
        with self._life.suspend_pings():
            return await self.answer(self.generation, request)

    def _handle_notification(self, notification: Notification) -> None:
        if self._life is not None:
            self._life.note_activity()
        if notification.method == "log" or (self._begun is not None and self._begun.listens):
            self.note(self.generation, notification)
        else:
            self._early.add(notification)

    async def _read(self, greeting: dict[str, Any]) -> Registrations:
        identity = greeting.get("extension")
        called, name = identity.get("name") if isinstance(identity, dict) else None, self.found.name
        if called is not None and called != name:
            self.log.note("host", f"it calls itself {str(called)[:200]!r}; here it is {name!r}, as its manifest says")
        data = greeting.get("registrations")
        if astray := [kind for kind in KINDS if greeting.get(kind)]:
            self.log.note("host", f"{', '.join(astray)}: ignored, because it is outside of `registrations`")
        try:
            if isinstance(data, dict) and size_in_bytes(data) > limits.EXTENSION_REGISTERS_AT_ONCE:
                return await trio.to_thread.run_sync(read_registrations, data, abandon_on_cancel=True)
            return read_registrations(data)
        except RegistrationsInvalid as error:
            field_text = f" at {error.field}" if error.field else ""
            raise StartFailed(f"what it registers cannot be used{field_text}: {error.message}", final=True) from error


def describe_own_fault(error: Exception) -> str:
    """Describe a failure caused by an internal error, which the log of this service has in full."""
    return f"this service could not run it: {type(error).__name__}: {error}"


def with_last_words(reason: str, log: ProcessLog) -> str:
    """Add the process's own last line to a reason; it is often the better one."""
    words = log.last_words()
    return f"{reason}; it said: {words}" if words else reason
