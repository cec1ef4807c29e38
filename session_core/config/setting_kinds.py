"""Types and bounds of single settings: each kind reads a value from TOML, or from the text of a variable or flag."""

import re
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final, Protocol

import attrs

from session_core.errors import InvalidInput
from session_core.limits import MAX_INTEGER, MAX_PATH_CHARS
from session_core.providers.catalogue import find_nearest_name
from session_core.providers.secrets import Secret, redact

MAX_TEXTS: Final = 256
"""The most entries of one list; people do not write longer lists by hand."""
_YES: Final = frozenset({"true", "yes", "on", "1"})
_NO: Final = frozenset({"false", "no", "off", "0"})
_LONGEST_SECRET: Final = 4_096


class InvalidValue(Exception):
    """A value cannot be used; the message says why."""


class SettingKind(Protocol):
    """A type of setting; `expected` names it in a sentence."""

    @property
    def expected(self) -> str:
        """A description of a valid value."""
        ...

    def read(self, value: object) -> Any:
        """Return the value as the program uses it, or raise `InvalidValue`."""
        ...

    def read_text(self, text: str) -> Any:
        """Read it from the text of a variable or flag."""
        return self.read(text)


def format_value(value: object) -> str:
    """Return a wrong value for an error message: short, and without anything that looks like a key."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() if abs(value) > MAX_INTEGER:
            return "a number that is too large"
        case str():
            safe = redact(value[:4_000])
            return repr(safe if len(safe) <= 40 else f"{safe[:40]}...")
        case dict():
            return "a table"
        case list():
            return "a list"
        case _:
            return str(value)[:40]


def _wrong(kind: SettingKind, value: object) -> InvalidValue:
    return InvalidValue(f"expected {kind.expected}, not {format_value(value)}")


@attrs.frozen
class ChoiceKind(SettingKind):
    """One of a few words."""

    options: tuple[str, ...]

    @property
    def expected(self) -> str:
        return f"one of {', '.join(self.options)}"

    def read(self, value: object) -> str:
        if isinstance(value, str) and value in self.options:
            return value
        probably = find_nearest_name(value, self.options) if isinstance(value, str) else None
        raise InvalidValue(f"{_wrong(self, value)}{'' if probably is None else f'; did you mean {probably}?'}")


@attrs.frozen
class IntegerKind:
    """A whole number within bounds."""

    low: int
    high: int = MAX_INTEGER

    @property
    def expected(self) -> str:
        bounds = f"from {self.low:,} to {self.high:,}" if self.high < MAX_INTEGER else f"of at least {self.low:,}"
        return f"a whole number {bounds}"

    def read(self, value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high:
            return value
        raise _wrong(self, value)

    def read_text(self, text: str) -> int:
        if re.fullmatch(r"[0-9]{1,20}", text):
            return self.read(int(text))
        raise _wrong(self, text)


@attrs.frozen
class NumberKind:
    """A number with or without a fraction; `low` itself counts only if `including`."""

    low: Decimal
    high: Decimal
    including: bool = True

    @property
    def expected(self) -> str:
        return (
            f"a number from {self.low} to {self.high:,}"
            if self.including
            else f"a number greater than {self.low} and at most {self.high:,}"
        )

    def read(self, value: object) -> Decimal:
        if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
            number = Decimal(value)
            if number.is_finite() and self.low <= number <= self.high and (self.including or number != self.low):
                return number
        raise _wrong(self, value)

    def read_text(self, text: str) -> Decimal:
        try:
            return self.read(Decimal(text))
        except InvalidOperation:
            raise _wrong(self, text) from None


@attrs.frozen
class BooleanKind:
    """True or false."""

    expected: str = "true or false"

    def read(self, value: object) -> bool:
        if isinstance(value, bool):
            return value
        raise _wrong(self, value)

    def read_text(self, text: str) -> bool:
        word = text.strip().lower()
        if word in _YES | _NO:
            return word in _YES
        raise _wrong(self, text)


@attrs.frozen
class TextKind(SettingKind):
    """Short text on one line; `pattern` must fit all of it."""

    expected: str = "text on one line"
    longest: int = 200
    pattern: re.Pattern[str] | None = None

    def read(self, value: object) -> str:
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise _wrong(self, value)
        if len(value) > self.longest:
            raise InvalidValue(f"expected {self.expected} of at most {self.longest} characters, not {len(value)}")
        if self.pattern is not None and not self.pattern.fullmatch(value):
            raise _wrong(self, value)
        return value


@attrs.frozen
class PathKind(SettingKind):
    """A path that does not depend on the current folder: from / or from ~."""

    expected: str = "a path that begins with / or ~/"

    def read(self, value: object) -> str:
        text = TextKind(expected=self.expected, longest=MAX_PATH_CHARS).read(value)
        if not text.startswith(("/", "~/")):
            raise _wrong(self, value)
        try:
            return str(Path(text).expanduser())
        except RuntimeError:
            raise InvalidValue("you have no home directory, so ~ cannot be expanded; write the path from /") from None


@attrs.frozen
class DateKind(SettingKind):
    """A date."""

    expected: str = "a date such as 2027-01-31"

    def read(self, value: object) -> date:
        if type(value) is date:
            return value
        raise _wrong(self, value)


@attrs.frozen
class ListKind:
    """A list of values of one kind, each once; in a variable they are separated by commas."""

    item: SettingKind

    @property
    def expected(self) -> str:
        return f"a list in which each entry is {self.item.expected}"

    def read(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise _wrong(self, value)
        if len(value) > MAX_TEXTS:
            raise InvalidValue(f"expected at most {MAX_TEXTS} entries, not {len(value)}")
        return tuple(dict.fromkeys(self.item.read(each) for each in value))

    def read_text(self, text: str) -> tuple[str, ...]:
        return self.read([each.strip() for each in text.split(",") if each.strip()])


# --- addresses and keys: their values are never repeated --------------------------------------------------------------


def parse_base_url(value: object) -> str:
    """Return the address of a provider, in the one form that calls accept."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_SECRET:
        raise InvalidValue("expected an address such as https://models.example.com/v1")
    _check_endpoint(base_url=value)
    return value.rstrip("/")


def parse_key(value: object) -> Secret:
    """Return a key that can be sent."""
    if not isinstance(value, str) or len(value) > _LONGEST_SECRET:
        raise InvalidValue(f"expected a key of at most {_LONGEST_SECRET} characters")
    secret = Secret(value)
    _check_endpoint(key=secret)
    return secret


def parse_header(name: str, value: object) -> Secret:
    """Return the value of a header that can be sent."""
    if not isinstance(value, str) or len(value) > _LONGEST_SECRET:
        raise InvalidValue(f"expected the value of a header, of at most {_LONGEST_SECRET} characters")
    secret = Secret(value)
    _check_endpoint(headers={name: secret})
    return secret


def _check_endpoint(**parts: Any) -> None:
    from session_core.providers.endpoint import Endpoint

    try:
        Endpoint(**{"base_url": "https://localhost", **parts})
    except InvalidInput as refused:
        raise InvalidValue(f"{refused.message[:1].lower()}{refused.message[1:].rstrip('.')}") from None
