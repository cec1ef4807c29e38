"""All keys and commands on one screen."""

from frontends.terminal.app import TerminalApp
from frontends.terminal.screens.help_page import KEYS, tables

_ELSEWHERE = {"escape", "ctrl+c", "ctrl+d", "pageup", "pagedown", "ctrl+home", "ctrl+end"}
"""Keys with names of their own on the screen."""


def test_every_key_of_the_terminal_is_told() -> None:
    """What can be pressed anywhere stands on the help screen."""
    told = " ".join(key for key, _ in KEYS).lower().replace("...", "")
    bound = [key for each in TerminalApp.BINDINGS for key in each.key.split(",")]  # type: ignore[union-attr]
    numbers = {f"alt+{number}" for number in range(2, 9)}
    ours = [key for key in bound if key not in _ELSEWHERE | numbers and not key.startswith("ctrl+page")]
    assert [key for key in ours if key not in told.split()] == []


def test_the_parts_of_the_screen_have_their_keys() -> None:
    """Each part says its own keys under the key that leads there."""
    titles = [title for title, _ in tables(())]
    assert titles == [
        "Anywhere",
        "Commands",
        "Writing",
        "When you are asked (F8)",
        "In the conversation (F6)",
        "In the list of sessions (F2)",
        "In the queue (F7)",
    ]
    keys = {title: [key for key, _ in rows] for title, rows in tables(())}
    assert "o" in keys["In the conversation (F6)"]
