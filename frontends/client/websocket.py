"""The same messages over a WebSocket: each text holds one or more lines. Imported on first use only."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import anyio
import httpcore2
import httpx2

import session_core as sc
from frontends.client.address import WebSocketAddress
from frontends.client.transport import CONNECT_S, Transport, TransportLost

if TYPE_CHECKING:
    from httpx2.websockets import AsyncWebSocketSession

MAX_TEXT_BYTES: Final = sc.wire.MAX_SNAPSHOT_LINE + 16 * 1024 * 1024
"""The longest text from the server: room for the longest line and some others."""
_CLOSE_S: Final = 1.0
"""How long a server may take to read our goodbye; then the connection is cut."""
_ENDS: Final = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError)
_REFUSED: Final = {401, 403, 421}


@asynccontextmanager
async def open_websocket(address: WebSocketAddress) -> AsyncGenerator[Transport]:
    """Connect for the length of the block; see `transport.open_transport`."""
    try:
        from httpx2.websockets import HTTPXWSException, WebSocketUpgradeError
        from wsproto.utilities import ProtocolError
    except ImportError:
        missing = sc.Unavailable("WebSockets need the package wsproto: install session-core[server]")
        raise TransportLost(missing, final=True) from None
    faults = (HTTPXWSException, ProtocolError, httpx2.HTTPError, httpcore2.NetworkError, OSError)
    headers = {"Authorization": f"Bearer {address.token}"} if address.token else {}
    # Loading the system's certificate authorities is slow, and they are not needed without TLS.
    verify = address.tls if address.tls is not None else address.url.startswith("wss:")
    block_error: BaseException | None = None
    reached = False
    try:
        async with (
            httpx2.AsyncClient(verify=verify, trust_env=False, timeout=CONNECT_S) as client,
            client.websocket(
                address.url,
                headers=headers,
                max_message_size_bytes=MAX_TEXT_BYTES,
                keepalive_ping_interval_seconds=None,  # the server's heartbeats serve this purpose
            ) as session,
        ):
            reached = True
            try:
                yield _WebSocketTransport(session, faults)
            except BaseException as error:
                block_error = error
                raise
            finally:
                # Close cleanly if the server reads, else cut the connection: the session itself would wait forever.
                with anyio.move_on_after(_CLOSE_S, shield=True):
                    await session.close()
                with anyio.move_on_after(_CLOSE_S, shield=True):
                    await session.stream.aclose()
    except BaseExceptionGroup as group:
        if block_error is not None and group.exceptions == (block_error,):
            raise block_error from None  # raised by the block, and only wrapped by the session's own tasks
        _, others = group.split(faults)
        if others is not None:
            raise others from None
    except WebSocketUpgradeError as refused:
        raise _build_refusal(refused.response.status_code) from None
    except faults as error:
        if reached:
            return
        unreached = sc.Disconnected(f"the server at {address.url} cannot be reached: {_describe_error(error)}")
        raise TransportLost(unreached) from None


def _describe_error(error: BaseException) -> str:
    """Return the message of an error, or else of its cause."""
    behind: BaseException | None = error
    while behind is not None:
        if str(behind):
            return str(behind)
        behind = behind.__cause__ or behind.__context__
    return type(error).__name__


def _build_refusal(status: int) -> TransportLost:
    if status in _REFUSED:
        why = (
            f"the server does not let this client in (HTTP {status}); check the address and the token, which "
            "`session-core serve --token` prints on its machine"
        )
        return TransportLost(sc.AccessDenied(why), final=True)
    return TransportLost(sc.Disconnected(f"the server answers with HTTP {status} instead of a WebSocket"))


class _HeardStream(httpcore2.AsyncNetworkStream):
    """The stream below a WebSocket, which tells its transport of everything that comes in."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream, transport: Transport) -> None:
        self._stream = stream
        self._transport = transport

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - the signature
        data = await self._stream.read(max_bytes, timeout)
        self._transport.heard()
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the signature
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()


class _WebSocketTransport:
    def __init__(self, session: "AsyncWebSocketSession", faults: tuple[type[Exception], ...]) -> None:
        self.heard: Callable[[], object] = lambda: None
        self._session = session
        session.stream = _HeardStream(session.stream, self)
        self._faults: tuple[type[Exception], ...] = (*faults, *_ENDS)

    async def send(self, data: bytes) -> None:
        try:
            await self._session.send_text(data.decode())
        except self._faults:
            raise _build_closed() from None

    async def receive(self) -> bytes:
        try:
            return (await self._session.receive_text()).encode() + b"\n"
        except self._faults:
            raise _build_closed() from None


def _build_closed() -> TransportLost:
    return TransportLost(sc.Disconnected("the service has closed the connection"))
