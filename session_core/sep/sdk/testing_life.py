"""The lifecycle of a test host: start its extension, greet it, talk to it, end it."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import attrs
import trio

from session_core._version import __version__
from session_core.error_capture import ErrorCapture
from session_core.ids import SessionId
from session_core.rpc.connection import open_connection
from session_core.rpc.messages import Notification, Request
from session_core.sep.host.calls.contexts import Contexts
from session_core.sep.host.calls.requests import InboundRequests
from session_core.sep.host.catalogue.discovery import DiscoveredExtension
from session_core.sep.host.registrations import Registrations, clamp_subscriptions, read_registrations
from session_core.sep.protocol.manifest import Capabilities, Manifest, RunSpec, read_manifest
from session_core.sep.protocol.names import CAPABILITIES, PROTOCOL_VERSION, Capability, Mode, UiKind
from session_core.sep.sdk.extension import Extension
from session_core.sep.sdk.testing_answers import UnusableAnswer, require_object
from session_core.sep.sdk.testing_link import (
    ExtensionEndpoint,
    ExtensionLink,
    StartedCall,
    run_as_process,
    run_in_memory,
)
from session_core.sep.sdk.testing_world import ExtensionUnderTest, RecordingBackend, Responder, check_kind

_GENERATION: Final = 1

T = TypeVar("T")


class HostLife:
    """A host with one extension and one session; see `TestHost`."""

    def __init__(
        self,
        extension: Extension | Path | Sequence[str],
        *,
        initialize: bool = True,
        flags: Mapping[str, Any] | None = None,
        ui: Mapping[UiKind, Responder] | Iterable[UiKind] = (),
        capabilities: Collection[Capability] | None = None,
        events: Sequence[str] = (),
        workspace: str = "/workspace",
        trusted: bool = True,
        mode: Mode = "headless",
        session_id: str = "ses_test",
        state: Mapping[str, Any] | None = None,
        kv: Mapping[str, Any] | None = None,
        exec: Responder = None,
        tools: Collection[str] | None = None,
        observers_may_fail: bool = False,
    ) -> None:
        self.session_id = SessionId(session_id)
        self.flags = dict(flags or {})
        self._extension = extension
        self._initialize = initialize
        self._observers_may_fail = observers_may_fail
        self._about = {"workspace": {"root": workspace, "trusted": trusted}, "mode": mode}
        self._subject = ExtensionUnderTest(_describe_extension(extension, capabilities, tuple(events)))
        self._world = RecordingBackend(
            subject=self._subject,
            ui=_answers(ui),
            exec=exec,
            kv=dict(kv or {}),
            session_state={"session_id": session_id, **(state or {})},
            shown_tools=tools,
        )
        self.ui = self._world.ui
        self.kv = self._world.kv
        self.session_calls = self._world.session_calls
        self.ui_requests = self._world.ui_requests
        self.programs = self._world.programs
        self.bus = self._world.bus
        self.logs = self._world.logs
        self.progress = self._world.progress
        self.registry = self._world.registry
        self._contexts = Contexts()
        self._inbound = InboundRequests(self._contexts, self._world, self._world)
        self._block = self._open_host()
        self._nursery: trio.Nursery | None = None
        self._line: ExtensionLink | None = None
        self._far: ExtensionEndpoint | None = None
        self._ended = False

    # --- lifecycle ----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self._block.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._block.__aexit__(kind, error, traceback)  # noqa: ASYNC102 - its contents take care of themselves

    @asynccontextmanager
    async def _open_host(self) -> AsyncGenerator[None]:
        own = ErrorCapture()
        with own.reraise():
            async with (
                self._open_endpoint() as far,
                open_connection(
                    far.source, far.sink, handle_request=self._answer, handle_notification=self._note, name="extension"
                ) as connection,
            ):
                self._far, self._line = far, ExtensionLink(connection)
                with own.reraise():
                    async with trio.open_nursery() as self._nursery:
                        with own.capture():
                            if self._initialize:
                                await self.initialize()
                            yield
                        self._nursery.cancel_scope.cancel(reason="the block of the host has ended")
                if not self._ended:
                    await self.shutdown()
        self._raise_faults()

    def _open_endpoint(self) -> AbstractAsyncContextManager[ExtensionEndpoint]:
        if isinstance(self._extension, Extension):
            return run_in_memory(self._extension, self._record_fault)
        if isinstance(self._extension, Path):
            run = self._subject.found.manifest.run
            return run_as_process([run.command, *run.args], str(self._extension))
        return run_as_process(self._extension, None)

    async def initialize(self, **changes: Any) -> Registrations:
        """Greet the extension and read its registrations; `changes` are laid over the greeting.

        Raises:
            HostError: The extension answered with an error.
            UnusableAnswer: It does not speak this protocol.
            RegistrationsInvalid: No host could use its registrations.
        """
        for kind in self.ui:  # the test may have changed them
            check_kind(kind)
        enabled = self._subject.found.manifest.capabilities.enabled
        params = {
            "protocol_version": PROTOCOL_VERSION,
            "host": {"name": "test", "version": __version__},
            **self._about,
            "session": {"id": self.session_id},
            "ui_capabilities": sorted(self.ui),
            "flags": self.flags,
            "capabilities_enabled": {each: each in enabled for each in CAPABILITIES},
        }
        answer = require_object("initialize", await self._ask("initialize", {**params, **changes}))
        version = answer.get("protocol_version")
        if type(version) is not int or version < 1:
            raise UnusableAnswer(f"protocol_version must be 1 or more, not {version!r}")
        self._subject.register(read_registrations(answer.get("registrations")))
        return self.registrations

    async def shutdown(self) -> None:
        """Shut the extension down and wait for its end; the block does this unless the test already has."""
        await self._ask("shutdown", {})
        self._ended = True
        assert self._far is not None
        await self._far.wait_exit()

    @property
    def registrations(self) -> Registrations:
        """What the extension has registered, limited to its capabilities."""
        return self._subject.registrations

    async def ping(self) -> None:
        """Check that the extension answers."""
        await self._ask("ping", {})

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Send any request, valid or not, and return the answer as received.

        Raises:
            HostError: The extension answered with an error.
        """
        return await self._ask(method, params or {})

    def start(self, method: Callable[..., Awaitable[T]], /, *args: Any, **named: Any) -> StartedCall[T]:
        """Start a call that can be cancelled: `running = host.start(host.call_tool, "slow", seconds=9)`."""
        assert self._nursery is not None
        running: StartedCall[T] = StartedCall()
        self._nursery.start_soon(running.run, method, args, named)
        return running

    async def settled(self) -> None:
        """Wait until the extension has handled all events sent so far, and its own messages have arrived.

        An extension in its own process has then received the events, but may still be handling them.

        Raises:
            Exception: What an observer raised meanwhile, unless `observers_may_fail`.
        """
        assert self._far is not None
        assert self._line is not None
        await self._line.connection.flush()
        await self.ping()
        await self._far.settled()
        await self.ping()
        self._raise_faults()

    def _record_fault(self, event: str, error: Exception) -> None:
        if not self._observers_may_fail:
            error.add_note(f"This was raised by a handler of the event {event}; a host logs it and continues.")
            self._world.faults.append(error)

    def _raise_faults(self) -> None:
        if self._world.faults:
            raise self._world.faults.pop(0)

    # --- the connection -----------------------------------------------------------------------------------------------

    async def _ask(self, method: str, params: Mapping[str, Any]) -> Any:
        assert self._line is not None, "this is used within its block: async with TestHost(ext) as host"
        return await self._line.ask(method, params)

    async def _dispatch(self, method: str, **params: Any) -> Any:
        """Send a request within a dispatch: the extension may act in the session until it has answered."""
        with self._contexts.dispatch(self._subject.name, _GENERATION, self.session_id) as context:
            return await self._ask(method, {**params, "context": context.wire})

    async def _tell(self, name: str, payload: Mapping[str, Any]) -> bool:
        """Send an event if the extension has subscribed to it."""
        await trio.lowlevel.checkpoint()
        assert self._line is not None
        if name not in clamp_subscriptions(self.registrations, self._subject.found.manifest):
            return False
        context = self._contexts.for_event(self._subject.name, _GENERATION, self.session_id)
        self._line.connection.push_event(name, payload, context=context.wire)
        return True

    async def _answer(self, request: Request) -> Any:
        return await self._inbound.handle_request(self._subject, _GENERATION, request)

    def _note(self, notification: Notification) -> None:
        self._inbound.handle_notification(self._subject, _GENERATION, notification)


def _describe_extension(
    extension: Extension | Path | Sequence[str], capabilities: Collection[Capability] | None, events: tuple[str, ...]
) -> DiscoveredExtension:
    """Describe the extension as if discovered in a folder; a test may narrow what its manifest says."""
    if isinstance(extension, Path):
        manifest = read_manifest(extension)
    else:
        name = extension.name if isinstance(extension, Extension) else "tested"
        manifest = Manifest(name=name, version="1", run=RunSpec(command="-"))
    declared = manifest.capabilities
    enabled = declared.enabled if capabilities is None else frozenset(capabilities)
    allowed = Capabilities(events=events or declared.events, enabled=enabled)
    manifest = attrs.evolve(manifest, capabilities=allowed)
    folder = extension if isinstance(extension, Path) else Path("/extension")
    return DiscoveredExtension(name=manifest.name, folder=folder, scope="user", manifest=manifest, digest="")


def _answers(ui: Mapping[UiKind, Responder] | Iterable[UiKind]) -> dict[UiKind, Responder]:
    found: dict[UiKind, Responder] = dict(ui) if isinstance(ui, Mapping) else dict.fromkeys(ui)
    for kind in found:
        check_kind(kind)
    return found
