"""Reads the fields of an extension's messages, with a message and a path for each mistake.

Unknown keys are ignored, as the protocol requires; a null value counts as missing.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from session_core.limits import MAX_INTEGER, MAX_NAME_CHARS, MAX_OPEN_JSON_DEPTH, MAX_OPEN_JSON_VALUES
from session_core.vocabulary.frozen import JsonObject
from session_core.wire.error_text import child_path, describe_json, mismatch, quote_text
from session_core.wire.strict_json import find_excess, find_fault, is_encodable


class InvalidDocumentField(Exception):
    """A field is invalid; `path` leads to it, such as `tools[0].name`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.reason = reason


class DocumentFields:
    """One object of a document; every method names the field in its error.

    Raises:
        InvalidDocumentField: This is not an object.
    """

    def __init__(self, plain: object, path: str = "") -> None:
        if not isinstance(plain, dict):
            raise InvalidDocumentField(path, mismatch("an object", plain))
        self.plain: Mapping[Any, Any] = plain
        self.path = path

    def field_path(self, key: str | int) -> str:
        """Return the path of a field."""
        return child_path(self.path, key).removeprefix(".")

    def __contains__(self, key: str) -> bool:
        return self.plain.get(key) is not None

    def require(self, key: str) -> Any:
        """Return whatever a required field holds."""
        if key not in self:
            raise InvalidDocumentField(self.field_path(key), "is missing")
        return self.plain[key]

    def text(self, key: str, *, most: int = MAX_NAME_CHARS, empty: bool = False) -> str:
        """Return a required string."""
        return check_text(self.require(key), self.field_path(key), most=most, empty=empty)

    def text_or_none(self, key: str, *, most: int = MAX_NAME_CHARS, empty: bool = False) -> str | None:
        """Return a string, or None if it is missing."""
        return self.text(key, most=most, empty=empty) if key in self else None

    def boolean(self, key: str, *, default: bool = False) -> bool:
        """Return a boolean."""
        value = self.plain.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise InvalidDocumentField(self.field_path(key), mismatch("true or false", value))
        return value

    def integer(self, key: str, *, least: int, most: int) -> int | None:
        """Return a whole number, or None if it is missing."""
        value = self.plain.get(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise InvalidDocumentField(
                self.field_path(key), f"must be a whole number from {least} to {most:,}, got {_describe_value(value)}"
            )
        return value

    def number(self, key: str, *, least: float, most: float) -> float | None:
        """Return a number, or None if it is missing."""
        value = self.plain.get(key)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
            raise InvalidDocumentField(
                self.field_path(key), f"must be a number from {least:g} to {most:g}, got {_describe_value(value)}"
            )
        return float(value)

    def texts(self, key: str, *, most: int, chars: int = MAX_NAME_CHARS, empty: bool = False) -> tuple[str, ...]:
        """Return a list of strings; empty if it is missing."""
        return tuple(check_text(each, path, most=chars, empty=empty) for each, path in self.items(key, most=most))

    def objects(self, key: str, *, most: int) -> "Iterator[DocumentFields]":
        """Iterate over a list of objects; empty if it is missing."""
        return (DocumentFields(each, path) for each, path in self.items(key, most=most))

    def items(self, key: str, *, most: int) -> Iterator[tuple[object, str]]:
        """Iterate over a list of anything, each with its path; empty if it is missing."""
        value = self.plain.get(key)
        if value is None:
            return
        if not isinstance(value, list):
            raise InvalidDocumentField(self.field_path(key), mismatch("a list", value))
        if len(value) > most:
            raise InvalidDocumentField(self.field_path(key), f"has {len(value):,} items, and the limit is {most:,}")
        for number, each in enumerate(value):
            yield each, f"{self.field_path(key)}[{number}]"

    def table(self, key: str) -> "DocumentFields | None":
        """Return an object within this one, or None if it is missing."""
        return DocumentFields(self.plain[key], self.field_path(key)) if key in self else None

    def json_object(self, key: str, *, most: int) -> JsonObject:
        """Return a required object of any shape, frozen, with at most so many characters in total."""
        return frozen_object(self.require(key), self.field_path(key), most=most)


def frozen_object(plain: object, path: str, *, most: int) -> JsonObject:
    """Freeze a JSON object of any shape after checking it as `check_object` does."""
    check_object(plain, path, most=most)
    return JsonObject(plain)  # type: ignore[arg-type]  # checked


def check_object(plain: object, path: str, *, most: int, values: int = MAX_OPEN_JSON_VALUES) -> None:
    """Check a JSON object of any shape: its size, its depth and its numbers.

    Raises:
        InvalidDocumentField: It is not an object, not strict JSON, or too large.
    """
    if not isinstance(plain, dict):
        raise InvalidDocumentField(path, mismatch("an object", plain))
    if excess := find_excess(
        plain, chars=most, values=values
    ):  # first, because the rest takes as long as the object is large
        raise InvalidDocumentField(path, excess)
    if fault := find_fault(plain, MAX_OPEN_JSON_DEPTH):
        raise InvalidDocumentField(f"{path}{fault.path}", fault.reason)


def check_text(value: object, path: str, *, most: int, empty: bool = False) -> str:
    """Return a string after checking that it is not empty, not too long, and can be encoded again.

    Raises:
        InvalidDocumentField: It is anything else.
    """
    if not isinstance(value, str):
        raise InvalidDocumentField(path, mismatch("text", value))
    if not value and not empty:
        raise InvalidDocumentField(path, "must not be empty")
    if len(value) > most:
        raise InvalidDocumentField(path, f"is longer than {most:,} characters")
    if "\0" in value or not is_encodable(value):
        raise InvalidDocumentField(path, "contains a NUL character or an unpaired surrogate")
    return value


def size_of(plain: object) -> int:
    """Return roughly the characters of a document; values without text count a little too, or they would be free."""
    match plain:
        case str():
            return len(plain) + 2
        case Mapping():
            return 2 + sum(len(key) + 4 + size_of(each) for key, each in plain.items())
        case list() | tuple():
            return 2 + sum(1 + size_of(each) for each in plain)
        case _:
            return 8


def _describe_value(value: object) -> str:
    if isinstance(value, str):
        return quote_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > MAX_INTEGER:
        return describe_json(value)
    return f"{value}"
