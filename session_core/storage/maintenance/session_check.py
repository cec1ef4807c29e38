"""Check that one session is as it was written, and that everything derived from its records matches them.

Every record is read and folded, and the result is compared with the list, the saved state, the index of messages and
the search index. Unreadable data is reported for this session; other sessions are checked separately.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any

import attrs
import msgspec

from session_core.errors import SessionCoreError
from session_core.ids import CallId, Cursor, Epoch, SessionId
from session_core.session.restore import restore
from session_core.session.session_list import SessionListState
from session_core.session.state import SessionState
from session_core.storage.executor_state import all_leaf_digests
from session_core.storage.maintenance.findings import LEAVES_MISSING, REBUILD_DERIVED, StoreFindings
from session_core.storage.maintenance.forensics.salvage import verify_event_row, verify_leaf_row
from session_core.storage.partial_text import unfinished_message_id
from session_core.storage.reader import ConnectionReader
from session_core.storage.records import PARTIAL_FORMAT, DamagedRecord, checksum, from_record
from session_core.storage.rows import has_table
from session_core.storage.search import last_indexed_row, searchable_text
from session_core.storage.session_list import SUMMARY_COLUMNS, summary_values
from session_core.vocabulary import events as ev
from session_core.vocabulary.added_messages import collect_added_messages, collect_results
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.messages import Message, ToolResultPart, count_message_chars

NOWHERE = Cursor(epoch=Epoch("verify"), seq=0)

_COLUMNS = ("last_n", "messages", "bytes", *SUMMARY_COLUMNS)
_LISTED = f"SELECT {', '.join(_COLUMNS)} FROM session WHERE id = ?"  # noqa: S608 - our names
_ADVICE_LEAVES = "only a backup can restore them; the session reports it when it next runs code"


class _SessionDamaged(Exception):
    """The session cannot be read; it has been reported."""


@attrs.define(kw_only=True)
class SessionCheck:
    """The check of one session, known to the tables as number `session`."""

    db: sqlite3.Connection
    findings: StoreFindings
    session: int
    session_id: SessionId
    state: SessionState = attrs.field(init=False)
    session_list: SessionListState = attrs.field(factory=SessionListState)
    results: dict[CallId, ToolResultPart] = attrs.field(factory=dict)
    digests: set[bytes] = attrs.field(factory=set)
    n: int = 0
    messages: int = 0
    size: int = 0
    wrong_index: str = ""
    wrong_text: str = ""

    def __attrs_post_init__(self) -> None:
        self.state = SessionState(session_id=self.session_id)

    def run(self) -> None:
        """Check everything of this session; every fault is a finding."""
        try:
            self.db.execute("BEGIN")  # a consistent view
            try:
                if self.db.execute("SELECT 1 FROM session WHERE id = ?", (self.session,)).fetchone() is None:
                    return  # deleted meanwhile
                self._check_records()
            finally:
                self.db.execute("COMMIT")
            self._check_load()
        except _SessionDamaged:
            pass
        except Exception as error:  # noqa: BLE001 - damaged data can raise anything
            self._error(f"it cannot be read: {error}")

    def _check_records(self) -> None:
        waiting = self._passing()
        for event in self._events():
            while waiting and waiting[0].sseq < event.sseq:
                self.state.apply(waiting.pop(0))
            self._fold(event)
        for event in waiting:
            self.state.apply(event)
        self._check_list()
        self._check_messages()
        self._check_blob_use()
        self._check_leaves()

    def _error(self, what: str) -> None:
        self.findings.add_error(what, session_id=self.session_id)

    def _add_derived_error(self, what: str) -> None:
        self.findings.add_error(what, REBUILD_DERIVED, session_id=self.session_id)

    # --- the records --------------------------------------------------------------------------------------------------

    def _events(self) -> Iterator[SessionEvent]:
        for n, written_as, crc, payload, links in self._rows():
            if n != self.n + 1:
                self._error(f"record {self.n + 1} is missing")
                raise _SessionDamaged
            self.n = n
            proven = verify_event_row(n, written_as, crc, payload, links)
            if proven is None:
                self._error(f"record {n} is not what was written: its checksum differs")
                raise _SessionDamaged
            if proven.session_id != self.session_id:
                self._listed_wrongly(proven.session_id)
            try:
                event = from_record(payload, links, self._blob, written_as=written_as)
            except DamagedRecord as damage:
                self._error(f"record {n}: {damage}")
                raise _SessionDamaged from damage
            if n == 1 and not isinstance(event.event, ev.SessionCreated):
                self._error("its first record does not create it")
                raise _SessionDamaged
            self.size += len(payload)
            if links is not None:
                self.size += self._note_links(links)
            self.findings.events += 1
            yield event

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        """Read the rows through the index or, if that fails, without it."""
        columns = "SELECT n, format, checksum, payload, links FROM event"
        done = 0
        try:
            for row in self.db.execute(f"{columns} WHERE session = ? ORDER BY n", (self.session,)):
                yield row
                done += 1
        except sqlite3.DatabaseError as error:
            self._error(f"its records cannot be read in order after number {done}: {error}")
            scan = f"{columns} NOT INDEXED WHERE session = ? AND n > ? ORDER BY n"
            yield from self.db.execute(scan, (self.session, done))

    def _listed_wrongly(self, real_id: SessionId) -> None:
        self._add_derived_error(f"its records were written under another id: {real_id}")
        self.findings.add_error("it is listed under another id", REBUILD_DERIVED, session_id=real_id)
        raise _SessionDamaged

    def _note_links(self, links: bytes) -> int:
        digests = {bytes.fromhex(digest) for _, digest in msgspec.json.decode(links)}
        self.digests |= digests
        return sum(len(self._blob(digest) or b"") for digest in digests)

    def _blob(self, digest: bytes) -> bytes | None:
        row = self.db.execute("SELECT data FROM blob WHERE digest = ?", (digest,)).fetchone()
        return row[0] if row is not None and isinstance(row[0], bytes) else None

    def _passing(self) -> list[SessionEvent]:
        rows = self.db.execute(
            "SELECT about, checksum, payload FROM passing WHERE session = ? ORDER BY id", (self.session,)
        )
        events: list[SessionEvent] = []
        for about, crc, payload in rows:
            try:
                if (
                    not isinstance(payload, bytes)
                    or checksum(self.session_id, 0, payload, written_as=PARTIAL_FORMAT) != crc
                ):
                    raise DamagedRecord("its checksum differs")
                event = from_record(payload, None, self._blob)
            except DamagedRecord as damage:
                self._error(f"text of an unfinished answer is not what was written: {damage}")
                continue
            if about != unfinished_message_id(event.event):
                self._add_derived_error("text of an unfinished answer is filed under another answer")
            events.append(event)
        return sorted(events, key=lambda event: event.sseq)

    # --- what is derived ----------------------------------------------------------------------------------------------

    def _fold(self, event: SessionEvent) -> None:
        self.state.apply(event)
        self.session_list.apply(event)
        for message in collect_added_messages(event.event, self.results, event.at):
            self._check_message(message)
            self.messages += 1
        collect_results(self.results, event.event)

    def _check_message(self, message: Message) -> None:
        row = self.db.execute(
            """
            SELECT id, message_id, parent_id, role, created_at, chars, n FROM message
            WHERE session = ? AND number = ?
            """,
            (self.session, self.messages),
        ).fetchone()
        expected = (
            message.message_id,
            message.parent_id,
            message.role,
            message.created_at,
            count_message_chars(message),
            self.n,
        )
        if row is None or row[1:] != expected:
            self.wrong_index = self.wrong_index or f"message {self.messages} is not in the index as it should be"
            return
        found = self.db.execute("SELECT text FROM message_text WHERE rowid = ?", (row[0],)).fetchone()
        if found is None and row[0] > last_indexed_row(self.db):
            return  # it is not indexed yet
        if (found[0] if found is not None else "") != searchable_text(message):
            self.wrong_text = self.wrong_text or f"message {self.messages} is not in the search index as it should be"

    def _check_messages(self) -> None:
        (count,) = self.db.execute("SELECT count(*) FROM message WHERE session = ?", (self.session,)).fetchone()
        if count != self.messages:
            self.wrong_index = self.wrong_index or f"the index has {count} messages instead of {self.messages}"
        for wrong in filter(None, (self.wrong_index, self.wrong_text)):
            self._add_derived_error(wrong)

    def _check_list(self) -> None:
        row = self.db.execute(_LISTED, (self.session,)).fetchone()
        if row is not None and isinstance(row[0], int) and row[0] > self.n:
            self._error(f"it has {self.n} records, but should have {row[0]}")
            raise _SessionDamaged
        summary = self.session_list.sessions.get(self.session_id)
        if row is None or summary is None:
            self._add_derived_error("it is not in the list of sessions")
            return
        expected = (self.n, self.messages, self.size, *summary_values(summary))
        wrong = [name for name, found, right in zip(_COLUMNS, row, expected, strict=True) if found != right]
        if wrong:
            self._add_derived_error(f"the list of sessions has wrong values: {', '.join(wrong)}")

    def _check_blob_use(self) -> None:
        rows = self.db.execute("SELECT digest FROM blob_use WHERE session = ?", (self.session,))
        used = {digest for (digest,) in rows}
        if self.digests - used:
            self._add_derived_error("one of its blobs is not marked as used")
        elif used - self.digests:
            self.findings.add_warning(
                "a blob is marked as used, but is not", REBUILD_DERIVED, session_id=self.session_id
            )

    def _check_leaves(self) -> None:
        there: set[str] = set()
        query = "SELECT digest, data FROM leaf WHERE session = ?"
        for digest, data in self.db.execute(query, (self.session,)) if has_table(self.db, "leaf") else ():
            if isinstance(digest, bytes):
                there.add(digest.hex())
            if verify_leaf_row(digest, data) is None:
                self._error("a part of its saved code state is not what was written")
        named = all_leaf_digests(self.state.executor_points)
        if missing := len(named - there):
            self.findings.add_warning(f"{missing} {LEAVES_MISSING}", _ADVICE_LEAVES, session_id=self.session_id)
        if unused := len(there - named):
            what = f"{unused} parts of its saved code state are no longer used"
            self.findings.add_warning(what, REBUILD_DERIVED, session_id=self.session_id)

    def _check_load(self) -> None:
        """Read the session as the service does."""
        try:
            stored = ConnectionReader(self.db).load(self.session_id)
        except SessionCoreError as error:
            self._error(error.message)
            return
        if stored is None:
            self._add_derived_error("it is not found by its id")
            return
        loaded = restore(self.session_id, stored)
        if loaded.sseq <= self.state.sseq and loaded.snapshot(NOWHERE) != self.state.snapshot(
            NOWHERE
        ):  # otherwise the session has continued since
            self._add_derived_error("the saved state does not match its records")
