"""An extension whose process is in memory, so that its hours pass in no time."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from session_core.rpc.connection import NotificationHandler, RpcConnection
from session_core.rpc.memory import memory_connection_pair
from session_core.rpc.messages import Notification, Request
from session_core.rpc.request_tasks import RequestHandler
from session_core.sep.host.catalogue.discovery import DiscoveredExtension
from session_core.sep.host.process.extension_log import ProcessLog
from session_core.sep.host.process.launch_command import ExtensionLaunch
from session_core.sep.host.process.process import ExtensionProcess
from session_core.sep.protocol.manifest import Manifest, RunSpec

FOUND = DiscoveredExtension(
    name="tried",
    folder=Path("/nowhere"),
    scope="user",
    manifest=Manifest(name="tried", version="1", run=RunSpec(command="x")),
    digest="",
)


async def no_preparation(found: DiscoveredExtension) -> ExtensionLaunch:
    """Prepare nothing."""
    await trio.lowlevel.checkpoint()
    return ExtensionLaunch(argv=("x",), env={}, cwd="/")


class StandIn(ExtensionProcess):
    """One process: what it was asked and told, and when; `theirs` is its own end of the connection."""

    def __init__(self, theirs: RpcConnection, ours: RpcConnection) -> None:
        self.theirs = theirs
        self.connection = ours
        self.begin = trio.current_time()
        self._over = trio.Event()
        self._reason = ""

    def crash(self, reason: str = "it fell over") -> None:
        """End, for a reason."""
        self._reason = reason
        self.connection.close()
        self._over.set()

    async def wait_over(self) -> str:
        await self._over.wait()
        return self._reason

    async def wait_exit(self) -> int:
        await self._over.wait()
        return 0

    async def close_stdin(self) -> None:
        await trio.lowlevel.checkpoint()


class StandIns:
    """All processes of an extension, the newest last; `answer` may be replaced to misbehave."""

    def __init__(self) -> None:
        self.all: list[StandIn] = []
        self.asked: list[tuple[int, float, str]] = []
        self.gone: list[int] = []
        self.registrations: dict[str, Any] = {}
        self.answer: Callable[[StandIn, Request], Awaitable[Any]] = self.answer_well

    async def answer_well(self, process: StandIn, request: Request) -> Any:
        """Answer as one should."""
        await trio.lowlevel.checkpoint()
        if request.method == "initialize":
            return {"protocol_version": 1, "registrations": self.registrations}
        if request.method == "shutdown":
            process._over.set()
        return {}

    @asynccontextmanager
    async def open(
        self,
        launch: ExtensionLaunch,
        log: ProcessLog,
        *,
        name: str,
        handle_request: RequestHandler,
        handle_notification: NotificationHandler,
    ) -> AsyncGenerator[StandIn]:
        """Have another one running."""
        number = len(self.all)

        async def answer(request: Request) -> Any:
            self.asked.append((number, trio.current_time(), request.method))
            return await self.answer(self.all[number], request)

        def note(notification: Notification) -> None:
            self.asked.append((number, trio.current_time(), notification.params.get("event", notification.method)))

        async with memory_connection_pair(
            left_requests=handle_request,
            left_notifications=handle_notification,
            right_requests=answer,
            right_notifications=note,
        ) as (ours, theirs):
            self.all.append(StandIn(theirs, ours))
            try:
                yield self.all[number]
            finally:
                self.gone.append(number)

    def heard(self, number: int) -> list[str]:
        """What one of them was asked and told, in order."""
        return [method for which, _, method in self.asked if which == number]

    def times(self, method: str) -> list[float]:
        """When any of them was asked this."""
        return [at for _, at, what in self.asked if what == method]
