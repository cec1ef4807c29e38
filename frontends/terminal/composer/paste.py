"""Text entering the input: safe to show, with nothing lost, and large pastes folded to a label.

Rules:
1. Newline and tab are the only control characters kept; colours and other escape sequences are removed whole.
2. Invisible and bidirectional characters stay in the text that is sent. In the input each is a stand-in of one cell, so
   columns, wrapping and the cursor match the display.
3. A large paste is one label until it is sent. A label that is not ours is ordinary text.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

import attrs

from frontends.shared.sanitise import sanitise

LARGE_LINES: Final = 10
LARGE_CHARS: Final = 1_000
MAX_PASTED_CHARS: Final = 1_000_000
"""The maximum length of a message."""
MAX_KEPT_CHARS: Final = 4_000_000
"""The limit for all folded pastes of an input together; those no longer in the input are dropped first."""
STAND_IN: Final = "\ufffd"
"""How an invisible character is displayed."""

_FIRST: Final = 0x10F000
_LAST: Final = 0x10FFFD
_ESCAPES = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)")
_ODD = re.compile(r"[^\n\t\x20-\x7e]")
_ENCODED = re.compile(f"[{chr(_FIRST)}-{chr(_LAST)}]")
_LABEL = re.compile(r"\[pasted [\d,]+ (?:lines|characters) #\d+\]")


def sanitise_paste(text: str) -> str:
    """Remove control characters, and turn every kind of line end into a newline."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not _ODD.search(text):
        return text
    return _ODD.sub(_allowed, _ESCAPES.sub("", text))


def _allowed(found: re.Match[str]) -> str:
    category = unicodedata.category(found[0])
    return "" if category == "Cc" else STAND_IN if category == "Cs" else found[0]


def is_invisible(character: str) -> bool:
    """Return whether a character has no glyph of its own, or reorders those around it."""
    return sanitise(character).startswith("<U+")


class InvisibleCharacters:
    """Swaps invisible characters for stand-ins of one cell, from a private range, and back.

    Characters of that range in the text itself are swapped too, so decoding is always exact.
    """

    def __init__(self) -> None:
        self._stand_ins: dict[str, str] = {}
        self._meant: dict[str, str] = {}

    def encode(self, text: str) -> str:
        """Return a cleaned text as the input stores it."""
        return _ODD.sub(lambda found: self._stand_in(found[0]), text) if _ODD.search(text) else text

    def decode(self, text: str) -> str:
        """Return the original text."""
        return _ENCODED.sub(lambda found: self._meant.get(found[0], STAND_IN), text) if self._meant else text

    def _stand_in(self, character: str) -> str:
        known = self._stand_ins.get(character)
        if known is not None:
            return known
        if not _ENCODED.match(character) and not is_invisible(character):
            return character
        code = _FIRST + len(self._stand_ins)
        if code > _LAST:  # no real text has thousands of different invisible characters
            return STAND_IN
        self._stand_ins[character] = chr(code)
        self._meant[chr(code)] = character
        return chr(code)


def as_drawn(encoded: str) -> str:
    """Return an encoded text as it is drawn: the same length, and no invisible characters."""
    return _ENCODED.sub(STAND_IN, encoded)


@attrs.frozen(kw_only=True)
class Prompt:
    """The content of the input: the text with its labels, and the paste behind each label."""

    text: str = ""
    pastes: tuple[tuple[str, str], ...] = ()

    @property
    def whole(self) -> str:
        """The text as it is sent."""
        pastes = dict(self.pastes)
        return _LABEL.sub(lambda found: pastes.get(found[0], found[0]), self.text) if pastes else self.text

    @property
    def chars(self) -> int:
        """The number of characters to store."""
        return len(self.text) + sum(len(content) for _, content in self.pastes)


def is_large(text: str) -> bool:
    """Return whether a paste gets folded."""
    return len(text) > LARGE_CHARS or text.count("\n") >= LARGE_LINES


class Pastes:
    """The large pastes of one input, by their labels."""

    def __init__(self) -> None:
        self._contents: dict[str, str] = {}
        self._last = 0

    def fold(self, pasted: str, present: str = "") -> str:
        """Store a paste and return its label; `present` is the current text of the input."""
        self._forget_unused(present, len(pasted))
        lines = pasted.count("\n") + 1
        size = f"{lines:,} lines" if lines > LARGE_LINES else f"{len(pasted):,} characters"
        self._last += 1
        label = f"[pasted {size} #{self._last}]"
        self._contents[label] = pasted
        return label

    def adopt(self, prompt: Prompt, present: str = "") -> str:
        """Store the pastes of another input's prompt, and return its text with labels of our own."""
        known = dict(prompt.pastes)

        def again(found: re.Match[str]) -> str:
            content = known.get(found[0])
            if content is None or self._contents.get(found[0]) == content:
                return found[0]
            return self.fold(content, f"{present}{prompt.text}")

        return _LABEL.sub(again, prompt.text) if known else prompt.text

    def prompt(self, text: str) -> Prompt:
        """Return a text with the pastes it refers to."""
        found = dict.fromkeys(_LABEL.findall(text)) if self._contents else {}
        return Prompt(
            text=text, pastes=tuple((label, self._contents[label]) for label in found if label in self._contents)
        )

    def spans(self, line: str) -> Sequence[tuple[int, int]]:
        """Return where our labels are in a line."""
        if not self._contents or "[pasted " not in line:
            return ()
        return [found.span() for found in _LABEL.finditer(line) if found[0] in self._contents]

    def _forget_unused(self, present: str, added_chars: int) -> None:
        stored_chars = sum(map(len, self._contents.values()))
        if stored_chars + added_chars <= MAX_KEPT_CHARS:
            return
        for label in [each for each in self._contents if each not in present]:
            del self._contents[label]
