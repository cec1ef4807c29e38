"""From one line to one message and back.

Reading never raises. The keys present decide the kind of message, as in all peers; unknown keys and `jsonrpc` are
ignored. An unusable line is returned as `UnusableLine`, with its id if it has one, so its waiter can be told.
Writing is strict: `params` is always an object, and `result` is always there, even when it is null.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import attrs

from session_core import limits
from session_core.errors import InvalidInput, ProtocolError
from session_core.rpc.broken_lines import LineKind, peek_message
from session_core.rpc.fast_json import (
    UNDECIDED_ERRORS,
    has_more_values,
    read_json,
    read_quickly,
    write_json,
    write_quickly,
)
from session_core.vocabulary.frozen import JsonObject

RpcId = int | str


@attrs.frozen(kw_only=True)
class Request:
    """A request of the other side."""

    id: RpcId
    method: str
    params: dict[str, Any]


@attrs.frozen(kw_only=True)
class Notification:
    """A notification of the other side; it gets no answer."""

    method: str
    params: dict[str, Any]


class SuccessReply(NamedTuple):
    """A reply whose result may be anything, even null. A tuple, because it is cheap to make and there are many."""

    id: RpcId
    result: Any


@attrs.frozen(kw_only=True)
class FailureReply:
    """A reply with an error. Its id is null if the other side could not read the request."""

    id: RpcId | None
    code: int
    message: str
    data: Any = None


@attrs.frozen(kw_only=True)
class UnusableLine:
    """A line that is not a message.

    Attributes:
        reason: What is wrong with it.
        blank: The line is blank, which is not a fault.
        oversized: It was not parsed, because there is too much in it.
        id: The id of the intended message, if one can be seen.
        kind: The kind of the intended message.
    """

    reason: str
    blank: bool = False
    oversized: bool = False
    id: RpcId | None = None
    kind: LineKind = "unknown"


RpcMessage = Request | Notification | SuccessReply | FailureReply | UnusableLine

_BLANK = UnusableLine(reason="a blank line", blank=True)
_NO_OBJECT = UnusableLine(reason="not a JSON object")

_USUAL_REPLY = re.compile(rb'\{"jsonrpc": ?"2\.0", ?"id": ?([1-9]\d{0,14}), ?"result": ?(.*)\}', re.DOTALL)
"""A successful reply as nearly all peers write it; if the captured result is JSON, so is the whole line."""


def parse(line: bytes, *, most_values: int | None = None) -> RpcMessage:
    """Read one line; never raises. One with more values than that is not parsed."""
    if most_values is not None and has_more_values(line, most_values):
        reason = f"the message has more than {most_values:,} values"
        return attrs.evolve(describe_broken_line(line, reason), oversized=True)
    if usual := _USUAL_REPLY.fullmatch(line):
        try:
            return SuccessReply(int(usual[1]), read_quickly(usual[2], limits.MAX_JSON_DEPTH - 1))
        except UNDECIDED_ERRORS:
            pass  # more keys follow, or something is wrong
    # Programs print much that is not a message; skip the parser for anything that does not start like an object.
    if line[:1] != b"{" and not line.lstrip().startswith(b"{"):
        return _NO_OBJECT if line.strip() else _BLANK
    if line[-1:] != b"}" and not line.rstrip().endswith(b"}"):
        return describe_broken_line(line, "the JSON object has no end")
    try:
        plain = read_json(line)
    except ProtocolError as error:
        return describe_broken_line(line, str(error))
    if type(plain) is not dict:
        return _NO_OBJECT
    if "method" in plain:
        return _parse_request(plain)
    if "result" in plain or "error" in plain:
        return _parse_reply(plain)
    return UnusableLine(reason="neither method, result nor error is there", id=as_id(plain.get("id")))


def describe_broken_line(line: bytes, reason: str) -> UnusableLine:
    """Describe a line that cannot be read, with what its beginning still reveals."""
    seen = peek_message(line[: limits.RPC_HEAD_BYTES])
    return UnusableLine(reason=reason, id=as_id(seen.id), kind=seen.kind)


def as_id(plain: object) -> RpcId | None:
    """Return a usable id, or None; a bool does not count as a number."""
    if type(plain) is int or (type(plain) is str and len(plain) <= limits.MAX_RPC_ID_CHARS):
        return plain
    return None


def _parse_request(plain: dict[str, Any]) -> RpcMessage:
    method, params = plain["method"], plain.get("params")
    if params is None:  # some peers write missing params as null
        params = {}
    number = as_id(plain.get("id"))
    if number is None and "id" in plain:
        return UnusableLine(reason="the id must be a whole number or a short string", kind="request")
    if type(method) is not str:
        return UnusableLine(reason="the method must be text", id=number, kind="request")
    if type(params) is not dict:
        return UnusableLine(reason="params must be an object", id=number, kind="request")
    if number is None:
        return Notification(method=method, params=params)
    return Request(id=number, method=method, params=params)


def _parse_reply(plain: dict[str, Any]) -> RpcMessage:
    number = as_id(plain.get("id"))
    error = plain.get("error")
    if error is None and "result" in plain:
        if number is None:
            return UnusableLine(reason="a reply needs an id", kind="reply")
        return SuccessReply(id=number, result=plain["result"])
    if plain.get("result") is not None:
        return UnusableLine(reason="a reply holds a result or an error, not both", id=number, kind="reply")
    if number is None and plain.get("id", 0) is not None:
        return UnusableLine(reason="the id must be a whole number or a short string", kind="reply")
    if type(error) is not dict or type(error.get("code")) is not int or type(error.get("message")) is not str:
        return UnusableLine(reason="an error needs a code, which is a number, and a message", id=number, kind="reply")
    return FailureReply(id=number, code=error["code"], message=error["message"], data=error.get("data"))


def encode_request(id: RpcId, method: str, params: Mapping[str, Any] | None) -> bytes:
    """Encode a request; raise `InvalidInput` if it cannot be written as JSON."""
    # The beginning is assembled from bytes: it is nearly the same each time, and checking it would be wasted.
    if type(id) is int and (name := _method(method)) is not None:
        written = write_quickly(_as_object(params), limits.MAX_JSON_DEPTH - 1) if params else b"{}"
        if written is not None:
            return _check_frame_size(b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}\n' % (id, name, written))
    return _line({"jsonrpc": "2.0", "id": id, "method": method, "params": dict(params or {})})


def encode_notification(method: str, params: Mapping[str, Any] | None) -> bytes:
    """Encode a notification; raise `InvalidInput` if it cannot be written as JSON."""
    return _line({"jsonrpc": "2.0", "method": method, "params": _as_object(params or {})})


def encode_success(id: RpcId, result: Any, *, longest: int | None = None) -> bytes:
    """Encode a reply; raise `InvalidInput` if the result cannot be written as JSON, or is too large."""
    return _line({"jsonrpc": "2.0", "id": id, "result": result}, longest)


def encode_failure(id: RpcId | None, code: int, message: str, data: Any = None) -> bytes:
    """Encode an error; raise `InvalidInput` if the data cannot be written as JSON."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return _line({"jsonrpc": "2.0", "id": id, "error": error})


@lru_cache(256)
def _method(method: str) -> bytes | None:
    return write_quickly(method, 0)


def _as_object(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a mapping that the encoder accepts as an object."""
    return params if type(params) is dict or type(params) is JsonObject else dict(params)


def _line(plain: dict[str, Any], longest: int | None = None) -> bytes:
    return _check_frame_size(write_json(plain) + b"\n", longest)


def _check_frame_size(frame: bytes, longest: int | None = None) -> bytes:
    longest = longest or limits.MAX_RPC_LINE
    if len(frame) > longest + 1:  # the end of line does not count
        raise InvalidInput(f"the message has more than {longest:,} bytes")
    return frame
