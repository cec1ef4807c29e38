"""Finds the line of a field in a JSON file: people look for lines, and JSON parsers forget them."""

import re
from json import JSONDecodeError, loads
from pathlib import Path

import attrs

_LONGEST = 1_000_000
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def line_in_file(file: Path, field: str) -> int | None:
    """Return the line of a field in a file; None if it cannot be determined."""
    try:
        with file.open("rb") as opened:
            text = opened.read(_LONGEST).decode("utf-8-sig")
    except (OSError, ValueError):
        return None
    return find_line(text, field)


def find_line(text: str, field: str) -> int | None:
    """Return the line of the field with a dotted name, or of the nearest one around it.

    For invalid JSON, return the line where parsing fails.
    """
    try:
        loads(text)
    except JSONDecodeError as error:
        return error.lineno
    except (ValueError, RecursionError):
        return None
    found: tuple[int, int] | None = None
    for name, place in _keys(text):
        # A name may contain dots itself, so whole names are compared, not their parts.
        if (name == field or field.startswith((f"{name}.", f"{name}["))) and (found is None or len(name) > found[0]):
            found = (len(name), place)
    return None if found is None else text.count("\n", 0, found[1]) + 1


@attrs.define
class _OpenContainer:
    """An object or list the scanner is inside, with its name."""

    name: str
    is_object: bool
    key: str = ""
    wants_key: bool = True


def _keys(text: str) -> list[tuple[str, int]]:
    """Return the dotted name and position of every key of every object; `text` must be JSON."""
    found: list[tuple[str, int]] = []
    inside: list[_OpenContainer] = []
    for token in _TOKEN.finditer(text):
        word, here = token[0], inside[-1] if inside else None
        if word in "{[":
            inside.append(_OpenContainer(name="" if here is None else here.key, is_object=word == "{"))
        elif word in "}]":
            inside.pop()
        elif here is None or not here.is_object:
            continue
        elif word == ",":
            here.wants_key = True
        elif here.wants_key and word.startswith('"'):
            key = str(loads(word, strict=False))
            here.key, here.wants_key = f"{here.name}.{key}" if here.name else key, False
            found.append((here.key, token.start()))
    return found
