"""Keys by the names of extensions, and shortcuts that can be had."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import session_core as sc
from frontends.terminal.panels.shortcut_keys import key_name, usable_shortcuts
from session_core.vocabulary.extensions import ExtensionState, Shortcut


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("ctrl+p", "ctrl+p"),
        ("Ctrl+P", "ctrl+p"),
        ("C-p", "ctrl+p"),
        ("Alt+Shift+Left", "alt+shift+left"),
        ("shift+alt+left", "alt+shift+left"),
        ("meta-x", "alt+x"),
        ("shift+a", "A"),
        ("A", "A"),
        ("a", "a"),
        ("7", "7"),
        ("?", "question_mark"),
        ("+", "plus"),
        ("-", "minus"),
        ("ctrl++", "ctrl+plus"),
        ("/", "slash"),
        (" ", "space"),
        ("space", "space"),
        ("Esc", "escape"),
        ("Return", "enter"),
        ("PgUp", "pageup"),
        ("F5", "f5"),
        ("full_stop", "full_stop"),
        ("ArrowLeft", "left"),
        ("cmd+k", None),
        ("ctrl+", None),
        ("f99", None),
        ("nonsense", None),
        ("", None),
        ("\x1b", None),
    ],
)
def test_names_of_keys(said: str, name: str | None) -> None:
    """However an extension spells a key, it is the one that the terminal sends, or none."""
    assert key_name(said) == name


@given(said=st.text(max_size=20))
def test_any_text_may_be_given_as_a_key(said: str) -> None:
    """What is no key is none, and never an error."""
    name = key_name(said)
    assert name is None or name.strip() == name != ""


def extension(name: str, *keys: str, state: ExtensionState = "ready") -> sc.extensions.ExtensionInfo:
    """An extension with shortcuts."""
    shortcuts = tuple(Shortcut(key=key, command=f"do_{number}") for number, key in enumerate(keys))
    return sc.extensions.ExtensionInfo(name=name, version="1", scope="user", state=state, shortcuts=shortcuts)


def test_shortcuts_never_take_a_key_that_is_needed() -> None:
    """Keys of ours, keys to type with, keys that never arrive and keys of earlier extensions stay as they are."""
    first = extension("first", "ctrl+g", "ctrl+o", "x", "shift+a", "enter", "alt+enter", "ctrl+c", "ctrl+m", "F9", "f1")
    second = extension("second", "CTRL+G", "ctrl+shift+k", "ctrl+left", "alt+r", "escape", "cmd+k", "alt+up")
    failed = extension("failed", "alt+q", state="failed")

    assert usable_shortcuts([first, second, failed], ["ctrl+o", "f1", "alt+up,ctrl+pageup"]) == {
        "ctrl+g": ("first", "do_0"),
        "f9": ("first", "do_8"),
        "alt+r": ("second", "do_3"),
    }
