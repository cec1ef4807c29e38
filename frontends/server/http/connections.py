"""All clients of the HTTP door, each served by a task, with a bound on how many there are."""

import contextlib
import logging
import socket
import ssl
from collections import Counter
from typing import Final

import trio
from hypercorn.trio.worker_context import WorkerContext

from frontends.server.http.hypercorn_guards import GONE, App, GuardedConfig, GuardedConnection, Headers, Stream
from frontends.server.http.settings import HttpBounds

log = logging.getLogger(__name__)

_TURN_AWAY_S: Final = 1.0


class Connections:
    """Who is connected."""

    def __init__(self, app: App, bounds: HttpBounds, headers: Headers, context: ssl.SSLContext | None) -> None:
        self.refused = 0
        self.served = 0
        self._app = app
        self._bounds = bounds
        self._config = GuardedConfig(bounds, headers)
        self._tls = context
        self._hypercorn = WorkerContext(None)
        self._open: set[GuardedConnection] = set()
        self._by_address: Counter[str] = Counter()
        self._changed = trio.lowlevel.ParkingLot()
        self._finishing = False

    def __len__(self) -> int:
        return len(self._open)

    async def serve_client(self, stream: trio.SocketStream) -> None:
        """Serve one client that has just connected."""
        if self._finishing:
            await trio.aclose_forcefully(stream)
            return
        try:
            address = str(stream.socket.getpeername()[0])
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except OSError:
            await trio.aclose_forcefully(stream)
            return
        most = self._bounds.connections_per_address
        if len(self._open) >= self._bounds.connections or self._by_address[address] >= most:
            await self._turn_away(stream)
            return
        secured: Stream = stream
        if self._tls is not None:
            secured = trio.SSLStream(stream, self._tls, server_side=True, https_compatible=True)
        connection = GuardedConnection(secured, self._config, self._bounds)
        self._open.add(connection)
        self._by_address[address] += 1
        self.served += 1
        try:
            await connection.run(self._app, self._hypercorn)
        finally:
            self._open.discard(connection)
            self._by_address[address] -= 1
            self._by_address += Counter()  # forgets those with none
            self._changed.unpark_all()

    async def _turn_away(self, stream: trio.SocketStream) -> None:
        self.refused += 1
        every = b"".join(b"%s: %s\r\n" % pair for pair in self._config.response_headers("h11"))
        answer = b"HTTP/1.1 429 \r\ncontent-length: 0\r\nconnection: close\r\nretry-after: 1\r\n" + every + b"\r\n"
        with trio.move_on_after(_TURN_AWAY_S), contextlib.suppress(*GONE):
            if self._tls is None:
                await stream.send_all(answer)
                await stream.send_eof()
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(stream)

    async def finish(self) -> None:
        """Let answers that are on their way be finished, for a moment; nobody else is let in."""
        self._finishing = True
        await self._hypercorn.terminated.set()
        for connection in tuple(self._open):
            connection.end_if_resting()
        with trio.move_on_after(self._bounds.farewell_s):
            while self._open:
                await self._changed.park()
