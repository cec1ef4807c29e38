"""Make every snapshot fit into a line, because clients cannot read a longer one.

Every event, every message, the window of a session, its queue, and a page of messages fit by the bounds of what is
recorded. But everything that a session holds may be longer in total, and so may the list of very many sessions.

Rules:
1. A session loses its oldest messages first; they are counted as earlier ones. A client gets them with `load_messages`;
   the end of the conversation, and later events, are unaffected.
2. The list of all sessions loses the idle sessions that were unused for longest; they are counted as earlier ones. If
   even the working sessions are too many, the same happens to them. A client gets them with `list_sessions`, whose
   pages end earlier if necessary.
3. If that is not enough, the longest texts are shortened, and say so. Numbers, names and the order stay.
4. A value that fits is unchanged, and costs one check of its length. `is_slow_to_encode` says which values may take
   long: encode those in a thread, or all other clients wait.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs

import session_core as sc
from frontends.server.text_truncation import shorten_to_fit

LINE_BYTES: Final = 16 * 1024 * 1024
"""The longest line of the contract."""
ITEM_BYTES: Final = LINE_BYTES - 4_096
"""The limit for one item, which leaves room for its envelope."""
MANY_SESSIONS: Final = 5_000
MANY_CHARS: Final = 4_000_000
"""More than this takes some hundredths of a second to encode."""


def encode_to_fit(item: sc.FeedItem) -> bytes:
    """Encode an item of a feed so that it fits into a line."""
    if isinstance(item, sc.ServiceSnapshot):
        return _encode_session_list(item)
    if isinstance(item, sc.SessionSnapshot):
        return _encode_session(item)
    return sc.wire.encode_event(item)


def _encode_session(item: sc.SessionSnapshot) -> bytes:
    may_fit = _waiting_chars(item) <= ITEM_BYTES
    if may_fit and len(data := sc.wire.encode(item)) <= ITEM_BYTES:
        return data
    less = _without_oldest(item)
    if may_fit and less is not item and len(data := sc.wire.encode(less)) <= ITEM_BYTES:
        return data
    return sc.wire.encode(shorten_to_fit(less, ITEM_BYTES))


def shrink_reply(reply: object) -> Any:
    """Return a reply as plain JSON that fits into a line."""
    plain = sc.wire.to_json(reply)
    if not isinstance(reply, _MAY_BE_LONG) or len(sc.wire.encode(reply)) <= ITEM_BYTES:
        return plain
    return shorten_to_fit(_without_oldest(reply), ITEM_BYTES)


_MAY_BE_LONG: Final = (
    sc.SessionSnapshot,
    sc.ServiceSnapshot,
    sc.replies.ListSessionsReply,
)


def is_slow_to_encode(value: object) -> bool:
    """Return whether encoding this may be too slow for the event loop."""
    match value:
        case sc.ServiceSnapshot():
            return len(value.sessions) > MANY_SESSIONS
        case sc.SessionSnapshot():
            return _chars(each.parts for each in value.messages) + _waiting_chars(value) > MANY_CHARS
        case sc.replies.MessagesReply():
            return _chars(each.parts for each in value.messages) > MANY_CHARS
        case sc.replies.QueueReply():
            return _chars(each.parts for each in value.items) > MANY_CHARS
        case _:
            return False


def _chars(several: Iterable[Sequence[sc.Part]]) -> int:
    return sum(len(getattr(part, "text", "")) + len(getattr(part, "data", "")) for parts in several for part in parts)


def _waiting_chars(value: sc.SessionSnapshot) -> int:
    """Return the characters in a session's queue: a lower bound of its bytes, mostly enough to rule out a cut."""
    return _chars(each.parts for each in value.queue)


# --- omitting old items -----------------------------------------------------------------------------------------------


def _without_oldest(value: object) -> object:
    """Leave out as many of the oldest as necessary; the newest stays. A value that loses nothing is returned itself."""
    match value:
        case sc.SessionSnapshot(messages=messages):
            room = ITEM_BYTES - _waiting_chars(value)
            if room > 0:
                room = ITEM_BYTES - len(sc.wire.encode(attrs.evolve(value, messages=sc.Vector())))
            dropped = len(messages) - _fit_within(reversed(messages), room)
            if not dropped:
                return value
            return attrs.evolve(value, messages=sc.Vector(messages[dropped:]), earlier=value.earlier + dropped)
        case sc.replies.ListSessionsReply(sessions=sessions):
            page = sessions[: _fit_within(sessions, ITEM_BYTES - 4_096)]
            return (
                value
                if len(page) == len(sessions)
                else attrs.evolve(value, sessions=page, next_page=page[-1].session_id)
            )
        case sc.ServiceSnapshot():
            return _without_unused(value, [sc.wire.encode(each) for each in value.sessions])[0]
        case _:
            return value


def _fit_within(newest_first: Iterable[object], room: int) -> int:
    """Return how many of these fit into a line; at least one, if there is any."""
    fitting_count = 0
    for each in newest_first:
        room -= len(sc.wire.encode(each)) + 1
        if room < 0:
            return max(fitting_count, 1)
        fitting_count += 1
    return fitting_count


# --- the list of all sessions -----------------------------------------------------------------------------------------


def _encode_session_list(value: sc.ServiceSnapshot) -> bytes:
    """Encode the list so that it fits into a line; each session is encoded once, whether it stays or not."""
    written = [sc.wire.encode(each) for each in value.sessions]
    less, encoded_sessions = _without_unused(value, written)
    around = sc.wire.encode(attrs.evolve(less, sessions=()))
    if len(around) + sum(map(len, encoded_sessions)) + max(0, len(encoded_sessions) - 1) > ITEM_BYTES:
        return sc.wire.encode(shorten_to_fit(less, ITEM_BYTES))
    before, sessions, after = around.partition(b'"sessions":[')
    return b"".join((before, sessions, b",".join(encoded_sessions), after))


def _without_unused(value: sc.ServiceSnapshot, written: Sequence[bytes]) -> tuple[sc.ServiceSnapshot, Sequence[bytes]]:
    """Leave out the sessions that were unused for longest; working sessions go last.

    Returns the rest, as a value and encoded. All omitted sessions are counted.
    """
    size = len(sc.wire.encode(attrs.evolve(value, sessions=()))) + sum(map(len, written)) + max(0, len(written) - 1)
    if size <= ITEM_BYTES:
        return value, written
    over = size + 16 - ITEM_BYTES  # the count of omitted sessions may need more digits
    sessions = value.sessions
    unused = sorted(range(len(sessions)), key=lambda i: (not _can_omit(sessions[i]), sessions[i].updated_at))
    gone: set[int] = set()
    for index in unused:
        if over <= 0:
            break
        over -= len(written[index]) + 1
        gone.add(index)
    remaining = [index for index in range(len(sessions)) if index not in gone]
    less = attrs.evolve(value, sessions=tuple(sessions[i] for i in remaining), earlier=value.earlier + len(gone))
    return less, [written[index] for index in remaining]


def _can_omit(session: sc.SessionSummary) -> bool:
    """Return whether a session can be omitted without much harm."""
    return session.activity.is_at_rest and not session.open_requests
