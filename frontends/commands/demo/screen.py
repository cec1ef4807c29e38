"""The tour's screen: permanent lines, and on a terminal a panel beneath them that shows the sessions live.

The panel is plain ANSI: go up, draw over, clear the rest. Rows are cut to the width of the terminal and drawn with
line wrapping off, so resizing the window can spoil only one frame.
"""

import shutil
import textwrap
from collections.abc import Callable

import trio

from frontends.shared.output import Output
from frontends.shared.sanitise import sanitise
from frontends.shared.text_width import cell_width

FRAMES_PER_SECOND = 12
_CLEAR_DOWN, _CLEAR_LINE, _NO_WRAP, _WRAP = "\x1b[J", "\x1b[K", "\x1b[?7l", "\x1b[?7h"

Rows = Callable[[int], list[str]]
"""Draws the panel for a width."""


class TourScreen:
    """Prints lines; with `rows` it keeps a panel up to date while `run` runs."""

    def __init__(self, output: Output) -> None:
        self.style = output.style
        self._output = output
        self._rows: Rows | None = None
        self._height = 0
        self._lock = trio.Lock()

    @property
    def live(self) -> bool:
        """Whether this screen can show a panel."""
        return self.style.colours

    def show_panel(self, rows: Rows) -> None:
        """Draw this panel from now on, where possible."""
        self._rows = rows if self.live else None

    def folded(self, text: str, *, indent: int) -> str:
        """Wrap a text that begins at column `indent` between words, where the terminal is too narrow."""
        if not self.live:
            return text
        width = max(20, shutil.get_terminal_size().columns - 1 - indent)
        return textwrap.fill(text, width).replace("\n", "\n" + " " * indent)

    async def say(self, text: str = "") -> None:
        """Print a permanent line; `text` is safe to print."""
        async with self._lock:
            await self._output.write(f"{self._leave_panel()}{text}\n{self._panel()}")

    async def run(self) -> None:
        """Keep the panel up to date until cancelled; returns at once where there is none."""
        while self.live:
            await trio.sleep(1 / FRAMES_PER_SECOND)
            async with self._lock:
                up = f"\r\x1b[{self._height}A" if self._height else ""
                await self._output.write(up + self._panel())

    async def end_panel(self) -> None:
        """Leave the last frame standing and draw no other."""
        async with self._lock:
            up = f"\r\x1b[{self._height}A" if self._height else ""
            last = self._panel()
            self._rows, self._height = None, 0
            await self._output.write(up + last if last else "")

    def _leave_panel(self) -> str:
        return f"\r\x1b[{self._height}A{_CLEAR_DOWN}" if self._height else ""

    def _panel(self) -> str:
        if self._rows is None:
            return ""
        columns, lines = shutil.get_terminal_size()
        rows = self._rows(max(20, columns - 1))[: max(0, lines - 2)]
        self._height = len(rows)
        drawn = "".join(f"{row}{_CLEAR_LINE}\n" for row in rows)
        return f"{_NO_WRAP}{drawn}{_CLEAR_DOWN}{_WRAP}"


def tail(text: str, width: int) -> str:
    """Return the end of a foreign text as one safe line of at most `width` cells, beginning with a whole word."""
    line = " ".join(sanitise(text[-4 * width - 64 :]).split())
    cells = 0
    for index in range(len(line) - 1, -1, -1):
        cells += cell_width(line[index])
        if cells > width:
            cut = line[index + 1 :]
            return cut.partition(" ")[2] or cut if line[index] != " " else cut
    return line
