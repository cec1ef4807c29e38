"""Foreign text for the user to judge: shown whole, scrollable, in a frame it cannot imitate.

Rules:
1. Nothing is left out: invisible characters are shown by number, and long lines continue in the next row.
2. Every row of foreign text begins with a bar of ours, a different one where a long line continues. Text without a bar
   is ours.
"""

from collections.abc import Sequence
from typing import Final, Literal

import attrs
from rich.cells import chop_cells
from rich.style import Style
from rich.text import Text
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from frontends.terminal.look.sanitised_text import reveal_hidden
from frontends.terminal.look.styles import Look
from frontends.terminal.panels.panel import ThemedWidget, filled_strip

RowKind = Literal["label", "text", "added", "removed", "place", "file"]
GUTTER: Final = 2
"""Cells on the left that foreign text never reaches."""
_NARROWEST: Final = 8
_GOES_ON: Final = {True: "┆", False: ":"}


@attrs.frozen(kw_only=True)
class ForeignPassage:
    """A foreign text; `label` is our name for it, `diff` marks a change of files."""

    text: str
    label: str = ""
    diff: bool = False


@attrs.frozen(kw_only=True)
class ForeignRow:
    """One row on screen; `continued` means it belongs to the line of the row before."""

    text: str
    kind: RowKind = "text"
    continued: bool = False


def build_rows(passages: Sequence[ForeignPassage], width: int) -> list[ForeignRow]:
    """Return all rows of these passages, for a width that includes the bar."""
    room = max(_NARROWEST, width - GUTTER)
    rows: list[ForeignRow] = []
    for passage in passages:
        if passage.label:
            rows.append(ForeignRow(text=passage.label, kind="label"))
        for line in reveal_hidden(passage.text).rstrip("\n").split("\n"):
            kind = line_kind(line) if passage.diff else "text"
            pieces = [line] if line.isascii() and len(line) <= room else chop_cells(line, room) or [""]
            rows += [ForeignRow(text=piece, kind=kind, continued=number > 0) for number, piece in enumerate(pieces)]
    return rows


def draw_row(row: ForeignRow, look: Look) -> Text:
    """Draw a row with its bar."""
    if row.kind == "label":
        return Text(" " * GUTTER + row.text, look.dim)
    bar = _GOES_ON[look.symbols] if row.continued else look.glyph("bar")
    return Text.assemble((f"{bar} ", look.warn), (row.text, style_of_kind(row.kind, look)))


def line_kind(line: str) -> RowKind:
    """Return the kind of a diff line, judging by how it begins."""
    if line.startswith("@@"):
        return "place"
    if line.startswith(("+++", "---")):
        return "file"
    return "added" if line.startswith("+") else "removed" if line.startswith("-") else "text"


def style_of_kind(kind: RowKind, look: Look) -> Style:
    """Return the style of such a line."""
    styles = {"added": look.added, "removed": look.removed, "place": look.accent, "file": look.strong}
    return styles.get(kind, look.text)


class ForeignView(ThemedWidget, ScrollView, can_focus=False):
    """Shows passages; draws only the visible rows."""

    DEFAULT_CSS = """
    ForeignView { height: auto; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._passages: tuple[ForeignPassage, ...] = ()
        self._rows: tuple[int, list[ForeignRow]] | None = None

    def show(self, passages: tuple[ForeignPassage, ...]) -> None:
        """Show these passages from the top."""
        self._passages = passages
        self._rows = None
        self.scroll_home(animate=False)
        self.refresh()

    def rows(self, width: int) -> list[ForeignRow]:
        """Return the rows for a width; caches the last result."""
        if self._rows is None or self._rows[0] != width:
            self._rows = (width, build_rows(self._passages, width))
        return self._rows[1]

    def fit(self, width: int, most: int) -> int:
        """Take as many rows of the screen as needed, up to `most`; return the number of rows to scroll through."""
        surely = sum(each.text.rstrip("\n").count("\n") + 1 for each in self._passages)
        if surely <= most and len(self.rows(width)) <= most:
            count = len(self.rows(width))
        else:  # the scrollbar takes a column
            count = len(self.rows(width - 1))
        self.styles.height = min(count, most)
        self.virtual_size = Size(width - (1 if count > most else 0), count)
        self.refresh()
        return count

    def visible_range(self) -> tuple[int, int, int]:
        """Return the first and last visible row, counted from 1, and the number of rows."""
        total = self.virtual_size.height
        first = self.scroll_offset.y
        return first + 1, min(total, first + self.size.height), total

    def render_line(self, y: int) -> Strip:
        """Return one line of the view."""
        width = self.size.width
        rows = self.rows(self.virtual_size.width or width)
        row_number = y + self.scroll_offset.y
        return filled_strip(
            draw_row(rows[row_number], self.look) if row_number < len(rows) else Text(), width, self.rich_style
        )
