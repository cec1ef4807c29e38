"""Write to stdout and stderr without blocking anything else.

A terminal can be stopped (Ctrl-S) and a pipe can be full; a plain write would then block the event loop, and with it
every session of an embedded service. So writes happen in a thread, directly to the file descriptor: this leaves no
buffer that Python would try to flush at exit.
"""

import codecs
import errno
import os
import select
from typing import TextIO

import trio

import session_core as sc
from frontends.shared.sanitise import escape_json
from frontends.shared.style import Style, style_for


class ReaderLeft(BrokenPipeError):
    """The reader of our output has gone: the pipe was closed at its other end."""


class OutputFailed(Exception):
    """Our output could not be written, for instance because the disk is full."""


def encode_item(item: sc.FeedItem) -> bytes:
    """Return a snapshot or an event as one line of JSON."""
    return (sc.wire.encode_event(item) if isinstance(item, sc.SessionEvent) else sc.wire.encode(item)) + b"\n"


class Output:
    """One of the two standard streams; a stream that was closed before we started swallows everything."""

    def __init__(self, stream: TextIO | None) -> None:
        # A closed stream's number may belong to another file by now, so it must not be guessed.
        self.fd: int | None = None if stream is None else stream.fileno()
        self.encoding = "utf-8" if stream is None else stream.encoding
        self.tty = stream is not None and stream.isatty()
        self.style: Style = style_for(tty=self.tty, encoding=self.encoding, environ=os.environ)
        self._json_decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._one_at_a_time = trio.CapacityLimiter(1)

    async def write(self, data: str | bytes) -> None:
        """Write all of the data.

        Raises:
            ReaderLeft: The other end of the pipe is closed.
            OutputFailed: The system refuses the data.

        Cancellation: returns at once; data that the thread is writing may still appear, in whole or in part.
        """
        if self.fd is None or not data:
            await trio.lowlevel.checkpoint()
            return
        raw = data if isinstance(data, bytes) else data.encode(self.encoding, "replace")
        await trio.to_thread.run_sync(_write_all, self.fd, raw, abandon_on_cancel=True, limiter=self._one_at_a_time)

    async def write_json(self, data: bytes) -> None:
        """Write JSON, whole or in pieces; on a terminal nothing in it can control that. See `write`."""
        await self.write(escape_json(self._json_decoder.decode(data)).encode() if self.tty else data)

    def same_place(self, other: "Output") -> bool:
        """Return whether both streams go to the same terminal or file, so their lines mix."""
        if self.fd is None or other.fd is None:
            return False
        return os.path.sameopenfile(self.fd, other.fd)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:  # another program left the terminal in non-blocking mode
                select.select([], [fd], [])
    except BrokenPipeError:
        raise ReaderLeft from None
    except OSError as error:
        if error.errno == errno.EIO:  # the terminal window was closed
            raise ReaderLeft from None
        msg = f"the output could not be written: {error.strerror}"
        raise OutputFailed(msg) from None
