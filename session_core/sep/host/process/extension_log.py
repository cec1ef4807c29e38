"""What an extension writes outside the protocol, for people who look for the cause of a failure.

This is its stderr, lines on its stdout that are not messages, its `log` notifications, and our own remarks about it.
Memory and disk use are bounded, whatever it writes. Nothing waits for the disk: lines that it cannot take in time are
dropped and counted.
"""

import os
import re
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import attrs
import trio

from session_core import limits
from session_core.sep.host.process.error_line import find_error_line

LogSource = Literal["host", "stdout", "stderr", "trace", "debug", "info", "warn", "error"]
"""The source of a line: the host, one of the two streams, or the extension itself at one of its levels."""

_UNSEEN: Final = re.compile(r"[^\t\x20-\x7e\xa0-\U0010ffff]|[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that could control the reader's terminal or change the direction of its text."""
_LAST_WRITE_SECONDS: Final = 1.0
_LINES_OF_CHUNK: Final = 200  # of more, only the last are read: nobody reads a flood


def _now() -> int:
    return time.time_ns() // 1_000_000


@attrs.frozen(kw_only=True)
class ExtensionLogLine:
    """One line; `time_ms` is in milliseconds."""

    time_ms: int
    source: LogSource
    text: str


class ExtensionLog:
    """The last lines of one extension, in memory and, if there is a file, on disk."""

    def __init__(self, file: Path | None = None, *, now: Callable[[], int] = _now) -> None:
        self.file = file
        self._now = now
        self._lines: deque[ExtensionLogLine] = deque(maxlen=limits.EXTENSION_LOG_LINES)
        self._unwritten: deque[ExtensionLogLine] = deque(maxlen=limits.EXTENSION_LOG_LINES)
        self._left_out = 0
        self._more = trio.Event()

    def note(self, source: LogSource, text: str) -> str:
        """Record text line by line; returns the last line as recorded, if any."""
        last = ""
        for line in text[: 16 * limits.EXTENSION_LOG_CHARS].splitlines():
            if line := _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", line.rstrip()):
                last = _cut(line)
                self._add(ExtensionLogLine(time_ms=self._now(), source=source, text=last))
        return last

    def open_process_log(self) -> "ProcessLog":
        """Return the log that a new process writes to."""
        return ProcessLog(self)

    def lines(self) -> tuple[ExtensionLogLine, ...]:
        """Return the recorded lines, the oldest first."""
        return tuple(self._lines)

    async def write_lines(self) -> None:
        """Write new lines to the file until cancelled; does nothing without a file.

        Cancellation: waiting lines are still written, if that takes no more than a second.
        """
        if self.file is None:
            return
        try:
            while True:
                await self._more.wait()
                await self._write_out(self.file)
        finally:
            with trio.move_on_after(_LAST_WRITE_SECONDS, shield=True):
                await self._write_out(self.file)

    async def _write_out(self, file: Path) -> None:
        lines, left_out = list(self._unwritten), self._left_out
        self._unwritten.clear()
        self._left_out = 0
        self._more = trio.Event()
        if not lines:
            return
        text = f"... {left_out} lines were left out\n" if left_out else ""
        text += "".join(f"{_format_time(line.time_ms)} {line.source}: {line.text}\n" for line in lines)
        try:
            # A hanging disk must not keep us from being cancelled.
            await trio.to_thread.run_sync(_append, file, text, abandon_on_cancel=True)
        except OSError as error:
            self.file = None  # otherwise every further line would fail and be reported again
            self.note("host", f"its log cannot be written to {file}: {error.strerror}; it is kept in memory only")

    def _add(self, line: ExtensionLogLine) -> None:
        self._lines.append(line)
        if self.file is not None:
            self._left_out += len(self._unwritten) == self._unwritten.maxlen
            self._unwritten.append(line)
            self._more.set()


class ProcessLog:
    """The log of an extension, as one of its processes writes it: during a reload, lines of two must not mix.

    `show_paths` replaces the paths that only the process knows in its lines.
    """

    def __init__(self, whole: ExtensionLog) -> None:
        self.whole = whole
        self.show_paths: Callable[[str], str] = str
        self._unfinished = b""
        self._said: deque[str] = deque(maxlen=limits.EXTENSION_LAST_LINES)

    def note(self, source: LogSource, text: str) -> None:
        """Record text line by line."""
        self.whole.note(source, self.show_paths(text))

    def feed_stderr(self, chunk: bytes | bytearray) -> None:
        """Record the lines in bytes from the pipe, as they come."""
        *lines, rest = (self._unfinished + bytes(chunk)).split(b"\n")
        for line in lines[-_LINES_OF_CHUNK:]:
            self._note_bytes(line)
        # Cut an unfinished line, or it would grow forever; a character has at most four bytes.
        self._unfinished = rest[: 4 * limits.EXTENSION_LOG_CHARS]

    def finish_stderr(self) -> None:
        """Record the rest of an unfinished line."""
        rest, self._unfinished = self._unfinished, b""
        self._note_bytes(rest)

    def last_words(self) -> str:
        """Return the line of its stderr that says why it failed, if any."""
        return find_error_line(tuple(self._said))

    def _note_bytes(self, line: bytes) -> None:
        text = line[: 4 * limits.EXTENSION_LOG_CHARS].decode("utf-8", errors="replace")
        if noted := self.whole.note("stderr", self.show_paths(text)):
            self._said.append(noted)


def _cut(line: str) -> str:
    return line if len(line) <= limits.EXTENSION_LOG_CHARS else f"{line[: limits.EXTENSION_LOG_CHARS]} ..."


def _format_time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, tz=UTC).isoformat(timespec="milliseconds")


def _append(file: Path, text: str) -> None:
    """Append to the file, readable by its owner only; a full file is rotated first. A symlink is refused."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Without O_NONBLOCK, opening a pipe of that name would hang.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    data = text.encode("utf-8", errors="replace")
    if file.exists() and file.stat().st_size + len(data) > limits.EXTENSION_LOG_BYTES:
        file.replace(file.with_name(file.name + ".1"))
    with open(os.open(file, flags, 0o600), "ab") as opened:  # noqa: PTH123 - a descriptor, not a path
        opened.write(data)
