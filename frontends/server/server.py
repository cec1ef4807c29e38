"""What all connections share: the service, who is attached, and when it all ends.

Rules:
1. A client that comes back with the secret of its lost connection takes that one's place; any other of the same id is
   refused.
2. The server ends when it is told to, or by itself after a while in which nobody was connected and nothing ran or was
   about to.
"""

import gc
import hmac
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, Protocol

import attrs
import trio

import session_core as sc
from frontends.server.frames import Encodings

HEARTBEAT_MS: Final = 15_000
MAX_CONNECTIONS: Final = 4_096
"""Connections at once, over all doors; each may hold a few MiB if it does not read."""
GOODBYE_S: Final = 0.5
"""How long clients get to read that the server ends."""
_LOOK_EVERY_S: Final = 1.0


@contextmanager
def pause_garbage_collection(*, for_good: bool = False) -> Generator[None]:
    """Keep the garbage collector away for the length of the block, which must be short.

    The end of a thousand clients makes so much garbage that it would go through everything again and again, which takes
    longer than the end itself. Nothing thaws that other parts of this program have frozen.

    Args:
        for_good: What is garbage by then is never looked at any more: the process is about to end.
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


class ConnectedClient(Protocol):
    """A client that is connected."""

    instance: str

    def dismiss(self, goodbye: sc.Goodbye) -> None:
        """Tell the client that this is the end of its connection, give up its place, and end it."""
        ...


@attrs.frozen(kw_only=True)
class ServerSettings:
    """How a server behaves.

    Attributes:
        home: The home that it serves.
        idle_s: How long it stays when there is nobody and nothing to do; None is for ever.
        heartbeat_ms: How often clients hear that it lives.
        max_connections: How many clients may be connected.
    """

    home: str
    idle_s: float | None = None
    heartbeat_ms: int = HEARTBEAT_MS
    max_connections: int = MAX_CONNECTIONS


class Server:
    """A service that is offered to other processes."""

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
        self._goodbye: sc.Goodbye | None = None
        self._attached: dict[sc.ClientId, ConnectedClient] = {}
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
    def clients(self) -> tuple[ConnectedClient, ...]:
        """Those who are connected and have said who they are."""
        return tuple(self._attached.values())

    # --- who is there -------------------------------------------------------------------------------------------------

    def arrive(self) -> None:
        """Count a connection.

        Raises:
            Overloaded: There are too many.
            ServiceClosed: The server is about to end.
        """
        if self.closing:
            raise sc.ServiceClosed("the server is about to end")
        if self.connections >= self.settings.max_connections:
            raise sc.Overloaded(f"{self.connections} clients are connected, which is all that this server takes")
        self.connections += 1

    def leave(self) -> None:
        """Count a connection out."""
        self.connections -= 1
        self._leaving.unpark_all()
        self._busy_at = trio.current_time()

    def dismiss_lost_connection(self, client_id: sc.ClientId, instance: str) -> bool:
        """Dismiss the lost connection of a client that has come back; one of somebody else stays."""
        before = self._attached.get(client_id)
        if before is None or not instance:
            return False
        if not hmac.compare_digest(before.instance.encode(), instance.encode()):
            return False
        before.dismiss(sc.Goodbye(reason="this client has connected anew", retry=False))
        return True

    def add_client(self, client_id: sc.ClientId, attached: ConnectedClient) -> None:
        """Take note of who a client is."""
        self._attached[client_id] = attached

    def remove_client(self, client_id: sc.ClientId, attached: ConnectedClient) -> None:
        """Take note that a client has left."""
        if self._attached.get(client_id) is attached:
            del self._attached[client_id]

    # --- the end ------------------------------------------------------------------------------------------------------

    def status(self) -> sc.ServiceStatus:
        """Say what the server is doing."""
        counts = self.service.statistics()
        return sc.ServiceStatus(
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
        """Begin the end.

        Raises:
            Conflict: Something runs, and it was not said that this does not matter.
        """
        running = self.service.statistics().running
        if running and not force:
            what = "a session is at work" if running == 1 else f"{running} sessions are at work"
            raise sc.Conflict(f"{what}; stop them first, or shut down with force: they can be resumed later")
        self.end(sc.Goodbye(reason="the service was shut down", retry=False))

    def end(self, goodbye: sc.Goodbye) -> None:
        """Begin the end: whoever runs the server waits for this."""
        if self._goodbye is None:
            self._goodbye = goodbye
            self.ending.set()

    async def say_goodbye(self) -> None:
        """Tell all clients why the server ends, and give them a moment to read it."""
        goodbye = self._goodbye or sc.Goodbye(reason="the server has ended")
        with pause_garbage_collection():
            for client in self.clients:
                client.dismiss(goodbye)
            with trio.move_on_after(GOODBYE_S):
                while self.connections:
                    await self._leaving.park()

    async def end_when_idle(self) -> None:
        """Wait until nobody has been connected and nothing was to be done for a while; then begin the end."""
        if self.settings.idle_s is None:
            return
        while not self.closing:
            await trio.sleep(min(_LOOK_EVERY_S, self.settings.idle_s))
            if self._is_busy():
                self._busy_at = trio.current_time()
            elif trio.current_time() - self._busy_at >= self.settings.idle_s:
                self.end(sc.Goodbye(reason="the server had nothing to do"))

    def _is_busy(self) -> bool:
        return self.connections > 0 or self.service.has_work()

    def _ends_at(self) -> int | None:
        if self.settings.idle_s is None or self._is_busy():
            return None
        remaining_s = self.settings.idle_s - (trio.current_time() - self._busy_at)
        return self.now() + max(0, round(remaining_s * 1000))
