"""From a line to a message: strict about JSON, tolerant about what peers really send, and never an exception."""

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from session_core import limits
from session_core.errors import InvalidInput, ProtocolError
from session_core.rpc.broken_lines import MessagePeek, peek_message
from session_core.rpc.fast_json import read_json
from session_core.rpc.messages import (
    FailureReply,
    Notification,
    Request,
    RpcMessage,
    SuccessReply,
    UnusableLine,
    encode_failure,
    encode_notification,
    encode_request,
    encode_success,
    parse,
)
from session_core.vocabulary.frozen import JsonObject
from session_core.wire import strict_json

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-limits.MAX_INTEGER, limits.MAX_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["a", "id", 'x":', " :"]) | st.text("ab:"), inner),
    max_leaves=12,
)
IDS = st.integers(-limits.MAX_INTEGER, limits.MAX_INTEGER) | st.text("ab1", max_size=limits.MAX_RPC_ID_CHARS)
PIECES = [b"{", b"}", b"[", b"]", b'"a"', b'"id"', b":", b" :", b",", b"1", b"1e999", b"NaN", b" ", b"\t", b'"\\ud800"']


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}', Request(id=1, method="ping", params={})),
        ('{"id":"a","method":"ping","more":[1]}\r', Request(id="a", method="ping", params={})),
        ('{"id":1,"method":"ping","params":null}', Request(id=1, method="ping", params={})),
        ('{"method":"log","params":{"a":1}}', Notification(method="log", params={"a": 1})),
        ('{"id":1,"result":null}', SuccessReply(id=1, result=None)),
        ('{"id":1,"result":[1],"error":null}', SuccessReply(id=1, result=[1])),
        ('{"id":1,"error":{"code":-1,"message":"no"}}', FailureReply(id=1, code=-1, message="no")),
        ('{"id":1,"result":null,"error":{"code":-1,"message":"no"}}', FailureReply(id=1, code=-1, message="no")),
        (
            '{"id":null,"error":{"code":-1,"message":"no","data":2}}',
            FailureReply(id=None, code=-1, message="no", data=2),
        ),
    ],
)
def test_what_is_understood(line: str, message: RpcMessage) -> None:
    """Messages are told apart by their keys, and unknown keys are passed over."""
    assert message == parse(line.encode())


@pytest.mark.parametrize(
    ("line", "id", "kind"),
    [
        (b"hello", None, "unknown"),
        (b'\xef\xbb\xbf{"id":1,"method":"x"}', None, "unknown"),
        (b'{"id":1,"method":"x"', 1, "request"),
        (b'{"id":1,"method":"x","params":{} } x', 1, "request"),
        (b"null", None, "unknown"),
        (b"5", None, "unknown"),
        (b'[{"id":1,"method":"ping"}]', None, "unknown"),
        (b"{}", None, "unknown"),
        (b'{"id":1}', 1, "unknown"),
        (b'{"id":true,"method":"x"}', None, "request"),
        (b'{"id":1.0,"method":"x"}', None, "request"),
        (b'{"id":null,"method":"x"}', None, "request"),
        (b'{"id":1,"method":2}', 1, "request"),
        (b'{"id":1,"method":"x","params":[1]}', 1, "request"),
        (b'{"result":1}', None, "reply"),
        (b'{"id":[1],"error":{"code":1,"message":"m"}}', None, "reply"),
        (b'{"id":1,"result":1,"error":{"code":1,"message":"m"}}', 1, "reply"),
        (b'{"id":1,"error":{}}', 1, "reply"),
        (b'{"id":1,"error":"no"}', 1, "reply"),
        (b'{"id":1,"error":null}', 1, "reply"),
        (b'{"id":1,"error":{"code":true,"message":"m"}}', 1, "reply"),
        (b'{"id":1,"error":{"code":1,"message":null}}', 1, "reply"),
        (b'{"id":1,"result":NaN}', 1, "reply"),
        (b'{"id":1,"result":{"a":1,"a":2}}', 1, "reply"),
        (b'{"id":1,"result":"\xff"}', 1, "reply"),
        (b'{"id":1,"result":' + b"[" * 65 + b"]" * 65 + b"}", 1, "reply"),
        (b'{"id":1,"result":' + b"[" * 100_000, 1, "reply"),
        (b'{"id":1,"result":1152921504606846976}', 1, "reply"),
        (b'{"id":7,"method":"x","params":{"a" :1,"a":2}}', 7, "request"),
        (b'{"id":"' + b"i" * 201 + b'","method":"x"}', None, "request"),
    ],
)
def test_what_cannot_be_used(line: bytes, id: object, kind: str) -> None:
    """A line that is no message says why, and shows the id of whoever should be told."""
    match parse(line):
        case UnusableLine(blank=False) as unusable:
            assert (id, kind) == (unusable.id, unusable.kind)
            assert unusable.reason
        case other:
            pytest.fail(f"understood as {other}")


