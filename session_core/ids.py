"""Ids that sort by age and cannot be guessed, and the cursor, a position in the order of events.

An id is `<kind>_` + 10 characters of time + 16 random characters, in an alphabet that sorts like its values. The
time part never repeats within a process, so ids made here sort strictly in the order they were made; the 80 random
bits keep them apart from those of other processes and make them unguessable.
"""

import secrets
import time
from typing import NewType

import attrs

SessionId = NewType("SessionId", str)
MessageId = NewType("MessageId", str)
TurnId = NewType("TurnId", str)
CallId = NewType("CallId", str)
QueueItemId = NewType("QueueItemId", str)
RequestId = NewType("RequestId", str)
"""The id of an approval or a dialog, which waits for a person."""
WakeupId = NewType("WakeupId", str)
ClientId = NewType("ClientId", str)
Epoch = NewType("Epoch", str)

LOCAL_CLIENT = ClientId("local")
"""The client id of a program that calls the service in its own process and names no client."""

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # no i, l, o, u: ids get read aloud and typed
_TIME_CHARACTERS = 10
_RANDOM_CHARACTERS = 16


@attrs.frozen(kw_only=True, order=False)
class Cursor:
    """A position in the order of all events: everything up to and including `seq` of the run `epoch`."""

    epoch: Epoch
    seq: int


def now_ms() -> int:
    """Return the wall-clock time in whole milliseconds, the unit of every `*_at` field."""
    return time.time_ns() // 1_000_000


class _IdClock:
    """A strictly increasing millisecond count, so two ids of one process never share their time part."""

    last = 0

    @classmethod
    def tick(cls) -> int:
        cls.last = max(now_ms(), cls.last + 1)
        return cls.last


def new_id(kind: str) -> str:
    """Make an id such as `ses_01k7...`: sortable by age, unique across processes, unguessable."""
    number = (_IdClock.tick() << (5 * _RANDOM_CHARACTERS)) | secrets.randbits(5 * _RANDOM_CHARACTERS)
    places = range(5 * (_TIME_CHARACTERS + _RANDOM_CHARACTERS - 1), -1, -5)
    return f"{kind}_" + "".join([_ALPHABET[(number >> place) & 31] for place in places])


def new_session_id() -> SessionId:
    """Make a session id."""
    return SessionId(new_id("ses"))


def is_session_id(text: str) -> bool:
    """Return whether a string has the form of a session id."""
    kind, _, rest = text.partition("_")
    return kind == "ses" and len(rest) == _TIME_CHARACTERS + _RANDOM_CHARACTERS and set(rest) <= set(_ALPHABET)


def new_epoch() -> Epoch:
    """Make the name of one run of the service."""
    return Epoch(new_id("run"))
