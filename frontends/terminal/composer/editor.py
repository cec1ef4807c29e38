"""The text area: many lines, Emacs keys, a kill ring, and large pastes folded to labels that act as one unit.

Keys come from one table, which the help screen shows too. Some are requests to the owner of the editor (send, older
prompt, ...). The owner is called directly, not by a message: the next key may already be queued, and must find the
input as the last key left it.
"""

from collections.abc import Callable, Mapping
from typing import Final

from rich.style import Style
from rich.text import Text
from textual import events
from textual.document._document import EditResult, Location, Selection
from textual.document._edit import Edit
from textual.geometry import Offset
from textual.widgets import TextArea

from frontends.terminal.composer.keys import ROWS, KeyIntent, KeyRow
from frontends.terminal.composer.paste import (
    STAND_IN,
    InvisibleCharacters,
    Pastes,
    Prompt,
    as_drawn,
    is_invisible,
    sanitise_paste,
)

MAX_KILLS: Final = 60
MAX_PLAIN_CHARS: Final = 50_000
"""Beyond this, each key press would take noticeable time."""
_WORDS: Final = "_"


class KillRing:
    """Killed texts, newest last; consecutive kills are merged."""

    def __init__(self) -> None:
        self._kills: list[str] = []
        self._index = 0

    def kill(self, text: str, *, back: bool, goes_on: bool) -> None:
        """Keep a killed text, merged before or after the previous one if it `goes_on`."""
        if not text:
            return
        if goes_on and self._kills:
            last = self._kills[-1]
            self._kills[-1] = text + last if back else last + text
        else:
            self._kills = [*self._kills, text][-MAX_KILLS:]
        self._index = len(self._kills) - 1

    def yank(self) -> str:
        """Return the newest text."""
        self._index = len(self._kills) - 1
        return self._kills[self._index] if self._kills else ""

    def rotate(self) -> str:
        """Return the text before the one yanked last, wrapping from the oldest to the newest."""
        if not self._kills:
            return ""
        self._index = (self._index - 1) % len(self._kills)
        return self._kills[self._index]


def word_left(line: str, column: int) -> int:
    """Return the start of the word before a column, skipping anything but letters and digits."""
    while column and not _in_word(line[column - 1]):
        column -= 1
    while column and _in_word(line[column - 1]):
        column -= 1
    return column


def word_right(line: str, column: int) -> int:
    """Return the end of the word after a column."""
    while column < len(line) and not _in_word(line[column]):
        column += 1
    while column < len(line) and _in_word(line[column]):
        column += 1
    return column


def _in_word(character: str) -> bool:
    return character.isalnum() or character in _WORDS


