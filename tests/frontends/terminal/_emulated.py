"""A terminal emulator that reads what the app writes."""

import re
import unicodedata
from typing import Final

import pyte
from wcwidth import wcwidth

OURS: Final = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\d+;\d+H|\x1b\[\?2026[hl]|\x1b\]22;default\x07")
"""What the app itself tells a terminal: styles, where to draw, when a picture begins and ends, the usual pointer."""
_NEVER: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


class Emulator(pyte.Screen):
    """A screen that keeps marks with what they stand on, of which pyte knows only some."""

    def draw(self, data: str) -> None:
        """Draw characters, each in as many cells as it takes."""
        run: list[str] = []
        for each in data:
            if wcwidth(each) == 0 and not unicodedata.combining(each):
                super().draw("".join(run))
                run.clear()
                self._put_on_top(each)
            else:
                run.append(each)
        super().draw("".join(run))

    def _put_on_top(self, mark: str) -> None:
        line = self.buffer[self.cursor.y]
        at = self.cursor.x - 1
        while at > 0 and not line[at].data:
            at -= 1
        line[at] = line[at]._replace(data=line[at].data + mark)


def emulator(size: tuple[int, int]) -> tuple[Emulator, pyte.Stream]:
    """Return a screen, and what to feed it with."""
    screen = Emulator(*size)
    return screen, pyte.Stream(screen)


def harmful_in(written: str) -> list[str]:
    """Return what of something written a terminal would take for more than text, and that is none of ours."""
    left = OURS.sub("", written)
    return [left[at : at + 20] for at, each in enumerate(left) if each != "\n" and unicodedata.category(each) in _NEVER]


def shown_on(screen: Emulator) -> list[str]:
    """Return the lines of a screen, in one normal form."""
    return [unicodedata.normalize("NFC", line) for line in screen.display]
