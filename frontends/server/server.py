"""The state shared by all connections: the service, the attached clients, and the shutdown.

Rules:
1. A client that reconnects with the secret of its lost connection replaces that connection; any other client with the
   same id is refused.
2. The server ends on request, or after an idle time in which no client was connected and nothing ran or was about to.
"""

import gc
import hmac
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import attrs
import trio

import session_core as sc
from frontends.server.frames import Encodings

if TYPE_CHECKING:
    from frontends.server.connection import ClientConnection

HEARTBEAT_MS: Final = 15_000
MAX_CONNECTIONS: Final = 4_096
"""Concurrent connections over all listeners; each may hold a few MiB if its client does not read."""
GOODBYE_S: Final = 0.5
"""How long clients get to read the goodbye."""
_LOOK_EVERY_S: Final = 1.0


@contextmanager
def pause_garbage_collection(*, for_good: bool = False) -> Generator[None]:
    """Pause the garbage collector for the length of the block, which must be short.

    Closing a thousand clients makes so much garbage that the collector would run again and again, which takes longer
    than the closing itself. Objects that other parts of this program have frozen stay frozen.

    Args:
        for_good: Never collect the garbage of the block: the process is about to end.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if for_good:
            gc.freeze()
        if was_on:
            gc.enable()


@attrs.frozen(kw_only=True)
class ServerSettings:
    """How a server behaves.

    Attributes:
        home: The home that it serves.
        idle_s: How long it stays without clients or work; None means forever.
        heartbeat_ms: The interval of heartbeats.
        max_connections: How many clients may be connected.
    """

    home: str
    idle_s: float | None = None
    heartbeat_ms: int = HEARTBEAT_MS
    max_connections: int = MAX_CONNECTIONS


class Server:
    """A service for clients in other processes."""

    def __init__(
        self, service: sc.SessionService, settings: ServerSettings, *, now: Callable[[], int] = sc.now_ms
    ) -> None:
        self.service = service
        self.settings = settings
        self.encodings = Encodings()
        self.now = now
        self.started_at = now()
        self.address: str | None = None
        self.open_to_others: str | None = None
        self.login_link: Callable[[], str] | None = None
        self.ending = trio.Event()
        self.connections = 0
        self._goodbye: sc.wire.Goodbye | None = None
        self._attached: dict[sc.ClientId, ClientConnection] = {}
        self._busy_at = trio.current_time()
        self._leaving = trio.lowlevel.ParkingLot()

    @property
    def epoch(self) -> sc.Epoch:
        """The name of this run."""
        return self.service.statistics().stream.epoch

    @property
    def closing(self) -> bool:
        """Whether the end has begun."""
        return self.ending.is_set()

    @property
    def clients(self) -> "tuple[ClientConnection, ...]":
        """The connected clients that have said hello."""
        return tuple(self._attached.values())

    # --- clients ------------------------------------------------------------------------------------------------------

    def count_connection(self) -> None:
        """Count a connection.

        Raises:
            Overloaded: There are too many.
            ServiceClosed: The server is shutting down.
        """
        if self.closing:
            raise sc.ServiceClosed("the server is shutting down")
        if self.connections >= self.settings.max_connections:
            raise sc.Overloaded(f"{self.connections} clients are connected, which is the limit of this server")
        self.connections += 1

    def release_connection(self) -> None:
        """Remove a connection from the count."""
        self.connections -= 1
        self._leaving.unpark_all()
        self._busy_at = trio.current_time()

    def dismiss_lost_connection(self, client_id: sc.ClientId, instance: str) -> bool:
        """Dismiss the lost connection of a client that has reconnected; another client's connection stays."""
        before = self._attached.get(client_id)
        if before is None or not instance:
            return False
        if not hmac.compare_digest(before.instance.encode(), instance.encode()):
            return False
        before.dismiss(sc.wire.Goodbye(reason="this client has reconnected", retry=False))
        return True

    def add_client(self, client_id: sc.ClientId, attached: "ClientConnection") -> None:
        """Register a client."""
        self._attached[client_id] = attached

    def remove_client(self, client_id: sc.ClientId, attached: "ClientConnection") -> None:
        """Unregister a client that has left."""
        if self._attached.get(client_id) is attached:
            del self._attached[client_id]

    # --- the end ------------------------------------------------------------------------------------------------------

    def status(self) -> sc.wire.ServiceStatus:
        """Describe what the server is doing."""
        counts = self.service.statistics()
        return sc.wire.ServiceStatus(
            version=sc.__version__,
            pid=os.getpid(),
            epoch=counts.stream.epoch,
            started_at=self.started_at,
            home=self.settings.home,
            sessions=counts.sessions,
            running=counts.running,
            clients=len(self._attached),
            address=self.address,
            open_to_others=self.open_to_others,
            ends_at=self._ends_at(),
            idle_ms=None if self.settings.idle_s is None else round(self.settings.idle_s * 1000),
            read_only=counts.read_only,
        )

    def shut_down(self, *, force: bool) -> None:
        """Start the shutdown.

        Raises:
            Conflict: Something runs, and `force` is false.
        """
        running = self.service.statistics().running
        if running and not force:
            what = "a session is at work" if running == 1 else f"{running} sessions are at work"
            raise sc.Conflict(f"{what}; stop them first, or shut down with force: they can be resumed later")
        self.end(sc.wire.Goodbye(reason="the service was shut down", retry=False))

    def end(self, goodbye: sc.wire.Goodbye) -> None:
        """Start the shutdown; wakes the task that runs the server."""
        if self._goodbye is None:
            self._goodbye = goodbye
            self.ending.set()

    async def say_goodbye(self) -> None:
        """Tell all clients why the server ends, and give them a moment to read it."""
        goodbye = self._goodbye or sc.wire.Goodbye(reason="the server has ended")
        with pause_garbage_collection():
            for client in self.clients:
                client.dismiss(goodbye)
            with trio.move_on_after(GOODBYE_S):
                while self.connections:
                    await self._leaving.park()

    async def end_when_idle(self) -> None:
        """Wait until the server has been idle for `idle_s`; then start the shutdown."""
        if self.settings.idle_s is None:
            return
        while not self.closing:
            await trio.sleep(min(_LOOK_EVERY_S, self.settings.idle_s))
            if self._is_busy():
                self._busy_at = trio.current_time()
            elif trio.current_time() - self._busy_at >= self.settings.idle_s:
                self.end(sc.wire.Goodbye(reason="the server had nothing to do"))

    def _is_busy(self) -> bool:
        return self.connections > 0 or self.service.has_work()

    def _ends_at(self) -> int | None:
        if self.settings.idle_s is None or self._is_busy():
            return None
        remaining_s = self.settings.idle_s - (trio.current_time() - self._busy_at)
        return self.now() + max(0, round(remaining_s * 1000))
