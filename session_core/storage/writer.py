"""Write one batch into the SQLite store: one transaction, including everything derived from its events.

The group commit, which decides what forms a batch and when it is written, is in `sqlite`.

Runs in a worker thread, one batch at a time. Its memory between batches (row numbers, counts, results of tool calls
that wait for their message) is only valid as long as every batch succeeds; after a failure nothing is written.
"""

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import attrs

from session_core import limits
from session_core.ids import CallId, SessionId
from session_core.storage.base import StoredReply
from session_core.storage.executor_state import LeafBatch, drop_leaves, retained_digests, write_leaves
from session_core.storage.files import BUSY_TIMEOUT_MS
from session_core.storage.kv import KvChange, KvWriter
from session_core.storage.reader import ConnectionReader
from session_core.storage.records import (
    BLOB_CHARS,
    FOLD,
    FORMAT,
    PARTIAL_FORMAT,
    Record,
    checksum,
    compress_payload,
    to_record,
)
from session_core.storage.rows import insert_rows
from session_core.storage.search import SearchIndex, last_indexed_row, searchable_text
from session_core.storage.session_list import SUMMARY_COLUMNS, reply_checksum, summary_values
from session_core.vocabulary import events as ev
from session_core.vocabulary.added_messages import MESSAGE_EVENTS, collect_added_messages, collect_results
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.frozen import Vector
from session_core.vocabulary.messages import ToolResultPart, count_message_chars
from session_core.vocabulary.snapshots import SessionSnapshot, SessionSummary
from session_core.wire.codec import encode, encode_event

PATIENCE_WITH_READERS_MS = 50  # while wiping traces, when all writing waits
MERGED_PAGES = 256  # of the search index at a time: a few milliseconds
_TRACES = "SELECT 1 FROM meta WHERE key = 'traces'"


@attrs.frozen
class SessionRemoval:
    """Remove a session."""

    session_id: SessionId


@attrs.frozen
class UnfinishedText:
    """Text of an unfinished answer, in case it never finishes; `about` is its message id."""

    session_id: SessionId
    about: str
    raw: bytes


WriteStep = SessionEvent | StoredReply | SessionRemoval | KvChange | LeafBatch


@attrs.define(kw_only=True)
class Batch:
    """Data that becomes durable together: steps in order, texts to save and to drop, the sessions after the batch."""

    steps: Sequence[WriteStep]
    partial_texts: list[UnfinishedText] = attrs.field(factory=list)
    dropped: list[tuple[SessionId, str]] = attrs.field(factory=list)
    summaries: dict[SessionId, SessionSummary] = attrs.field(factory=dict)
    states: dict[SessionId, SessionSnapshot] = attrs.field(factory=dict)


@attrs.define
class _SessionRow:
    """A session's row, as far as the next event needs it."""

    id: int
    session_id: SessionId
    last_n: int = 0
    messages: int = 0
    bytes: int = 0
    results: dict[CallId, ToolResultPart] = attrs.field(factory=dict)


