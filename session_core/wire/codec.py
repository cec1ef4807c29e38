"""Encode vocabulary values as JSON and decode them; the only code that does.

    decode(encode(value), type(value)) == value

holds for every value of the vocabulary; any other input raises a `ProtocolError` with the path of the fault.
`reader` and `writer` do the work.
"""

from typing import Any, TypeVar

import msgspec
from typing_extensions import TypeForm

from session_core import limits
from session_core.errors import ProtocolError
from session_core.vocabulary.events import SessionEvent
from session_core.wire import reader, strict_json, writer
from session_core.wire.catalogue import wire_classes as wire_classes
from session_core.wire.error_text import ROOT

T = TypeVar("T")

_ENCODER = msgspec.json.Encoder()


def encode(value: object) -> bytes:
    """Write a value as one JSON document, without line breaks.

    Raises:
        ProtocolError: Something in it cannot be written as JSON, such as a lone surrogate; the path says where.
    """
    try:
        return _ENCODER.encode(writer.write(value))
    except (writer.Unwritable, UnicodeEncodeError, OverflowError, TypeError) as error:
        raise writer.locate_unwritable(value) from error


def encode_event(event: SessionEvent) -> bytes:
    """Write an event once: all its readers get the same bytes."""
    if event.raw is None:
        object.__setattr__(event, "raw", encode(event))
    assert event.raw is not None
    return event.raw


def to_json(value: object) -> Any:
    """Turn a value into plain dicts, lists and scalars, to be encoded as part of an envelope.

    Raises:
        ProtocolError: A number or some open JSON in it cannot be written as JSON. A lone surrogate passes: encoding
            the envelope detects it at no further cost.
    """
    try:
        return writer.write(value)
    except writer.Unwritable as error:
        raise writer.locate_unwritable(value) from error


def decode(data: bytes | str, expected: TypeForm[T], *, max_bytes: int = limits.MAX_FRAME_BYTES) -> T:
    """Read a value of a class, of a union such as `Event` or `Part`, or any `Command`.

    Raises:
        ProtocolError: The data is not strict JSON, or not what was expected; the path says where.
    """
    return from_json(strict_json.parse(data, max_bytes=max_bytes), expected)


def from_json(plain: object, expected: TypeForm[T]) -> T:
    """Read a value from the result of `strict_json.parse`; raise `ProtocolError` like `decode`."""
    try:
        value: T = reader.read(plain, expected)
    except reader.Misfit as misfit:
        raise ProtocolError(misfit.reason, field=ROOT + misfit.path) from None
    return value
