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
class Oversized:
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

    __slots__ = ("_kept", "_limit", "_passed", "blank", "blank_bytes")

    def __init__(self, limit: int = limits.MAX_RPC_LINE) -> None:
        self._limit = limit
        self._kept = bytearray()  # the line that has not ended yet, or its head if it is passed over
        self._passed = 0  # size so far of a line that is passed over
        self.blank = 0
        self.blank_bytes = 0

    @property
    def passed_over(self) -> int:
        """Bytes so far of a line that is too long and has not ended."""
        return self._passed

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        """Take the next bytes and return the lines that end in them."""
        if _END not in data:
            self._keep(data)
            return []
        lines = data.split(_END)
        rest = lines.pop()
        size = len(data) - len(rest)
        found: list[bytes | Oversized] = []
        if self._kept or self._passed:
            self._keep(lines[0])
            found = self._ended()
            size -= len(lines.pop(0)) + 1
        limit = self._limit
        full = [line for line in lines if line and (len(line) > limit or not line.isspace())]
        if len(full) < len(lines):
            self._count_blank(len(lines) - len(full), size - sum(map(len, full)) - len(full))
        found.extend(
            line if len(line) <= limit else Oversized(size=len(line), head=line[: limits.RPC_HEAD_BYTES])
            for line in full
        )
        if rest:
            self._keep(rest)
        return found

    def finish(self) -> list[bytes | Oversized]:
        """Return the line that was not ended, if there is one: nothing more will come."""
        return self._ended() if self._kept or self._passed else []

    def _count_blank(self, lines: int, size: int) -> None:
        self.blank += lines
        self.blank_bytes += size

    def _keep(self, piece: bytes) -> None:
        if self._passed:
            self._passed += len(piece)
            self._kept += piece[: limits.RPC_HEAD_BYTES - len(self._kept)]
        elif len(self._kept) + len(piece) <= self._limit:
            self._kept += piece
        else:
            self._passed = len(self._kept) + len(piece)
            del self._kept[limits.RPC_HEAD_BYTES :]
            self._kept += piece[: limits.RPC_HEAD_BYTES - len(self._kept)]

    def _ended(self) -> list[bytes | Oversized]:
        """Return the line that was kept, unless it is blank."""
        line, size = bytes(self._kept), self._passed
        self._kept = bytearray()  # not cleared: one long line must not hold its memory for ever
        self._passed = 0
        if size:
            return [Oversized(size=size, head=line)]
        if line.isspace():
            self._count_blank(1, len(line) + 1)
            return []
        return [line]