class Editor(TextArea, inherit_bindings=False):
    """The text being written.

    Attributes:
        intents: What the owner does on its keys; each returns whether it did anything.
        changed: Called after every change of the text.
    """

    DEFAULT_CSS = """
    Editor, Editor:focus {
        height: auto; min-height: 1; max-height: 34vh; border: none; padding: 0; background: transparent;
        scrollbar-size-vertical: 1;
    }
    Editor > .text-area--placeholder { color: $text-muted; }
    """

    def __init__(self, pasted: Callable[[str], object]) -> None:
        self.intents: Mapping[KeyIntent, Callable[[], bool]] = {}
        self.changed: Callable[[], object] = lambda: None
        self._pasted = pasted
        self.pastes = Pastes()
        self._invisible = InvisibleCharacters()
        self._kills = KillRing()
        self._last = ""
        self._yanked: tuple[Location, Location] | None = None
        super().__init__(compact=True, highlight_cursor_line=False, tab_behavior="focus", max_checkpoints=200)
        self.cursor_blink = False
        self.match_cursor_bracket = False

    # --- content ------------------------------------------------------------------------------------------------------

    @property
    def prompt(self) -> Prompt:
        """The text with its pastes."""
        return self.pastes.prompt(self._invisible.decode(self.text))

    def set_prompt(self, prompt: Prompt) -> None:
        """Replace everything as an undoable edit; the cursor goes to the end. A huge text becomes a label."""
        text = self.pastes.adopt(prompt, self.text)
        if len(text) > MAX_PLAIN_CHARS:
            text = self.pastes.fold(sanitise_paste(self.pastes.prompt(text).whole), self.text)
        self.history.checkpoint()
        self.edit(Edit(text, (0, 0), self.document.end, maintain_selection_offset=False))
        self.history.checkpoint()

    def insert_text(self, text: str) -> None:
        """Replace the selection by a text."""
        self.history.checkpoint()
        self.edit(Edit(text, *self.selection, maintain_selection_offset=False))
        self.history.checkpoint()

    def replace_range(self, start: Location, end: Location, text: str) -> None:
        """Replace a range by a text, and put the cursor after it."""
        self.selection = Selection(start, end)
        self.insert_text(text)

    @property
    def at_top(self) -> bool:
        """Whether there is no line above the cursor."""
        return self.navigator.is_first_wrapped_line(self.cursor_location)

    @property
    def at_bottom(self) -> bool:
        """Whether there is no line below the cursor."""
        return self.navigator.is_last_wrapped_line(self.cursor_location)

    def before_cursor(self) -> tuple[str, int]:
        """Return the cursor's line up to the cursor, decoded, and the number of the line."""
        row, column = self.cursor_location
        return self._invisible.decode(self.document.get_line(row)[:column]), row

    # --- Textual overrides --------------------------------------------------------------------------------------------

    def edit(self, edit: Edit) -> EditResult:
        """Change the text; new text is made safe, and a label is never cut in two."""
        edit.text = self._invisible.encode(sanitise_paste(edit.text))
        if edit.from_location != edit.to_location:
            top, bottom = edit.top, edit.bottom
            edit.from_location, edit.to_location = self._edge(top, -1), self._edge(bottom, 1)
        self._yanked = None
        result = super().edit(edit)
        self.changed()
        return result

    def get_line(self, line_index: int) -> Text:
        """Return a line as it is drawn."""
        encoded = self.document.get_line(line_index)
        line = Text(as_drawn(encoded), end="", no_wrap=True)
        for column, character in enumerate(line.plain):
            if character == STAND_IN and encoded[column] != STAND_IN:
                line.stylize(Style(dim=True, reverse=True), column, column + 1)
        for start, end in self.pastes.spans(encoded):
            line.stylize(Style(bold=True), start, end)
        return line

    def _validate_selection(self, selection: Selection) -> Selection:
        """Keep the cursor out of labels: it moves on in its direction."""
        start, end = super()._validate_selection(selection)
        before = self.selection.end
        to_end = self._edge(end, 1 if end > before else -1)
        return Selection(to_end if start == end else self._edge(start, -1 if start < end else 1), to_end)

    def scroll_cursor_visible(self, center: bool = False, animate: bool = False) -> Offset:  # noqa: FBT001, FBT002
        """Scroll to the cursor, unless an undo has just removed its line."""
        if self.cursor_location[0] >= self.document.line_count:
            return Offset(0, 0)
        return super().scroll_cursor_visible(center, animate)

    def _edge(self, location: Location, direction: int) -> Location:
        row, column = location
        if row >= self.document.line_count:
            return location
        for start, end in self.pastes.spans(self.document.get_line(row)):
            if start < column < end:
                return row, end if direction > 0 else start
        return location

    def get_cursor_word_left_location(self) -> Location:
        """Return the start of the word before the cursor."""
        row, column = self.cursor_location
        if column == 0:
            return (row - 1, len(self.document.get_line(row - 1))) if row else (0, 0)
        return self._edge((row, word_left(self.document.get_line(row), column)), -1)

    def get_cursor_word_right_location(self) -> Location:
        """Return the end of the word after the cursor."""
        row, column = self.cursor_location
        line = self.document.get_line(row)
        if column == len(line):
            return (row + 1, 0) if row + 1 < self.document.line_count else (row, column)
        return self._edge((row, word_right(line, column)), 1)

    async def _on_key(self, event: events.Key) -> None:
        row = ROWS.get(event.key)
        if row is not None:
            event.prevent_default()
            if (row.intent is not None and self.intents[row.intent]()) or self._run_row(row):
                event.stop()
            self._last = row.action
            return
        self._last = ""
        if event.key.startswith(("alt+", "ctrl+", "super+")):
            event.prevent_default()  # not ours; Textual would insert the letter of an Alt key
        elif event.character is not None and is_invisible(event.character):
            event.prevent_default()  # joiners of emoji and some scripts count as unprintable
            event.stop()
            self.insert_text(event.character)

    def _run_row(self, row: KeyRow) -> bool:
        """Run the action of a row; False if the key is not for us and may bubble up."""
        if not row.action:
            return False
        action: Callable[..., bool | None] = getattr(self, f"action_{row.action}")
        return (action(True) if row.select else action()) is not False

    async def _on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        self._last = ""
        self._pasted(event.text)

    # --- actions ------------------------------------------------------------------------------------------------------

    def action_newline(self) -> None:
        """Begin a new line."""
        self.insert_text("\n")

    def action_delete_forward(self) -> bool:
        """Delete the character after the cursor; in an empty input the key has another meaning."""
        if not self.text:
            return False
        self.action_delete_right()
        return True

    def action_kill_word_left(self) -> None:
        """Kill the word before the cursor, or the selection."""
        self._kill(self.get_cursor_word_left_location(), back=True)

    def action_kill_word_right(self) -> None:
        """Kill the word after the cursor, or the selection."""
        self._kill(self.get_cursor_word_right_location(), back=False)

    def action_kill_to_start(self) -> None:
        """Kill to the start of the line; if already there, the line break before it."""
        row, column = self.cursor_location
        self._kill((row, 0) if column else self.get_cursor_left_location(), back=True)

    def action_kill_to_end(self) -> None:
        """Kill to the end of the line; if already there, the line break after it."""
        row, column = self.cursor_location
        end = len(self.document.get_line(row))
        self._kill((row, end) if column < end else self.get_cursor_right_location(), back=False)

    def action_yank(self) -> None:
        """Insert the last killed text."""
        self._insert_yank(self._kills.yank())

    def action_yank_older(self) -> None:
        """Replace the text just yanked by the one killed before it."""
        if self._last in {"yank", "yank_older"} and self._yanked is not None:
            self.selection = Selection(*self._yanked)
            self._insert_yank(self._kills.rotate())

    def action_cut_selected(self) -> bool:
        """Cut the selection, also to the clipboard."""
        if not self.action_copy_selected():
            return False
        self._kill(self.cursor_location, back=False)
        return True

    def action_copy_selected(self) -> bool:
        """Copy the selection to the clipboard, with folded pastes expanded."""
        if self.selection.is_empty:
            return False
        self.app.copy_to_clipboard(self.selected_whole)
        return True

    @property
    def selected_whole(self) -> str:
        """The selected text, as it would be sent."""
        return self.pastes.prompt(self._invisible.decode(self.selected_text)).whole

    def _kill(self, to: Location, *, back: bool) -> None:
        start, end = self.selection if not self.selection.is_empty else (self.cursor_location, to)
        goes_on = self._last.startswith("kill_")
        if start != end:
            result = self.delete(start, end, maintain_selection_offset=False)
            self._kills.kill(self._invisible.decode(result.replaced_text), back=back, goes_on=goes_on)

    def _insert_yank(self, text: str) -> None:
        if text:
            start = min(self.selection)
            self.insert_text(text)
            self._yanked = (start, self.cursor_location)
