"""Making whatever is sent fit into a line, as a client could never read a longer one.

The window of a session is bounded in characters, and a character may take six bytes in JSON; what waits in a session,
a single message, and the list of very many sessions may be longer than a line too.

Rules:
1. Of a session, or a page of its messages, the oldest messages are left out first, and counted as earlier ones. A
   client has them by `load_messages`; the end of the conversation, and what happens next, is as it would be otherwise.
2. Of the list of all sessions, those at rest are left out that nobody has used for longest, and counted as earlier
   ones; then, if even those at work are too many, the same of these. A client has them by `list_sessions`, whose pages
   end earlier where need be.
3. If that is not enough, the longest texts are shortened, and say so. Numbers, names and the order of things stay.
4. What fits is not touched, and costs one look at its length. What may take long is told by `is_slow_to_encode`: that
   is for a thread, as everybody else would wait.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs

import session_core as sc
from frontends.server.text_cuts import shorten_to_fit

LINE_BYTES: Final = 16 * 1024 * 1024
"""The longest line of the contract."""
ITEM_BYTES: Final = LINE_BYTES - 4_096
"""What one thing may have, so that there is room for its envelope."""
MANY_SESSIONS: Final = 5_000
MANY_CHARS: Final = 4_000_000
"""More than this takes some hundredths of a second to write."""


def encode_to_fit(item: sc.FeedItem) -> bytes:
    """Write an item of a feed so that a line can hold it."""
    if isinstance(item, sc.ServiceSnapshot):
        return _encode_session_list(item)
    if isinstance(item, sc.SessionSnapshot):
        return _encode_session(item)
    data = sc.encode_event(item)
    return data if len(data) <= ITEM_BYTES else sc.encode(shorten_to_fit(item, ITEM_BYTES))


def _encode_session(item: sc.SessionSnapshot) -> bytes:
    may_fit = _waiting_chars(item) <= ITEM_BYTES
    if may_fit and len(data := sc.encode(item)) <= ITEM_BYTES:
        return data
    less = _without_oldest(item)
    if may_fit and less is not item and len(data := sc.encode(less)) <= ITEM_BYTES:
        return data
    return sc.encode(shorten_to_fit(less, ITEM_BYTES))


def shrink_reply(reply: object) -> Any:
    """Return a reply as plain JSON, so that a line can hold it."""
    plain = sc.to_json(reply)
    if not isinstance(reply, _MAY_BE_LONG) or len(sc.encode(reply)) <= ITEM_BYTES:
        return plain
    return shorten_to_fit(_without_oldest(reply), ITEM_BYTES)


_MAY_BE_LONG: Final = (
    sc.SessionSnapshot,
    sc.ServiceSnapshot,
    sc.replies.ListSessionsReply,
    sc.replies.MessagesReply,
    sc.replies.QueueReply,
)


def is_slow_to_encode(value: object) -> bool:
    """Tell whether writing this may take so long that it is not for the event loop."""
    match value:
        case sc.ServiceSnapshot():
            return len(value.sessions) > MANY_SESSIONS
        case sc.SessionSnapshot():
            return _chars(each.parts for each in value.messages) + _waiting_chars(value) > MANY_CHARS
        case sc.replies.MessagesReply():
            return _chars(each.parts for each in value.messages) > MANY_CHARS
        case sc.replies.QueueReply():
            return _chars(each.parts for each in value.items) > MANY_CHARS
        case sc.SessionEvent():
            return len(sc.encode_event(value)) > ITEM_BYTES
        case _:
            return False


def _chars(several: Iterable[Sequence[sc.Part]]) -> int:
    return sum(len(getattr(part, "text", "")) + len(getattr(part, "data", "")) for parts in several for part in parts)


def _waiting_chars(value: sc.SessionSnapshot) -> int:
    """Return how many characters wait in a session: so many bytes they have at least, and mostly it need not be cut."""
    return _chars(each.parts for each in value.queue)


# --- leaving out ------------------------------------------------------------------------------------------------------


def _without_oldest(value: object) -> object:
    """Leave out as many of the oldest as need be; the newest one stays. What loses nothing is returned itself."""
    match value:
        case sc.SessionSnapshot(messages=messages):
            room = ITEM_BYTES - _waiting_chars(value)
            if room > 0:
                room = ITEM_BYTES - len(sc.encode(attrs.evolve(value, messages=sc.Vector())))
            dropped = len(messages) - _fit_within(reversed(messages), room)
            if not dropped:
                return value
            return attrs.evolve(value, messages=sc.Vector(messages[dropped:]), earlier=value.earlier + dropped)
        case sc.replies.MessagesReply(messages=messages):
            dropped = len(messages) - _fit_within(reversed(messages), ITEM_BYTES - 4_096)
            return attrs.evolve(value, messages=messages[dropped:], first=value.first + dropped)
        case sc.replies.ListSessionsReply(sessions=sessions):
            page = sessions[: _fit_within(sessions, ITEM_BYTES - 4_096)]
            return (
                value
                if len(page) == len(sessions)
                else attrs.evolve(value, sessions=page, next_page=page[-1].session_id)
            )
        case sc.ServiceSnapshot():
            return _without_unused(value, [sc.encode(each) for each in value.sessions])[0]
        case _:
            return value


def _fit_within(newest_first: Iterable[object], room: int) -> int:
    """Return how many of these a line has room for; one at least, if there is any."""
    fitting_count = 0
    for each in newest_first:
        room -= len(sc.encode(each)) + 1
        if room < 0:
            return max(fitting_count, 1)
        fitting_count += 1
    return fitting_count


# --- the list of all sessions -----------------------------------------------------------------------------------------


def _encode_session_list(value: sc.ServiceSnapshot) -> bytes:
    """Write the list so that a line can hold it; each session is written once, whether it stays or not."""
    written = [sc.encode(each) for each in value.sessions]
    less, encoded_sessions = _without_unused(value, written)
    around = sc.encode(attrs.evolve(less, sessions=()))
    if len(around) + sum(map(len, encoded_sessions)) + max(0, len(encoded_sessions) - 1) > ITEM_BYTES:
        return sc.encode(shorten_to_fit(less, ITEM_BYTES))
    before, sessions, after = around.partition(b'"sessions":[')
    return b"".join((before, sessions, b",".join(encoded_sessions), after))


def _without_unused(value: sc.ServiceSnapshot, written: Sequence[bytes]) -> tuple[sc.ServiceSnapshot, Sequence[bytes]]:
    """Leave out those that nobody has used for longest, whoever works last of all.

    Returns what is left, as it is and as it is written. All that are gone are counted.
    """
    size = len(sc.encode(attrs.evolve(value, sessions=()))) + sum(map(len, written)) + max(0, len(written) - 1)
    if size <= ITEM_BYTES:
        return value, written
    over = size + 16 - ITEM_BYTES  # more digits may be needed to count them
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
    """Tell whether nobody misses a session much that is left out."""
    return session.activity.is_at_rest and not session.open_requests
