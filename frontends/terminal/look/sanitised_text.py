"""Makes foreign text harmless: removes what a terminal or a reader would take for more than text.

Rules:
1. All foreign text goes through `sanitise_text` or `to_plain_text` before a widget gets it; `SanitisingFilter` backs
   them up.
2. Displayed text takes as many cells as we count: characters that change the width of their neighbours, differently in
   every terminal, are dropped, and stacks of combining marks are limited.
"""

import re
from functools import lru_cache
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.color import Color
from textual.filter import LineFilter

from frontends.shared.sanitise import escape_invisible, sanitise, show_by_number

TAB: Final = 4
_UNSEEN: Final = 4
"""How many times the visible length is scanned: most of a hostile line is invisible."""

_DANGEROUS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5"
    "\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U0001f1e6-\U0001f1ff"
    "\U0001f3fb-\U0001f3ff\U000e0000-\U000e0fff]"
)
"""Everything `sanitise` may change, and what is dropped below: most texts have none of it and stay as they are."""
_FITTING: Final = re.compile("[\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]")
"""Characters that select another glyph for the one before them, which may be wider."""
_FLAG_LETTER: Final = re.compile("[\U0001f1e6-\U0001f1ff]")
"""Letters that form a flag in pairs: one to four cells, differently in every terminal."""
_MARKS: Final = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_PILE: Final = re.compile(f"(?:^|(?<=[\\n\\t ]))[{_MARKS}]|([{_MARKS}]{{3}})[{_MARKS}]+", re.MULTILINE)
_PILED: Final = re.compile(f"(?<=[{_MARKS}]{{3}})[{_MARKS}]")
_ANY_MARK: Final = re.compile(f"[{_MARKS}]")


def sanitise_text(text: str) -> str:
    """Return a text that is safe to draw, newlines included; tabs are expanded."""
    if text.isascii() and text.isprintable():
        return text
    if _DANGEROUS.search(text) is not None:
        text = _FITTING.sub("", sanitise(text.replace("\r\n", "\n")))
        text = _FLAG_LETTER.sub(_latin_letter, text)
    if _ANY_MARK.search(text) is not None:
        text = _PILE.sub(_thin_marks, text)
    return text.expandtabs(TAB) if "\t" in text else text


def _latin_letter(found: re.Match[str]) -> str:
    return chr(ord(found[0]) - 0x1F1E6 + ord("A"))


def _thin_marks(found: re.Match[str]) -> str:
    """Give a mark without a base character a place of its own, and keep three of a stack."""
    return found[1] or f"\N{DOTTED CIRCLE}{found[0]}"


def sanitise_line(text: str, limit: int = 4_000) -> str:
    """Return the beginning of a text as one line that is safe to draw; invisible characters do not count."""
    return " ".join(sanitise_text(text[: _UNSEEN * limit]).split())[:limit]


def make_copyable(text: str) -> str:
    """Return a text to paste elsewhere: the visible text with newlines and tabs, and no control sequences."""
    return text if text.isascii() and text.isprintable() else sanitise(text.replace("\r\n", "\n"))


def reveal_hidden(text: str) -> str:
    """Return a text to judge before an approval: nothing in it disappears without a trace.

    Invisible characters and those that reorder a line are shown by number, and so are those that `sanitise_text` drops.
    """
    visible_text = escape_invisible(text)
    for odd in (_FITTING, _FLAG_LETTER, _PILED):
        visible_text = odd.sub(show_by_number, visible_text)
    return visible_text.expandtabs(TAB)


def to_plain_text(text: str, style: str | Style = "") -> Text:
    """Return foreign text for a widget, without markup: brackets stay brackets."""
    return Text(sanitise_text(text), style=style, no_wrap=False, end="")


class SanitisingFilter(LineFilter):
    """The last line of defence: whatever a widget draws, no control character and no link reaches the terminal.

    A line keeps its width in cells, as the widget has already counted them.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return harmless segments; most already are, and stay as they are."""
        if all(_is_harmless(segment) for segment in segments):
            return segments
        return [segment if _is_harmless(segment) else _make_harmless(segment) for segment in segments]


SANITISING_FILTER: Final = SanitisingFilter()
"""The only instance: Textual caches a filter's results per filter object."""


def _is_harmless(segment: Segment) -> bool:
    text, style, control = segment
    if control or (style is not None and style.link is not None):
        return False
    return (text.isascii() and text.isprintable()) or _UNDRAWABLE.search(text) is None


_UNDRAWABLE: Final = re.compile(_DANGEROUS.pattern[:-1].replace("\x00-\x08\x0b-\x1f", "\x00-\x1f") + "]")


def _make_harmless(segment: Segment) -> Segment:
    text, style, _ = segment
    clean = _UNDRAWABLE.sub(_stand_in, text)
    if clean != text:
        clean = set_cell_size(clean, cell_len(text))
    return Segment(clean, None if style is None else _without_link(style))


def _stand_in(found: re.Match[str]) -> str:
    character = found[0]
    if character in "\n\t\r":
        return " "
    if _FLAG_LETTER.match(character):
        return _latin_letter(found)
    return "" if _FITTING.match(character) else "\N{REPLACEMENT CHARACTER}"


@lru_cache(1024)
def _without_link(style: Style) -> Style:
    return style if style.link is None else style.update_link(None)
