"""What terminals send for keys, and what the app makes of it."""

import pytest
from textual._xterm_parser import XTermParser
from textual.events import Key

import frontends.terminal.composer.keys  # noqa: F401 - it teaches Textual


@pytest.mark.parametrize(
    ("sent", "key"), [*((f"\x1b{digit}", f"alt+{digit}") for digit in range(1, 10)), ("\x1b\r", "ctrl+j")]
)
def test_keys_with_alt(sent: str, key: str) -> None:
    """Alt with a digit chooses a session and types nothing, and Alt+Enter makes a new line."""
    parser = XTermParser()
    events = [*parser.feed(sent), *parser.feed("")]  # nothing more comes
    assert [key] == [event.key for event in events if isinstance(event, Key)]
