"""Tests of session_core.wire.strict_json."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from session_core import limits
from session_core.errors import ProtocolError
from session_core.vocabulary.frozen import freeze_json
from session_core.wire import strict_json
from tests.strategies import plain_json

DEEPEST = limits.MAX_JSON_DEPTH


def refusal(data: bytes | str, **options: int) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        strict_json.parse(data, **options)
    return caught.value


@given(plain_json)
def test_what_json_writes_is_read_back(plain: Any) -> None:
    """Any JSON value is parsed to itself, from bytes and from text, with and without escapes."""
    for ascii_only in (True, False):
        text = json.dumps(plain, ensure_ascii=ascii_only)
        assert json.dumps(plain) == json.dumps(strict_json.parse(text))
        assert json.dumps(plain) == json.dumps(strict_json.parse(text.encode()))


@given(st.binary() | st.text(st.characters()) | st.text('[]{}",:\\ud8e1-.NI0', max_size=30))
@example("")
@example("[1")
@example('{"a":1,"a":2}')
@example('["\\ud800"]')
@example("\ufeff1")
@example(b"\xff")
@example("-Infinity")
def test_any_input_is_a_value_or_a_protocol_error(data: bytes | str) -> None:
    """Whatever comes in, parsing gives plain JSON that can be written again, or a ProtocolError and nothing else."""
    try:
        plain = strict_json.parse(data)
    except ProtocolError as error:
        error.message.encode()
    else:
        assert strict_json.find_fault(plain) is None
        json.dumps(plain, allow_nan=False, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("data", "path", "reason"),
    [
        (b'{"a":"\xff"}', "$", "not UTF-8 at byte 6"),
        ('"\ud800"', "$", strict_json.HALF_CHARACTER),
        (b"", "$", "not JSON: Expecting value in line 1, column 1"),
        (b"[1,\n2,]", "$", "not JSON: Expecting value in line 2, column 3"),
        (b"1 2", "$", "not JSON: Extra data in line 1, column 3"),
        (b'{"a":[1,NaN]}', "$.a[1]", strict_json.NO_NUMBER),
        (b'{"a":Infinity}', "$.a", strict_json.NO_NUMBER),
        (b"-Infinity", "$", strict_json.NO_NUMBER),
        (b'{"a":{"b c":1e400}}', '$.a["b c"]', strict_json.NO_NUMBER),
        (b"[-1e400]", "$[0]", strict_json.NO_NUMBER),
        (b'{"command":{"type":"a","x":1,"type":"b"}}', "$.command", 'the key "type" occurs twice'),
        (b'{"\\u0061":1,"a":1}', "$", 'the key "a" occurs twice'),
        (b'{"command":{"text":["","","","\\ud800"]}}', "$.command.text[3]", strict_json.HALF_CHARACTER),
        (b'["\\udc00\\ud800"]', "$[0]", strict_json.HALF_CHARACTER),
        (b'[{"\\ud800":1}]', "$[0]", 'the key "\\ud800" contains an unpaired surrogate'),
        (b'{"n":%d}' % (limits.MAX_INTEGER + 1), "$.n", strict_json.TOO_LARGE),
        (b"[%d]" % (-limits.MAX_INTEGER - 1), "$[0]", strict_json.TOO_LARGE),
        (b'{"n":[' + b"9" * 5_000 + b"]}", "$.n[0]", strict_json.TOO_LARGE),
        (b"[" * DEEPEST + b"[]" + b"]" * DEEPEST, "$" + "[0]" * DEEPEST, strict_json.TOO_DEEP),
        (b'{"a":' * DEEPEST + b"{}" + b"}" * DEEPEST, "$" + ".a" * DEEPEST, strict_json.TOO_DEEP),
        (b"[" * 200_000, "$", strict_json.TOO_DEEP),
        (b"[" * 200_000 + b"]" * 200_000, "$", strict_json.TOO_DEEP),
        (b'{"a":' * 200_000, "$", strict_json.TOO_DEEP),
    ],
)
def test_lenient_json_is_refused(data: bytes | str, path: str, reason: str) -> None:
    """Each leniency of ordinary parsers is refused, with the path where it stands and a reason."""
    error = refusal(data)

    assert (path, reason) == (error.field, error.reason)


def test_bounds_are_inclusive() -> None:
    """The deepest and the largest that is allowed is accepted, and a surrogate pair is one character."""
    deep = b"[" * DEEPEST + b"]" * DEEPEST

    assert json.loads(deep) == strict_json.parse(deep)
    assert limits.MAX_INTEGER == strict_json.parse(str(limits.MAX_INTEGER))
    assert -limits.MAX_INTEGER == strict_json.parse(str(-limits.MAX_INTEGER))
    assert strict_json.parse(b'"\\ud83d\\ude00"') == "😀"
    assert strict_json.parse('"' + "[" * 100 + '"') == "[" * 100


def test_long_documents_are_refused_before_they_are_parsed() -> None:
    """A document over the limit is refused whatever it holds, and text is measured as the bytes it takes."""
    assert refusal(b" " * (limits.MAX_FRAME_BYTES + 1)).field == "$"
    assert refusal("[" * (limits.MAX_FRAME_BYTES + 1)).reason == "the document is longer than 16777216 bytes"
    assert refusal(b'"xx"', max_bytes=3).reason == "the document is longer than 3 bytes"
    assert refusal('"é"', max_bytes=3).reason == "the document is longer than 3 bytes"
    assert strict_json.parse('"é"', max_bytes=4) == "é"


def test_no_more_of_a_foreign_key_is_repeated_than_needed() -> None:
    """A megabyte as a key does not become a megabyte of error message."""
    key = "x" * 1_000_000

    assert len(refusal(f'{{"{key}":1,"{key}":2}}').message) < 200
    assert len(refusal(f'{{"{key}":NaN}}').message) < 200


@given(plain_json)
def test_strict_json_has_no_fault(plain: Any) -> None:
    """Nothing is found wrong with JSON, plain or frozen."""
    assert strict_json.find_fault(plain) is None
    assert strict_json.find_fault(freeze_json(plain)) is None


@pytest.mark.parametrize(
    ("plain", "levels", "path", "reason"),
    [
        ({"a": [1, b""]}, 9, ".a[1]", "expected JSON, got a Python bytes"),
        ({"a": {1: 2}}, 9, ".a", "expected text as a key, got a number"),
        (freeze_json({"a": (1, [float("nan")])}), 9, ".a[1][0]", strict_json.NO_NUMBER),
        ([], 0, "", strict_json.TOO_DEEP),
        ([[1], {"a": []}], 2, "[1].a", strict_json.TOO_DEEP),
        (["é", "é\udfff"], 9, "[1]", strict_json.HALF_CHARACTER),
    ],
)
def test_faults_are_found_in_parsed_json(plain: Any, levels: int, path: str, reason: str) -> None:
    """What no document could hold is found in values handed in by programs too, frozen ones included."""
    assert strict_json.JsonFault(path, reason) == strict_json.find_fault(plain, levels)
