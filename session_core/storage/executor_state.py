"""Leaves, the large parts of executor states, stored by content. Pure, except for SQL.

A leaf is named by the SHA-256 of its bytes, so it can be verified anywhere. It belongs to one session and stays as long
as the newest state of that session's executor names it, or an earlier state to which people may go back. A leaf that no
retained state names is dropped with the event that says so.
"""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import sha256

import attrs

from session_core import limits
from session_core.errors import ProtocolError
from session_core.ids import SessionId
from session_core.storage.rows import has_table, insert_rows
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
    """Leaves of a session to store, by their digests; existing ones stay as they are."""

    session_id: SessionId
    leaves: Mapping[str, bytes]

    @property
    def size(self) -> int:
        """Their total size in bytes."""
        return sum(map(len, self.leaves.values()))


def check_leaves(session_id: SessionId, leaves: Mapping[str, bytes]) -> LeafBatch:
    """Check leaves and return them as a batch.

    Raises:
        ProtocolError: One of them does not match its digest, or is too large.
    """
    for digest, data in leaves.items():
        if len(data) > limits.MAX_LEAF_BYTES:
            raise ProtocolError(f"a part of {len(data):,} bytes of an executor's state is too large to be kept")
        if digest_of(data).hex() != digest:
            raise ProtocolError(f"a part of an executor's state is not what its digest says: {digest[:12]}")
    return LeafBatch(session_id=session_id, leaves=dict(leaves))


def digest_of(data: bytes) -> bytes:
    """Return the digest that names a leaf."""
    return sha256(data).digest()


def leaf_digests(state: ExecutorState | None) -> frozenset[str]:
    """Return the digests of the leaves that a state needs."""
    return frozenset() if state is None else frozenset(leaf.digest for leaf in state.leaves)


def all_leaf_digests(points: Iterable[ExecutorPoint]) -> frozenset[str]:
    """Return the digests of the leaves that all states of a session need."""
    return frozenset(leaf.digest for point in points for leaf in point.state.leaves)


def retained_digests(event: ev.Event) -> frozenset[str] | None:
    """Return the digests of the leaves that an event retains; None if it does not affect leaves."""
    match event:
        case ev.ExecutorStateSaved(state=state, earlier_leaves=earlier):
            return leaf_digests(state) | frozenset(earlier)
        case ev.FrameOpened() | ev.FrameEntered():  # the executor starts from scratch there
            return frozenset()
        case _:
            return None


# --- rows -------------------------------------------------------------------------------------------------------------


def write_leaves(db: sqlite3.Connection, session: int, leaves: Mapping[str, bytes]) -> None:
    """Write the leaves that do not exist yet."""
    there = _digests(db, session)
    rows = [(session, raw, data) for digest, data in leaves.items() if (raw := bytes.fromhex(digest)) not in there]
    insert_rows(db, "leaf (session, digest, data)", rows)


def drop_leaves(db: sqlite3.Connection, session: int, *, all_but: Collection[str]) -> None:
    """Delete the leaves of a session, except for these."""
    unwanted = [(session, raw) for raw in _digests(db, session) if raw.hex() not in all_but]
    if unwanted:
        db.executemany("DELETE FROM leaf WHERE session = ? AND digest = ?", unwanted)


def _digests(db: sqlite3.Connection, session: int) -> set[bytes]:
    rows = db.execute("SELECT digest FROM leaf WHERE session = ?", (session,))
    return {raw for (raw,) in rows if isinstance(raw, bytes)}


def read_leaves(db: sqlite3.Connection, session_id: SessionId, digests: Collection[str]) -> dict[str, bytes]:
    """Return those of these leaves that a session has; the caller checks them against their digests."""
    if not has_table(db, "leaf"):
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
    """Return a digest in its stored form; None if it is not valid."""
    try:
        raw = bytes.fromhex(digest)
    except ValueError:
        return None
    return raw if raw.hex() == digest else None


def leaf_rows(db: sqlite3.Connection) -> Iterator[tuple[bytes, bytes] | None]:
    """Yield all leaves, with None in place of a damaged one; a store of an older format has none."""
    if not has_table(db, "leaf"):
        return
    for digest, data in db.execute("SELECT digest, data FROM leaf"):
        yield (digest, data) if isinstance(data, bytes) and digest_of(data) == digest else None
