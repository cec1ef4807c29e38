"""The input itself: many lines, Emacs keys, a kill ring, and labels of large pastes that are handled as one thing.

Keys come from one table, which is also what the help screen shows. Some of them are wishes to whoever owns the editor
(send, go to an older prompt, ...). The owner is asked at once and not by a message: the next key may already be in the
queue, and must find the input as the last one has left it.
"""

from collections.abc import Callable
from typing import Final

from rich.style import Style
from rich.text import Text
from textual import events
from textual.document._document import EditResult, Location, Selection
from textual.document._edit import Edit
from textual.geometry import Offset
from textual.widgets import TextArea

from frontends.terminal.composer.keys import ROWS, ComposerKey, KeyIntent
from frontends.terminal.composer.paste import STAND_IN, Pastes, Prompt, Veil, as_drawn, clean, is_invisible

MAX_KILLS: Final = 60
MAX_PLAIN_CHARS: Final = 50_000
"""With more of them in the input, each key would take a noticeable time."""
_WORDS: Final = "_"


class KillRing:
    """What was cut, newest last; cuts that follow each other are one."""

    def __init__(self) -> None:
        self._kills: list[str] = []
        self._index = 0

    def kill(self, text: str, *, back: bool, goes_on: bool) -> None:
        """Keep what was cut, before or after what the cut before it took."""
        if not text:
            return
        if goes_on and self._kills:
            last = self._kills[-1]
            self._kills[-1] = text + last if back else last + text
        else:
            self._kills = [*self._kills, text][-MAX_KILLS:]
        self._index = len(self._kills) - 1

    def yank(self) -> str:
        """Return the newest."""
        self._index = len(self._kills) - 1
        return self._kills[self._index] if self._kills else ""

    def rotate(self) -> str:
        """Return the one before that which was put in last, and after the oldest the newest again."""
        if not self._kills:
            return ""
        self._index = (self._index - 1) % len(self._kills)
        return self._kills[self._index]


def word_left(line: str, column: int) -> int:
    """Return where the word before a column begins: letters and digits, with what lies between skipped."""
    while column and not _in_word(line[column - 1]):
        column -= 1
    while column and _in_word(line[column - 1]):
        column -= 1
    return column


def word_right(line: str, column: int) -> int:
    """Return where the word after a column ends."""
    while column < len(line) and not _in_word(line[column]):
        column += 1
    while column < len(line) and _in_word(line[column]):
        column += 1
    return column


def _in_word(character: str) -> bool:
    return character.isalnum() or character in _WORDS


