"""Reading what an extension says field by field, with a sentence and the way there for each mistake.

Keys that nobody knows are passed over, as the protocol wants it; a key that is null counts as missing.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from session_core.limits import MAX_INTEGER, MAX_NAME_CHARS, MAX_OPEN_JSON_DEPTH
from session_core.vocabulary.frozen import JsonObject
from session_core.wire.error_text import child, kind_of, mismatch, quoted
from session_core.wire.strict_json import find_fault, is_whole


class WrongField(Exception):
    """A field is not what it should be; `path` leads to it, such as `tools[0].name`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.reason = reason


class Fields:
    """One object of a document; every method names the field in its complaint.

    Raises:
        WrongField: This is no object.
    """

    def __init__(self, plain: object, path: str = "") -> None:
        if not isinstance(plain, dict):
            raise WrongField(path, mismatch("an object", plain))
        self.plain: Mapping[Any, Any] = plain
        self.path = path

    def at(self, key: str | int) -> str:
        """Return the way to a field."""
        return child(self.path, key).removeprefix(".")

    def __contains__(self, key: str) -> bool:
        return self.plain.get(key) is not None

    def text(self, key: str, *, most: int = MAX_NAME_CHARS, empty: bool = False) -> str:
        """Return a text that must be there."""
        if key not in self:
            raise WrongField(self.at(key), "is missing")
        return checked_text(self.plain[key], self.at(key), most=most, empty=empty)

    def text_or_none(self, key: str, *, most: int = MAX_NAME_CHARS, empty: bool = False) -> str | None:
        """Return a text, or nothing when it is missing."""
        return self.text(key, most=most, empty=empty) if key in self else None

    def truth(self, key: str, *, default: bool = False) -> bool:
        """Return true or false."""
        value = self.plain.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise WrongField(self.at(key), mismatch("true or false", value))
        return value

    def whole(self, key: str, *, least: int, most: int) -> int | None:
        """Return a whole number, or nothing when it is missing."""
        value = self.plain.get(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise WrongField(self.at(key), f"must be a whole number from {least} to {most:,}, got {_shown(value)}")
        return value

    def number(self, key: str, *, least: float, most: float) -> float | None:
        """Return a number, or nothing when it is missing."""
        value = self.plain.get(key)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
            raise WrongField(self.at(key), f"must be a number from {least:g} to {most:g}, got {_shown(value)}")
        return float(value)

    def texts(self, key: str, *, most: int, chars: int = MAX_NAME_CHARS, empty: bool = False) -> tuple[str, ...]:
        """Return a list of texts; an empty one when it is missing."""
        return tuple(checked_text(each, path, most=chars, empty=empty) for each, path in self.items(key, most=most))

    def objects(self, key: str, *, most: int) -> "Iterator[Fields]":
        """Go through a list of objects; an empty one when it is missing."""
        return (Fields(each, path) for each, path in self.items(key, most=most))

    def items(self, key: str, *, most: int) -> Iterator[tuple[object, str]]:
        """Go through a list of anything, each with the way there; an empty one when it is missing."""
        value = self.plain.get(key)
        if value is None:
            return
        if not isinstance(value, list):
            raise WrongField(self.at(key), mismatch("a list", value))
        if len(value) > most:
            raise WrongField(self.at(key), f"has {len(value):,} items, and {most:,} are the most")
        for number, each in enumerate(value):
            yield each, f"{self.at(key)}[{number}]"

    def table(self, key: str) -> "Fields | None":
        """Return an object within this one, or nothing when it is missing."""
        return Fields(self.plain[key], self.at(key)) if key in self else None

    def json_object(self, key: str, *, most: int) -> JsonObject:
        """Return an object of any shape that must be there, frozen, of at most so many characters in all."""
        if key not in self:
            raise WrongField(self.at(key), "is missing")
        return frozen_object(self.plain[key], self.at(key), most=most)


def frozen_object(plain: object, path: str, *, most: int) -> JsonObject:
    """Freeze a JSON object of any shape after a look at its depth, its numbers and its size.

    Raises:
        WrongField: It is no object, no strict JSON, or too large.
    """
    if not isinstance(plain, dict):
        raise WrongField(path, mismatch("an object", plain))
    if fault := find_fault(plain, MAX_OPEN_JSON_DEPTH):
        raise WrongField(f"{path}{fault.path}", fault.reason)
    if size_of(plain) > most:
        raise WrongField(path, f"is larger than {most:,} characters")
    return JsonObject(plain)


def checked_text(value: object, path: str, *, most: int, empty: bool = False) -> str:
    """Return a text that has something in it, is not too long, and can be written out again.

    Raises:
        WrongField: It is anything else.
    """
    if not isinstance(value, str):
        raise WrongField(path, mismatch("text", value))
    if not value and not empty:
        raise WrongField(path, "must not be empty")
    if len(value) > most:
        raise WrongField(path, f"is longer than {most:,} characters")
    if "\0" in value or not is_whole(value):
        raise WrongField(path, "holds a NUL character or half a character")
    return value


def size_of(plain: object) -> int:
    """Roughly the characters of a document; what has no text counts a little too, or emptiness would be free."""
    match plain:
        case str():
            return len(plain) + 2
        case Mapping():
            return 2 + sum(len(key) + 4 + size_of(each) for key, each in plain.items())
        case list() | tuple():
            return 2 + sum(1 + size_of(each) for each in plain)
        case _:
            return 8


def _shown(value: object) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > MAX_INTEGER:
        return kind_of(value)
    return f"{value}"
