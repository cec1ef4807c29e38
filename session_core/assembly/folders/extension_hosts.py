"""The extensions of projects: one host per folder that has any, beside the user's.

Rules:
1. A folder's extensions start when it is first used, if it is trusted and a person has consented to them. They end with
   it: when it was not used for long, or at once when the trust or the consent is withdrawn.
2. They take part only in sessions that work in this folder. When a session moves elsewhere they lose it at once, even
   for an action in progress there.
3. Only callers that need them wait for them.
4. After a fault they restart when the folder is checked a while later. Until then the lost ones keep their place: where
   a missing answer may hide a refusal, it counts as one. Example: a lost `tool_call` hook blocks the call.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import trio

from session_core.agent.hooks import HookName
from session_core.foreign_faults import FOREIGN_FAULTS, must_propagate
from session_core.ids import SessionId
from session_core.limits import FOLDER_SERVERS_WAIT_MS
from session_core.vocabulary import events as ev

if TYPE_CHECKING:
    from session_core.assembly.folders.folder import OpenFolder
    from session_core.sep.host.catalogue.discovery import DiscoveredExtension
    from session_core.sep.host.config import ParticipationRule
    from session_core.sep.host.host import ExtensionHost
    from session_core.service.service import SessionService

log = logging.getLogger(__name__)
_AGAIN_S = 10.0
"""The delay before a restart after a loss; doubled after each further one."""
_MOST_DOUBLINGS = 5

MakeHost = Callable[["OpenFolder", "ParticipationRule"], "ExtensionHost"]
"""Builds the host of a folder's extensions; starts nothing, never blocks."""


@attrs.define(eq=False, kw_only=True)
class HostedFolder:
    """The extensions of one folder, from start to end."""

    path: str
    host: "ExtensionHost"
    may_run: tuple["DiscoveredExtension", ...]
    """The extensions that were to run at the last check."""
    changed: trio.Event = attrs.field(factory=trio.Event)
    """Set when the extensions to run have changed."""
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    gone: trio.Event = attrs.field(factory=trio.Event)
    losses: int = 0
    """How often the extensions of this folder were lost."""
    again_at: float | None = None
    """When lost extensions may be restarted, on trio's clock."""


class FolderHosts:
    """All hosts of folders. `run` it while the service runs; before that nothing starts.

    Args:
        make: Builds the host of a folder.
        works_in: Returns whether a session works in a folder, and the folder's extensions take part in it.
    """

    def __init__(self, make: MakeHost, works_in: Callable[["OpenFolder", SessionId], bool]) -> None:
        self._make = make
        self._works_in = works_in
        self._hosted: dict[str, HostedFolder] = {}  # the newest of each folder, until it is gone
        self._service: SessionService | None = None
        self._nursery: trio.Nursery | None = None

    async def run(
        self, service: "SessionService", *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Run the extensions of folders until cancelled; shuts all of them down before it returns."""
        try:
            async with trio.open_nursery() as self._nursery:
                self._service = service
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None

    # --- lookup -------------------------------------------------------------------------------------------------------

    def hosts(self) -> tuple["ExtensionHost", ...]:
        """Return all hosts, including those about to end."""
        return tuple(each.host for each in self._hosted.values())

    def handles(self, hook: HookName) -> bool:
        """Return whether any extension handles a hook, or may once it has started."""
        return any(each.host.handles(hook) for each in self._hosted.values())

    # --- starting and ending ------------------------------------------------------------------------------------------

    def align(self, folder: "OpenFolder") -> None:
        """Start and end extensions after a check of their folder; never blocks."""
        hosted, may_run = folder.hosted, folder.may_run
        if hosted is None:
            if may_run and self._nursery is not None:
                self._start_host(folder, may_run, self._nursery)
        elif not may_run:
            self.end(folder, "its extensions may no longer run")
        elif hosted.again_at is not None:
            if trio.current_time() >= hosted.again_at and self._nursery is not None:
                self._start_host(folder, may_run, self._nursery, losses=hosted.losses)
        elif hosted.may_run != may_run:
            hosted.may_run = may_run
            hosted.changed.set()

    def end(self, folder: "OpenFolder", why: str) -> None:
        """End the extensions of a folder in the background; their displays are cleared at once."""
        hosted = folder.hosted
        if hosted is None:
            return
        self._clear_displays(hosted)
        folder.hosted = None
        hosted.scope.cancel(reason=why)

    async def until_settled(self, folder: "OpenFolder") -> None:
        """Wait, but not for long, until each has been started once, successfully or not."""
        if folder.hosted is not None:
            with trio.move_on_after(FOLDER_SERVERS_WAIT_MS / 1000):
                await folder.hosted.host.settled.wait()

    def _start_host(
        self,
        folder: "OpenFolder",
        may_run: tuple["DiscoveredExtension", ...],
        nursery: trio.Nursery,
        *,
        losses: int = 0,
    ) -> None:
        def takes_part(_name: str, session_id: SessionId) -> bool:
            return folder.hosted is hosted and self._works_in(folder, session_id)

        host = self._make(folder, takes_part)
        hosted = HostedFolder(path=folder.path, host=host, may_run=may_run, losses=losses)
        folder.hosted = hosted
        before = self._hosted.pop(folder.path, None)
        self._hosted[folder.path] = hosted
        nursery.start_soon(self._run_host, hosted, before)

    async def _run_host(self, hosted: HostedFolder, before: HostedFolder | None) -> None:
        from session_core.service.extension_bridge.delegate import run_host

        assert self._service is not None
        try:
            if before is not None:
                with trio.CancelScope(shield=True):  # it is ending, within its own time limits
                    await before.gone.wait()  # two processes of one extension would conflict
            with hosted.scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(run_host, hosted.host, self._service)
                    await self._rescan_on_change(hosted)
        except FOREIGN_FAULTS as bug:
            if must_propagate(bug):
                raise
            log.exception("the extensions of %s were lost", hosted.path)
            self._clear_displays(hosted)
            hosted.again_at = trio.current_time() + _AGAIN_S * 2 ** min(hosted.losses, _MOST_DOUBLINGS)
            hosted.losses += 1
        finally:
            hosted.host.settled.set()  # release callers that would wait forever
            hosted.gone.set()
            if self._hosted.get(hosted.path) is hosted:
                del self._hosted[hosted.path]
            self._announce_removal(hosted)

    @staticmethod
    async def _rescan_on_change(hosted: HostedFolder) -> None:
        """Rescan whenever the extensions to run have changed."""
        await hosted.host.settled.wait()
        while True:
            await hosted.changed.wait()
            hosted.changed = trio.Event()
            await hosted.host.rescan()

    # --- telling ------------------------------------------------------------------------------------------------------

    def _clear_displays(self, hosted: HostedFolder) -> None:
        from session_core.service.extension_bridge.delegate import clear_displays

        assert self._service is not None
        for extension in hosted.host.extensions:
            clear_displays(self._service, hosted.host, extension.name)

    def _announce_removal(self, hosted: HostedFolder) -> None:
        assert self._service is not None
        if self._nursery is not None and not self._nursery.cancel_scope.cancel_called:  # else all ends anyway
            for extension in hosted.host.extensions:
                self._service.tell(ev.ExtensionRemoved(name=extension.name, folder=hosted.path))
