"""Make foreign text safe to print: a terminal obeys escape sequences from any source.

Rules:
1. Of the control characters only newline and tab pass; ESC never does, nor do its 8-bit relatives (C1).
2. Escape sequences of every family vanish whole: CSI, the strings OSC, DCS, SOS, PM and APC, and the short ones. A
   string that is never terminated ends at the end of its line, so it cannot swallow the rest of an answer.
3. Characters that are invisible or reorder a line (zero-width, bidi, tags, ...) are shown by number: `<U+202E>`.
4. The result does not depend on the chunks: a sequence may begin in one chunk and end in another.
5. JSON for a terminal loses nothing: in it, control, invisible and reordering characters are escaped as `\\uXXXX`.
"""

import json
import re
import unicodedata
from functools import lru_cache
from typing import Any, Literal

_State = Literal["ground", "escape", "intermediate", "csi", "string"]

_INVISIBLE_LETTERS = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"
_INVISIBLE = re.compile(f"[{_INVISIBLE_LETTERS}\ufe00-\ufe0d\U000e0000-\U000e0fff]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NO_JSON_LETTERS = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_SUSPICIOUS = re.compile(r"[^\n\t\x20-\x7e]")
_STRING_OPENERS = "]PX^_"
_STRING_OPENERS_8BIT = "\x90\x98\x9d\x9e\x9f"
_STRING_ENDERS = "\x07\x18\x1a\x9c"


class Sanitiser:
    """Cleans a text that arrives in chunks."""

    def __init__(self) -> None:
        self._state: _State = "ground"

    def feed(self, chunk: str) -> str:
        """Return the printable part of this chunk."""
        if self._state == "ground" and not _SUSPICIOUS.search(chunk):
            return chunk
        return "".join([self._step(character) for character in chunk])

    def _step(self, character: str) -> str:
        match self._state:
            case "ground":
                return self._ground(character)
            case "escape":
                return self._escape(character)
            case "intermediate":
                return self._until("0", character, stays=" " <= character <= "/")
            case "csi":
                return self._until("@", character, stays=" " <= character <= "?")
            case "string":
                return self._string(character)

    def _ground(self, character: str) -> str:
        if character == "\x1b":
            self._state = "escape"
        elif character == "\x9b":
            self._state = "csi"
        elif character in _STRING_OPENERS_8BIT:
            self._state = "string"
        else:
            return _printable_form(character)
        return ""

    def _escape(self, character: str) -> str:
        if character == "[":
            self._state = "csi"
        elif character in _STRING_OPENERS:
            self._state = "string"
        elif " " <= character <= "/":
            self._state = "intermediate"
        else:
            return self._until("0", character, stays=False)
        return ""

    def _until(self, first_final: str, character: str, *, stays: bool) -> str:
        """Continue a sequence, end it at its final character, or leave it at one that cannot belong to it."""
        if stays:
            return ""
        self._state = "ground"
        return "" if first_final <= character <= "~" else self._ground(character)

    def _string(self, character: str) -> str:
        if character in _STRING_ENDERS:
            self._state = "ground"
        elif character in {"\x1b", "\n"} or "\x80" <= character <= "\x9f":
            self._state = "ground"
            return self._ground(character)
        return ""


def sanitise(text: str) -> str:
    """Return a whole text in printable form, line by line: no sequence spans lines, and most need no change."""
    if not _SUSPICIOUS.search(text):
        return text
    return "\n".join([line if _is_plain(line) else Sanitiser().feed(line) for line in text.split("\n")])


def _is_plain(line: str) -> bool:
    return line.replace("\t", "").isprintable() and not _INVISIBLE.search(line)


def escape_invisible(text: str) -> str:
    """Return a text for an approval: invisible characters are shown by number, and nothing is left out.

    Removing an escape sequence would hide its content, which a shell would still run.
    """
    return sanitise(_CONTROLS.sub(show_by_number, text.replace("\r\n", "\n")))


def show_by_number(found: re.Match[str]) -> str:
    """Return a visible form of a character."""
    return f"<U+{ord(found[0]):04X}>"


def escape_json(text: str) -> str:
    """Return JSON that means the same and cannot control a terminal; it may consist of several lines."""
    if not _SUSPICIOUS.search(text):
        return text
    return "".join([_escaped_form(character) for character in text])


def dump_json(value: object, **how: Any) -> str:
    """Return a value as JSON in printable ASCII, for people and programs alike."""
    return json.dumps(value, **how).replace("\x7f", "\\u007f")


def one_line(text: str, limit: int = 80) -> str:
    """Return a text as a safe, short line."""
    line = " ".join(sanitise(text[: limit * 20]).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


@lru_cache(maxsize=4096)
def _printable_form(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Cc":
        return character if character in "\n\t" else ""
    if category == "Cs":
        return "\ufffd"
    if category in {"Cf", "Zl", "Zp"} or _INVISIBLE.match(character):
        return f"<U+{ord(character):04X}>"
    return character


@lru_cache(maxsize=4096)
def _escaped_form(character: str) -> str:
    if character == "\n" or not (unicodedata.category(character) in _NO_JSON_LETTERS or _INVISIBLE.match(character)):
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))
