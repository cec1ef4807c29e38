"""Paths in a manifest, when an extension runs from a copy of its folder.

Whatever names the folder itself is turned to the copy, and what lies outside of it stays where it is.
"""

import os
import re
from pathlib import Path
from typing import Final

import attrs

from session_core.sandbox.folder_walk import is_beneath

_BETWEEN: Final = re.compile(r"([\s=:;,\"']+)")
_OPTION: Final = re.compile(r"-[A-Za-z](?=/)")
"""An option with its value, such as `-I/usr/lib`."""
_MAX_FIRST_LINE: Final = 4_096


@attrs.frozen
class CopiedPaths:
    """Translates paths between the folder that a person knows, and the copy that runs."""

    original: Path
    copy: Path

    def translate(self, text: str) -> str:
        """Return an argument or a variable with every path into the folder turned to the copy.

        A text that is a relative path out of the folder, to something that exists, becomes absolute.
        """
        if "\0" in text:
            return text  # refused later
        if os.path.normpath(text).split("/")[0] == os.pardir and os.path.lexists(self.original / text):
            text = os.path.normpath(self.original / text)
        return "".join(self._translate_word(word) for word in _BETWEEN.split(text))

    def find_program(self, command: str) -> Path:
        """Return where a command with a slash lies."""
        return self.copy / self.translate(command)

    def interpret(self, program: str) -> tuple[str, ...]:
        """Return how to start a program: its script may name an interpreter in the folder, as in virtual environments.

        The system would start the one in the original folder.
        """
        try:
            with Path(program).open("rb") as opened:
                first = opened.readline(_MAX_FIRST_LINE)
        except OSError:
            return (program,)
        words = os.fsdecode(first[2:]).strip().split(maxsplit=1) if first.startswith(b"#!") else []
        if not words or (translated := self._translate_word(words[0])) == words[0]:
            return (program,)
        return (translated, *words[1:], program)

    def show(self, text: str) -> str:
        """Return a text for people, with the paths that they know."""
        return text.replace(str(self.copy), str(self.original))

    def _translate_word(self, word: str) -> str:
        option = match[0] if (match := _OPTION.match(word)) else ""
        path = word[len(option) :]
        if not path.startswith("/"):
            return word
        folder, real = os.path.normpath(self.original), os.path.realpath(self.original)
        for place in (os.path.normpath(path), os.path.realpath(path)):
            for top in (folder, real):
                if is_beneath(place, (top,)):
                    return option + os.path.normpath(self.copy / os.path.relpath(place, top))
        return word
