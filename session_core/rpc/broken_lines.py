"""Find the id and the kind of a message in the beginning of an unreadable line.

A task that waits for the reply on that line, or for an answer to the request on it, should be told rather than wait
for ever. Nearly all implementations write ids before the large parts of a message.
"""

import re
from collections.abc import Iterator
from typing import Any, Literal

import attrs
import msgspec

LineKind = Literal["request", "reply", "unknown"]

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+|"', re.DOTALL)
_KINDS: dict[bytes, LineKind] = {
    b'"method"': "request",
    b'"params"': "request",
    b'"result"': "reply",
    b'"error"': "reply",
}
_ID = b'"id"'
_STEPS = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}  # change of depth


@attrs.frozen(kw_only=True)
class MessagePeek:
    """The id and kind found in the beginning of a line.

    Attributes:
        id: The id of the message, as any JSON scalar; None if it was not found.
        kind: Whether it is a request or a reply.
    """

    id: Any = None
    kind: LineKind = "unknown"


def peek_message(head: bytes) -> MessagePeek:
    """Find the id and the kind among the outermost keys of an object, whose end, or more, may be missing.

    Without an id the kind is useless and is not looked for.
    """
    if _ID not in head:
        return MessagePeek()
    found: Any = None
    kind: LineKind = "unknown"
    for key, value in _outer_pairs(head):
        if key == _ID and found is None:
            found = _scalar(value)
        elif kind == "unknown":
            kind = _KINDS.get(key, "unknown")
    return MessagePeek(id=found, kind=kind)


def _outer_pairs(head: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys of the outermost object, each with the first token of its value if that is surely complete."""
    tokens: list[bytes] = _TOKEN.findall(head)
    if not tokens or tokens[0] != b"{":
        return
    depth = 0
    for place, token in enumerate(tokens):
        if step := _STEPS.get(token):
            depth += step
        elif depth == 1 and token == b":":
            value, after = (*tokens[place + 1 : place + 3], b"", b"")[:2]
            yield tokens[place - 1], value if after in (b",", b"}") else b""


def _scalar(token: bytes) -> Any:
    try:
        return msgspec.json.decode(token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
