"""The files that `.gitignore` and `.ignore` exclude.

Patterns are matched with two pointers that only move forward, not with regular expressions: a pattern in a hostile
repository must not keep us busy forever.
"""

import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from session_core.sandbox.file_values import read_up_to
from session_core.sandbox.openat import FOLDER_ONLY, open_beneath

if TYPE_CHECKING:
    from session_core.sandbox.workspace import Workspace

IGNORE_FILES: Final = (".gitignore", ".ignore")
"""Read in this order; later files win."""
_MAX_FILE_BYTES: Final = 256 * 1024
_MAX_RULES_PER_FILE: Final = 2_000
_MAX_RULES: Final = 10_000
"""Patterns that apply at one place; every name is compared with each of them."""

_Token = str | tuple[bool, tuple[tuple[str, str], ...]]
_Part = TypeVar("_Part")
_Item = TypeVar("_Item")


@attrs.frozen(kw_only=True)
class _Rule:
    """One line: `parts` are the names of a path; None stands for any number of folders."""

    parts: tuple[tuple[_Token, ...] | None, ...]
    is_negated: bool
    folders_only: bool


@attrs.frozen(kw_only=True)
class _Layer:
    """The lines of the ignore files in one folder."""

    folder: str
    rules: tuple[_Rule, ...]


