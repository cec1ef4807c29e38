"""Read data that concerns all sessions: the list, and remembered replies."""

import sqlite3
import zlib
from collections.abc import Callable, Mapping
from functools import reduce
from operator import attrgetter, or_
from types import NoneType
from typing import Any

from session_core import limits
from session_core.errors import ProtocolError
from session_core.ids import ClientId
from session_core.storage.base import StoredReply
from session_core.vocabulary.commands import COMMANDS, reply_type
from session_core.vocabulary.sessions import Activity
from session_core.vocabulary.snapshots import SessionSummary
from session_core.wire.codec import decode

_MAYBE_TEXT, _MAYBE_NUMBER = (str, NoneType), (int, NoneType)
_SUMMARY_TYPES: Mapping[str, Any] = {
    "session_id": str,
    "name": str,
    "created_at": int,
    "updated_at": int,
    "archived": int,
    "parent_id": _MAYBE_TEXT,
    "cwd": str,
    "model": str,
    "queued": int,
    "open_requests": int,
    "wakeups": int,
    "activity": str,
    "retry_at": _MAYBE_NUMBER,
    "activity_message": _MAYBE_TEXT,
}
"""The columns that a session's line in the list is read from, and what they hold; its activity is in the last three."""
_FIELDS = tuple(_SUMMARY_TYPES)[:-3]
SUMMARY_COLUMNS = tuple(_SUMMARY_TYPES)[1:]
"""The columns that change with a session's line in the list."""
summary_values: Callable[[SessionSummary], tuple[object, ...]] = attrgetter(
    *_FIELDS[1:], "activity.name", "activity.retry_at", "activity.message"
)
"""Returns what these columns should hold for a line."""
_INSTEAD: dict[object, object] = {str: "(damaged)", int: 0}


def read_summaries(db: sqlite3.Connection) -> tuple[SessionSummary, ...]:
    """Return the list of sessions, oldest first."""
    query = f"SELECT {', '.join(_SUMMARY_TYPES)} FROM session ORDER BY session_id"  # noqa: S608 - our names
    types = tuple(_SUMMARY_TYPES.values())
    return tuple(
        _build_summary(row if all(map(isinstance, row, types)) else _replace_damaged(row))
        for row in db.execute(query)
        if isinstance(row[0], str)
    )


def read_replies(db: sqlite3.Connection) -> tuple[StoredReply, ...]:
    """Return the newest replies, oldest first; an unreadable one is left out: its command would run again."""
    rows = db.execute(
        "SELECT client_id, key, fingerprint, payload, checksum, session_id FROM reply ORDER BY id DESC LIMIT ?",
        (limits.IDEMPOTENCY_CAPACITY,),
    ).fetchall()
    return tuple(reply for row in reversed(rows) if (reply := read_reply(*row)) is not None)


def _replace_damaged(row: tuple[object, ...]) -> tuple[Any, ...]:
    """Replace invalid values by harmless ones; `store verify` reports them, and `rebuild` repairs them."""
    return tuple(
        value if isinstance(value, expected) else _INSTEAD.get(expected)
        for value, expected in zip(row, _SUMMARY_TYPES.values(), strict=True)
    )


def _build_summary(row: tuple[Any, ...]) -> SessionSummary:
    *columns, name, retry_at, message = row
    fields = dict(zip(_FIELDS, columns, strict=True))
    fields["archived"] = bool(fields["archived"])
    fields["activity"] = Activity(name=name, retry_at=retry_at, message=message)
    return SessionSummary(**fields)


_REPLY: Any = reduce(or_, dict.fromkeys(reply_type(command) for command in COMMANDS))


def read_reply(  # noqa: PLR0917 - one argument per column, in their order
    client_id: Any, key: Any, fingerprint: Any, payload: Any, checksum: Any, session_id: Any
) -> StoredReply | None:
    """Return a stored reply; None if it is damaged, or of an unreadable version."""
    if not (isinstance(client_id, str) and isinstance(key, str) and isinstance(fingerprint, bytes)):
        return None
    try:
        reply = decode(payload, _REPLY, max_bytes=limits.MAX_RECORD_BYTES)
    except (ProtocolError, TypeError):
        return None
    stored = StoredReply(
        client_id=ClientId(client_id), key=key, fingerprint=fingerprint, reply=reply, session_id=session_id
    )
    return stored if reply_checksum(stored, payload) == checksum else None


def reply_checksum(reply: StoredReply, payload: bytes) -> int:
    """Return the checksum stored with a reply."""
    whose = f"{reply.client_id}\0{reply.key}\0{reply.session_id}\0".encode()
    return zlib.crc32(payload, zlib.crc32(reply.fingerprint, zlib.crc32(whose)))
