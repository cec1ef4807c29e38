"""The base of the panels: lines that are redrawn only after a change, in the look of the theme."""

from collections.abc import Callable, Sequence
from typing import Final

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.app import App
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.theme import Theme
from textual.widget import Widget

from frontends.terminal.look.styles import Look

_PAPER = Console(file=None, width=1_000, color_system="truecolor", legacy_windows=False)
"""Turns texts into segments; never prints anything."""


TIGHT_BELOW: Final = 20
"""Screens with fewer rows have no room for anything beside a question."""


def is_tight(app: App[object]) -> bool:
    """Return whether room is very short."""
    return app.size.height < TIGHT_BELOW


def filled_strip(line: Text | Strip, width: int, ground: Style) -> Strip:
    """Return one line of exactly this many cells."""
    if isinstance(line, Strip):
        strip = line
    elif line.spans:
        strip = Strip(line.render(_PAPER))
    else:  # rich does not apply the base style of a text itself
        strip = Strip([Segment(line.plain, line.style if isinstance(line.style, Style) else None)])
    return strip.adjust_cell_length(width).apply_style(ground)


def cut_to(text: Text, width: int, look: Look) -> Text:
    """Cut a line that is too long, and mark the cut."""
    if text.cell_len <= width:
        return text
    more = look.glyph("more")
    if width <= len(more):
        return Text(more[:width])
    shortened = text.copy()
    shortened.truncate(width - len(more))
    return shortened.append(more)


def draw_title_rule(title: Text, width: int, look: Look) -> Text:
    """Draw a rule with a title, to separate what is below from what is above."""
    line = look.glyph("line")
    rule = Text.assemble((f"{line} ", look.dim), title)
    return rule.append(f" {line * max(0, width - rule.cell_len - 1)}", look.dim)


def wrap_text(text: Text, width: int, *, most: int) -> list[Text]:
    """Wrap a line at words, in at most this many rows."""
    rows = list(text.wrap(_PAPER, max(1, width), overflow="fold")) or [Text()]
    for row in rows:
        row.rstrip()
    if len(rows) > most:
        rows = [*rows[: most - 1], Text(" ").join(rows[most - 1 :])]
    return rows


class PanelLeft(Message):
    """A panel with the focus was left, or has nothing left to show: back to the composer."""


class ThemedWidget(Widget):
    """A widget that is drawn in the look of the theme, and again in that of another theme."""

    _look: Look | None = None

    @property
    def look(self) -> Look:
        """The current look."""
        if self._look is None:
            self._look = Look.from_theme(self.app.current_theme, colour=not self.app.no_color)
        return self._look

    def on_mount(self) -> None:
        """Follow the theme."""
        self.app.theme_changed_signal.subscribe(self, self._theme_changed)

    def _theme_changed(self, _: Theme) -> None:
        self._look = None
        self.redraw()

    def redraw(self) -> None:
        """Redraw after a change."""
        self.refresh()


class Panel(ThemedWidget):
    """A widget of lines: subclasses return them for a width, and call `redraw` when they change."""

    DEFAULT_CSS = "Panel { height: auto; display: none; padding: 0 1; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.cramped = False
        self._drawn: tuple[int, list[Text | Strip]] | None = None

    def draw(self, width: int) -> Sequence[Text | Strip]:
        """Return all lines; each is cut to the width."""
        raise NotImplementedError

    def show_or_hide(self, *, wanted: bool) -> None:
        """Show the panel in its current state; or, if there is nothing to show, hide it and give up the focus."""
        self.display = wanted
        if not wanted and self.has_focus:
            self.post_message(PanelLeft())
        self.redraw()

    def on_focus(self) -> None:
        """Show the keys."""
        self.redraw()

    def on_blur(self) -> None:
        """Hide the keys."""
        self.redraw()

    def redraw(self) -> None:
        """Redraw after a change."""
        self._drawn = None
        if self.is_attached:
            self.refresh(layout=True)

    def set_cramped(self, *, cramped: bool) -> None:
        """Take as little room as possible, or the usual amount."""
        if cramped != self.cramped:
            self.cramped = cramped
            self.redraw()

    def lines(self, width: int) -> list[Text | Strip]:
        """Return the current lines, drawn for this width."""
        if self._drawn is None or self._drawn[0] != width:
            drawn = [] if self.cramped and is_tight(self.app) else self.draw(width)
            self._drawn = (
                width,
                [cut_to(line, width, self.look) if isinstance(line, Text) else line for line in drawn],
            )
        return self._drawn[1]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return how many lines there are."""
        return len(self.lines(width))

    def render_line(self, y: int) -> Strip:
        """Return one line of the panel."""
        width = self.size.width
        lines = self.lines(width)
        return filled_strip(lines[y] if y < len(lines) else Text(), width, self.rich_style)


class LinesPanel(Panel):
    """Lines provided by the owner: a part of a larger panel."""

    DEFAULT_CSS = "LinesPanel { display: block; padding: 0; }"

    def __init__(self, lines: Callable[[int], Sequence[Text]], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._made_by = lines

    def draw(self, width: int) -> Sequence[Text]:
        """Get the lines from the owner."""
        return self._made_by(width)
