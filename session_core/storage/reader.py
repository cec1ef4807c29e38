"""Read the SQLite store. Synchronous: call it in a worker thread, one call at a time.

Every record is checked when it is read: its checksum, and that its number follows the previous one. A mismatch raises
`StoreDamaged` for the session it belongs to and no other.
"""

import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from session_core import limits
from session_core.errors import ProtocolError, StoreDamaged
from session_core.ids import CallId, MessageId, SessionId
from session_core.storage.base import MessagePage, StoredSession
from session_core.storage.records import FOLD, PARTIAL_FORMAT, DamagedRecord, checksum, decompress_payload, from_record
from session_core.storage.search import IndexedText, last_indexed_row, search, searchable_text
from session_core.vocabulary.added_messages import collect_added_messages, collect_results
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.frozen import Vector
from session_core.vocabulary.messages import Message, ToolResultPart
from session_core.vocabulary.replies import SearchHit
from session_core.vocabulary.snapshots import SessionSnapshot
from session_core.wire.codec import decode

JOURNAL_PAGE = 256  # events per read
_UNSEARCHED = """
SELECT message.id, session.id, session.session_id, message.number
FROM message JOIN session ON session.id = message.session WHERE message.id > ? ORDER BY message.id
"""


class ConnectionReader:
    """Reads through one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.db = connection

    def probe(self) -> None:
        """Check whether anything can be read at all."""
        self.db.execute("SELECT count(*) FROM meta").fetchone()

    def close(self) -> None:
        """Close the connection."""
        self.db.close()

    # --- messages of all sessions -------------------------------------------------------------------------------------

    def search(self, text: str, limit: int) -> tuple[SearchHit, ...]:
        """Return messages that contain all words of `text`, best first."""
        self.db.execute("BEGIN")
        try:
            return search(self.db, text, limit, [each for each in self.unindexed_texts() if each[1]])
        finally:
            self.db.execute("COMMIT")

    def unindexed_texts(self) -> list[IndexedText]:
        """Read the text of messages that are not in the search index yet, oldest first.

        Those of a damaged session are left out: it must be repaired first, which repairs its index too.
        """
        by_session: dict[tuple[int, SessionId], dict[int, int]] = {}
        for row, session, session_id, number in self.db.execute(_UNSEARCHED, (last_indexed_row(self.db),)):
            by_session.setdefault((session, session_id), {})[number] = row
        texts: list[IndexedText] = []
        for (session, session_id), rows in by_session.items():
            for first, count in _runs(sorted(rows)):  # one record may hold many messages and is read once
                try:
                    messages = self._messages(session, session_id, first, count)
                except (StoreDamaged, TypeError, ValueError):
                    continue
                texts += [(rows[first + place], searchable_text(message)) for place, message in enumerate(messages)]
        return sorted(texts)

    # --- one session --------------------------------------------------------------------------------------------------

    @contextmanager
    def _read_transaction(self, session_id: SessionId) -> Generator[None]:
        """Read a consistent view of the store, whatever another process writes meanwhile.

        Rows with values of an unexpected kind count as damage of this one session.
        """
        self.db.execute("BEGIN")
        try:
            yield
        except (TypeError, ValueError, DamagedRecord) as error:
            _raise_damaged(session_id, f"its data is not valid ({error})")
        finally:
            self.db.execute("COMMIT")

    def load(self, session_id: SessionId) -> StoredSession | None:
        """Return the data from which a session resumes."""
        with self._read_transaction(session_id):
            found = self.db.execute("SELECT id, last_n FROM session WHERE session_id = ?", (session_id,)).fetchone()
            if found is None:
                return None
            session, last_n = found
            n, snapshot = self._state(session, session_id)
            events = list(self._events(session, session_id, n + 1, last_n))
            known = snapshot.sseq if snapshot is not None else 0
            if passing := [event for event in self._passing(session, session_id) if event.sseq > known]:
                events = sorted([*events, *passing], key=lambda event: event.sseq)
            return StoredSession(snapshot=snapshot, events=tuple(events))

    def _state(self, session: int, session_id: SessionId) -> tuple[int, SessionSnapshot | None]:
        """Return the saved state and its position; it is derived, so an unreadable one is simply not used."""
        row = self.db.execute(
            "SELECT n, messages, checksum, payload FROM state WHERE session = ?", (session,)
        ).fetchone()
        if row is None:
            return 0, None
        n, count, crc, payload = row
        if not isinstance(payload, bytes) or checksum(session_id, n, payload, written_as=FOLD) != crc:
            return 0, None  # damaged, or of an earlier fold
        try:
            bare = decode(decompress_payload(payload), SessionSnapshot, max_bytes=limits.MAX_RECORD_BYTES)
        except (ProtocolError, DamagedRecord):  # saved by another version
            return 0, None
        try:
            messages = self._messages(session, session_id, bare.earlier, count)
        except StoreDamaged:  # or of its index, which is derived too: the records decide
            return 0, None
        if len(messages) != count:
            return 0, None
        object.__setattr__(bare, "messages", Vector(messages))  # not shared with anybody yet
        return n, bare

    def _passing(self, session: int, session_id: SessionId) -> list[SessionEvent]:
        rows = self.db.execute("SELECT checksum, payload FROM passing WHERE session = ? ORDER BY id", (session,))
        return [
            from_record(payload, None, self._blob)
            for crc, payload in rows
            if checksum(session_id, 0, payload, written_as=PARTIAL_FORMAT) == crc
        ]

    def journal_page(self, session_id: SessionId, after_n: int) -> tuple[SessionEvent, ...]:
        """Return the next events of a session after its record number `after_n`; empty at the end."""
        with self._read_transaction(session_id):
            found = self.db.execute("SELECT id, last_n FROM session WHERE session_id = ?", (session_id,)).fetchone()
            if found is None:
                return ()
            session, last_n = found
            return tuple(self._events(session, session_id, after_n + 1, min(last_n, after_n + JOURNAL_PAGE)))

    def _events(self, session: int, session_id: SessionId, first: int, last: int) -> Iterator[SessionEvent]:
        expected = first
        rows = self.db.execute(
            "SELECT n, format, checksum, payload, links FROM event WHERE session = ? AND n BETWEEN ? AND ? ORDER BY n",
            (session, first, last),
        )
        for n, written_as, crc, payload, links in rows:
            if n != expected:
                _raise_damaged(session_id, f"record {expected} is missing")
            if (
                not isinstance(payload, bytes)
                or not isinstance(links, bytes | None)
                or checksum(session_id, n, payload, links, written_as=written_as) != crc
            ):
                _raise_damaged(session_id, f"record {n} is not what was written (its checksum differs)")
            try:
                yield from_record(payload, links, self._blob, written_as=written_as)
            except DamagedRecord as damage:
                _raise_damaged(session_id, f"record {n}: {damage}")
            expected += 1
        if expected <= last:
            _raise_damaged(session_id, f"record {expected} is missing")

    def _blob(self, digest: bytes) -> bytes | None:
        row = self.db.execute("SELECT data FROM blob WHERE digest = ?", (digest,)).fetchone()
        return row[0] if row is not None else None

    # --- messages -----------------------------------------------------------------------------------------------------

    def messages(self, session_id: SessionId, before: int, limit: int) -> MessagePage:
        """Return up to `limit` messages that came right before message number `before`."""
        with self._read_transaction(session_id):
            found = self.db.execute("SELECT id, messages FROM session WHERE session_id = ?", (session_id,)).fetchone()
            if found is None:
                return MessagePage(first=0, messages=())
            session, count = found
            end = min(before, count)
            first = max(0, end - limit)
            return MessagePage(first=first, messages=tuple(self._messages(session, session_id, first, end - first)))

    def _messages(self, session: int, session_id: SessionId, first: int, count: int) -> list[Message]:
        """Read messages by their number from the events that hold them.

        A message of tool results is assembled from the results recorded after its parent, so reading starts there.
        """
        if count <= 0:
            return []
        last = first + count - 1
        lowest, start_n = self.db.execute(
            """
            SELECT number, n FROM message WHERE session = :session AND n = (
                SELECT min(n) FROM (
                    SELECT n FROM message WHERE session = :session AND number = :first
                    UNION ALL
                    SELECT max(parent.n) FROM message JOIN message AS parent
                        ON parent.session = message.session AND parent.message_id = message.parent_id
                    WHERE message.session = :session AND message.number BETWEEN :first AND :last
                        AND message.role = 'tool' AND parent.number < message.number
                    GROUP BY message.number
                )
            ) ORDER BY number LIMIT 1
            """,
            {"session": session, "first": first, "last": last},
        ).fetchone() or (0, 1)
        (end_n,) = self.db.execute(
            "SELECT n FROM message WHERE session = ? AND number = ?", (session, last)
        ).fetchone() or (0,)
        messages: list[Message] = []
        results: dict[CallId, ToolResultPart] = {}
        for event in self._events(session, session_id, start_n, end_n):
            messages += collect_added_messages(event.event, results, event.at)
            collect_results(results, event.event)
        found = messages[first - lowest : first - lowest + count]
        listed = self.db.execute(
            "SELECT message_id FROM message WHERE session = ? AND number BETWEEN ? AND ? ORDER BY number",
            (session, first, last),
        )
        if [message.message_id for message in found] != [message_id for (message_id,) in listed]:
            _raise_damaged(session_id, "its index of messages does not match its records")
        return found

    def results_after(
        self, session: int, session_id: SessionId, message_id: MessageId | None
    ) -> dict[CallId, ToolResultPart]:
        """Return the tool results recorded after a message and not yet committed."""
        row = self.db.execute(
            "SELECT max(n) FROM message WHERE session = ? AND message_id = ?", (session, message_id)
        ).fetchone()
        (last,) = self.db.execute("SELECT max(n) FROM event WHERE session = ?", (session,)).fetchone()
        results: dict[CallId, ToolResultPart] = {}
        for event in self._events(session, session_id, (row[0] or 0) + 1, last or 0):
            collect_results(results, event.event)
        return results

    def message_path(self, session_id: SessionId, message_id: MessageId, max_chars: int) -> tuple[Message, ...]:
        """Return the path to this message, back to a summary or as far as `max_chars` allows."""
        with self._read_transaction(session_id):
            found = self.db.execute("SELECT id FROM session WHERE session_id = ?", (session_id,)).fetchone()
            if found is None:
                return ()
            (session,) = found
            numbers: list[int] = []
            wanted: str | None = message_id
            below = 2**62
            while wanted is not None:
                row = self.db.execute(
                    """
                    SELECT number, parent_id, role, chars FROM message
                    WHERE session = ? AND message_id = ? AND number < ? ORDER BY number DESC LIMIT 1
                    """,
                    (session, wanted, below),
                ).fetchone()
                if row is None:
                    break
                below, wanted, role, chars = row
                max_chars -= chars
                if numbers and max_chars < 0:
                    break
                numbers.append(below)
                if role == "summary":
                    break
            numbers.reverse()
            return tuple(
                message
                for first, count in _runs(numbers)
                for message in self._messages(session, session_id, first, count)
            )

    def newest_leaf(self, session_id: SessionId, message_id: MessageId) -> MessageId | None:
        """Return the newest message that descends from this one, or itself."""
        start = self.db.execute(
            """
            SELECT session, number FROM message JOIN session ON session.id = message.session
            WHERE session.session_id = ? AND message_id = ? ORDER BY number LIMIT 1
            """,
            (session_id, message_id),
        ).fetchone()
        if start is None:
            return None
        family, newest = {message_id}, message_id
        for each, parent in self.db.execute(
            "SELECT message_id, parent_id FROM message WHERE session = ? AND number > ? ORDER BY number", start
        ):
            if parent in family:
                family.add(each)
                newest = each
        return newest


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Split ascending numbers into runs without gaps, as (first, count)."""
    begin = 0
    for place in range(1, len(numbers) + 1):
        if place == len(numbers) or numbers[place] != numbers[place - 1] + 1:
            yield numbers[begin], place - begin
            begin = place


def _raise_damaged(session_id: SessionId, what: str) -> NoReturn:
    raise StoreDamaged(
        f"session {session_id} is damaged: {what}; other sessions are not affected. "
        "`session-core store verify` shows details, and `session-core store rebuild` saves what can still be read",
        field="session_id",
    )
