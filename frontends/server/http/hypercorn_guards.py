"""Hypercorn's HTTP/1.1 and WebSocket on our own connections, because a client can block hypercorn's own.

The guards, and why hypercorn alone is not enough (version 0.18):
1. It shields writing from cancellation: one client that does not read stops the server from ending. Here connections
   end within `farewell_s`.
2. Sending after the client has gone returns at once without letting others run. Here it raises `ClientGone`.
3. Its queue of unread messages also holds the notice that the client has gone, and can block on itself. See `Inbox`.
4. Heads and bodies may take forever. Here each has a time limit, and so has a response that the client does not read.
5. It accepts HTTP/2 without TLS on request and compressed WebSocket messages of any unpacked size, and keeps collecting
   a message that is too long. Here none of these is possible.
6. Each WebSocket message goes through all of its layers. Here the server's messages, which are not masked, are bytes
   with a short head, and are written at once if the network accepts them.

This reaches into hypercorn: `H11Protocol`, its `stream`, `connection`, `_check_protocol`, `_create_stream` and
`_send_error_response`, `WSStream`, its `buffer`, `closed` and `connection`, and `Config.response_headers`. A test
compares them with what is expected here.
"""

import contextlib
import logging
import os
import ssl
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import inf
from typing import Any, Final

import attrs
import h11
import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.h11 import H11Protocol, H11WSConnection
from hypercorn.protocol.ws_stream import WSStream
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState
from wsproto.connection import ConnectionState as WebSocketState

from frontends.server.http.access_log import AccessLog
from frontends.server.http.settings import HttpBounds

# A bounded queue of unread messages of a client, and their end, which never waits.
Message = Mapping[str, Any]

_MOST: Final = 8
_ENDS: Final = frozenset({"http.disconnect", "websocket.disconnect"})


class Inbox:
    """A queue of ASGI messages between the reader of a connection and one handler.

    The reader waits while it is full. The end of the connection bypasses the limit, so it is recorded even if the
    handler does not read; messages after it, or after the handler has finished, are dropped.
    """

    def __init__(self) -> None:
        self._waiting: deque[Message] = deque()
        self._end: Message | None = None
        self._room = trio.lowlevel.ParkingLot()
        self._news = trio.lowlevel.ParkingLot()

    @property
    def ended(self) -> bool:
        """Whether the client has gone."""
        return self._end is not None

    async def put(self, message: Message) -> None:
        """Hand a message to the handler, waiting while it is busy."""
        await trio.lowlevel.checkpoint()
        if message["type"] in _ENDS:
            self.end(message)
            return
        while len(self._waiting) >= _MOST and self._end is None:
            await self._room.park()
        if self._end is None:
            self._waiting.append(message)
            self._news.unpark()

    def end(self, message: Message) -> None:
        """Tell the handler that the client has gone."""
        if self._end is None:
            self._end = message
            self._room.unpark_all()
            self._news.unpark_all()

    async def receive(self) -> Message:
        """Wait for the next message; after the end, returns the end message every time."""
        await trio.lowlevel.checkpoint()
        while not self._waiting and self._end is None:
            await self._news.park()
        if self._waiting:
            self._room.unpark()
            return self._waiting.popleft()
        assert self._end is not None
        return self._end


# --- hypercorn guards -------------------------------------------------------------------------------------------------

log = logging.getLogger(__name__)

App = Callable[[Any, Any, Any], Awaitable[None]]
Headers = tuple[tuple[bytes, bytes], ...]
Parts = Sequence[bytes | memoryview]
Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]
_CHUNK: Final = 65_536
_LINGER_S: Final = 1.0
_TEXT_FRAME: Final = 0x81  # whole, and a text
_LONG_HEAD: Final = struct.Struct("!BBH")
_LONGER_HEAD: Final = struct.Struct("!BBQ")
_LEAVE_S: Final = 5.0  # for handlers to notice that their client has gone
GONE: Final = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)
"""The exceptions of reading and writing when the client has gone."""


class ClientGone(OSError):
    """The client has gone, so nothing can be sent."""


class _NotSpoken(Exception):
    """The client asks for an unsupported protocol."""


class GuardedConfig(Config):
    """Hypercorn's settings, with headers for every response, including hypercorn's own."""

    def __init__(self, bounds: HttpBounds, headers: Headers) -> None:
        self.h11_max_incomplete_size = bounds.head_bytes
        self.websocket_max_message_size = bounds.body_bytes
        self.logger_class = AccessLog  # type: ignore[assignment]  # has all methods that hypercorn calls
        self.include_server_header = False
        self._every_answer = list(headers)

    def response_headers(self, protocol: str) -> list[tuple[bytes, bytes]]:
        """Return the headers of every response."""
        return [*super().response_headers(protocol), *self._every_answer]


