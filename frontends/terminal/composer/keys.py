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


@attrs.frozen(kw_only=True)
class ComposerKey:
    """One row of the table: keys by Textual's names, what they do, and their help text.

    Attributes:
        intent: The request that the owner gets first.
        action: What runs if the owner does not handle it; without one the key bubbles up.
        select: Whether a move extends the selection.
    """

    keys: str
    intent: KeyIntent | None = None
    action: str = ""
    select: bool = False
    key_text: str = ""
    help: str = ""


def _intent_key(keys: str, intent: KeyIntent, key_text: str, help: str, action: str = "") -> ComposerKey:
    return ComposerKey(keys=keys, intent=intent, action=action, key_text=key_text, help=help)


def _action_key(keys: str, action: str, key_text: str, help: str) -> ComposerKey:
    return ComposerKey(keys=keys, action=action, key_text=key_text, help=help)


def _selection_key(keys: str, action: str) -> ComposerKey:
    return ComposerKey(keys=keys, action=action, select=True)


TABLE: Final = (
    _intent_key("enter", "send", "Enter", "send; while the agent works, queue"),
    _intent_key("ctrl+enter alt+s", "steer", "Alt+S, Ctrl+Enter", "send into the running turn"),
    _action_key("ctrl+j shift+enter alt+enter shift+\r", "newline", "Ctrl+J, Alt+Enter, Shift+Enter", "new line"),
    _intent_key("tab", "take", "Tab", "accept the suggestion"),
    _intent_key("escape", "close", "Esc", "close the suggestions"),
    _intent_key("up ctrl+p", "older", "Up, Ctrl+P", "line above; in the first line, the previous prompt", "cursor_up"),
    _intent_key("down ctrl+n", "newer", "Down, Ctrl+N", "line below; in the last line, the next prompt", "cursor_down"),
    _intent_key("ctrl+r", "search", "Ctrl+R", "search earlier prompts"),
    _intent_key("ctrl+v alt+v", "clipboard", "Ctrl+V, Alt+V", "paste an image or text from the clipboard"),
    _action_key("left ctrl+b", "cursor_left", "Left, Ctrl+B", "a character back"),
    _action_key("right ctrl+f", "cursor_right", "Right, Ctrl+F", "a character forward"),
    _action_key("ctrl+left alt+left alt+b", "cursor_word_left", "Alt+B, Ctrl+Left, Alt+Left", "a word back"),
    _action_key("ctrl+right alt+right alt+f", "cursor_word_right", "Alt+F, Ctrl+Right, Alt+Right", "a word forward"),
    _action_key("home ctrl+a", "cursor_line_start", "Home, Ctrl+A", "start of the line"),
    _action_key("end ctrl+e", "cursor_line_end", "End, Ctrl+E", "end of the line"),
    _intent_key(
        "backspace ctrl+h", "drop", "Backspace", "delete back; in an empty input, an attachment", "delete_left"
    ),
    _action_key("delete ctrl+d", "delete_forward", "Del, Ctrl+D", "delete forward"),
    _action_key(
        "ctrl+w alt+backspace ctrl+backspace", "kill_word_left", "Ctrl+W, Alt+Backspace", "cut the word before"
    ),
    _action_key("alt+d alt+delete ctrl+delete", "kill_word_right", "Alt+D, Alt+Del", "cut the word after"),
    _action_key("ctrl+u", "kill_to_start", "Ctrl+U", "cut to the start of the line"),
    _action_key("ctrl+k", "kill_to_end", "Ctrl+K", "cut to the end of the line"),
    _action_key("ctrl+y", "yank", "Ctrl+Y", "paste the last cut"),
    _action_key("alt+y", "yank_older", "Alt+Y", "after Ctrl+Y: the cut before that"),
    _action_key("ctrl+underscore ctrl+z super+z", "undo", "Ctrl+_, Ctrl+Z", "undo"),
    _action_key("alt+z", "redo", "Alt+Z", "redo"),
    _action_key("ctrl+x super+x", "cut_selected", "Ctrl+X", "cut the selection (Shift+arrows or the mouse)"),
    _action_key("super+c", "copy_selected", "", ""),
    _selection_key("shift+left", "cursor_left"),
    _selection_key("shift+right", "cursor_right"),
    _selection_key("shift+up", "cursor_up"),
    _selection_key("shift+down", "cursor_down"),
    _selection_key("shift+home", "cursor_line_start"),
    _selection_key("shift+end", "cursor_line_end"),
)
KEYS: Final[tuple[tuple[str, str], ...]] = tuple((row.key_text, row.help) for row in TABLE if row.key_text)
ROWS: Final = {key: row for row in TABLE for key in row.keys.split(" ")}
