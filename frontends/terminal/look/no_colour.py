"""Drawing without any colour, as requested by `NO_COLOR` (https://no-color.org).

Rules:
1. No colour is written at all: text and background are the terminal's own, whatever theme is chosen.
2. Anything marked only by its background (the chosen row, the cursor, the selection) is reversed instead.
3. Pale text stays pale, as far as the terminal supports dim text.
"""

import os
from functools import lru_cache
from typing import Final

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

_MARKED: Final = 0.25
"""How much a background must differ in lightness from the screen's to mark something, where 1 is black to white."""
_PALE: Final = 0.5
"""Text that differs less than this from its background is pale."""


def colour_is_unwanted() -> bool:
    """Return whether the user asked for no colours; an empty value does not."""
    return bool(os.environ.get("NO_COLOR"))


class ColourlessFilter(LineFilter):
    """Removes the colours from what widgets draw; `ground` and `letters` are the lightness of a theme's two colours."""

    def __init__(self, ground: float, letters: float) -> None:
        super().__init__()
        self._ground = ground
        self._letters = letters

    @classmethod
    def from_theme(cls, theme: Theme) -> "ColourlessFilter":
        """Return a filter for a theme."""
        colours = theme.to_color_system().generate()
        ground = _lightness(Color.parse(colours["background"]).rich_color, 0.0 if theme.dark else 1.0)
        return cls(ground, _lightness(Color.parse(colours["foreground"]).rich_color, 1.0 if theme.dark else 0.0))

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments without colours."""
        return [
            Segment(text, None if style is None else _colourless(style, self._ground, self._letters), control)
            for text, style, control in segments
        ]


@lru_cache(4096)
def _colourless(style: Style, screen: float, letters: float) -> Style:
    ground, text = _lightness(style.bgcolor, screen), _lightness(style.color, letters)
    if style.reverse:
        ground, text = text, ground
    marked = abs(ground - screen) > _MARKED
    pale = not marked and (style.dim or abs(text - ground) < _PALE)
    return Style(
        bold=style.bold,
        dim=pale or None,
        italic=style.italic,
        underline=style.underline,
        strike=style.strike,
        reverse=marked or None,
        meta=style.meta or None,
    )


def _lightness(colour: RichColor | None, usual: float) -> float:
    """Return the lightness of a colour; the terminal's own colours count as `usual`."""
    if colour is None or colour.is_default:
        return usual
    red, green, blue = colour.get_truecolor()
    return (0.299 * red + 0.587 * green + 0.114 * blue) / 255
