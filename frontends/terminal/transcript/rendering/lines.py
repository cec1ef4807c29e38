"""Lines of a given width: wrapping, cutting and omitting. All drawing goes through here.

Texts passed to these functions are already inert (see `frontends.terminal.look.sanitised_text`); only `excerpt_rows`
takes any text.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

import attrs
from rich.cells import get_character_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from frontends.shared.figures import format_count
from frontends.terminal.look.sanitised_text import sanitise_text
from frontends.terminal.look.styles import Look
from frontends.terminal.look.text_width import width_of

Span = tuple[str, Style]
Spans = Sequence[Span]

_LEAST_WIDTH: Final = 2
"""The widest character has to fit."""
_CHARS_PER_CELL: Final = 4
"""A letter with three marks; further marks are dropped."""
WHOLE_CHARS: Final = 100_000
"""The most characters of one text that are processed."""
_INDENT: Final = 2
_MARGIN: Final = Segment(" " * _INDENT, Style.null())
MOST_ROWS: Final = 3_000
"""The most rows of one block; a longer one says how much is left out."""
HEAD_ROWS: Final = 1_000


def spans_width(spans: Spans) -> int:
    """Return how many cells these spans take."""
    return sum(width_of(text) for text, _ in spans)


def strip_of(spans: Iterable[Span]) -> Strip:
    """Return one line; the spans must fit."""
    filled = [(text, style) for text, style in spans if text]
    return Strip([Segment(text, style) for text, style in filled], sum(width_of(text) for text, _ in filled))


def cut_row(spans: Spans, width: int) -> Strip:
    """Return the beginning of a line as a row of at most `width` cells."""
    return strip_of(cut_spans(spans, width))


BLANK: Final = Strip([], 0)
"""An empty line."""


def wrap(
    spans: Spans,
    width: int,
    *,
    first: Spans = (),
    rest: Spans | None = None,
    words: bool = True,
    most: int | None = None,
) -> list[Strip]:
    """Lay out one paragraph in rows of at most `width` cells.

    Args:
        spans: Text without newlines.
        first: The prefix of the first row; `rest` is that of the others, spaces by default.
        words: Break between words where possible; else anywhere, as for code.
        most: The maximum number of rows; the last one is cut and ends with an ellipsis.
    """
    indent = spans_width(first)
    if width - indent < _LEAST_WIDTH:
        first, rest, indent = (), (), 0
    if rest is None:
        rest = ((" " * indent, Style.null()),) if indent else ()
    room = max(_LEAST_WIDTH, width - max(indent, spans_width(rest)))
    text = "".join([each for each, _ in spans])
    enough = len(text) if most is None else (most + 1) * room * _CHARS_PER_CELL  # few rows of a megabyte are needed
    ranges = list(_rows(text[:enough], room, words=words))
    clipped = most is not None and (len(ranges) > most or len(text) > enough)
    if clipped:
        ranges = ranges[:most]
    rows: list[Strip] = []
    slices = _slice_spans(spans, ranges)
    for number, row in enumerate(slices):
        if clipped and number == len(ranges) - 1:
            row = cut_spans(row, room, more="…", always=True)
        rows.append(strip_of((*(first if not number else rest), *row)))
    return rows


def _rows(text: str, width: int, *, words: bool) -> Iterator[tuple[int, int]]:
    """Yield where rows begin and end; the space at a break belongs to no row."""
    length, start = len(text), 0
    # For ASCII, cells are characters; other text is measured once, and each row is a binary search.
    ends = None if text.isascii() else list(accumulate(map(get_character_cell_size, text)))
    while True:
        if ends is None:
            stop = start + width
        else:
            before = ends[start - 1] if start else 0
            stop = bisect_right(ends, before + width)
        if stop >= length:
            yield start, length
            return
        stop = max(stop, start + 1)
        place = text.rfind(" ", start + 1, stop + 1) if words else -1
        if place > start and text[start:place].strip():
            yield start, place
            start = place + 1
            while start < length and text[start] == " ":
                start += 1
        else:
            yield start, stop
            start = stop
        if start >= length:
            return


def _slice_spans(spans: Spans, ranges: Sequence[tuple[int, int]]) -> Iterator[list[Span]]:
    """Yield the spans of each range; ranges are in order and do not overlap."""
    if len(spans) == 1:
        text, style = spans[0]
        for start, stop in ranges:
            yield [(text[start:stop], style)]
        return
    place, offset = 0, 0  # the span that holds the start of the next range, and where that span starts
    for start, stop in ranges:
        while place < len(spans) and offset + len(spans[place][0]) <= start:
            offset += len(spans[place][0])
            place += 1
        row, position, here = [], offset, place
        while here < len(spans) and position < stop:
            text, style = spans[here]
            row.append((text[max(0, start - position) : stop - position], style))
            position += len(text)
            here += 1
        yield row


def indented_width(width: int) -> int:
    """Return the width available to indented rows."""
    return max(_LEAST_WIDTH, width - _INDENT)


def indent_rows(rows: list[Strip], width: int) -> list[Strip]:
    """Indent rows that were drawn for `indented_width`, unless there is no room."""
    if width - _INDENT < _LEAST_WIDTH:
        return rows
    return [Strip([_MARGIN, *row], row.cell_length + _INDENT) for row in rows]


def cut_spans(spans: Spans, width: int, *, more: str = "…", always: bool = False) -> list[Span]:
    """Return the beginning of a line in at most `width` cells, ending with `more` if something is missing."""
    if not always and spans_width(spans) <= width:
        return list(spans)
    room = width - width_of(more)
    if room < 0:
        return []
    result: list[Span] = []
    style = Style.null()
    for text, style in spans:
        size = width_of(text)
        if size > room:
            start, stop = next(_rows(text, max(1, room), words=False))
            fitting = text[start:stop]
            if width_of(fitting) <= room:
                result.append((fitting, style))
            break
        result.append((text, style))
        room -= size
    return [*result, (more, style)]


# --- long texts -------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Excerpt:
    """The beginning and the end of a text, and the number of omitted lines between them."""

    head: list[str]
    left_out: int
    tail: list[str]


def excerpt(text: str, *, head: int, tail: int) -> Excerpt:
    """Take lines from the beginning and the end of a text; all of them if at most one would be left out."""
    lines = text.split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if len(lines) <= head + tail + 1:
        return Excerpt(head=lines, left_out=0, tail=[])
    return Excerpt(head=lines[:head], left_out=len(lines) - head - tail, tail=lines[len(lines) - tail :])


def excerpt_rows(
    text: str,
    width: int,
    look: Look,
    style: Style,
    *,
    head: int,
    tail: int = 0,
    margins: tuple[Span, Span] | None = None,
    words: bool = True,
    most: int | None = None,
    whole: int = WHOLE_CHARS,
) -> list[Strip]:
    """Draw the first and last lines of a foreign text, and how much is missing.

    `margins` stand before its first line and before all others; at most its first `whole` characters are processed.
    """
    preview = excerpt(sanitise_text(text[:whole]), head=head, tail=tail)
    beneath = () if margins is None else (("  ", look.dim),)
    rows: list[Strip] = []
    for number, line in enumerate([*preview.head, *preview.tail]):
        if number == len(preview.head):
            rows += omission(preview.left_out, look, width, margin=beneath)
        first = () if margins is None else (margins[number > 0],)
        rows += wrap([(line, style)], width, first=first, words=words, most=most)
    if not preview.tail:
        rows += omission(preview.left_out, look, width, margin=beneath)
    return rows + omission(len(text) - whole, look, width, noun="character", margin=beneath)


def omission(
    count: int, look: Look, width: int, *, noun: str = "line", where: str = "", margin: Spans = ()
) -> list[Strip]:
    """Return a row that tells how much is not shown; none if nothing is missing."""
    remark = f"{look.glyph('more')} {format_count(count, f'more {noun}')}{where}", look.dim
    return [cut_row([*margin, remark], width)] if count > 0 else []


def limit_rows(rows: list[Strip], look: Look, width: int) -> list[Strip]:
    """Limit the rows of one block, with a remark on how many are left out."""
    if len(rows) <= MOST_ROWS:
        return rows
    remark = omission(len(rows) - MOST_ROWS, look, width, noun="row", where=" are not shown")
    return [*rows[:HEAD_ROWS], *remark, *rows[HEAD_ROWS - MOST_ROWS :]]
