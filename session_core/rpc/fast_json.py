"""Reading and writing one line of strict JSON, several times quicker than `wire.strict_json` and just as strictly.

msgspec refuses what strict JSON refuses, with three exceptions: it takes the last of two equal keys, accepts whole
numbers of any size, and nests deeper. The last two are seen by looking through the result. Equal keys are seen by
counting: the line holds a colon for each of its keys, and perhaps more within texts; the result holds each key once. If
the numbers agree, no key was lost. Where texts hold colons, `":` is counted instead, which says as much if no blank
stands before a colon. Whenever anything is in doubt the strict parser decides, and says what is wrong.

In writing, msgspec makes null of NaN, text of bytes and of keys that are numbers; here all of that is refused. A
`JsonObject` is written as it is and remembers that it was looked through, as tool arguments go out several times.
"""

import math
from collections.abc import Collection
from typing import Any, Final

import msgspec

from session_core import limits
from session_core.errors import InvalidInput
from session_core.vocabulary.frozen import JsonObject
from session_core.wire import strict_json

_DECODER = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder(enc_hook=JsonObject.as_dict)  # nothing else that is unknown to it gets this far
_LARGEST = limits.MAX_INTEGER
_BLANKS_BEFORE = (b" :", b"\t:", b"\r:", b"\n:")


class _InDoubt(Exception):
    """The quick way cannot tell."""


UNDECIDED_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, _InDoubt)
"""What `read_quickly` raises when the strict parser has to decide."""


def read_json(line: bytes) -> Any:
    """Parse one JSON document into plain dicts, lists and scalars.

    Raises:
        ProtocolError: It is not strict JSON.
    """
    try:
        return read_quickly(line, limits.MAX_JSON_DEPTH)
    except UNDECIDED_ERRORS:
        return strict_json.parse(line, max_bytes=len(line))


def read_quickly(text: bytes, levels: int) -> Any:
    """Parse JSON of at most so many levels; raises one of `UNDECIDED_ERRORS` for all that may not be strict JSON."""
    plain = _DECODER.decode(text)
    keys = _count_keys(plain, levels)
    if text.count(b":") != keys and (text.count(b'":') != keys or any(blank in text for blank in _BLANKS_BEFORE)):
        raise _InDoubt
    return plain


def _count_keys(plain: Any, levels: int) -> int:
    members: Collection[Any]
    if type(plain) is dict:
        keys, members = len(plain), plain.values()
    elif type(plain) is list:
        keys, members = 0, plain
    elif type(plain) is int and not -_LARGEST <= plain <= _LARGEST:
        raise _InDoubt
    else:
        return 0
    if levels <= 0:
        raise _InDoubt
    for each in members:
        kind = type(each)
        if kind is dict or kind is list:
            keys += _count_keys(each, levels - 1)
        elif kind is int and not -_LARGEST <= each <= _LARGEST:
            raise _InDoubt
    return keys


def write_json(plain: object) -> bytes:
    """Write dicts, lists, tuples, scalars and `JsonObject`s as one line, without its end.

    Raises:
        InvalidInput: Something in it has no form in strict JSON; the field says where.
    """
    line = write_quickly(plain, limits.MAX_JSON_DEPTH)
    if line is not None:
        return line
    fault = strict_json.find_fault(plain)
    if fault is None:
        raise InvalidInput("only plain dicts, lists and scalars can be written as JSON")
    raise InvalidInput(f"this cannot be written as JSON: {fault.reason}", field="$" + fault.path)


def write_quickly(plain: object, levels: int) -> bytes | None:
    """Write what is at most so many levels deep; nothing comes back for what has no form in strict JSON."""
    try:
        _count_levels(plain, levels)
        return _ENCODER.encode(plain)
    except (UnicodeEncodeError, _InDoubt):
        return None  # half a character, or something else that is no JSON


def _count_levels(plain: Any, most: int) -> int:
    """Count the levels of objects and lists, and look at all that is in them.

    Raises:
        _InDoubt: There are more than `most`, or something is no strict JSON; half characters are left to the encoder.
    """
    kind = type(plain)
    if kind is str or plain is None or kind is bool:
        return 0
    if kind is int:
        if -_LARGEST <= plain <= _LARGEST:
            return 0
        raise _InDoubt
    if kind is float:
        if math.isfinite(plain):
            return 0
        raise _InDoubt
    if kind is JsonObject:
        return _count_frozen_levels(plain, most)
    if most <= 0:
        raise _InDoubt
    deepest = 0
    if kind is dict:
        for key, each in plain.items():
            if type(key) is not str:
                raise _InDoubt
            if type(each) is not str and (levels := _count_levels(each, most - 1)) > deepest:
                deepest = levels
    elif kind is list or kind is tuple:
        for each in plain:
            if type(each) is not str and (levels := _count_levels(each, most - 1)) > deepest:
                deepest = levels
    else:
        raise _InDoubt
    return deepest + 1


def _count_frozen_levels(frozen: JsonObject, most: int) -> int:
    levels = frozen.strict_depth
    if levels is None:
        levels = frozen.strict_depth = _count_levels(frozen.as_dict(), most)
    if levels > most:
        raise _InDoubt
    return levels