@pytest.mark.parametrize("line", [b"", b" ", b"\t\r"])
def test_blank_lines_are_no_fault(line: bytes) -> None:
    """A line that holds nothing is told apart from a wrong one."""
    assert UnusableLine(reason="a blank line", blank=True) == parse(line)


@given(
    st.binary() | st.lists(st.sampled_from(PIECES)).map(b"".join) | PLAIN.map(lambda each: json.dumps(each).encode())
)
@example(b'{"a" :1,"a":2}')
@example(b'{"a":1,"a":2}')
@example(b'{"a"\t:1,"a":"\\":"}')
@example(b"9007199254740993")
@example(b'{"a":' * 64 + b"1" + b"}" * 64)
@example(b'{"a":' * 65 + b"1" + b"}" * 65)
def test_the_quick_parser_is_the_strict_one(line: bytes) -> None:
    """Whatever the bytes, the quick parser gives or refuses what the strict one does, and `parse` never raises."""

    def told(read: Any) -> str:
        try:
            return repr(read(line))
        except ProtocolError as error:
            return error.message

    assert told(strict_json.parse) == told(read_json)
    parse(line)


DEEPEST = b"[" * (limits.MAX_JSON_DEPTH - 1) + b"]" * (limits.MAX_JSON_DEPTH - 1)


@given(
    st.sampled_from([b"7", b"07", b"0", b"-7"]),
    st.lists(st.sampled_from([*PIECES, b',"error":', b"null"])).map(b"".join),
)
@example(b"7", b'{"a":1,"b":{"a":"x: y"}}')
@example(b"7", b'{"a":1,"a":2}')
@example(b"7", b'{"a":"":","b" :1,"b" :2}')
@example(b"7", b'1,"id":8')
@example(b"7", b'1,"error":{"code":-1,"message":"no"}')
@example(b"7", b'null,"error":{"code":-1,"message":"no"}')
@example(b"7", DEEPEST)
@example(b"7", b"[" + DEEPEST + b"]")
def test_the_usual_reply_is_read_as_any_other(id: bytes, result: bytes) -> None:
    """A reply in the form that has a way of its own means what the same line means with a blank in front of it."""
    line = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (id, result)
    quick, general = parse(line), parse(b" " + line)
    if isinstance(general, UnusableLine):
        assert isinstance(quick, UnusableLine)
        assert (quick.id, quick.kind) == (general.id, general.kind)
    else:
        assert quick == general


@given(id=IDS, method=st.text("a/$"), plain=PLAIN, code=st.integers(-40_000, 40_000))
def test_what_is_written_is_read_back(id: int | str, method: str, plain: Any, code: int) -> None:
    """Every kind of message is one line, and is read back as it was."""
    lines = {
        encode_request(id, method, {"a": plain}): Request(id=id, method=method, params={"a": plain}),
        encode_notification(method, {"a": plain}): Notification(method=method, params={"a": plain}),
        encode_success(id, plain): SuccessReply(id=id, result=plain),
        encode_failure(id, code, method, plain): FailureReply(id=id, code=code, message=method, data=plain),
    }

    for line, message in lines.items():
        assert line.count(b"\n") == 1
        assert line.endswith(b"\n")
        assert message == parse(line[:-1])


def test_a_null_result_is_written() -> None:
    """A reply always holds its result, and a request its params, even when there is nothing to say."""
    assert b'{"jsonrpc":"2.0","id":1,"result":null}\n' == encode_success(1, None)
    assert b'{"jsonrpc":"2.0","id":1,"method":"x","params":{}}\n' == encode_request(1, "x", None)