class Writer:
    """Owns the one connection that writes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._reader = ConnectionReader(connection)
        self._sessions: dict[SessionId, _SessionRow] = {}
        (self._last_message,) = connection.execute("SELECT coalesce(max(id), 0) FROM message").fetchone()
        self._rows: list[tuple[object, ...]] = []
        self._messages: list[tuple[object, ...]] = []
        self._unfinished: set[tuple[int, str]] | None = None
        """The answers with saved text, loaded when first needed."""
        self._index = SearchIndex(connection)
        self._kv = KvWriter(connection)
        self.traces = connection.execute(_TRACES).fetchone() is not None
        """Whether text of deleted sessions is still in the search index or in the write-ahead log."""
        self._merging = False
        self._catch_up()

    def write(self, batch: Batch) -> None:
        """Make a batch durable."""
        with self._transaction():
            self._write(batch)
            if self._index.is_full:
                self._index.fill()

    @property
    def has_unindexed_messages(self) -> bool:
        """Whether messages wait to be indexed for search."""
        return self._index.has_waiting

    def fill_search_index(self) -> None:
        """Index the waiting messages."""
        with self._transaction():
            self._index.fill()

    def _catch_up(self) -> None:
        """Queue the messages that the last writer did not get to index."""
        known = last_indexed_row(self._db)
        if known != (start := min(known, self._last_message)) or known < self._last_message:
            with self._transaction():
                self._index.start_over_after(start)
                for row, text in self._reader.unindexed_texts():
                    self._index.add(row, text)
                    if self._index.is_full:
                        self._index.fill()

    @contextmanager
    def _transaction(self) -> Generator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _write(self, batch: Batch) -> None:
        touched: dict[SessionId, _SessionRow] = {}
        for step in batch.steps:
            if isinstance(step, SessionEvent):
                assert step.session_id is not None
                session = touched[step.session_id] = self._session(step.session_id)
                self._add(session, step)
            elif isinstance(step, StoredReply):
                self._remember(step)
            elif isinstance(step, KvChange):
                self._kv.apply(step)
            elif isinstance(step, LeafBatch):
                self._keep_leaves(step)
            else:
                self._flush()
                self._index.fill()  # so none of its messages waits there
                self._forget(step.session_id)
                touched.pop(step.session_id, None)
        self._flush()
        self._drop_texts(batch.dropped)
        self._keep_texts(batch.partial_texts)
        rows = [
            (each.last_n, each.messages, each.bytes, *summary_values(batch.summaries[each.session_id]), each.id)
            for each in touched.values()
        ]
        self._db.executemany(_UPDATE_SESSION, rows)
        for session_id, state in batch.states.items():
            if session_id in touched:
                self.save_state(session_id, state)

    def _session(self, session_id: SessionId) -> _SessionRow:
        known = self._sessions.get(session_id)
        if known is None:
            row = self._db.execute(
                "SELECT id, last_n, messages, bytes FROM session WHERE session_id = ?", (session_id,)
            ).fetchone()
            if row is None:
                added = self._db.execute("INSERT INTO session (session_id) VALUES (?)", (session_id,))
                row = (added.lastrowid or 0, 0, 0, 0)
            number, last_n, messages, size = row
            known = self._sessions[session_id] = _SessionRow(number, session_id, last_n, messages, size)
        return known

    def _drop_texts(self, ended: Sequence[tuple[SessionId, str]]) -> None:
        """Delete the text of answers that have ended. Most answers began and ended between two saves."""
        if not ended:
            return
        if self._unfinished is None:
            self._unfinished = set(self._db.execute("SELECT DISTINCT session, about FROM passing"))
        for session_id, about in ended:
            session = self._sessions.get(session_id)  # an unknown one was deleted
            if session is not None and (text := (session.id, about)) in self._unfinished:
                self._unfinished.remove(text)
                self._db.execute("DELETE FROM passing WHERE session = ? AND about = ?", text)

    def _keep_texts(self, texts: Sequence[UnfinishedText]) -> None:
        rows = [
            (
                self._session(text.session_id).id,
                text.about,
                checksum(text.session_id, 0, text.raw, written_as=PARTIAL_FORMAT),
                text.raw,
            )
            for text in texts
        ]
        insert_rows(self._db, "passing (session, about, checksum, payload)", rows)
        if self._unfinished is not None:
            self._unfinished.update((session, about) for session, about, *_ in rows)

    # --- events -------------------------------------------------------------------------------------------------------

    def _add(self, session: _SessionRow, event: SessionEvent) -> None:
        if isinstance(event.event, ev.ToolResultsCommitted):
            self._find_results(session, event.event)
        payload, links = encode_event(event), None
        if len(payload) >= BLOB_CHARS:
            record = to_record(payload)
            payload, links = record.payload, record.links
            self._keep_blobs(session, record)
        if (staying := retained_digests(event.event)) is not None:
            drop_leaves(self._db, session.id, all_but=staying)
        session.last_n = n = session.last_n + 1
        session.bytes += len(payload)
        crc = checksum(session.session_id, n, payload, links)
        self._rows.append((session.id, n, FORMAT, crc, payload, links))
        if isinstance(event.event, MESSAGE_EVENTS):
            self._list_messages(session, event, n)
            collect_results(session.results, event.event)

    def _list_messages(self, session: _SessionRow, event: SessionEvent, n: int) -> None:
        for message in collect_added_messages(event.event, session.results, event.at):
            self._last_message += 1
            self._messages.append(
                (
                    self._last_message,
                    session.id,
                    session.messages,
                    message.message_id,
                    message.parent_id,
                    message.role,
                    message.created_at,
                    count_message_chars(message),
                    n,
                )
            )
            self._index.add(self._last_message, searchable_text(message))
            session.messages += 1

    def _find_results(self, session: _SessionRow, committed: ev.ToolResultsCommitted) -> None:
        """Read back the results that were recorded before a restart."""
        if all(call_id in session.results for call_id in committed.call_ids):
            return
        self._flush()
        for call_id, result in self._reader.results_after(session.id, session.session_id, committed.parent_id).items():
            session.results.setdefault(call_id, result)

    def _keep_blobs(self, session: _SessionRow, record: Record) -> None:
        for digest, data in record.blobs:
            self._db.execute("INSERT OR IGNORE INTO blob (digest, data) VALUES (?, ?)", (digest, data))
            self._db.execute("INSERT OR IGNORE INTO blob_use (session, digest) VALUES (?, ?)", (session.id, digest))
            session.bytes += len(data)

    def _keep_leaves(self, step: LeafBatch) -> None:
        known = self._db.execute("SELECT id FROM session WHERE session_id = ?", (step.session_id,)).fetchone()
        if known is not None:  # else it was deleted, and this must not recreate it
            write_leaves(self._db, known[0], step.leaves)

    def _flush(self) -> None:
        insert_rows(self._db, "event (session, n, format, checksum, payload, links)", self._rows)
        insert_rows(self._db, "message", self._messages)
        self._rows, self._messages = [], []

    # --- the rest -----------------------------------------------------------------------------------------------------

    def save_state(self, session_id: SessionId, state: SessionSnapshot) -> None:
        """Save a session's newest state.

        Its messages are only counted, not repeated; the live output of tools is not saved, as it is not in the journal.
        """
        session = self._session(session_id)
        tools = tuple(attrs.evolve(tool, output="", progress=None) for tool in state.tools)
        payload = compress_payload(encode(attrs.evolve(state, messages=Vector(), tools=tools)))
        self._db.execute(
            "INSERT OR REPLACE INTO state VALUES (?, ?, ?, ?, ?)",
            (
                session.id,
                session.last_n,
                len(state.messages),
                checksum(session_id, session.last_n, payload, written_as=FOLD),
                payload,
            ),
        )

    def _remember(self, reply: StoredReply) -> None:
        payload = encode(reply.reply)
        added = self._db.execute(
            "INSERT OR REPLACE INTO reply (client_id, key, fingerprint, payload, checksum, session_id)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (reply.client_id, reply.key, reply.fingerprint, payload, reply_checksum(reply, payload), reply.session_id),
        )
        self._db.execute("DELETE FROM reply WHERE id <= ?", ((added.lastrowid or 0) - limits.IDEMPOTENCY_CAPACITY,))

    def _forget(self, session_id: SessionId) -> None:
        delete_session_rows(self._db, self._session(session_id).id)
        self._db.execute("DELETE FROM reply WHERE session_id = ?", (session_id,))
        number = self._sessions.pop(session_id).id
        if self._unfinished is not None:
            self._unfinished = {text for text in self._unfinished if text[0] != number}
        self._db.execute("INSERT OR REPLACE INTO meta VALUES ('traces', 'yes')")
        self.traces, self._merging = True, False

    def wipe_traces(self) -> bool:
        """Wipe some remains of deleted sessions; return whether there is more to do at once.

        Free pages are overwritten anyway. The search index keeps deleted words until its segments are merged, and the
        write-ahead log until it is truncated; a reader in another process may prevent that, so it is retried.
        """
        before = self._db.total_changes
        pages = MERGED_PAGES if self._merging else -MERGED_PAGES  # a negative number starts a merge of everything
        self._merging = True
        self._db.execute("INSERT INTO message_text (message_text, rank) VALUES ('merge', ?)", (pages,))
        if self._db.total_changes - before > 1:
            return True
        self._db.execute("DELETE FROM meta WHERE key = 'traces'")
        self._db.execute(f"PRAGMA busy_timeout = {PATIENCE_WITH_READERS_MS}")
        (busy, *_) = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self._db.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        self.traces, self._merging = bool(busy), False
        if busy:
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('traces', 'yes')")
        return False

    def close(self) -> None:
        """Close the connection."""
        self._db.close()


def delete_session_rows(db: sqlite3.Connection, session: int) -> None:
    """Delete every row of a session, and the blobs that nobody else uses."""
    db.execute("DELETE FROM message_text WHERE rowid IN (SELECT id FROM message WHERE session = ?)", (session,))
    blobs = db.execute("SELECT digest FROM blob_use WHERE session = ?", (session,)).fetchall()
    for table in ("event", "passing", "blob_use", "state", "message", "leaf"):
        db.execute(f"DELETE FROM {table} WHERE session = ?", (session,))  # noqa: S608 - names from the line above
    db.execute("DELETE FROM session WHERE id = ?", (session,))
    db.executemany(
        "DELETE FROM blob WHERE digest = ? AND NOT EXISTS (SELECT 1 FROM blob_use WHERE blob_use.digest = blob.digest)",
        blobs,
    )


_UPDATE_SESSION = (
    "UPDATE session SET last_n = ?, messages = ?, bytes = ?, "  # noqa: S608 - our names
    f"{', '.join(f'{name} = ?' for name in SUMMARY_COLUMNS)} WHERE id = ?"
)
