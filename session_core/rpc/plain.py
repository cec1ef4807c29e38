"""Reading and writing one line of strict JSON, several times quicker than `wire.strict_json` and just as strictly.

msgspec refuses what strict JSON refuses, with three exceptions: it takes the last of two equal keys, accepts whole
numbers of any size, and nests deeper. The last two are seen by looking through the result. Equal keys are seen by
counting: where no blank stands before a colon, the line holds `":` once for each of its keys, and perhaps more within
texts; the result holds each key once. If the numbers agree, no key was lost. Whenever anything is in doubt the strict
parser decides, and says what is wrong.

In writing, msgspec makes null of NaN, text of bytes and of keys that are numbers; here all of that is refused.
"""

import math
from collections.abc import Collection
from typing import Any

import msgspec

from session_core import limits
from session_core.errors import InvalidInput
from session_core.wire import strict_json

_DECODER = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder()
_LARGEST = limits.MAX_INTEGER


class _InDoubt(Exception):
    """The quick way cannot tell."""


def read_json(line: bytes) -> Any:
    """Parse one JSON document into plain dicts, lists and scalars.

    Raises:
        ProtocolError: It is not strict JSON.
    """
    try:
        plain = _DECODER.decode(line)
        keys = _count_keys(plain, limits.MAX_JSON_DEPTH)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, _InDoubt):
        return strict_json.parse(line, max_bytes=len(line))
    if line.count(b'":') != keys or b" :" in line or b"\t:" in line or b"\r:" in line or b"\n:" in line:
        return strict_json.parse(line, max_bytes=len(line))
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
    """Write plain dicts, lists, tuples and scalars as one line, without its end.

    Raises:
        InvalidInput: Something in it has no form in strict JSON; the field says where.
    """
    try:
        if _is_plain(plain, limits.MAX_JSON_DEPTH):
            return _ENCODER.encode(plain)
    except UnicodeEncodeError:
        pass  # half a character; found below
    fault = strict_json.find_fault(plain)
    if fault is None:
        raise InvalidInput("only plain dicts, lists and scalars can be written as JSON")
    raise InvalidInput(f"this cannot be written as JSON: {fault.reason}", field="$" + fault.path)


def _is_plain(plain: Any, levels: int) -> bool:
    kind = type(plain)
    if kind is str or plain is None or kind is bool:
        return True
    if kind is int:
        return bool(-_LARGEST <= plain <= _LARGEST)
    if kind is float:
        return math.isfinite(plain)
    if levels <= 0:
        return False
    if kind is dict:
        for key, each in plain.items():
            if type(key) is not str or not (type(each) is str or _is_plain(each, levels - 1)):
                return False
        return True
    if kind is list or kind is tuple:
        return all(type(each) is str or _is_plain(each, levels - 1) for each in plain)
    return False