@attrs.frozen
class IgnoreRules:
    """The rules of the ignore files in a folder and the folders above it; deeper files and later lines win."""

    _layers: tuple[_Layer, ...] = ()

    @classmethod
    def load(cls, workspace: "Workspace") -> "IgnoreRules":
        """Start with git's own `.git/info/exclude`; a walk adds the ignore files on its way."""
        with suppress(Exception):
            content = workspace.read(".git/info/exclude", max_bytes=_MAX_FILE_BYTES)
            return cls().with_lines("", content.data.decode("utf-8", "surrogateescape"))
        return cls()

    def with_lines(self, folder: str, text: str) -> "IgnoreRules":
        """Add the lines of an ignore file that lies in this folder, given relative to the root."""
        taken = sum(len(layer.rules) for layer in self._layers)
        room = min(_MAX_RULES_PER_FILE, _MAX_RULES - taken)
        lines = text.removeprefix("\ufeff").split("\n")
        rules = tuple(rule for line in lines[: 10 * _MAX_RULES_PER_FILE] if (rule := _parse_rule(line)) is not None)[
            :room
        ]
        return IgnoreRules((*self._layers, _Layer(folder=folder, rules=rules))) if rules else self

    def with_files_of(self, folder: int, relative: str, names: set[str]) -> "IgnoreRules":
        """Add the ignore files in an open folder, whose names are known."""
        rules = self
        for name in IGNORE_FILES:
            if name in names:
                with suppress(OSError):  # a link, a pipe, or not accessible: no rules
                    rules = rules.with_lines(relative, _read_text(folder, name))
        return rules

    def with_rules_above(self, root: int, relative: str) -> "IgnoreRules":
        """Add the ignore files of the folders above `relative`, from the open root down; not those in it."""
        rules = self
        names = [name for name in relative.split("/") if name]
        for depth in range(len(names)):
            above = "/".join(names[:depth])
            with suppress(OSError):
                folder = open_beneath(root, above, FOLDER_ONLY)
                try:
                    rules = rules.with_files_of(folder, above, set(IGNORE_FILES))
                finally:
                    os.close(folder)
        return rules

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Return whether this path, relative to the root, is excluded; the walk checks the folders above it."""
        for layer in reversed(self._layers):
            if layer.folder and not path.startswith(layer.folder + "/"):
                continue
            names = path[len(layer.folder) :].lstrip("/").split("/")
            for rule in reversed(layer.rules):
                if (is_folder or not rule.folders_only) and matches_with_gaps(rule.parts, names, None, _name_matches):
                    return not rule.is_negated
        return False


def _read_text(folder: int, name: str) -> str:
    descriptor = open_beneath(folder, name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return read_up_to(descriptor, _MAX_FILE_BYTES).decode("utf-8", "surrogateescape")
    finally:
        os.close(descriptor)


def _parse_rule(line: str) -> _Rule | None:
    line = _without_trailing_blanks(line.removesuffix("\r"))
    if not line or line.startswith("#"):
        return None
    is_negated = line.startswith("!")
    line = line[1:] if is_negated else line
    folders_only = line.endswith("/")
    line = line.removesuffix("/") if folders_only else line
    anchored = "/" in line
    names = line.removeprefix("/").split("/")
    if "" in names:
        return None  # an empty name, which matches nothing in git
    parts: list[tuple[_Token, ...] | None] = [] if anchored else [None]
    for name in names:
        if name != "**":
            tokens = _tokenize(name)
            if tokens is None:
                return None
            parts.append(tokens)
        elif not parts or parts[-1] is not None:
            parts.append(None)
    if parts[-1] is None:  # "a/**" is everything inside a, but not a itself
        parts.append((_ANY_NUMBER,))
    return _Rule(parts=tuple(parts), is_negated=is_negated, folders_only=folders_only)


def _without_trailing_blanks(line: str) -> str:
    bare = line.rstrip(" \t")
    backslashes = len(bare) - len(bare.rstrip("\\"))
    return line[: len(bare) + 1] if backslashes % 2 and len(bare) < len(line) else bare


_ANY_NUMBER: Final = "**"
_ANY_ONE: Final = "??"
"""Two characters each, so they differ from any letter of the pattern."""


def _tokenize(name: str) -> tuple[_Token, ...] | None:
    """Split a pattern for one name into letters, wildcards and sets; None if it cannot match anything."""
    tokens: list[_Token] = []
    position = 0
    while position < len(name):
        letter = name[position]
        position += 1
        if letter == "*":
            if not tokens or tokens[-1] != _ANY_NUMBER:
                tokens.append(_ANY_NUMBER)
        elif letter == "?":
            tokens.append(_ANY_ONE)
        elif letter == "[":
            found = _read_set(name, position)
            if found is None:
                return None
            token, position = found
            tokens.append(token)
        elif letter == "\\":
            if position == len(name):
                return None
            tokens.append(name[position])
            position += 1
        else:
            tokens.append(letter)
    return tuple(tokens)


def _read_set(name: str, position: int) -> tuple[_Token, int] | None:
    negated = name[position : position + 1] in {"!", "^"}
    position += negated
    ranges: list[tuple[str, str]] = []
    first = True
    while position < len(name):
        if name[position] == "]" and not first:
            return (negated, tuple(ranges)), position + 1
        first = False
        if name.startswith("[:", position) and (end := name.find(":]", position)) > 0:
            ranges.extend(_CLASSES.get(name[position + 2 : end], ()))
            position = end + 2
            continue
        low, position = _read_letter(name, position)
        high = low
        if name.startswith("-", position) and position + 1 < len(name) and name[position + 1] != "]":
            high, position = _read_letter(name, position + 1)
        ranges.append((low, high))
    return None


def _read_letter(name: str, position: int) -> tuple[str, int]:
    if name[position] == "\\" and position + 1 < len(name):
        position += 1
    return name[position], position + 1


_CLASSES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "alnum": (("0", "9"), ("A", "Z"), ("a", "z")),
    "alpha": (("A", "Z"), ("a", "z")),
    "digit": (("0", "9"),),
    "lower": (("a", "z"),),
    "upper": (("A", "Z"),),
    "space": ((" ", " "), ("\t", "\r")),
    "xdigit": (("0", "9"), ("A", "F"), ("a", "f")),
}


def _name_matches(tokens: tuple[_Token, ...] | None, name: str) -> bool:
    return tokens is not None and matches_with_gaps(tokens, name, _ANY_NUMBER, _token_matches)


def _token_matches(token: _Token, letter: str) -> bool:
    if isinstance(token, tuple):
        negated, ranges = token
        return negated != any(low <= letter <= high for low, high in ranges)
    return token in (letter, _ANY_ONE)


def matches_with_gaps(
    pattern: Sequence[_Part], items: Sequence[_Item], gap: _Part, fits: Callable[[_Part, _Item], bool]
) -> bool:
    """Return whether all items match a pattern, one by one; a gap in it stands for any number of items.

    After a gap, the first match of the rest is as good as any later one.
    """
    part = item = 0
    parts, length = len(pattern), len(items)
    resume: tuple[int, int] | None = None
    while item < length:
        if part < parts and pattern[part] == gap:
            part += 1
            resume = (part, item)
        elif part < parts and fits(pattern[part], items[item]):
            part, item = part + 1, item + 1
        elif resume is not None:
            part, item = resume[0], resume[1] + 1
            resume = (part, item)
        else:
            return False
    return all(rest == gap for rest in pattern[part:])
