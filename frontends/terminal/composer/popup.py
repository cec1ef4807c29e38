"""Small lists above the input: suggestions to accept, and attachments to remove."""

from collections.abc import Callable, Sequence
from typing import Final

from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.widget import Widget

from frontends.terminal.composer.completion import Suggestion
from frontends.terminal.look.sanitised_text import sanitise_line
from frontends.terminal.look.text_width import cut, width_of

ROWS: Final = 8
_LABEL_SHARE: Final = 0.6
_DETAIL_CHARS: Final = 400


class Popup(Widget):
    """A list of suggestions, one of them chosen; `clicked` is called when one was chosen by a click.

    Attributes:
        touched: Whether the user has moved the choice.
    """

    DEFAULT_CSS = """
    Popup { display: none; height: auto; background: $panel; color: $foreground; padding: 0 1; }
    Popup.open { display: block; }
    """
    can_focus = False

    def __init__(self, clicked: Callable[[], object]) -> None:
        super().__init__()
        self._clicked = clicked
        self._suggestions: Sequence[Suggestion] = ()
        self._note = ""
        self._chosen_index = 0
        self._top = 0
        self.touched = False

    @property
    def is_open(self) -> bool:
        """Whether the popup shows anything."""
        return self.has_class("open")

    @property
    def chosen(self) -> Suggestion | None:
        """The suggestion that would be accepted."""
        return self._suggestions[self._chosen_index] if self.is_open and self._suggestions else None

    @property
    def index(self) -> int:
        """The index of the chosen suggestion."""
        return self._chosen_index

    def show(self, suggestions: Sequence[Suggestion], *, note: str = "") -> None:
        """Show suggestions with the first one chosen; without any, the note, if there is one."""
        self._suggestions = suggestions
        self._note = note
        self._chosen_index = self._top = 0
        self.touched = False
        self.set_class(bool(suggestions or note), "open")
        self.refresh(layout=True)

    def move(self, by: int) -> None:
        """Move the choice, wrapping around."""
        if self._suggestions:
            self.touched = True
            self._chosen_index = (self._chosen_index + by) % len(self._suggestions)
            self._top = min(max(self._top, self._chosen_index - self._rows + 1), self._chosen_index)
            self.refresh()

    @property
    def _rows(self) -> int:
        """The number of visible suggestions: fewer on a low screen."""
        return max(1, min(ROWS, self.app.size.height // 4))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines needed."""
        if not self._suggestions:
            return 1
        return min(len(self._suggestions), self._rows) + (len(self._suggestions) > self._rows or bool(self._note))

    def render(self) -> Text:
        """Draw one line per suggestion, and one with the number of the rest."""
        across = max(10, self.size.width)
        if not self._suggestions:
            return Text(cut(self._note, across), style="dim", no_wrap=True)
        visible_suggestions = self._suggestions[self._top : self._top + self._rows]
        widest = max(width_of(_label(each)) for each in visible_suggestions)
        column = min(
            widest, int((across - 2) * _LABEL_SHARE) if any(each.detail for each in visible_suggestions) else across - 2
        )
        lines = [self._line(each, column, across, chosen=each is self.chosen) for each in visible_suggestions]
        hidden = len(self._suggestions) - len(visible_suggestions)
        if hidden or self._note:
            count = f"{self._chosen_index + 1} of {len(self._suggestions):,}"
            lines.append(Text(cut(f"  {self._note or count}", across), style="dim"))
        return Text("\n", no_wrap=True).join(lines)

    def _line(self, suggestion: Suggestion, column: int, across: int, *, chosen: bool) -> Text:
        label = cut(_label(suggestion), column)
        line = Text("> " if chosen else "  ", no_wrap=True)
        line.append(label, style="bold" if chosen else "")
        room = across - 4 - column
        if suggestion.detail and room > 8:
            line.append(" " * (column - width_of(label) + 2))
            line.append(cut(sanitise_line(suggestion.detail, _DETAIL_CHARS), room), style="" if chosen else "dim")
        if chosen:
            line.append(" " * max(0, across - line.cell_len))
            line.stylize("reverse")
        return line

    def on_click(self, event: events.Click) -> None:
        """Accept the clicked suggestion."""
        event.stop()
        index = self._top + event.y
        if self._suggestions and event.y < self._rows and index < len(self._suggestions):
            self._chosen_index = index
            self._clicked()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Choose the next suggestion."""
        event.stop()
        self.move(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Choose the previous suggestion."""
        event.stop()
        self.move(-1)


def _label(suggestion: Suggestion) -> str:
    """Return the label without characters that change the width of their neighbours, so cells can be counted."""
    return sanitise_line(suggestion.display_text)


class Chips(Widget):
    """The attachments of the prompt, each removable by a click; `clicked` gets its number."""

    DEFAULT_CSS = """
    Chips { display: none; height: auto; min-height: 1; max-height: 15vh; color: $accent; padding: 0 1; }
    Chips.open { display: block; }
    """
    can_focus = False

    def __init__(self, clicked: Callable[[int], object]) -> None:
        super().__init__()
        self._clicked = clicked
        self._labels: tuple[str, ...] = ()

    def show(self, labels: tuple[str, ...]) -> None:
        """Show a chip for each label."""
        labels = tuple(map(sanitise_line, labels))
        if labels != self._labels:
            self._labels = labels
            self.set_class(bool(labels), "open")
            self.refresh(layout=True)

    def render(self) -> Text:
        """Draw as many as fit on each line."""
        lines = self._lines(self.size.width)
        return Text("\n", no_wrap=True).join(
            Text("  ".join(chip for _, _, chip in line), no_wrap=True) for line in lines
        )

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines needed."""
        return len(self._lines(width))

    def _lines(self, across: int) -> list[list[tuple[int, int, str]]]:
        """Return the chips line by line, each with its number and column."""
        across = max(10, across)
        lines: list[list[tuple[int, int, str]]] = [[]]
        column = 0
        for index, label in enumerate(self._labels):
            chip = cut(f"[{label} x]", across)
            if column and column + width_of(chip) > across:
                lines.append([])
                column = 0
            lines[-1].append((index, column, chip))
            column += width_of(chip) + 2
        return lines

    def on_click(self, event: events.Click) -> None:
        """Remove the clicked attachment."""
        event.stop()
        lines = self._lines(self.size.width)
        offset = event.get_content_offset(self)
        if offset is None or offset.y >= len(lines):
            return
        for index, column, chip in lines[offset.y]:
            if column <= offset.x < column + width_of(chip):
                self._clicked(index)
