"""The keys of the input as data: what they do, and their texts for the help screen."""

from typing import Final, Literal

import attrs
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.keys import Keys

KeyIntent = Literal["send", "steer", "older", "newer", "search", "clipboard", "take", "close", "drop"]
"""A request of the editor to its owner, who returns whether it was handled."""

# Terminals send Alt+Enter as these two characters; Textual would turn them into a plain Enter, which sends.
if isinstance(ANSI_SEQUENCES_KEYS, dict):
    ANSI_SEQUENCES_KEYS.setdefault("\x1b\r", (Keys.ControlJ,))
    # Textual would turn Alt with a digit into the character a Mac types: Alt+3 would be a pound sign.
    for digit in range(1, 10):
        ANSI_SEQUENCES_KEYS.pop(f"\x1b{digit}", None)


@attrs.frozen
class KeyRow:
    """One row of the table: keys by Textual's names, and how the help screen names them and says what they do.

    Attributes:
        action: What runs if the owner does not handle it; without one the key bubbles up.
        intent: The request that the owner gets first.
        select: Whether a move extends the selection.
    """

    keys: str
    key_text: str = ""
    help: str = ""
    action: str = ""
    intent: KeyIntent | None = None
    select: bool = False


TABLE: Final = (
    KeyRow("enter", "Enter", "send; while the agent works, queue", intent="send"),
    KeyRow("ctrl+enter alt+s", "Alt+S, Ctrl+Enter", "send into the running turn", intent="steer"),
    KeyRow("ctrl+j shift+enter alt+enter shift+\r", "Ctrl+J, Alt+Enter, Shift+Enter", "new line", "newline"),
    KeyRow("tab", "Tab", "accept the suggestion", intent="take"),
    KeyRow("escape", "Esc", "close the suggestions", intent="close"),
    KeyRow("up ctrl+p", "Up, Ctrl+P", "line above; in the first line, the previous prompt", "cursor_up", "older"),
    KeyRow("down ctrl+n", "Down, Ctrl+N", "line below; in the last line, the next prompt", "cursor_down", "newer"),
    KeyRow("ctrl+r", "Ctrl+R", "search earlier prompts", intent="search"),
    KeyRow("ctrl+v alt+v", "Ctrl+V, Alt+V", "paste an image or text from the clipboard", intent="clipboard"),
    KeyRow("left ctrl+b", "Left, Ctrl+B", "a character back", "cursor_left"),
    KeyRow("right ctrl+f", "Right, Ctrl+F", "a character forward", "cursor_right"),
    KeyRow("ctrl+left alt+left alt+b", "Alt+B, Ctrl+Left, Alt+Left", "a word back", "cursor_word_left"),
    KeyRow("ctrl+right alt+right alt+f", "Alt+F, Ctrl+Right, Alt+Right", "a word forward", "cursor_word_right"),
    KeyRow("home ctrl+a", "Home, Ctrl+A", "start of the line", "cursor_line_start"),
    KeyRow("end ctrl+e", "End, Ctrl+E", "end of the line", "cursor_line_end"),
    KeyRow("backspace ctrl+h", "Backspace", "delete back; in an empty input, an attachment", "delete_left", "drop"),
    KeyRow("delete ctrl+d", "Del, Ctrl+D", "delete forward", "delete_forward"),
    KeyRow("ctrl+w alt+backspace ctrl+backspace", "Ctrl+W, Alt+Backspace", "cut the word before", "kill_word_left"),
    KeyRow("alt+d alt+delete ctrl+delete", "Alt+D, Alt+Del", "cut the word after", "kill_word_right"),
    KeyRow("ctrl+u", "Ctrl+U", "cut to the start of the line", "kill_to_start"),
    KeyRow("ctrl+k", "Ctrl+K", "cut to the end of the line", "kill_to_end"),
    KeyRow("ctrl+y", "Ctrl+Y", "paste the last cut", "yank"),
    KeyRow("alt+y", "Alt+Y", "after Ctrl+Y: the cut before that", "yank_older"),
    KeyRow("ctrl+underscore ctrl+z super+z", "Ctrl+_, Ctrl+Z", "undo", "undo"),
    KeyRow("alt+z", "Alt+Z", "redo", "redo"),
    KeyRow("ctrl+x super+x", "Ctrl+X", "cut the selection (Shift+arrows or the mouse)", "cut_selected"),
    KeyRow("super+c", action="copy_selected"),
    KeyRow("shift+left", action="cursor_left", select=True),
    KeyRow("shift+right", action="cursor_right", select=True),
    KeyRow("shift+up", action="cursor_up", select=True),
    KeyRow("shift+down", action="cursor_down", select=True),
    KeyRow("shift+home", action="cursor_line_start", select=True),
    KeyRow("shift+end", action="cursor_line_end", select=True),
)
KEYS: Final[tuple[tuple[str, str], ...]] = tuple((row.key_text, row.help) for row in TABLE if row.key_text)
ROWS: Final = {key: row for row in TABLE for key in row.keys.split(" ")}
