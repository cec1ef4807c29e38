"""Fitting text into the cells of a terminal: how wide it is, cutting it, and tables that never break a line.

Everything here takes plain text; colours are added afterwards, since escape codes have no width but do have length.
"""

import os
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import accumulate, takewhile
from typing import TextIO

import attrs

NARROWEST = 40
WIDEST = 100_000
"""Output to a file or another program is not cut, because there is no window to widen."""
_GAP = "  "


def columns(stream: TextIO | None = None) -> int:
    """Return the width of a line: `$COLUMNS`, the terminal's width, or unlimited without a terminal.

    `stream` is where the line goes; stdout by default.
    """
    target = sys.stdout if stream is None else stream
    if os.environ.get("COLUMNS", "").isdecimal() or (target is not None and target.isatty()):
        return max(NARROWEST, _terminal(target))
    return WIDEST


def _terminal(stream: TextIO | None) -> int:
    if not os.environ.get("COLUMNS", "").isdecimal() and stream is not None:
        with suppress(OSError, ValueError):  # some terminals do not report their size
            return os.get_terminal_size(stream.fileno()).columns or shutil.get_terminal_size().columns
    return shutil.get_terminal_size().columns


def cell_width(character: str) -> int:
    """Return how many terminal cells a character takes."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


Cells = Callable[[str], int]
"""How many cells a character takes; a library that draws screens has a table of its own."""


def text_width(text: str, cells: Cells = cell_width) -> int:
    """Return how many terminal cells a line takes."""
    return len(text) if text.isascii() else sum(map(cells, text))


def cut(text: str, width: int, *, more: str = "…", cells: Cells = cell_width) -> str:
    """Return the beginning of a line in at most `width` cells; `more` marks that something was left out."""
    if text_width(text, cells) <= width:
        return text
    room = width - len(more)
    return text[: _count_fitting(text, room, cells)].rstrip() + more if room > 0 else ""


def cut_start(text: str, width: int, *, more: str = "…", cells: Cells = cell_width) -> str:
    """Return the end of a line in at most `width` cells: the end of a path is the most useful part."""
    if text_width(text, cells) <= width:
        return text
    room = width - len(more)
    return more + text[len(text) - _count_fitting(reversed(text), room, cells) :] if room > 0 else ""


def _count_fitting(characters: Iterable[str], room: int, cells: Cells) -> int:
    """Return how many of the first characters fit."""
    return sum(1 for _ in takewhile(room.__ge__, accumulate(map(cells, characters))))


def pad(text: str, width: int) -> str:
    """Fill a line up to `width` cells."""
    return text + " " * max(0, width - text_width(text))


@attrs.frozen(kw_only=True)
class Column:
    """One column of a table: `share` of the room that is left over, or as wide as its content when that is 0."""

    title: str
    share: int = 0
    least: int = 0
    from_end: bool = False


Paint = Callable[[int, int, str], str]
"""Colours a cell, given its row (-1 is the head), its column and its text, filled up or not."""


def table(heads: Sequence[Column], rows: Sequence[Sequence[str]], width: int, paint: Paint, more: str) -> list[str]:
    """Lay out a table in lines of at most `width` cells; flexible columns share the width that the others leave."""
    natural = [max([text_width(head.title), *(text_width(row[n]) for row in rows)]) for n, head in enumerate(heads)]
    room = width - sum(natural[n] for n, head in enumerate(heads) if not head.share) - len(_GAP) * (len(heads) - 1)
    widths = share_widths(natural, [head.share for head in heads], room, [head.least for head in heads])
    lines = []
    for number, row in enumerate([[head.title for head in heads], *rows]):
        cells = [_fit_cell(head, text, room, more) for head, text, room in zip(heads, row, widths, strict=True)]
        cells[-1] = cells[-1].rstrip()
        lines.append(_GAP.join(paint(number - 1, n, cell) for n, cell in enumerate(cells)))
    return lines


def share_widths(natural: Sequence[int], shares: Sequence[int], room: int, least: Sequence[int]) -> list[int]:
    """Give each column with a share what it needs if all fits, else its share; unneeded room goes to the others."""
    widths = list(natural)
    open_columns = [n for n, share in enumerate(shares) if share]
    while open_columns:
        parts = sum(shares[n] for n in open_columns)
        content = [n for n in open_columns if natural[n] <= room * shares[n] // parts]
        if not content:
            for n in open_columns:
                widths[n] = max(least[n], room * shares[n] // parts)
            break
        room -= sum(natural[n] for n in content)
        open_columns = [n for n in open_columns if n not in content]
    return widths


def _fit_cell(head: Column, text: str, width: int, more: str) -> str:
    return pad(cut_start(text, width, more=more) if head.from_end else cut(text, width, more=more), width)
