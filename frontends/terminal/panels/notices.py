"""What extensions say in passing: signed, short, few at once, and never over something that people are asked.

Rules:
1. Who says it stands above it, by us. What is said takes few rows, and says that it was cut.
2. At most so many are on the screen at once; the next ones wait, a bounded number of them, and loss is told.
3. While people are asked something, all of them wait: nothing foreign may look like a part of a question.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

import attrs
from rich.text import Text
from textual.notifications import SeverityLevel

from frontends.terminal.look.harmless_text import inert, inert_line
from frontends.terminal.look.styles import Look
from frontends.terminal.panels.panel import cut_to, wrap_text

MOST_CHARS: Final = 300
MOST_ROWS: Final = 4
MOST_AT_ONCE: Final = 3
MOST_WAITING: Final = 20
_NAME_CHARS: Final = 60
_TOAST: Final = 60
"""Cells of what Textual shows such texts in; half of the screen if that is less."""
_FRAME: Final = 7
"""Cells of that which may be frame: a border, the space within it, a scrollbar."""


@attrs.frozen(kw_only=True)
class Notice:
    """Something to be shown for some seconds; `rows` and `chars` are how much of it."""

    who: str
    text: str
    severity: SeverityLevel = "information"
    seconds: float = 6
    rows: int = MOST_ROWS
    chars: int = MOST_CHARS

    def title(self, left_out: int) -> str:
        """Say who says it, and how many before it are not shown."""
        name = inert_line(self.who, _NAME_CHARS) or "an extension"
        return f"{name} ({left_out:,} before this left out)" if left_out else name

    def render_text(self, across: int, look: Look) -> str:
        """Return what is shown of it on a screen of this width."""
        text = inert(self.text[: 2 * self.chars]).strip()
        if len(text) > self.chars:
            text = f"{text[: self.chars - 1]}…"
        width = max(1, min(_TOAST, across // 2) - _FRAME)
        return "\n".join(cut_to(row, width, look).plain for row in wrap_text(Text(text), width, most=self.rows))


class Notices:
    """Those that wait, and when those end that are on the screen."""

    def __init__(self) -> None:
        self._waiting: deque[Notice] = deque()
        self._ends: list[float] = []
        self._left_out = 0

    def add(self, notice: Notice) -> None:
        """Have it shown when there is room; if too many wait, the oldest of them is left out."""
        self._waiting.append(notice)
        if len(self._waiting) > MOST_WAITING:
            self._waiting.popleft()
            self._left_out += 1

    def take(self, now: float) -> Sequence[tuple[str, Notice]]:
        """Return those that may be shown now, each with its title; `now` is in seconds."""
        self._ends = [end for end in self._ends if end > now]
        taken: list[tuple[str, Notice]] = []
        while self._waiting and len(self._ends) < MOST_AT_ONCE:
            notice = self._waiting.popleft()
            left_out, self._left_out = self._left_out, 0
            taken.append((notice.title(left_out), notice))
            self._ends.append(now + notice.seconds)
        return taken
