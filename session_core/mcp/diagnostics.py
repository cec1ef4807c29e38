"""The last lines that a server wrote besides its messages, for people who look for the cause of a failure."""

from collections import deque
from typing import Final

MAX_LINES: Final = 200
MAX_LINE_CHARS: Final = 1_000
"""In total at most 200,000 characters per server, however much it writes."""


class Diagnostics:
    """A bounded list of lines; the oldest are dropped."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._unfinished = b""
        self._new = 0

    def begin(self) -> None:
        """Start over: earlier lines cannot explain what comes next."""
        self._new = 0

    def note(self, line: str) -> None:
        """Record one line."""
        line = line.strip()
        if line:
            self._new += 1
            self._lines.append(line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]} ...")

    def feed(self, chunk: bytes | bytearray) -> None:
        """Record bytes from a pipe, split into lines."""
        *lines, rest = (self._unfinished + bytes(chunk)).split(b"\n")
        for line in lines:
            self._note_bytes(line)
        # Cut an unfinished line, or it would grow forever; a character has at most four bytes.
        self._unfinished = rest[: 4 * MAX_LINE_CHARS]

    def finish(self) -> None:
        """Record the rest of an unfinished line."""
        self._note_bytes(self._unfinished)
        self._unfinished = b""

    def lines(self) -> tuple[str, ...]:
        """Return the recorded lines, the oldest first."""
        return tuple(self._lines)

    def last(self) -> str:
        """Return the last line since `begin`, or an empty text; a failing server usually says why there."""
        return self._lines[-1] if self._new else ""

    def _note_bytes(self, line: bytes) -> None:
        self.note(line.decode("utf-8", errors="replace"))
