"""Reading and writing bytes, over file descriptors or over any stream of trio.

Descriptors are read and written without waiting where possible, which saves a task switch per message: pipes and
sockets, given as numbers or as trio's own streams over them. They are left open; for numbers the previous blocking mode
is restored. Other streams are used through their own methods, with one write at a time.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final

import trio

from session_core.rpc.outbox import Outbox

_CHUNK: Final = 65_536
STREAM_ERRORS: Final = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)
"""The exceptions of reading and writing when the other side or the descriptor is gone."""

Descriptor = int | trio.lowlevel.FdStream | trio.SocketStream


class DescriptorSource:
    """Reads from a descriptor."""

    def __init__(self, descriptor: Descriptor) -> None:
        self._descriptor = descriptor
        self._more = False  # whether the last read filled the buffer, so more may be available

    def read_now(self) -> bytes | None:
        """Return the available bytes: empty at the end of the stream, None if there are none yet."""
        try:
            return os.read(descriptor_number(self._descriptor), _CHUNK)
        except BlockingIOError:
            return None

    async def read(self) -> bytes:
        """Wait for the next bytes; empty at the end.

        Cancellation: nothing was read.
        """
        data = None
        if self._more:
            await trio.lowlevel.checkpoint()  # a peer that never stops writing must not starve the others
            data = self.read_now()
        while data is None:
            await trio.lowlevel.wait_readable(descriptor_number(self._descriptor))
            data = self.read_now()
        self._more = len(data) == _CHUNK
        return data


class StreamSource:
    """Reads from a stream of trio."""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream

    def read_now(self) -> bytes | None:
        """Return None: a stream cannot be read without waiting."""
        return None

    async def read(self) -> bytes:
        """Wait for the next bytes; empty at the end."""
        return bytes(await self._stream.receive_some(_CHUNK))


class DescriptorSink:
    """Writes to a descriptor."""

    direct: Final = True

    def __init__(self, descriptor: Descriptor) -> None:
        self._descriptor = descriptor

    def write_now(self, data: bytes | memoryview) -> int:
        """Write what fits; return the number of bytes written."""
        try:
            return os.write(descriptor_number(self._descriptor), data)
        except BlockingIOError:
            return 0

    async def write_round(self, outbox: Outbox) -> None:
        """Write what fits of the next round; wait if not all of it fits."""
        data = outbox.next_round(many_events=True)
        written = self.write_now(data)
        outbox.confirm_sent(written)  # first of all, so unsent whole frames can be overtaken
        if written < len(data):
            await trio.lowlevel.wait_writable(descriptor_number(self._descriptor))
        elif not outbox.empty:  # otherwise the writer sleeps anyway
            await trio.lowlevel.checkpoint()


class StreamSink:
    """Writes to a stream of trio."""

    direct: Final = False

    def __init__(self, stream: trio.abc.SendStream) -> None:
        self._stream = stream

    def write_now(self, data: bytes | memoryview) -> int:
        """Write nothing: a stream cannot be written without waiting."""
        return 0

    async def write_round(self, outbox: Outbox) -> None:
        """Write the next round."""
        data = outbox.next_round(many_events=False)
        await self._stream.send_all(data)
        outbox.confirm_sent(len(data))


Source = DescriptorSource | StreamSource
Sink = DescriptorSink | StreamSink


def make_source(end: int | trio.abc.ReceiveStream) -> Source:
    """Return a source that reads from this."""
    if isinstance(end, int | trio.lowlevel.FdStream | trio.SocketStream):
        return DescriptorSource(end)
    return StreamSource(end)


def make_sink(end: int | trio.abc.SendStream) -> Sink:
    """Return a sink that writes to this."""
    if isinstance(end, int | trio.lowlevel.FdStream | trio.SocketStream):
        return DescriptorSink(end)
    return StreamSink(end)


def descriptor_number(descriptor: Descriptor) -> int:
    """Return the number of a descriptor; not cached, because the number of a closed one may soon be reused."""
    if isinstance(descriptor, int):
        return descriptor
    if isinstance(descriptor, trio.SocketStream):
        return descriptor.socket.fileno()
    return descriptor.fileno()


@contextmanager
def nonblocking_descriptors(*ends: object) -> Generator[None]:
    """Make descriptors given by number non-blocking for the duration of the block."""
    changed: list[int] = []
    try:
        for end in ends:
            if isinstance(end, int) and os.get_blocking(end):
                os.set_blocking(end, False)
                changed.append(end)
        yield
    finally:
        for number in changed:
            with suppress(OSError):
                os.set_blocking(number, True)
