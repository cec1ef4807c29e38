"""Full-text search of messages.

The index lags behind the records on purpose: texts wait in memory and are indexed many at once, in a quiet moment or
when enough have accumulated, so no commit has to wait for the index. `searchable` in `meta` is the last indexed
message. Later messages are read from the records: by a search, as long as they wait, and by the next writer after a
crash. So a search never misses anything that is durable.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing

from session_core.storage.rows import insert_rows
from session_core.vocabulary.messages import Message, TextPart, ToolResultPart
from session_core.vocabulary.replies import SearchHit

SEARCH_INDEX = 'CREATE VIRTUAL TABLE message_text USING fts5 (text, tokenize = "unicode61 remove_diacritics 2")'
LONGEST_SEARCHED_RESULT = 4_000  # only the beginning of a tool's output is indexed: the rest would bury everything else
LONGEST_SEARCHED_TEXT = 100_000
MOST_WAITING_TEXTS = 512
MOST_WAITING_CHARS = 2_000_000
EVERYTHING = 2**62

IndexedText = tuple[int, str]
"""The row of a message, and its searchable text."""

_FIRST_UNSPACED = "\u2e80"  # from here on come scripts that are written without spaces, which the index cannot split
_LONGEST_EXCERPT = 200
_BY_WORDS = """
SELECT rowid, snippet(message_text, 0, '', '', '…', 24) FROM message_text
WHERE message_text MATCH ? AND rowid <= ? ORDER BY rank LIMIT ?
"""
_FOUND = """
SELECT session.session_id, session.name, message.message_id, message.role, message.created_at
FROM message JOIN session ON session.id = message.session WHERE message.id = ?
"""


class SearchIndex:
    """The index as its one writer sees it."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._texts: list[IndexedText] = []
        self._chars = 0
        self._last = self._last_indexed = last_indexed_row(db)

    @property
    def has_waiting(self) -> bool:
        """Whether messages wait to be indexed."""
        return self._last > self._last_indexed

    @property
    def is_full(self) -> bool:
        """Whether enough messages wait to index them now."""
        return len(self._texts) >= MOST_WAITING_TEXTS or self._chars >= MOST_WAITING_CHARS

    def add(self, row: int, text: str) -> None:
        """Queue a message for indexing, even one without text."""
        self._last = row
        if text:
            self._texts.append((row, text))
            self._chars += len(text)

    def fill(self) -> None:
        """Index all waiting messages, as part of the caller's transaction."""
        if self.has_waiting:
            insert_rows(self._db, "message_text (rowid, text)", self._texts)
            self._note(self._last)
            self._texts, self._chars = [], 0

    def start_over_after(self, row: int) -> None:
        """Remove index entries of messages after this row, whose texts are about to be added again."""
        self._db.execute("DELETE FROM message_text WHERE rowid > ?", (row,))
        self._last = row
        self._note(row)

    def _note(self, row: int) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES ('searchable', ?)", (str(row),))
        self._last_indexed = row


def last_indexed_row(db: sqlite3.Connection) -> int:
    """Return the row of the last indexed message; if that is damaged, a row that leads to reading too much.

    Stores of format 1 do not record it: there, everything is indexed.
    """
    found = db.execute("SELECT value FROM meta WHERE key = 'searchable'").fetchone()
    if found is None:
        return EVERYTHING
    (value,) = found
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19 else 0


def search(db: sqlite3.Connection, text: str, limit: int, waiting: Sequence[IndexedText]) -> tuple[SearchHit, ...]:
    """Return messages with all words of `text`, or words that start with them: unindexed ones first, then the best.

    Words of scripts without spaces match anywhere in the text, newest messages first.
    """
    words = text.encode("utf-8", "replace").decode().replace("\0", " ").split()
    if not words:
        return ()
    found: list[tuple[int, str]] = []
    if waiting:
        with closing(sqlite3.connect(":memory:")) as aside:
            aside.execute(SEARCH_INDEX)
            insert_rows(aside, "message_text (rowid, text)", waiting)
            found = _find_matches(aside, words, waiting[-1][0], limit)
    found += _find_matches(db, words, last_indexed_row(db), limit)
    hits = ((excerpt, db.execute(_FOUND, (row,)).fetchone()) for row, excerpt in found[:limit])
    return tuple(
        SearchHit(
            session_id=hit[0], session_name=hit[1], message_id=hit[2], role=hit[3], created_at=hit[4], excerpt=excerpt
        )
        for excerpt, hit in hits
        if hit is not None
    )


def _find_matches(db: sqlite3.Connection, words: Sequence[str], last: int, limit: int) -> list[tuple[int, str]]:
    if any(character >= _FIRST_UNSPACED for word in words for character in word):
        condition = " AND ".join(["instr(lower(text), ?)"] * len(words))
        query = (
            f"SELECT rowid, substr(text, 1, {_LONGEST_EXCERPT}) FROM message_text"  # noqa: S608 - words are bound
            f" WHERE {condition} AND rowid <= ? ORDER BY rowid DESC LIMIT ?"
        )
        return db.execute(query, (*[word.lower() for word in words], last, limit)).fetchall()
    quoted = [word.replace('"', '""') for word in words]
    return db.execute(_BY_WORDS, (" ".join(f'"{word}"*' for word in quoted), last, limit)).fetchall()


def searchable_text(message: Message) -> str:
    """Return the searchable text of a message."""
    return "\n".join(_searched_parts(message))[:LONGEST_SEARCHED_TEXT]


def _searched_parts(message: Message) -> Iterable[str]:
    for part in message.parts:
        if isinstance(part, TextPart):
            yield part.text
        elif isinstance(part, ToolResultPart):
            yield part.text[:LONGEST_SEARCHED_RESULT]
