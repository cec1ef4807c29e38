"""Translates extensions' key names to Textual's, and decides which of their shortcuts are available."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable
from typing import Final

from textual.keys import KEY_NAME_REPLACEMENTS, _character_to_key

import session_core as sc

_MODIFIERS: Final = {
    "ctrl": "ctrl",
    "control": "ctrl",
    "c": "ctrl",
    "alt": "alt",
    "meta": "alt",
    "option": "alt",
    "opt": "alt",
    "m": "alt",
    "shift": "shift",
}
_OTHER_NAMES: Final = {
    "esc": "escape",
    "return": "enter",
    "del": "delete",
    "ins": "insert",
    "pgup": "pageup",
    "page_up": "pageup",
    "pgdn": "pagedown",
    "pgdown": "pagedown",
    "page_down": "pagedown",
    "arrowup": "up",
    "arrowdown": "down",
    "arrowleft": "left",
    "arrowright": "right",
    "spacebar": "space",
    "dash": "minus",
    "hyphen": "minus",
    "period": "full_stop",
    "dot": "full_stop",
}
_FUNCTION_KEYS: Final = frozenset(f"f{number}" for number in range(1, 25))
_NAMED: Final = frozenset(
    {"up", "down", "left", "right", "home", "end", "pageup", "pagedown", "insert", "delete", "enter", "tab", "space"}
    | {"backspace", "escape"}
)
_NEVER: Final = frozenset({"ctrl+c", "ctrl+q", "ctrl+z", "ctrl+s", "ctrl+i", "ctrl+j", "ctrl+m", "ctrl+h"})
"""Keys that leave, keys the terminal keeps to itself, and keys a terminal cannot tell from others."""
_TYPED_OVER: Final = frozenset({"escape", "enter", "tab", "backspace", "delete", "space"})


def key_name(spelling: str) -> str | None:
    """Return Textual's name of a key spelled like `Ctrl+P`, `C-p`, `alt+left` or `?`; None if there is no such key."""
    if len(spelling) == 1:
        return _character_key_name(spelling)
    spelling = spelling.strip()
    if not spelling:
        return None
    mark = "+" if "+" in spelling[:-1] else "-"
    *before, last = spelling[:-1].split(mark)
    parts = [*before, last + spelling[-1]]
    modifiers = {_MODIFIERS.get(each.strip().lower()) for each in parts[:-1]}
    base = parts[-1].strip()
    if None in modifiers or not base:
        return None
    if len(base) == 1:
        key = _character_key_name(base)
    else:
        key = _OTHER_NAMES.get(base.lower(), base.lower())
        key = key if key in _NAMED or key in _FUNCTION_KEYS or _is_named_character(key) else None
    if key is None:
        return None
    held = sorted(each for each in modifiers if each is not None)
    if len(key) == 1 and key.isalpha():
        if held == ["shift"]:
            return key.upper()
        key = key.lower() if held else key
    return "+".join([*held, key])


def _character_key_name(character: str) -> str | None:
    return _character_to_key(character) if character.isprintable() else None


def _is_named_character(key: str) -> bool:
    try:
        unicodedata.lookup(key.replace("_", " ").upper())
    except KeyError:
        return key in KEY_NAME_REPLACEMENTS.values() or key == "full_stop"
    return True


def usable_shortcuts(
    extensions: Iterable[sc.extensions.ExtensionInfo], reserved: Collection[str]
) -> dict[str, tuple[str, str]]:
    """Return the usable keys with their commands, as pairs of extension and command.

    Keys in `reserved` (Textual's names, possibly several separated by commas) are skipped, and so are keys used for
    typing, keys that terminals do not send, and keys that an earlier extension has taken.
    """
    ours = {name.strip() for each in reserved for name in each.split(",")} | _NEVER
    found: dict[str, tuple[str, str]] = {}
    for extension in extensions:
        if extension.state != "ready":
            continue
        for shortcut in extension.shortcuts:
            key = key_name(shortcut.key)
            if key is None or key in ours or key in found or not _is_sent(key):
                continue
            found[key] = (extension.name, shortcut.command)
    return found


def _is_sent(key: str) -> bool:
    """Return whether terminals send the key and it is not used for typing."""
    *held, base = key.split("+")
    if not held:
        return base in _FUNCTION_KEYS
    if base in _TYPED_OVER:
        return False
    if "ctrl" in held:
        return held == ["ctrl"] and len(base) == 1 and base.isascii() and base.isalpha()
    return "shift" not in held or base in _FUNCTION_KEYS