class GuardedProtocol(H11Protocol):
    """Hypercorn's HTTP/1.1, without its upgrades to other protocols."""

    @property
    def is_websocket(self) -> bool:
        """Whether this connection is a WebSocket."""
        return isinstance(self.connection, H11WSConnection)

    @property
    def takes_messages(self) -> bool:
        """Whether a message may be sent: it is a WebSocket, and neither side has closed it."""
        stream = self.stream
        return isinstance(stream, WSStream) and not stream.closed and stream.connection.state is WebSocketState.OPEN

    @property
    def is_too_long(self) -> bool:
        """Whether the client sends a WebSocket message that is longer than allowed."""
        return isinstance(self.stream, WSStream) and self.stream.buffer.length > self.stream.buffer.max_length

    @property
    def has_refused(self) -> bool:
        """Whether hypercorn itself has refused a WebSocket and expects nothing more."""
        return isinstance(self.stream, WSStream) and self.stream.closed

    async def _check_protocol(self, event: h11.Request) -> None:
        if event.http_version not in {b"1.0", b"1.1"} or not event.target.startswith(b"/"):
            raise _NotSpoken
        names = {name.lower() for name, _ in event.headers}
        if {b"content-length", b"transfer-encoding"} <= names:
            raise _NotSpoken  # proxies on the way may have used the other framing

    async def _create_stream(self, request: h11.Request) -> None:
        headers = [(name, value) for name, value in request.headers if name != b"sec-websocket-extensions"]
        await super()._create_stream(
            h11.Request(
                method=request.method, target=request.target, headers=headers, http_version=request.http_version
            )
        )

    async def _send_error_response(self, status_code: int) -> None:
        await super()._send_error_response(status_code if status_code < 500 else 400)

    async def refuse(self) -> None:
        """Respond that the request cannot be understood."""
        await self._send_error_response(400)


