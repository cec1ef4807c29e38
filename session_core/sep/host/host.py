"""All extensions of a service: which there are, what they register, and calling them.

1. Extensions start in parallel and end in parallel: asked to end, waited for, killed if that takes too long.
2. Extensions do not affect each other: each has its own process, tokens, log and deadlines.
3. Every request to an extension is a dispatch: the extension may act in that session until it has answered.
4. The host reaches the service only through the `Delegate`, which it gets when the service runs; nothing starts before.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any

import trio

from session_core.errors import ExtensionFailed
from session_core.ids import SessionId
from session_core.rpc.messages import Notification, Request
from session_core.sep.host.calls import hooks
from session_core.sep.host.calls.contexts import Contexts
from session_core.sep.host.calls.events import (
    SepEvent,
    Translator,
    bus_event,
    session_event,
    widget_key,
)
from session_core.sep.host.calls.notifications import LogLevel
from session_core.sep.host.calls.rate_limit import PublishingLimits
from session_core.sep.host.calls.requests import InboundRequests
from session_core.sep.host.catalogue.discovery import DiscoveredExtension, Discovery
from session_core.sep.host.config import HostConfig as HostConfig
from session_core.sep.host.config import ParticipationRule, participates_everywhere
from session_core.sep.host.config import Watcher as Watcher
from session_core.sep.host.extension import HostedExtension, ReloadFailed, prepare_from_manifest
from session_core.sep.host.info import build_not_found, explain_absence, info_of, infos_of
from session_core.sep.host.models.credentials import CredentialFile
from session_core.sep.host.models.providers import ExtensionProviders
from session_core.sep.host.process.extension_log import ExtensionLog
from session_core.sep.host.process.launch_command import ExtensionLaunch
from session_core.sep.host.registrations import Registrations
from session_core.sep.host.tools.tools import ExtensionToolSource
from session_core.sep.protocol.names import HOOKS, HookName
from session_core.sep.protocol.service_api import Delegate
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.extensions import ExtensionInfo

log = logging.getLogger(__name__)


class ExtensionHost:
    """The extensions of a service. `run` it while the service runs.

    Args:
        look: Finds the extensions in use; it blocks, so it runs in a thread.
        config: What the extensions are told.
        prepare: Returns how to start an extension; by default as its manifest says.
        enable: Stores whether an extension is enabled; it blocks.
        credentials: The stored logins to providers of extensions.
        reserved: Names of providers that no extension can take.
        takes_part: Returns whether an extension takes part in a session; by default all take part in all.
    """

    def __init__(
        self,
        look: Callable[[], Discovery],
        config: HostConfig,
        *,
        prepare: Callable[[DiscoveredExtension], Awaitable[ExtensionLaunch]] = prepare_from_manifest,
        enable: Callable[[str, bool], None] | None = None,
        credentials: CredentialFile | None = None,
        reserved: Iterable[str] = (),
        takes_part: ParticipationRule = participates_everywhere,
    ) -> None:
        self.contexts = Contexts()
        self.tools = ExtensionToolSource(self.participants, self.contexts)
        self.models = ExtensionProviders(self.contexts, credentials, reserved=reserved)
        self.config = config
        self.takes_part = takes_part
        self.discovery = Discovery()
        self._look = look
        self._prepare = prepare
        self._enable = enable
        self._extensions: dict[str, HostedExtension] = {}
        self._inbound: InboundRequests | None = None
        self._delegate: Delegate | None = None
        self._watcher: Watcher | None = None
        self._nursery: trio.Nursery | None = None
        self._closing = trio.Event()
        self._changing = trio.Lock()
        self._translator = Translator()
        self._bus = PublishingLimits(
            lambda name, text: self.log(name, "warn", text, None),
            refused="messages to the bus that were dropped",
            on_flood=self._tell_of_flood,
        )
        self._handled: frozenset[HookName] = frozenset()
        self.subscribed_events: frozenset[str] = frozenset()
        """The events that any extension has subscribed to."""
        self._wanted_changed = trio.Event()
        self.settled = trio.Event()
        """Set once every extension has been started once, successfully or not."""

    # --- running ------------------------------------------------------------------------------------------------------

    async def run(
        self,
        delegate: Delegate,
        watcher: Watcher,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Start all extensions and run them until cancelled; they are shut down before this returns."""
        self._delegate, self._watcher = delegate, watcher
        self._inbound = InboundRequests(self.contexts, delegate, self)
        try:
            self.discovery = await trio.to_thread.run_sync(self._look)
            async with trio.open_nursery() as nursery:
                try:
                    opened = trio.Event()
                    nursery.start_soon(
                        self._hold_extensions, opened
                    )  # not with `start`: a shielded one could not be abandoned
                    await opened.wait()
                    nursery.start_soon(self.tools.calls.keep_showing)
                    await nursery.start(self._inbound.registry_updater.run)
                    task_status.started()
                    async with trio.open_nursery() as starting:
                        for found in self.discovery.found:
                            starting.start_soon(self._begin, found)
                    self.settled.set()
                    await trio.sleep_forever()
                finally:
                    self._closing.set()
        finally:
            self.settled.set()  # release callers that would wait forever

    async def _hold_extensions(self, opened: trio.Event) -> None:
        """Keep the extensions past a cancellation, until each has been asked to end and has ended."""
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as self._nursery:
                opened.set()
                await self._closing.wait()
                async with trio.open_nursery() as ending:
                    for extension in self._extensions.values():
                        ending.start_soon(self._end, extension, "exit")
            self._nursery = None

    async def _begin(self, found: DiscoveredExtension) -> HostedExtension:
        file = self.config.logs / f"{found.owner}.log" if self.config.logs is not None else None
        extension = HostedExtension(found, self, ExtensionLog(file), prepare=self._prepare, pace=self.config.pace)
        self._extensions[found.name] = extension
        self._extensions = dict(sorted(self._extensions.items()))  # the order in which hooks ask them
        assert self._nursery is not None
        self.on_changed(extension)
        await self._nursery.start(extension.run)
        return extension

    async def _end(self, extension: HostedExtension, reason: str) -> None:
        if "session_shutdown" in extension.subscriptions:
            self._push(extension, session_event("session_shutdown", reason))
        await extension.stop()

    # --- lookup -------------------------------------------------------------------------------------------------------

    @property
    def extensions(self) -> tuple[HostedExtension, ...]:
        """All extensions, in load order."""
        return tuple(self._extensions.values())

    def participants(self, session_id: SessionId) -> tuple[HostedExtension, ...]:
        """Return the extensions that take part in a session, in load order."""
        return tuple(each for each in self.extensions if self.takes_part(each.name, session_id))

    def extension(self, name: str) -> HostedExtension:
        """Return the extension with this name.

        Raises:
            NotFound: There is none; the error says why, if that is known.
        """
        if (extension := self._extensions.get(name)) is not None:
            return extension
        raise build_not_found(name, self.discovery)

    def list(self, session_id: SessionId | None = None) -> tuple[ExtensionInfo, ...]:
        """Return the infos of a session's extensions, or of all, including disabled ones."""
        if session_id is not None:
            return tuple(info_of(extension, self.config.serves) for extension in self.participants(session_id))
        return infos_of(self.extensions, self.discovery, self.config.serves)

    # --- commands -----------------------------------------------------------------------------------------------------

    async def wait_registered(self, extension: str) -> None:
        """Wait until what an extension has registered so far can be used."""
        if self._inbound is not None:
            await self._inbound.registry_updater.wait_settled(extension)

    def press_key(self, session_id: SessionId, extension: str, widget_id: str, key: str) -> None:
        """Send a key press to the extension whose widget it happened in, whatever its subscriptions."""
        self._push(self.extension(extension), widget_key(session_id, widget_id, key))

    # --- hooks and events ---------------------------------------------------------------------------------------------

    def handles(self, hook: HookName) -> bool:
        """Return whether any extension has a say in a hook, or may have one when all have been started."""
        return hook in self._handled or not self.settled.is_set()

    def forward_event(self, envelope: SessionEvent) -> None:
        """Send a session event to the extensions."""
        for event in self._translator.translate(envelope, self.subscribed_events):
            for extension in self.extensions:
                if event.name in extension.subscriptions and self._is_heard(extension.name, event.session_id):
                    self._push(extension, event)

    def _is_heard(self, name: str, session_id: SessionId | None) -> bool:
        """Return whether an extension gets events of a session; one that serves a single folder gets no others."""
        return session_id is None or self.config.serves is not None or self.takes_part(name, session_id)

    def note_missed_events(self, count: int = 0) -> None:
        """Record that events were missed; everyone with a subscription is told how many, but not which."""
        self._translator.forget()
        for extension in self.extensions:
            if count and extension.subscriptions:
                extension.note_lost(count)

    def forget_session(self, session_id: SessionId) -> None:
        """Drop what is known about a session: no more events of it will follow."""
        self._translator.forget(session_id)

    async def wait_for_subscriptions(self, *, anything: bool) -> None:
        """Wait until some extension subscribes to events, or until none does."""
        while bool(self.subscribed_events) is not anything:
            await self._wanted_changed.wait()

    # --- reloading ----------------------------------------------------------------------------------------------------

    async def reload(self, name: str) -> None:
        """Replace the process of an extension with one that runs its current files.

        Raises:
            NotFound: There is no such extension.
            ReloadFailed: The new process did not start; the old one still runs.
        """
        extension = self.extension(name)
        self.discovery = await trio.to_thread.run_sync(self._look)
        found = self.discovery.find(name)
        if found is None:
            why = explain_absence(name, self.discovery) or "it is not there any more"
            raise ReloadFailed(f"the extension {name} was not reloaded: {why}", field="name")
        await extension.reload(found)
        self._push(extension, session_event("session_start", "reload"))

    async def rescan(self) -> None:
        """Discover extensions again: end those no longer in use, start new ones, replace changed ones."""
        async with self._changing:
            self.discovery = await trio.to_thread.run_sync(self._look)
            for extension in self.extensions:
                found = self.discovery.find(extension.name)
                if found is None:
                    await self._drop(extension)
                elif found != extension.found:
                    try:
                        await extension.reload(found)
                    except ReloadFailed as failed:
                        extension.log.note("host", failed.message)
            for found in self.discovery.found:
                if found.name not in self._extensions and not self._closing.is_set():
                    await self._begin(found)

    async def enable(self, name: str) -> None:
        """Enable an extension, now and after every restart."""
        async with self._changing:
            if self._nursery is None or self._closing.is_set():
                raise ExtensionFailed("extensions are not in use any more: they have ended, or are being ended")
            await self._remember(name, enabled=True)
            if name not in self._extensions:
                found = self.discovery.find(name)
                if found is None:
                    raise build_not_found(name, self.discovery)
                await self._begin(found)

    async def disable(self, name: str) -> None:
        """Disable an extension, now and after every restart."""
        async with self._changing:
            await self._remember(name, enabled=False)
            if (extension := self._extensions.get(name)) is not None:
                await self._drop(extension)

    async def _drop(self, extension: HostedExtension) -> None:
        await self._end(extension, "disabled")
        del self._extensions[extension.name]
        self._refresh_summary()
        if self._watcher is not None:
            self._watcher.extension_removed(extension.name)

    async def _remember(self, name: str, *, enabled: bool) -> None:
        if self._enable is not None:
            await trio.to_thread.run_sync(partial(self._enable, name, enabled))
        self.discovery = await trio.to_thread.run_sync(self._look)

    # --- callbacks of one extension -----------------------------------------------------------------------------------

    def initialize_params(self, found: DiscoveredExtension) -> dict[str, Any]:
        """Return the params of the greeting of a process with this manifest."""
        assert self._delegate is not None
        return self.config.greeting(found.manifest.capabilities.enabled, self._delegate.ui_kinds())

    async def on_request(self, extension: HostedExtension, generation: int, request: Request) -> Any:
        """Answer a request of a process."""
        assert self._inbound is not None
        return await self._inbound.handle_request(extension, generation, request)

    def on_notification(self, extension: HostedExtension, generation: int, notification: Notification) -> None:
        """Handle a notification of a process."""
        assert self._inbound is not None
        self._inbound.handle_notification(extension, generation, notification)

    def on_changed(self, extension: HostedExtension) -> None:
        """React to a change of an extension; the rights of its earlier processes end."""
        self.contexts.forget_before(extension.name, extension.generation)
        self._refresh_summary()
        if self._watcher is not None and extension.state != "stopped":
            self._watcher.extension_changed(info_of(extension, self.config.serves))

    def _refresh_summary(self) -> None:
        """Recompute what all extensions together offer and subscribe to."""
        self.models.update(self.extensions)
        self._handled = frozenset(hook for hook in HOOKS if hooks.has_participant(self.extensions, hook))
        self.subscribed_events = frozenset(
            name for each in self.extensions if each.running for name in each.subscriptions
        )
        changed, self._wanted_changed = self._wanted_changed, trio.Event()
        changed.set()

    # --- notifications of extensions (`HostView`) ---------------------------------------------------------------------

    def admits_to_bus(self, extension: str) -> bool:
        """Count a message to the bus; return False if it must be dropped."""
        return self._bus.admit(extension)

    def _tell_of_flood(self, extension: str, limit: str) -> None:
        if self._delegate is not None:
            self._delegate.tell_people(
                extension, f"the extension {extension} floods the others with messages, and some are dropped: {limit}"
            )

    def publish(self, extension: str, topic: str, payload: Mapping[str, Any]) -> None:
        """Send a message to all other extensions that listen to the bus."""
        for each in self.extensions:
            if each.name != extension and "bus/event" in each.subscriptions:
                self._push(each, bus_event(extension, topic, payload))

    def registry_updated(self, extension: str, registrations: Registrations) -> None:
        """Replace an extension's registrations."""
        if (known := self._extensions.get(extension)) is not None:
            known.update_registrations(registrations)

    def tool_update(
        self, extension: str, call_id: str, *, message: str | None, progress: float | None, details: Any
    ) -> None:
        """Handle the progress of a tool call."""
        self.tools.calls.update(extension, call_id, message=message, progress=progress, details=details)

    def provider_delta(self, extension: str, request_id: str, event: Mapping[str, Any]) -> None:
        """Handle a piece of a model's answer."""
        self.models.streams.delta(extension, request_id, event)

    def log(self, extension: str, level: LogLevel, message: str, fields: Mapping[str, Any] | None) -> None:
        """Write to the log of an extension."""
        if (known := self._extensions.get(extension)) is not None:
            known.log.note(level, f"{message} {dict(fields)}" if fields else message)

    def _push(self, extension: HostedExtension, event: SepEvent) -> None:
        if not extension.running:
            return
        context = self.contexts.for_event(extension.name, extension.generation, event.session_id)
        extension.push_event(event.name, event.payload, context)