@pytest.mark.parametrize(
    "result", [object(), "\ud800", math.nan, math.inf, {"a": [math.nan]}, 2**60, {1: 2}, {"a": b"x"}]
)
def test_what_is_no_json_is_not_written(result: object) -> None:
    """What has no form in JSON is refused with a typed error, not changed on the way."""
    with pytest.raises(InvalidInput):
        encode_success(1, result)


def test_what_is_too_large_is_not_written() -> None:
    """A message that no peer like us would read is refused."""
    with pytest.raises(InvalidInput, match="more than"):
        encode_success(1, "x" * limits.MAX_RPC_LINE)


def test_only_a_reply_may_be_longer_and_only_where_that_is_agreed() -> None:
    """A reply to a client may be as long as a snapshot, and no longer; the bound of everything else stays."""
    longest = limits.MAX_RPC_LINE + 100
    text = "x" * (longest - len(encode_success(1, "")) + 1)
    assert longest + 1 == len(encode_success(1, text, longest=longest))
    with pytest.raises(InvalidInput, match=f"more than {longest:,} bytes"):
        encode_success(1, text + "x", longest=longest)
    with pytest.raises(InvalidInput, match="more than 16,777,216 bytes"):
        encode_request(1, "m", {"text": text})


@pytest.mark.parametrize(
    ("head", "seen"),
    [
        (b'{"jsonrpc":"2.0","id":12,"result":{"id":99,"big":"xxxx', MessagePeek(id=12, kind="reply")),
        (b'{"result":{"id":99},"id":"a\\"b","x":1', MessagePeek(id='a"b', kind="reply")),
        (b' { "id" : 3 , "params" : {', MessagePeek(id=3, kind="request")),
        (b'{"method":"x","y":"id', MessagePeek()),
        (b'{"id":12', MessagePeek()),
        (b'{"id":', MessagePeek()),
        (b'{"id":{"a":1},"method":"x"', MessagePeek(kind="request")),
        (b'{"x":"\\"id\\":5,","method":"', MessagePeek()),
        (b'[{"id":1,', MessagePeek()),
        (b"xxxx", MessagePeek()),
        (b'{"a":"' + b"\\" * 4_000, MessagePeek()),
        (b"{" + b'"' * 4_000, MessagePeek()),
    ],
)
def test_what_a_head_shows(head: bytes, seen: MessagePeek) -> None:
    """The id and the kind are found among the outermost keys only, and a number that may go on is no id."""
    assert seen == peek_message(head)


@given(st.binary(max_size=300) | st.lists(st.sampled_from(PIECES)).map(b"".join))
def test_any_head_can_be_looked_at(head: bytes) -> None:
    """Looking at the beginning of anything never raises."""
    peek_message(head)


def test_frozen_objects_are_written_as_they_are() -> None:
    """A frozen object, whole or within params, is written like the plain one, also the second time."""
    plain = {"a": [1, {"b": None}], "c": {}}
    frozen = JsonObject(plain)
    for _ in range(2):
        assert encode_request(1, "m", plain) == encode_request(1, "m", frozen)
        assert encode_request(1, "m", {"x": [plain]}) == encode_request(1, "m", {"x": (frozen,)})
        assert encode_success(1, plain) == encode_success(1, frozen)


@pytest.mark.parametrize("bad", [math.nan, math.inf, limits.MAX_INTEGER + 1, "\ud800"])
def test_frozen_objects_are_written_strictly(bad: object) -> None:
    """What has no form in JSON is refused within a frozen object each time it is to be written, and its place told."""
    frozen = JsonObject({"a": [{"b": bad}]})
    for _ in range(2):
        with pytest.raises(InvalidInput) as refused:
            encode_request(1, "m", {"x": frozen})
        assert refused.value.field == "$.params.x.a[0].b"


def test_a_frozen_object_may_be_too_deep_for_its_place() -> None:
    """An object that was written once is refused where it would stand too deep, and only there."""
    deep: dict[str, object] = {}
    for _ in range(limits.MAX_JSON_DEPTH - 3):
        deep = {"in": deep}
    frozen = JsonObject(deep)
    assert encode_request(1, "m", frozen) == encode_request(1, "m", deep)
    assert encode_request(1, "m", {"x": frozen}) == encode_request(1, "m", {"x": deep})
    for params in ({"x": {"y": frozen}}, {"x": {"y": deep}}):
        with pytest.raises(InvalidInput):
            encode_request(1, "m", params)
