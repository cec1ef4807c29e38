"""A WebSocket as a pair of streams, so the same JSON-RPC as over the home's own socket can serve it."""

from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, Final

import trio

from frontends.server.connection import serve_connection
from frontends.server.http.tokens import Credential
from frontends.server.server import Server

_NORMAL: Final = 1000
_GOING_AWAY: Final = 1001
NOT_ALLOWED: Final = 1008
"""The client's token or login has ended."""


class WebSocketSource(trio.abc.ReceiveStream):
    """The incoming messages of a client, each with one or more lines."""

    def __init__(self, receive: Any) -> None:
        self._receive = receive

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return the next message as lines; empty at the end."""
        message = await self._receive()
        if message["type"] != "websocket.receive":
            return b""
        text = message.get("text")
        data: bytes = text.encode("utf-8", "surrogatepass") if text is not None else message.get("bytes") or b""
        return data if data.endswith(b"\n") else data + b"\n"

    async def aclose(self) -> None:
        """Leave it open: the connection closes it."""
        await trio.lowlevel.checkpoint()


class WebSocketSink(trio.abc.SendStream):
    """The outgoing messages to a client, each with one or more whole lines."""

    def __init__(self, send_text: Callable[[memoryview], Awaitable[None]]) -> None:
        self._send_text = send_text

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send lines. They are always whole, because the connection writes whole rounds."""
        await self._send_text(memoryview(data)[:-1])

    async def wait_send_all_might_not_block(self) -> None:
        """Return at once: `send_all` itself waits."""
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """Leave it open: the connection closes it."""
        await trio.lowlevel.checkpoint()


async def serve_websocket(server: Server, scope: Any, receive: Any, send: Any, credential: Credential) -> None:
    """Serve an admitted client until it leaves or the server ends."""
    scope["state"]["write_timeout"].write_s = inf
    await receive()  # the connect message
    await send({"type": "websocket.accept"})
    await serve_connection(
        server,
        WebSocketSource(receive),
        WebSocketSink(scope["state"]["send_text"]),
        access=credential.access,
        transport="WebSocket",
        credential=credential.id,
    )
    await send({"type": "websocket.close", "code": _GOING_AWAY if server.closing else _NORMAL})
