"""Parse foreign JSON without the leniency of the usual parsers.

Python's own parser takes the last of two equal keys (so a checked value can hide an unchecked one), accepts NaN and
1e400, fails on deep nesting and on numbers with thousands of digits, and accepts a lone surrogate that cannot be
encoded again. Here each of these is a `ProtocolError` that says where.

The fast decoder raises at the first suspicion without knowing the position. Only then is the document decoded a second
time, with a `_Flaw` in place of each bad value, and searched.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from session_core import limits
from session_core.errors import ProtocolError
from session_core.vocabulary.frozen import JsonObject
from session_core.wire.error_text import ROOT, child_path, mismatch, quote_text

_MOST_DIGITS = len(str(limits.MAX_INTEGER)) + 1  # one for the sign

TOO_DEEP = "the JSON is nested too deeply"
_CONTAINERS = (dict, JsonObject, list, tuple)
NO_NUMBER = "NaN and infinite numbers are not JSON"
TOO_LARGE = f"whole numbers must lie within ±{limits.MAX_INTEGER}"
HALF_CHARACTER = "the text contains an unpaired surrogate"


class JsonFault(NamedTuple):
    """The path of a value that is not strict JSON, and the reason."""

    path: str
    reason: str


def parse(data: bytes | str, *, max_bytes: int = limits.MAX_FRAME_BYTES) -> Any:
    """Parse one JSON document into plain dicts, lists and scalars.

    Raises:
        ProtocolError: The document is not strict JSON, or is larger or deeper than allowed.
    """
    text = _text_of(data, max_bytes)
    plain, suspicious = _decode(text)
    # Both counts may be too high, because strings can contain brackets too; then the search finds nothing.
    may_be_deep = text.count("[") + text.count("{") > limits.MAX_JSON_DEPTH
    may_hold_surrogates = "\\u" in text
    if suspicious or may_be_deep or may_hold_surrogates:
        if fault := find_fault(plain):
            raise ProtocolError(fault.reason, field=ROOT + fault.path)
    return plain


def find_fault(plain: object, levels: int = limits.MAX_JSON_DEPTH) -> JsonFault | None:
    """Return the first fault against strict JSON, if any; its path starts at `plain`.

    Searches dicts and lists and their immutable forms, at most `levels` containers deep.
    """
    match plain:
        case None | bool():
            return None
        case str():
            return None if is_encodable(plain) else JsonFault("", HALF_CHARACTER)
        case int():
            return None if -limits.MAX_INTEGER <= plain <= limits.MAX_INTEGER else JsonFault("", TOO_LARGE)
        case float():
            return None if math.isfinite(plain) else JsonFault("", NO_NUMBER)
        case _Flaw():
            return JsonFault("", plain.reason)
        case list() | tuple() | dict() | JsonObject() if levels <= 0:
            return JsonFault("", TOO_DEEP)
        case dict() | JsonObject():
            return _fault_in_object(plain, levels - 1)
        case list() | tuple():
            return _fault_in_list(plain, levels - 1)
        case _:
            return JsonFault("", mismatch("JSON", plain))


def find_excess(plain: object, *, chars: int, values: int = limits.MAX_OPEN_JSON_VALUES) -> str | None:
    """Return how a document is larger than allowed, or None; looks no further than that, so it is always quick.

    Values without text count as some characters too, or they would be free.
    """
    size, count, open_containers = 0, 1, [plain] if isinstance(plain, _CONTAINERS) else []
    if not open_containers:
        size = len(plain) if isinstance(plain, str) else 8
    while open_containers:
        container = open_containers.pop()
        count += len(container)
        if count > values:
            return f"has more than {values:,} values"
        members: Iterable[object] = container
        size += 2 + len(container)
        if isinstance(container, Mapping):
            size += sum(map(len, container)) + 3 * len(container)
            members = container.values()
        for each in members:
            if isinstance(each, str):
                size += len(each) + 2
            elif isinstance(each, _CONTAINERS):
                open_containers.append(each)
            else:
                size += 8
        if size > chars:
            return f"is larger than {chars:,} characters"
    return f"is larger than {chars:,} characters" if size > chars else None


def is_encodable(text: str) -> bool:
    """Return whether the text can be encoded, which a lone surrogate cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class _Suspicion(Exception):
    """Something in the document is wrong; the fast decoder does not know where."""


class _Flaw:
    """A placeholder for something wrong in a decoded document."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


def _fault_in_object(plain: Mapping[Any, Any], levels: int) -> JsonFault | None:
    for key, each in plain.items():
        if not isinstance(key, str):
            return JsonFault("", mismatch("text as a key", key))
        if not is_encodable(key):
            return JsonFault("", f"the key {quote_text(key)} contains an unpaired surrogate")
        if fault := find_fault(each, levels):
            return JsonFault(child_path("", key) + fault.path, fault.reason)
    return None


def _fault_in_list(plain: Sequence[Any], levels: int) -> JsonFault | None:
    for index, each in enumerate(plain):
        if fault := find_fault(each, levels):
            return JsonFault(child_path("", index) + fault.path, fault.reason)
    return None


def _text_of(data: bytes | str, max_bytes: int) -> str:
    if isinstance(data, str):
        try:
            size = len(data.encode()) if len(data) <= max_bytes else len(data)
        except UnicodeEncodeError:
            raise ProtocolError(HALF_CHARACTER) from None
    else:
        size = len(data)
    if size > max_bytes:
        raise ProtocolError(f"the document is longer than {max_bytes} bytes")
    if isinstance(data, str):
        return data
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"not UTF-8 at byte {error.start}") from None


def _decode(text: str) -> tuple[Any, bool]:
    """Decode the text; the second value says whether the first is known to contain faults."""
    try:
        try:
            return _QUICK.decode(text), False
        except _Suspicion:
            return _SEARCHABLE.decode(text), True
    except RecursionError:
        raise ProtocolError(TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise ProtocolError(f"not JSON: {error.msg} in line {error.lineno}, column {error.colno}") from None


def _suspect(*_: object) -> NoReturn:
    raise _Suspicion


def _quick_integer(digits: str) -> int:
    if len(digits) <= _MOST_DIGITS and -limits.MAX_INTEGER <= (number := int(digits)) <= limits.MAX_INTEGER:
        return number
    raise _Suspicion


def _quick_decimal(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _Suspicion
    return number


def _quick_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Suspicion
    return found


def _searchable_integer(digits: str) -> int | _Flaw:
    return int(digits) if len(digits) <= _MOST_DIGITS else _Flaw(TOO_LARGE)


def _searchable_object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _Flaw:
    found: dict[str, Any] = {}
    for key, each in pairs:
        if key in found:
            return _Flaw(f"the key {quote_text(key)} occurs twice")
        found[key] = each
    return found


_QUICK = json.JSONDecoder(
    object_pairs_hook=_quick_object,
    parse_int=_quick_integer,
    parse_float=_quick_decimal,
    parse_constant=_suspect,
)
_SEARCHABLE = json.JSONDecoder(
    object_pairs_hook=_searchable_object,
    parse_int=_searchable_integer,
    parse_constant=lambda _: _Flaw(NO_NUMBER),
)
