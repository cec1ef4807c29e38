"""From bytes to lines, wherever they were cut.

Rules:
1. Every byte is looked at once: only what is new is searched for an end of line, so many tiny pieces cost no more than
   one large one.
2. At most `limit` bytes are kept. A longer line is passed over up to its end; all that stays of it is its size and its
   first bytes, in its place among the lines.
3. Lines that hold nothing but blanks do not come out; they are counted.
4. How the bytes were cut makes no difference to what comes out.
"""

import attrs

from session_core import limits

_END = b"\n"


@attrs.frozen(kw_only=True)
class OversizedLine:
    """A line that was too long to be kept.

    Attributes:
        size: Its bytes, without the end of line.
        head: The first of them, at most `limits.RPC_HEAD_BYTES`.
    """

    size: int
    head: bytes


class LineSplitter:
    """Cuts a stream into lines without their ends; `limit` is the longest that is kept.

    Attributes:
        blank: How many lines held nothing.
        blank_bytes: Their bytes, an end of line with each.
    """

    __slots__ = ("_buffer", "_limit", "_passed", "blank", "blank_bytes")

    def __init__(self, limit: int = limits.MAX_RPC_LINE) -> None:
        self._limit = limit
        self._buffer = bytearray()  # the line that has not ended yet, or its head if it is passed over
        self._passed = 0  # size so far of a line that is passed over
        self.blank = 0
        self.blank_bytes = 0

    @property
    def skipped_bytes(self) -> int:
        """Bytes so far of a line that is too long and has not ended."""
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
        """Return the line that was not ended, if there is one: nothing more will come."""
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
        """Return the line that was kept, unless it is blank."""
        line, size = bytes(self._buffer), self._passed
        self._buffer = bytearray()  # not cleared: one long line must not hold its memory for ever
        self._passed = 0
        if size:
            return [OversizedLine(size=size, head=line)]
        if line.isspace():
            self._count_blank(1, len(line) + 1)
            return []
        return [line]
