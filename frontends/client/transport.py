"""Bytes to a server and back, over a unix socket or a WebSocket, on whatever loop anyio runs on."""

import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol

import anyio
import anyio.lowlevel

import session_core as sc
from frontends.client.address import Address, UnixAddress
from frontends.shared.socket_path import short_socket_name

START_HINT: Final = "start one with `session-core serve`"
CONNECT_S: Final = 10.0
"""How long a server may take to accept a connection."""
_CHUNK: Final = 64 * 1024
_KNOCK_S: Final = 0.01


class TransportLost(Exception):
    """There is no connection, or no longer.

    Attributes:
        error: The error for the caller.
        final: Whether a retry is pointless.
    """

    def __init__(self, error: sc.SessionCoreError, *, final: bool = False) -> None:
        super().__init__(error.message)
        self.error = error
        self.final = final


class Transport(Protocol):
    """An open connection.

    Attributes:
        heard: Called for bytes that `receive` does not return yet, because they are a part of something longer.
    """

    heard: Callable[[], object]

    async def send(self, data: bytes) -> None:
        """Send whole lines; raises `TransportLost`."""
        ...

    async def receive(self) -> bytes:
        """Wait for bytes; raises `TransportLost` if no more will come."""
        ...


def open_transport(address: Address) -> AbstractAsyncContextManager[Transport]:
    """Connect for the length of the block.

    Raises:
        TransportLost: No server answers there.
    """
    if isinstance(address, UnixAddress):
        return _open_unix(address)
    from frontends.client.websocket import open_websocket

    return open_websocket(address)


@asynccontextmanager
async def _open_unix(address: UnixAddress) -> AsyncGenerator[Transport]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.setblocking(False)
        try:
            with anyio.fail_after(CONNECT_S), short_socket_name(address.path) as name:
                await _connect(stream, name)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            raise TransportLost(sc.Disconnected(f"no server runs at {str(address)!r}; {START_HINT}")) from None
        except TimeoutError:
            raise TransportLost(sc.Disconnected(f"the server at {str(address)!r} does not answer")) from None
        except sc.SessionCoreError as error:
            raise TransportLost(error, final=True) from None
        except OSError as error:
            why = error.strerror or str(error)
            raise TransportLost(sc.Disconnected(f"the server at {str(address)!r} cannot be reached: {why}")) from None
        yield _UnixTransport(stream)


async def _connect(stream: socket.socket, name: str) -> None:
    await anyio.lowlevel.checkpoint()
    while True:
        try:
            stream.connect(name)
        except BlockingIOError:  # the accept queue is full, and nothing signals when it has room
            await anyio.sleep(_KNOCK_S)
        else:
            return


class _UnixTransport:
    """A plain socket: with anyio's own stream, asyncio prints a traceback if a read is cancelled as bytes arrive."""

    def __init__(self, stream: socket.socket) -> None:
        self.heard: Callable[[], object] = lambda: None
        self._stream = stream

    async def send(self, data: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._stream.send(rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._stream)
            except OSError as error:
                raise _lost(error) from None

    async def receive(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        while True:
            try:
                data = self._stream.recv(_CHUNK)
            except BlockingIOError:
                await anyio.wait_readable(self._stream)
            except OSError as error:
                raise _lost(error) from None
            else:
                if not data:
                    raise _lost(None)
                return data


def _lost(error: OSError | None) -> TransportLost:
    why = error.strerror if error is not None else None
    return TransportLost(sc.Disconnected("the service has closed the connection" + (f": {why}" if why else "")))
