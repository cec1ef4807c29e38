"""The large parts of what executors keep, each by what it holds. Pure, but for SQL.

A leaf is named by the SHA-256 of its bytes, so it proves itself wherever it is found. It belongs to one session, and
stays there as long as the newest state of that session's executor names it, or an earlier one to which people may go
back: what no kept state names any more is dropped with the event that says so.
"""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import sha256

import attrs

from session_core import limits
from session_core.errors import ProtocolError
from session_core.ids import SessionId
from session_core.storage.rows import insert_rows
from session_core.vocabulary import events as ev
from session_core.vocabulary.protocols import ExecutorPoint, ExecutorState

LEAF_TABLE = """
CREATE TABLE leaf (
    session INTEGER NOT NULL,
    digest BLOB NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (session, digest)
) WITHOUT ROWID;
"""

READ_AT_ONCE = 512


@attrs.frozen(kw_only=True)
class LeafBatch:
    """Leaves of a session to keep, by their digests; those that are there already stay as they are."""

    session_id: SessionId
    leaves: Mapping[str, bytes]

    @property
    def size(self) -> int:
        """How many bytes they have."""
        return sum(map(len, self.leaves.values()))


def check_leaves(session_id: SessionId, leaves: Mapping[str, bytes]) -> LeafBatch:
    """Return leaves that can be kept.

    Raises:
        ProtocolError: One of them is not what its name says, or too large.
    """
    for digest, data in leaves.items():
        if len(data) > limits.MAX_LEAF_BYTES:
            raise ProtocolError(f"a part of {len(data):,} bytes of an executor's state is too large to be kept")
        if digest_of(data).hex() != digest:
            raise ProtocolError(f"a part of an executor's state is not what its digest says: {digest[:12]}")
    return LeafBatch(session_id=session_id, leaves=dict(leaves))


def digest_of(data: bytes) -> bytes:
    """Name a leaf by what it holds."""
    return sha256(data).digest()


def leaf_digests(state: ExecutorState | None) -> frozenset[str]:
    """Return the digests of the leaves that a state needs."""
    return frozenset() if state is None else frozenset(leaf.digest for leaf in state.leaves)


def all_leaf_digests(points: Iterable[ExecutorPoint]) -> frozenset[str]:
    """Return the digests of the leaves that all states of a session need."""
    return frozenset(leaf.digest for point in points for leaf in point.state.leaves)


def retained_digests(event: ev.Event) -> frozenset[str] | None:
    """Return the digests of the leaves that an event lets stay; None when it says nothing about them."""
    match event:
        case ev.ExecutorStateSaved(state=state, earlier_leaves=earlier):
            return leaf_digests(state) | frozenset(earlier)
        case ev.FrameOpened() | ev.FrameEntered():  # the executor begins anew there
            return frozenset()
        case _:
            return None


# --- rows -------------------------------------------------------------------------------------------------------------


def has_leaves(db: sqlite3.Connection) -> bool:
    """Tell whether a store keeps leaves at all; one of an older format does not."""
    return db.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'leaf'").fetchone() is not None


def write_leaves(db: sqlite3.Connection, session: int, leaves: Mapping[str, bytes]) -> None:
    """Write those leaves that are not there."""
    there = _digests(db, session)
    rows = [(session, raw, data) for digest, data in leaves.items() if (raw := bytes.fromhex(digest)) not in there]
    insert_rows(db, "leaf (session, digest, data)", rows)


def drop_leaves(db: sqlite3.Connection, session: int, *, all_but: Collection[str]) -> None:
    """Delete the leaves of a session, but for these."""
    unwanted = [(session, raw) for raw in _digests(db, session) if raw.hex() not in all_but]
    if unwanted:
        db.executemany("DELETE FROM leaf WHERE session = ? AND digest = ?", unwanted)


def _digests(db: sqlite3.Connection, session: int) -> set[bytes]:
    rows = db.execute("SELECT digest FROM leaf WHERE session = ?", (session,))
    return {raw for (raw,) in rows if isinstance(raw, bytes)}


def read_leaves(db: sqlite3.Connection, session_id: SessionId, digests: Collection[str]) -> dict[str, bytes]:
    """Return those of these leaves that a session has; whether they are what their names say is left to the caller."""
    if not has_leaves(db):
        return {}
    wanted = [raw for digest in dict.fromkeys(digests) if (raw := raw_digest(digest)) is not None]
    found: dict[str, bytes] = {}
    for start in range(0, len(wanted), READ_AT_ONCE):
        some = wanted[start : start + READ_AT_ONCE]
        places = ", ".join("?" * len(some))
        rows = db.execute(
            "SELECT digest, data FROM leaf WHERE session = (SELECT id FROM session WHERE session_id = ?)"  # noqa: S608
            f" AND digest IN ({places})",
            (session_id, *some),
        )
        found |= {raw.hex(): data for raw, data in rows if isinstance(data, bytes)}
    return found


def raw_digest(digest: str) -> bytes | None:
    """Return a digest as it is written; None for what cannot be one."""
    try:
        raw = bytes.fromhex(digest)
    except ValueError:
        return None
    return raw if raw.hex() == digest else None


def leaf_rows(db: sqlite3.Connection) -> Iterator[tuple[bytes, bytes] | None]:
    """Go through all leaves; in place of one that is not what was written stands nothing."""
    for digest, data in db.execute("SELECT digest, data FROM leaf"):
        yield (digest, data) if isinstance(data, bytes) and digest_of(data) == digest else None