class Editor(TextArea, inherit_bindings=False):
    """The text that is being written."""

    DEFAULT_CSS = """
    Editor, Editor:focus {
        height: auto; min-height: 1; max-height: 34vh; border: none; padding: 0; background: transparent;
        scrollbar-size-vertical: 1;
    }
    Editor > .text-area--placeholder { color: $text-muted; }
    """

    def __init__(self, handle_intent: Callable[[KeyIntent], bool], pasted: Callable[[str], object]) -> None:
        self._handle_intent = handle_intent
        self._pasted = pasted
        self.pastes = Pastes()
        self._veil = Veil()
        self._kills = KillRing()
        self._last = ""
        self._yanked: tuple[Location, Location] | None = None
        super().__init__(compact=True, highlight_cursor_line=False, tab_behavior="focus", max_checkpoints=200)
        self.cursor_blink = False
        self.match_cursor_bracket = False

    # --- what is in it ------------------------------------------------------------------------------------------------

    @property
    def prompt(self) -> Prompt:
        """What is written, with the pastes in it."""
        return self.pastes.prompt(self._veil.unveil(self.text))

    def set_prompt(self, prompt: Prompt) -> None:
        """Replace everything, so that it can be undone; the cursor goes to the end. A huge text becomes a label."""
        text = self.pastes.adopt(prompt, self.text)
        if len(text) > MAX_PLAIN_CHARS:
            text = self.pastes.fold(clean(self.pastes.prompt(text).whole), self.text)
        self.history.checkpoint()
        self.edit(Edit(text, (0, 0), self.document.end, maintain_selection_offset=False))
        self.history.checkpoint()

    def insert_text(self, text: str) -> None:
        """Write a text in place of the selection."""
        self.history.checkpoint()
        self.edit(Edit(text, *self.selection, maintain_selection_offset=False))
        self.history.checkpoint()

    def replace_range(self, start: Location, end: Location, text: str) -> None:
        """Write a text in place of another, with the cursor behind it."""
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
        """Return the cursor's line up to the cursor, as it was meant, and the number of the line."""
        row, column = self.cursor_location
        return self._veil.unveil(self.document.get_line(row)[:column]), row

    # --- what Textual asks for ----------------------------------------------------------------------------------------

    def edit(self, edit: Edit) -> EditResult:
        """Change the text; what comes in is made harmless, and a label is never cut in two."""
        edit.text = self._veil.veil(clean(edit.text))
        if edit.from_location != edit.to_location:
            top, bottom = edit.top, edit.bottom
            edit.from_location, edit.to_location = self._edge(top, -1), self._edge(bottom, 1)
        self._yanked = None
        result = super().edit(edit)
        self._handle_intent("changed")
        return result

    def get_line(self, line_index: int) -> Text:
        """Return a line as it is drawn."""
        veiled = self.document.get_line(line_index)
        line = Text(as_drawn(veiled), end="", no_wrap=True)
        for column, character in enumerate(line.plain):
            if character == STAND_IN and veiled[column] != STAND_IN:
                line.stylize(Style(dim=True, reverse=True), column, column + 1)
        for start, end in self.pastes.spans(veiled):
            line.stylize(Style(bold=True), start, end)
        return line

    def _validate_selection(self, selection: Selection) -> Selection:
        """Keep the cursor out of labels: it goes on in the direction it came from."""
        start, end = super()._validate_selection(selection)
        before = self.selection.end
        to_end = self._edge(end, 1 if end > before else -1)
        return Selection(to_end if start == end else self._edge(start, -1 if start < end else 1), to_end)

    def scroll_cursor_visible(self, center: bool = False, animate: bool = False) -> Offset:  # noqa: FBT001, FBT002
        """Scroll to the cursor, unless an undo has just taken the line away on which it still stands."""
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
        """Return where the word before the cursor begins."""
        row, column = self.cursor_location
        if column == 0:
            return (row - 1, len(self.document.get_line(row - 1))) if row else (0, 0)
        return self._edge((row, word_left(self.document.get_line(row), column)), -1)

    def get_cursor_word_right_location(self) -> Location:
        """Return where the word after the cursor ends."""
        row, column = self.cursor_location
        line = self.document.get_line(row)
        if column == len(line):
            return (row + 1, 0) if row + 1 < self.document.line_count else (row, column)
        return self._edge((row, word_right(line, column)), 1)

    async def _on_key(self, event: events.Key) -> None:
        row = ROWS.get(event.key)
        if row is not None:
            event.prevent_default()
            if self._act(row):
                event.stop()
            self._last = row.action
            return
        self._last = ""
        if event.key.startswith(("alt+", "ctrl+", "super+")):
            event.prevent_default()  # not ours; Textual would write the letter of an Alt key
        elif event.character is not None and is_invisible(event.character):
            event.prevent_default()  # the joints of emoji and of some scripts, which count as not printable
            event.stop()
            self.insert_text(event.character)

    def _act(self, row: ComposerKey) -> bool:
        """Do what a row of the table says; False if it is not for us, and somebody above may want the key."""
        if row.intent is not None and self._handle_intent(row.intent):
            return True
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
        """Delete the character after the cursor; in an empty input the key means something else."""
        if not self.text:
            return False
        self.action_delete_right()
        return True

    def action_kill_word_left(self) -> None:
        """Cut the word before the cursor, or what is selected."""
        self._kill(self.get_cursor_word_left_location(), back=True)

    def action_kill_word_right(self) -> None:
        """Cut the word after the cursor, or what is selected."""
        self._kill(self.get_cursor_word_right_location(), back=False)

    def action_kill_to_start(self) -> None:
        """Cut to the start of the line; there, the line break before it."""
        row, column = self.cursor_location
        self._kill((row, 0) if column else self.get_cursor_left_location(), back=True)

    def action_kill_to_end(self) -> None:
        """Cut to the end of the line; there, the line break after it."""
        row, column = self.cursor_location
        end = len(self.document.get_line(row))
        self._kill((row, end) if column < end else self.get_cursor_right_location(), back=False)

    def action_yank(self) -> None:
        """Put in what was cut last."""
        self._insert_yank(self._kills.yank())

    def action_yank_older(self) -> None:
        """Put what was cut before in the place of what was just put in."""
        if self._last in {"yank", "yank_older"} and self._yanked is not None:
            self.selection = Selection(*self._yanked)
            self._insert_yank(self._kills.rotate())

    def action_cut_selected(self) -> bool:
        """Cut what is selected, for the clipboard too."""
        if not self.action_copy_selected():
            return False
        self._kill(self.cursor_location, back=False)
        return True

    def action_copy_selected(self) -> bool:
        """Copy what is selected to the clipboard, pastes and all."""
        if self.selection.is_empty:
            return False
        self.app.copy_to_clipboard(self.selected_whole)
        return True

    @property
    def selected_whole(self) -> str:
        """What is selected, as it would be sent."""
        return self.pastes.prompt(self._veil.unveil(self.selected_text)).whole

    def _kill(self, to: Location, *, back: bool) -> None:
        start, end = self.selection if not self.selection.is_empty else (self.cursor_location, to)
        goes_on = self._last.startswith("kill_")
        if start != end:
            result = self.delete(start, end, maintain_selection_offset=False)
            self._kills.kill(self._veil.unveil(result.replaced_text), back=back, goes_on=goes_on)

    def _insert_yank(self, text: str) -> None:
        if text:
            start = min(self.selection)
            self.insert_text(text)
            self._yanked = (start, self.cursor_location)