class _Handlers:
    """Runs the app for each request of a connection; hypercorn calls this a task group."""

    def __init__(self, app: App, nursery: trio.Nursery, on_whole: Callable[[], None]) -> None:
        self._app = app
        self._nursery = nursery
        self._on_whole = on_whole

    async def spawn_app(
        self, app: object, config: Config, scope: Any, send: Callable[[Any], Awaitable[None]]
    ) -> Callable[[Any], Awaitable[None]]:
        """Begin to handle a request; returns the function that passes on messages of the client."""
        inbox = Inbox()

        async def put(message: Mapping[str, Any]) -> None:
            if message["type"] == "websocket.connect" or message.get("more_body") is False:
                self._on_whole()
            await inbox.put(message)

        self._nursery.start_soon(self._handle, scope, inbox, send)
        return put

    def spawn(self, func: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Run another task of hypercorn."""
        self._nursery.start_soon(func, *args)

    async def _handle(self, scope: Any, inbox: Inbox, send: Callable[[Any], Awaitable[None]]) -> None:
        async def send_or_fail(message: Mapping[str, Any]) -> None:
            await trio.lowlevel.checkpoint()
            if inbox.ended:
                raise ClientGone("the client has gone")
            await send(message)

        try:
            await self._app(scope, inbox.receive, send_or_fail)
        except* ClientGone:
            pass
        except* Exception:
            log.exception("a request failed because of a bug")
        inbox.end({"type": "http.disconnect"})
        await send(None)


@attrs.define(eq=False)
class WriteTimeout:
    """How long responses on a connection may wait for their reader; handlers of feeds make it infinite."""

    write_s: float


class GuardedConnection:
    """One client, from its first byte to its last."""

    def __init__(self, stream: Stream, config: GuardedConfig, bounds: HttpBounds) -> None:
        self._stream = stream
        self._config = config
        self._bounds = bounds
        self._write_timeout = WriteTimeout(bounds.write_s)
        self._sending = trio.Lock()
        self._rests = True
        self._is_whole = False  # whether a request was read to its end
        self._protocol: GuardedProtocol | None = None
        self._reader: trio.lowlevel.Task | None = None
        self._read_all = trio.Event()
        self._life = trio.CancelScope()  # its deadline is the time limit for the next data of the client

    async def run(self, app: App, context: WorkerContext) -> None:
        """Serve the client until it leaves or its time is up; errors here affect no other client.

        Cancellation: the connection ends at once, whatever the client does.
        """
        self._await_within(self._bounds.head_s)
        try:
            with self._life:
                await self._serve(app, context)
        except* (*GONE, ssl.SSLError):
            pass
        except* Exception:
            log.exception("a connection failed because of a bug")
        finally:
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(self._stream)

    def end_if_resting(self) -> None:
        """End the connection unless a request is being answered."""
        if self._rests:
            self._life.cancel(reason="the server ends")

    async def _serve(self, app: App, context: WorkerContext) -> None:
        secure = isinstance(self._stream, trio.SSLStream)
        if isinstance(self._stream, trio.SSLStream):
            await self._stream.do_handshake()
        below = _below(self._stream).socket
        peer, own = below.getpeername()[:2], below.getsockname()[:2]
        async with trio.open_nursery() as nursery:
            state = ConnectionState({"write_timeout": self._write_timeout, "send_text": self.send_text})
            protocol = GuardedProtocol(
                app,  # type: ignore[arg-type]  # only our own handlers call it
                self._config,
                context,
                _Handlers(app, nursery, self._hear_whole),  # type: ignore[arg-type]  # never entered as a block
                state,
                secure,
                peer,
                own,
                self._send,
            )
            self._protocol, self._reader = protocol, trio.lowlevel.current_task()
            try:
                await self._read(protocol)
            finally:
                self._read_all.set()
            self._await_within(_LEAVE_S)
            await protocol.handle(Closed())

    async def _read(self, protocol: GuardedProtocol) -> None:
        while True:
            try:
                data = await self._stream.receive_some(_CHUNK)
            except GONE:
                data = b""  # handlers see every kind of end in the same way
            if data and self._rests:
                self._life.deadline = min(self._life.deadline, trio.current_time() + self._bounds.head_s)
            try:
                await protocol.handle(RawData(bytes(data)))
            except _NotSpoken:
                await protocol.refuse()
                await self._linger()
                return
            if protocol.has_refused:
                await self._linger()
            if not data or protocol.is_too_long or protocol.has_refused:
                return

    def _await_within(self, seconds: float) -> None:
        self._life.deadline = trio.current_time() + seconds

    def _hear_whole(self) -> None:
        self._life.deadline = inf
        self._is_whole = True

    async def _send(self, event: Event) -> None:
        match event:
            case RawData(data=data):
                await self._write(data)
            case Closed():
                try:
                    await self._linger()
                finally:  # the handler may have been cancelled for the same reason
                    self._life.cancel(reason="the connection has served")
                await trio.lowlevel.checkpoint()
            case Updated(idle=idle):
                self._rests, self._is_whole = idle, False
                self._write_timeout.write_s = self._bounds.write_s
                self._await_within(self._bounds.idle_s if idle else self._bounds.body_s)
            case _:
                pass

    async def send_text(self, text: bytes | memoryview) -> None:
        """Send a message to a WebSocket, bypassing hypercorn, whose many steps would be the largest part of the cost.

        Raises:
            ClientGone: The WebSocket is closed.
        """
        if self._protocol is None or not self._protocol.takes_messages:
            await trio.lowlevel.checkpoint()
            raise ClientGone("the WebSocket is closed")
        await self._write(_frame_head(len(text)), text)

    async def _write(self, *parts: bytes | memoryview) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        rest = parts if self._sending.locked() else self._write_now(parts)
        if not rest:
            await trio.lowlevel.cancel_shielded_checkpoint()
            return
        async with self._sending:  # taken without waiting if it is free, so no other task can write between the parts
            with trio.move_on_after(self._write_timeout.write_s):
                try:
                    for part in rest:
                        await self._stream.send_all(part)
                    return
                except GONE as error:
                    raise ClientGone("the client has gone") from error
                except trio.Cancelled:
                    # Nothing can follow a message that may have been sent in part.
                    self._life.cancel(reason="a write was cut off, or the client does not read")
                    raise
            await trio.lowlevel.checkpoint()

    def _write_now(self, parts: Parts) -> Parts:
        """Write what the network accepts at once; return the rest, not copied, because it is shared."""
        if not isinstance(self._stream, trio.SocketStream):
            return parts
        try:
            written = os.writev(self._stream.socket.fileno(), parts)
        except BlockingIOError:
            return parts
        except OSError as error:
            raise ClientGone("the client has gone") from error
        rest: list[memoryview] = []
        for part in parts:
            if written < len(part):
                rest.append(memoryview(part)[written:])
            written = max(0, written - len(part))
        return rest

    async def _linger(self) -> None:
        """Let the client read the last response: closing while it may still send could destroy the response."""
        below = _below(self._stream)
        with trio.move_on_after(_LINGER_S), contextlib.suppress(*GONE):
            await below.send_eof()
            if self._is_whole and self._protocol is not None and not self._protocol.is_websocket:
                return
            if trio.lowlevel.current_task() is not self._reader:
                await self._read_all.wait()  # drops further data
                return
            while await below.receive_some(_CHUNK):
                pass


def _frame_head(size: int) -> bytes:
    """Return the frame header of a whole WebSocket text; only clients mask their messages."""
    if size < 126:
        return bytes((_TEXT_FRAME, size))
    return _LONG_HEAD.pack(_TEXT_FRAME, 126, size) if size < 65_536 else _LONGER_HEAD.pack(_TEXT_FRAME, 127, size)


def _below(stream: Stream) -> trio.SocketStream:
    return stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
