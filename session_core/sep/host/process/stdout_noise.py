"""What an extension writes to its stdout and is no message.

Programs greet people and print what they debug, and messages come out broken. All of it goes to the log, with the
reason where a line looks like a message; whoever writes an extension would search for long otherwise. Of a flood only
the first lines of each second are noted, and how many more there were.
"""

from collections.abc import Callable
from typing import Final

import trio

from session_core import limits
from session_core.sep.host.process.extension_log import ExtensionLog

_SECOND: Final = 1.0


class Noise:
    """Puts lines that are no messages into a log."""

    def __init__(self, log: ExtensionLog, *, now: Callable[[], float] = trio.current_time) -> None:
        self._log = log
        self._now = now
        self._since = float("-inf")
        self._room = 0
        self._left_out = 0

    def hear(self, line: bytes, reason: str) -> None:
        """Note a line, or the beginning of a long one, and why it is no message."""
        now = self._now()
        if now >= self._since + _SECOND:
            self.finish()
            self._since, self._room = now, limits.EXTENSION_NOISE_LINES
        if not self._room:
            self._left_out += 1
            return
        self._room -= 1
        text = line.decode("utf-8", errors="replace").strip()
        if text.startswith("{"):
            text = f"not a message ({reason}): {text}"
        self._log.note("stdout", text)

    def finish(self) -> None:
        """Tell how many lines were left out lately."""
        if self._left_out:
            lines = "line" if self._left_out == 1 else "lines"
            self._log.note("stdout", f"... and {self._left_out} more {lines} of the kind")
        self._left_out = 0
