"""The keys of the input as data: what they do, and how the help screen tells it."""

from typing import Final, Literal

import attrs
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.keys import Keys

Wish = Literal["send", "steer", "older", "newer", "search", "clipboard", "take", "close", "drop", "changed"]
"""What an editor asks of its owner, who tells whether it was done. `changed` is told, and needs no answer."""

# Terminals send Alt+Enter as these two characters, of which Textual would make a plain Enter, which sends.
if isinstance(ANSI_SEQUENCES_KEYS, dict):
    ANSI_SEQUENCES_KEYS.setdefault("\x1b\r", (Keys.ControlJ,))
    # Of Alt with a digit it would make the letters that a Mac types so: Alt+3 would be a pound sign.
    for digit in range(1, 10):
        ANSI_SEQUENCES_KEYS.pop(f"\x1b{digit}", None)


@attrs.frozen(kw_only=True)
class Row:
    """One line of the table: keys by Textual's names, what they do, and how the help tells it.

    Attributes:
        wish: What the owner is asked first.
        action: What is done if the owner does not do it; without one the key is left to those above.
        select: Whether a move selects.
    """

    keys: str
    wish: Wish | None = None
    action: str = ""
    select: bool = False
    shown: str = ""
    help: str = ""


def _wish(keys: str, wish: Wish, shown: str, help: str, action: str = "") -> Row:
    return Row(keys=keys, wish=wish, action=action, shown=shown, help=help)


def _does(keys: str, action: str, shown: str, help: str) -> Row:
    return Row(keys=keys, action=action, shown=shown, help=help)


def _selects(keys: str, action: str) -> Row:
    return Row(keys=keys, action=action, select=True)


TABLE: Final = (
    _wish("enter", "send", "Enter", "send; while the agent works, queue"),
    _wish("ctrl+enter alt+s", "steer", "Alt+S, Ctrl+Enter", "send at once, into the turn that runs"),
    _does("ctrl+j shift+enter alt+enter shift+\r", "newline", "Ctrl+J, Alt+Enter, Shift+Enter", "new line"),
    _wish("tab", "take", "Tab", "take the suggestion"),
    _wish("escape", "close", "Esc", "close the suggestions"),
    _wish("up ctrl+p", "older", "Up, Ctrl+P", "line above; in the first line the prompt before", "cursor_up"),
    _wish("down ctrl+n", "newer", "Down, Ctrl+N", "line below; in the last line the prompt after", "cursor_down"),
    _wish("ctrl+r", "search", "Ctrl+R", "search earlier prompts"),
    _wish("ctrl+v alt+v", "clipboard", "Ctrl+V, Alt+V", "paste a picture or text from the clipboard"),
    _does("left ctrl+b", "cursor_left", "Left, Ctrl+B", "a character back"),
    _does("right ctrl+f", "cursor_right", "Right, Ctrl+F", "a character forward"),
    _does("ctrl+left alt+left alt+b", "cursor_word_left", "Alt+B, Ctrl+Left, Alt+Left", "a word back"),
    _does("ctrl+right alt+right alt+f", "cursor_word_right", "Alt+F, Ctrl+Right, Alt+Right", "a word forward"),
    _does("home ctrl+a", "cursor_line_start", "Home, Ctrl+A", "start of the line"),
    _does("end ctrl+e", "cursor_line_end", "End, Ctrl+E", "end of the line"),
    _wish("backspace ctrl+h", "drop", "Backspace", "delete back; if nothing is written, an attachment", "delete_left"),
    _does("delete ctrl+d", "delete_forward", "Del, Ctrl+D", "delete forward"),
    _does("ctrl+w alt+backspace ctrl+backspace", "kill_word_left", "Ctrl+W, Alt+Backspace", "cut the word before"),
    _does("alt+d alt+delete ctrl+delete", "kill_word_right", "Alt+D, Alt+Del", "cut the word after"),
    _does("ctrl+u", "kill_to_start", "Ctrl+U", "cut to the start of the line"),
    _does("ctrl+k", "kill_to_end", "Ctrl+K", "cut to the end of the line"),
    _does("ctrl+y", "yank", "Ctrl+Y", "put back what was cut"),
    _does("alt+y", "yank_older", "Alt+Y", "after Ctrl+Y: what was cut before that"),
    _does("ctrl+underscore ctrl+z super+z", "undo", "Ctrl+_, Ctrl+Z", "undo"),
    _does("alt+z", "redo", "Alt+Z", "redo"),
    _does("ctrl+x super+x", "cut_selected", "Ctrl+X", "cut what is selected with Shift+arrows or the mouse"),
    _does("super+c", "copy_selected", "", ""),
    _selects("shift+left", "cursor_left"),
    _selects("shift+right", "cursor_right"),
    _selects("shift+up", "cursor_up"),
    _selects("shift+down", "cursor_down"),
    _selects("shift+home", "cursor_line_start"),
    _selects("shift+end", "cursor_line_end"),
)
KEYS: Final[tuple[tuple[str, str], ...]] = tuple((row.shown, row.help) for row in TABLE if row.shown)
ROWS: Final = {key: row for row in TABLE for key in row.keys.split(" ")}
