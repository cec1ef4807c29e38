"""Notices of extensions: signed, short, few at once, and never over a question.

Rules:
1. We print the sender above the text. The text takes few rows, and says if it was cut.
2. The number on screen is limited; a bounded number of others wait, and losses are reported.
3. While a question is open, all notices wait: nothing foreign may look like part of a question.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

import attrs
from rich.text import Text
from textual.notifications import SeverityLevel

from frontends.terminal.look.sanitised_text import sanitise_line, sanitise_text
from frontends.terminal.look.styles import Look
from frontends.terminal.panels.panel import cut_to, wrap_text

MOST_CHARS: Final = 300
MOST_ROWS: Final = 4
MOST_AT_ONCE: Final = 3
MOST_WAITING: Final = 20
_NAME_CHARS: Final = 60
_TOAST: Final = 60
"""The width of Textual's toasts in cells; half of the screen if that is less."""
_FRAME: Final = 7
"""Cells of that width that may be frame: border, padding, scrollbar."""


@attrs.frozen(kw_only=True)
class Notice:
    """A text to show for some seconds; `rows` and `chars` limit its size."""

    who: str
    text: str
    severity: SeverityLevel = "information"
    seconds: float = 6
    rows: int = MOST_ROWS
    chars: int = MOST_CHARS

    def title(self, left_out: int) -> str:
        """Return the sender, and how many notices before this one were dropped."""
        name = sanitise_line(self.who, _NAME_CHARS) or "an extension"
        return f"{name} ({left_out:,} before this left out)" if left_out else name

    def render_text(self, across: int, look: Look) -> str:
        """Return the visible part on a screen of this width."""
        text = sanitise_text(self.text[: 2 * self.chars]).strip()
        if len(text) > self.chars:
            text = f"{text[: self.chars - 1]}…"
        width = max(1, min(_TOAST, across // 2) - _FRAME)
        return "\n".join(cut_to(row, width, look).plain for row in wrap_text(Text(text), width, most=self.rows))


class Notices:
    """The waiting notices, and when those on screen end."""

    def __init__(self) -> None:
        self._waiting: deque[Notice] = deque()
        self._ends: list[float] = []
        self._left_out = 0

    def add(self, notice: Notice) -> None:
        """Queue a notice; if too many wait, the oldest is dropped."""
        self._waiting.append(notice)
        if len(self._waiting) > MOST_WAITING:
            self._waiting.popleft()
            self._left_out += 1

    def take(self, now: float) -> Sequence[tuple[str, Notice]]:
        """Return the notices that may be shown now, each with its title; `now` is in seconds."""
        self._ends = [end for end in self._ends if end > now]
        taken: list[tuple[str, Notice]] = []
        while self._waiting and len(self._ends) < MOST_AT_ONCE:
            notice = self._waiting.popleft()
            left_out, self._left_out = self._left_out, 0
            taken.append((notice.title(left_out), notice))
            self._ends.append(now + notice.seconds)
        return taken
