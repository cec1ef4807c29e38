"""Making whatever is sent fit into a line, as a client could never read a longer one.

The window of a session is bounded in characters, and a character may take six bytes in JSON; what waits in a session,
and a single message, may be longer than a line too.

Rules:
1. Of a session, or a page of its messages, the oldest messages are left out first, and counted as earlier ones. A
   client has them by `load_messages`; the end of the conversation, and what happens next, is as it would be otherwise.
2. If that is not enough, the longest texts are shortened, and say so. Numbers, names and the order of things stay.
3. What fits is not touched, and costs one look at its length.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

import session_core as sc

LINE_BYTES: Final = 16 * 1024 * 1024
"""The longest line of the contract."""
ITEM_BYTES: Final = LINE_BYTES - 4_096
"""What one thing may have, so that there is room for its envelope."""
_LONGEST_TEXT: Final = 1_000_000
_SHORT_TEXT: Final = 256  # no id is longer, nor the name of anything
_FEW: Final = 64  # no object of ours has more fields


def fitting(item: sc.FeedItem) -> bytes:
    """Write an item of a feed so that a line can hold it."""
    data = sc.encode_event(item) if isinstance(item, sc.SessionEvent) else sc.encode(item)
    if len(data) <= ITEM_BYTES:
        return data
    return sc.encode(_shortened(_without_oldest(item)))


def fitting_reply(reply: object) -> Any:
    """Return a reply as plain JSON, so that a line can hold it."""
    plain = sc.to_json(reply)
    if isinstance(reply, _MAY_BE_LONG) and len(sc.encode(plain)) > ITEM_BYTES:
        return _shortened(_without_oldest(reply))
    return plain


_MAY_BE_LONG: Final = (sc.SessionSnapshot, sc.replies.MessagesReply, sc.replies.QueueReply)


# --- leaving out ------------------------------------------------------------------------------------------------------


def _without_oldest(value: object) -> object:
    """Leave out as many of the oldest messages as need be; the newest one stays."""
    if isinstance(value, sc.SessionSnapshot):
        rest = len(sc.encode(attrs.evolve(value, messages=sc.Vector())))
        kept = _newest_within(value.messages, ITEM_BYTES - rest)
        dropped = len(value.messages) - kept
        return attrs.evolve(value, messages=sc.Vector(value.messages[dropped:]), earlier=value.earlier + dropped)
    if isinstance(value, sc.replies.MessagesReply):
        kept = _newest_within(value.messages, ITEM_BYTES - 4_096)
        dropped = len(value.messages) - kept
        return attrs.evolve(value, messages=value.messages[dropped:], first=value.first + dropped)
    return value


def _newest_within(messages: Sequence[sc.Message], room: int) -> int:
    kept = 0
    for message in reversed(messages):
        room -= len(sc.encode(message)) + 1
        if room < 0:
            break
        kept += 1
    return max(kept, min(1, len(messages)))


# --- shortening -------------------------------------------------------------------------------------------------------


def _shortened(value: object) -> Any:
    """Return a value as plain JSON that fits, its long texts shortened as little as that takes."""
    whole = sc.to_json(value)
    plain, chars, many = whole, _LONGEST_TEXT, 1 << 20
    while len(sc.encode(plain)) > ITEM_BYTES:
        plain = _cut(whole, chars, many)
        if chars > _SHORT_TEXT:
            chars = max(_SHORT_TEXT, chars // 2)
        elif many > _FEW:
            many = max(_FEW, many // 2)
        else:
            break
    return plain


def _cut(plain: Any, chars: int, many: int) -> Any:
    """Return this with no text longer than `chars`, and nothing with more than `many` parts, the last ones."""
    if isinstance(plain, str):
        return plain if len(plain) <= chars else _cut_text(plain, chars)
    if isinstance(plain, Mapping):
        return {
            name: value[: chars // 4 * 4] if _is_picture(plain, name) else _cut(value, chars, many)
            for name, value in list(plain.items())[-many:]
            if len(name) <= chars
        }
    if isinstance(plain, list | tuple):
        return [_cut(value, chars, many) for value in plain[-many:]]
    return plain


def _is_picture(plain: Mapping[str, Any], name: str) -> bool:
    """Tell whether this is base64, of which every four characters are whole bytes."""
    return name == "data" and plain.get("type") == "image_part" and isinstance(plain[name], str)


def _cut_text(text: str, chars: int) -> str:
    """Return the beginning of a text, and how much of it is missing."""
    return f"{text[:chars]}… ({len(text) - chars:,} more characters were too long to be sent)"
