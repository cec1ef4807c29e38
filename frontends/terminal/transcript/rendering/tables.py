"""Tables of a given width: columns share the room and cells wrap; where that does not fit, each row is a short list."""

from collections.abc import Collection, Sequence
from typing import Final

from rich.style import Style
from textual.strip import Strip

from frontends.shared.text_width import share_widths
from frontends.terminal.look.styles import Look
from frontends.terminal.transcript.rendering.lines import Span, Spans, omission, spans_width, strip_of, wrap

MOST_ROWS: Final = 1_000
MOST_COLUMNS: Final = 50
_LEAST: Final = 6
"""The least cells of a wrapped column."""
_CELL_ROWS: Final = 20

Row = Sequence[Spans]


def table(
    head: Row, body: Sequence[Row], width: int, look: Look, *, right: Collection[int] = frozenset()
) -> list[Strip]:
    """Lay out a table; short rows are filled up, and cells beyond the last column are dropped.

    The columns whose numbers are in `right` are right-aligned.
    """
    columns = min(MOST_COLUMNS, max([len(head), *map(len, body)], default=0))
    if not columns:
        return []
    visible_rows = body[:MOST_ROWS]
    rows = [[row[n] if n < len(row) else () for n in range(columns)] for row in (head, *visible_rows)]
    separator = f" {look.glyph('bar')} "
    room = width - len(separator) * (columns - 1)
    natural = [max(1, *(spans_width(row[n]) for row in rows)) for n in range(columns)]
    widths = share_widths(natural, [1] * columns, room, [0] * columns)
    if any(width < min(_LEAST, wanted) for width, wanted in zip(widths, natural, strict=True)):
        strips = _as_lists(rows, width, look)
    else:
        rule = look.glyph("line")
        heads = [[(text, style + look.strong) for text, style in cell] for cell in rows[0]]
        strips = _lay_out_row(heads, widths, look, right)
        crossing = f"{rule}{'┼' if look.symbols else '+'}{rule}"
        strips.append(strip_of([(crossing.join(rule * each for each in widths), look.dim)]))
        for row in rows[1:]:
            strips += _lay_out_row(row, widths, look, right)
    return strips + omission(len(body) - MOST_ROWS, look, width, noun="row")


def _lay_out_row(row: Row, widths: Sequence[int], look: Look, right: Collection[int]) -> list[Strip]:
    cells = [wrap(cell, width, most=_CELL_ROWS) if cell else [] for cell, width in zip(row, widths, strict=True)]
    separator: Span = (f" {look.glyph('bar')} ", look.dim)
    strips = []
    for line in range(max(1, *map(len, cells))):
        spans: list[Span] = []
        for n, (cell, width) in enumerate(zip(cells, widths, strict=True)):
            spans += [separator] if n else []
            strip = cell[line] if line < len(cell) else None
            filler: Span = (" " * (width - (strip.cell_length if strip is not None else 0)), Style.null())
            if n in right and strip is not None:
                spans.append(filler)
            if strip is not None:
                spans += [(segment.text, segment.style or Style.null()) for segment in strip]
            # A filler after the last column would only be trailing space.
            if (n not in right or strip is None) and n < len(widths) - 1:
                spans.append(filler)
        strips.append(strip_of(spans))
    return strips


def _as_lists(rows: Sequence[Row], width: int, look: Look) -> list[Strip]:
    head, *body = rows
    strips: list[Strip] = []
    for number, row in enumerate(body):
        if number:
            strips.append(strip_of([(look.glyph("line") * min(width, 20), look.dim)]))
        for name, cell in zip(head, row, strict=True):
            label = [(text, style + look.strong) for text, style in name]
            strips += wrap([*label, (": ", look.dim), *cell], width, most=_CELL_ROWS)
    return strips or [each for cell in head for each in wrap(cell, width, most=_CELL_ROWS)]
