"""The end of what a server wrote beside its messages: for people who look for the reason of a failure."""

from collections import deque
from typing import Final

MAX_LINES: Final = 200
MAX_LINE_CHARS: Final = 1_000
"""Together at most 200,000 characters for each server, however much it writes."""


class Diagnostics:
    """A bounded memory of lines; the oldest are forgotten."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._unfinished = b""
        self._new = 0

    def begin(self) -> None:
        """Start over: what was written so far cannot be the reason of what comes."""
        self._new = 0

    def note(self, line: str) -> None:
        """Remember one line."""
        line = line.strip()
        if line:
            self._new += 1
            self._lines.append(line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]} ...")

    def feed(self, chunk: bytes | bytearray) -> None:
        """Remember bytes as they come from a pipe, cut into lines."""
        *lines, rest = (self._unfinished + bytes(chunk)).split(b"\n")
        for line in lines:
            self._note_bytes(line)
        # A line without an end is cut, or it would grow for ever; four bytes are the longest character.
        self._unfinished = rest[: 4 * MAX_LINE_CHARS]

    def finish(self) -> None:
        """Take what is left of an unfinished line as a line."""
        self._note_bytes(self._unfinished)
        self._unfinished = b""

    def lines(self) -> tuple[str, ...]:
        """Return what is remembered, the oldest first."""
        return tuple(self._lines)

    def last(self) -> str:
        """Return the last line since the beginning, or nothing; a server that fails usually says there why."""
        return self._lines[-1] if self._new else ""

    def _note_bytes(self, line: bytes) -> None:
        self.note(line.decode("utf-8", errors="replace"))
