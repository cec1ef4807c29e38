"""Several extensions at once, with processes in memory: what each was asked, and what it answers."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from session_core.rpc.messages import Notification, Request
from session_core.sep.host.catalogue.discovery import DiscoveredExtension
from session_core.sep.host.extension import HostedExtension
from session_core.sep.host.process.extension_log import ExtensionLog
from session_core.sep.host.process.process_session import ExtensionTimeouts
from session_core.sep.protocol.manifest import Manifest, RunSpec
from tests.session_core.sep._children import Host
from tests.session_core.sep._stand_in import StandIn, StandIns, no_preparation

Answer = Callable[[Request], Awaitable[Any]] | Any
"""What is answered to everything but the beginning and the end: a value, or a function that makes it."""


@attrs.define(eq=False)
class Member:
    """One extension: its processes, and the requests they got besides the beginning and the end."""

    registrations: Mapping[str, Any] = attrs.field(factory=dict)
    answer: Answer = attrs.field(factory=dict)
    hook_timeout_ms: int | None = None
    backoffs: tuple[float, ...] = ()
    processes: StandIns = attrs.field(factory=StandIns)
    asked: list[Request] = attrs.field(factory=list)
    extension: HostedExtension = attrs.field(init=False)

    def crash(self) -> None:
        """End the newest process; without backoffs it is the last one."""
        self.processes.all[-1].crash()

    @property
    def notes(self) -> list[str]:
        """What its log says."""
        return [line.text for line in self.extension.log.lines()]


class UpdateHost(Host):
    """A host that hands notifications on."""

    def __init__(self, take: Callable[[HostedExtension, Notification], None]) -> None:
        super().__init__()
        self._take = take

    def on_notification(self, extension: HostedExtension, generation: int, notification: Notification) -> None:
        self._take(extension, notification)
        super().on_notification(extension, generation, notification)


@asynccontextmanager
async def gathered(
    take: Callable[[HostedExtension, Notification], None] = lambda _extension, _notification: None, /, **members: Member
) -> AsyncGenerator[list[HostedExtension]]:
    """Run extensions under the names they are given by, in that order."""
    extensions: list[HostedExtension] = []
    async with trio.open_nursery() as nursery:
        for name, member in members.items():
            extension = HostedExtension(
                _found(name, member),
                UpdateHost(take),
                ExtensionLog(),
                prepare=no_preparation,
                pace=ExtensionTimeouts(backoffs=member.backoffs),
                open_process=member.processes.open,
            )
            member.extension = extension
            member.processes.registrations = dict(member.registrations)
            member.processes.answer = _answering(member)
            await nursery.start(extension.run)
            extensions.append(extension)
        yield extensions
        for extension in extensions:
            await extension.stop()


def _answering(member: Member) -> Callable[[StandIn, Request], Awaitable[Any]]:
    async def answer(process: StandIn, request: Request) -> Any:
        if request.method in {"initialize", "shutdown", "ping"}:
            return await member.processes.answer_well(process, request)
        member.asked.append(request)
        if not callable(member.answer):
            return member.answer
        answering: Any = member.answer(request)
        return await answering

    return answer


def _found(name: str, member: Member) -> DiscoveredExtension:
    manifest = Manifest(name=name, version="1", run=RunSpec(command="x"), hook_timeout_ms=member.hook_timeout_ms)
    return DiscoveredExtension(name=name, folder=Path("/nowhere"), scope="user", manifest=manifest, digest="")
