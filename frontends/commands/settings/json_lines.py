"""Finding the line of a JSON file that a field stands in: people look for lines, and JSON's own readers forget them."""

import re
from json import JSONDecodeError, loads
from pathlib import Path

import attrs

_LONGEST = 1_000_000
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def line_in_file(file: Path, field: str) -> int | None:
    """Return the line of a field in a file; None where that cannot be told."""
    try:
        with file.open("rb") as opened:
            text = opened.read(_LONGEST).decode("utf-8-sig")
    except (OSError, ValueError):
        return None
    return find_line(text, field)


def find_line(text: str, field: str) -> int | None:
    """Return the line of the field that a dotted name means, or of the nearest one around it.

    Of a text that is no JSON it is the line where it stops being that.
    """
    try:
        loads(text)
    except JSONDecodeError as error:
        return error.lineno
    except (ValueError, RecursionError):
        return None
    found: tuple[int, int] | None = None
    for name, place in _keys(text):
        # A name may hold dots itself, so whole names are compared, not their parts.
        if (name == field or field.startswith((f"{name}.", f"{name}["))) and (found is None or len(name) > found[0]):
            found = (len(name), place)
    return None if found is None else text.count("\n", 0, found[1]) + 1


@attrs.define
class _OpenContainer:
    """An object or a list that the reader is in, with the name it has."""

    name: str
    is_object: bool
    key: str = ""
    wants_key: bool = True


def _keys(text: str) -> list[tuple[str, int]]:
    """Return the dotted name of every key of every object, and where it stands; `text` must be JSON."""
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
