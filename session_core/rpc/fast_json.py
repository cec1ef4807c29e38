"""Read and write one line of strict JSON, several times faster than `wire.strict_json` and just as strictly.

msgspec refuses what strict JSON refuses, with three exceptions: it takes the last of two equal keys, accepts integers
of any size, and nests deeper. A pass over the result detects the last two. Counting detects equal keys: the line has a
colon for each of its keys, and perhaps more within texts; the result has each key once. If the numbers agree, no key
was lost: `{"a":1,"a":2}` has two colons but yields one key. If texts contain colons, `":` is counted instead, which is
as good if no blank precedes a colon. Whenever anything is in doubt, the strict parser decides and reports the fault.

When writing, msgspec turns NaN into null, and bytes and numeric keys into text; here all of that is refused. A
`JsonObject` is written as it is and remembers that it was checked, because tool arguments are sent several times.
"""

import math
import re
from collections.abc import Collection
from typing import Any, Final

import msgspec

from session_core import limits
from session_core.errors import InvalidInput
from session_core.vocabulary.frozen import JsonObject
from session_core.wire import strict_json

_DECODER = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder(enc_hook=JsonObject.as_dict)  # no other type unknown to it gets this far
_LARGEST = limits.MAX_INTEGER
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)  # one without an end reaches to the end of the line
_BLANKS_BEFORE = (b" :", b"\t:", b"\r:", b"\n:")


class _InDoubt(Exception):
    """The fast path cannot decide."""


UNDECIDED_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, _InDoubt)
"""The exceptions of `read_quickly` when the strict parser has to decide."""


def read_json(line: bytes) -> Any:
    """Parse one JSON document into plain dicts, lists and scalars.

    Raises:
        ProtocolError: It is not strict JSON.
    """
    try:
        return read_quickly(line, limits.MAX_JSON_DEPTH)
    except UNDECIDED_ERRORS:
        return strict_json.parse(line, max_bytes=len(line))


def has_more_values(line: bytes, most: int) -> bool:
    """Return whether a document has more than so many values, without parsing it: each follows a comma or a bracket."""
    if _count_separators(line, 0, len(line)) <= most:
        return False
    count = end = 0
    for text in _TEXT.finditer(line):  # what stands in texts does not count
        count += _count_separators(line, end, text.start())
        end = text.end()
        if count > most:
            return True
    return count + _count_separators(line, end, len(line)) > most


def _count_separators(line: bytes, start: int, end: int) -> int:
    return line.count(b",", start, end) + line.count(b"[", start, end) + line.count(b"{", start, end)


def read_quickly(text: bytes, levels: int) -> Any:
    """Parse JSON of at most `levels` levels; raise one of `UNDECIDED_ERRORS` if it may not be strict JSON."""
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
        InvalidInput: Something in it cannot be written as strict JSON; the field says where.
    """
    line = write_quickly(plain, limits.MAX_JSON_DEPTH)
    if line is not None:
        return line
    fault = strict_json.find_fault(plain)
    if fault is None:
        raise InvalidInput("only plain dicts, lists and scalars can be written as JSON")
    raise InvalidInput(f"this cannot be written as JSON: {fault.reason}", field="$" + fault.path)


def write_quickly(plain: object, levels: int) -> bytes | None:
    """Write a value of at most `levels` levels; return None if it cannot be written as strict JSON."""
    try:
        _count_levels(plain, levels)
        return _ENCODER.encode(plain)
    except (UnicodeEncodeError, _InDoubt):
        return None  # a lone surrogate, or something else that is not JSON


def _count_levels(plain: Any, most: int) -> int:
    """Count the levels of objects and lists, and check everything in them.

    Raises:
        _InDoubt: There are more than `most`, or something is not strict JSON; the encoder detects lone surrogates.
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
