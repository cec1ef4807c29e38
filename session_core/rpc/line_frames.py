"""From bytes to lines, however the bytes were split.

Rules:
1. Every byte is examined once: only new bytes are searched for an end of line, so many tiny chunks cost no more than
   one large one.
2. At most `limit` bytes are buffered. A longer line is skipped up to its end; only its size and its first bytes remain,
   at its position among the lines.
3. Blank lines are counted but not returned.
4. The result does not depend on how the bytes were split.
"""

import attrs

from session_core import limits

_END = b"\n"


@attrs.frozen(kw_only=True)
class OversizedLine:
    """A line that was too long to be buffered.

    Attributes:
        size: Its size in bytes, without the end of line.
        head: The first of them, at most `limits.RPC_HEAD_BYTES`.
    """

    size: int
    head: bytes


class LineSplitter:
    """Splits a stream into lines without their ends; `limit` is the longest line that is kept.

    Attributes:
        blank: The number of blank lines.
        blank_bytes: Their size in bytes, including the ends of line.
    """

    __slots__ = ("_buffer", "_limit", "_passed", "blank", "blank_bytes")

    def __init__(self, limit: int = limits.MAX_RPC_LINE) -> None:
        self._limit = limit
        self._buffer = bytearray()  # the unfinished line, or its head if it is skipped
        self._passed = 0  # size so far of a line that is skipped
        self.blank = 0
        self.blank_bytes = 0

    @property
    def skipped_bytes(self) -> int:
        """Bytes so far of an oversized line that has not ended."""
        return self._passed

    def feed(self, data: bytes) -> list[bytes | OversizedLine]:
        """Take the next bytes and return the lines that end in them."""
        if _END not in data:
            self._keep(data)
            return []
        lines = data.split(_END)
        rest = lines.pop()
        size = len(data) - len(rest)
        found: list[bytes | OversizedLine] = []
        if self._buffer or self._passed:
            self._keep(lines[0])
            found = self._take_line()
            size -= len(lines.pop(0)) + 1
        limit = self._limit
        full = [line for line in lines if line and (len(line) > limit or not line.isspace())]
        if len(full) < len(lines):
            self._count_blank(len(lines) - len(full), size - sum(map(len, full)) - len(full))
        found.extend(
            line if len(line) <= limit else OversizedLine(size=len(line), head=line[: limits.RPC_HEAD_BYTES])
            for line in full
        )
        if rest:
            self._keep(rest)
        return found

    def finish(self) -> list[bytes | OversizedLine]:
        """Return the unfinished last line, if there is one: no more bytes will come."""
        return self._take_line() if self._buffer or self._passed else []

    def _count_blank(self, lines: int, size: int) -> None:
        self.blank += lines
        self.blank_bytes += size

    def _keep(self, piece: bytes) -> None:
        if self._passed:
            self._passed += len(piece)
            self._buffer += piece[: limits.RPC_HEAD_BYTES - len(self._buffer)]
        elif len(self._buffer) + len(piece) <= self._limit:
            self._buffer += piece
        else:
            self._passed = len(self._buffer) + len(piece)
            del self._buffer[limits.RPC_HEAD_BYTES :]
            self._buffer += piece[: limits.RPC_HEAD_BYTES - len(self._buffer)]

    def _take_line(self) -> list[bytes | OversizedLine]:
        """Return the buffered line, unless it is blank."""
        line, size = bytes(self._buffer), self._passed
        self._buffer = bytearray()  # not cleared: one long line must not hold its memory for ever
        self._passed = 0
        if size:
            return [OversizedLine(size=size, head=line)]
        if line.isspace():
            self._count_blank(1, len(line) + 1)
            return []
        return [line]
