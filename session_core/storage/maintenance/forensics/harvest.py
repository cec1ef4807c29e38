"""Gather every readable record of a store in a scratch file beside it.

Records come from SQLite as far as it can read its own tables and, if anything is wrong there, from the raw pages of the
file and its write-ahead log. Since each record proves itself, it does not matter where or how often it was found.
"""

import mmap
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs

from session_core.ids import SessionId
from session_core.storage.executor_state import raw_digest
from session_core.storage.files import Connect, store_file, surrogate_text, wal_path
from session_core.storage.kv import kv_rows
from session_core.storage.maintenance.findings import Progress, StoreFinding
from session_core.storage.maintenance.forensics.raw_file import HEADER_BYTES, PAGE_SIZES, page_size_of, read_log
from session_core.storage.maintenance.forensics.salvage import (
    BlobRow,
    EventRow,
    LeafRow,
    ListedRow,
    PassingRow,
    Row,
    carve_records,
    verify_blob_row,
    verify_event_row,
    verify_leaf_row,
    verify_passing_row,
)
from session_core.storage.maintenance.table_check import expected_schema, has_right_schema, schema_of
from session_core.storage.records import FORMAT
from session_core.storage.rows import has_table
from session_core.storage.session_list import read_reply

_SCRATCH = """
CREATE TABLE event (session_id TEXT, n INTEGER, written_as INTEGER, payload BLOB, links BLOB,
    PRIMARY KEY (session_id, n)) WITHOUT ROWID;
CREATE TABLE passing (id INTEGER PRIMARY KEY, session_id TEXT, about TEXT, payload BLOB, UNIQUE (session_id, payload));
CREATE TABLE blob (digest BLOB PRIMARY KEY, data BLOB);
CREATE TABLE leaf (digest BLOB PRIMARY KEY, data BLOB);
CREATE TABLE expected (session_id TEXT PRIMARY KEY, last_n INTEGER);
CREATE TABLE kv (owner TEXT, key TEXT, value BLOB, checksum INTEGER, PRIMARY KEY (owner, key));
"""
_PLACES: Mapping[type[Row], str] = {
    EventRow: "event",
    PassingRow: "passing (session_id, about, payload)",
    BlobRow: "blob",
    LeafRow: "leaf",
}
"""Where each kind of row goes, with its columns in the order of its fields."""


@attrs.define(kw_only=True)
class Harvest:
    """The records found, in a separate scratch database."""

    scratch: sqlite3.Connection
    problems: list[str] = attrs.field(factory=list)
    """What could not be read, in words."""
    replies: list[tuple[Any, ...]] = attrs.field(factory=list)
    lost_values: int = 0
    """How many values of extensions are damaged."""
    foreign: str | None = None
    """Why the file must be left alone, if it is a sound file that this program does not understand."""
    complete: bool = False
    """Whether SQLite could read all records, so a missing record never existed."""
    records_read: bool = False
    """The same, whatever else SQLite could not read."""
    sound: bool = False
    """Whether only single sessions are damaged, so the list of sessions can be trusted."""
    list_read: bool = False
    """Whether SQLite could read the list of sessions."""
    owners: dict[int, SessionId] = attrs.field(factory=dict)
    """For each session number in the tables, the id that its records prove."""

    names: dict[SessionId, str] = attrs.field(factory=dict)
    """The names of sessions in the list, which may be damaged."""

    def sessions(self) -> list[tuple[SessionId, int, bool]]:
        """Return all sessions with any known data, oldest first.

        Each comes with how many records it should have, and whether that is certain: if not, there may have been more.
        """
        return [
            (session_id, last_n, bool(is_listed))
            for session_id, last_n, is_listed in self.scratch.execute(
                """
                SELECT session_id, max(last_n), max(told) FROM (
                    SELECT session_id, last_n, 1 AS told FROM expected
                    UNION ALL SELECT session_id, max(n), 0 FROM event GROUP BY 1
                ) GROUP BY session_id ORDER BY session_id
                """
            )
        ]

    def has_all_records(self, session_id: SessionId) -> bool:
        """Return whether SQLite could read all records of a session: none was found in raw pages alone."""
        return self.records_read and session_id in self.owners.values()

    @property
    def empty(self) -> bool:
        """Whether not a single record was found."""
        return self.scratch.execute("SELECT 1 FROM event LIMIT 1").fetchone() is None

    def events(self, session_id: SessionId) -> Iterator[EventRow]:
        """Return the readable records of a session in order; there may be gaps."""
        rows = self.scratch.execute(
            "SELECT n, written_as, payload, links FROM event WHERE session_id = ? ORDER BY n", (session_id,)
        )
        for n, written_as, payload, links in rows:
            yield EventRow(session_id=session_id, n=n, written_as=written_as, payload=payload, links=links)

    def unfinished_rows(self, session_id: SessionId) -> list[PassingRow]:
        """Return the text of unfinished answers of a session."""
        rows = self.scratch.execute(
            "SELECT about, payload FROM passing WHERE session_id = ? ORDER BY id", (session_id,)
        )
        return [PassingRow(session_id=session_id, about=about, payload=payload) for about, payload in rows]

    def blob(self, digest: bytes) -> bytes | None:
        """Return a blob by its digest."""
        row = self.scratch.execute("SELECT data FROM blob WHERE digest = ?", (digest,)).fetchone()
        return row[0] if row is not None else None

    def leaves(self, digests: Collection[str]) -> dict[str, bytes]:
        """Return those of these leaves of executor states that were found, in any session."""
        found: dict[str, bytes] = {}
        for digest in digests:
            row = self.scratch.execute("SELECT data FROM leaf WHERE digest = ?", (raw_digest(digest),)).fetchone()
            if row is not None:
                found[digest] = row[0]
        return found

    def values(self) -> Iterator[tuple[Any, ...]]:
        """Return the values of extensions, as rows of the table."""
        return self.scratch.execute("SELECT owner, key, value, checksum FROM kv ORDER BY owner, key")

    def add(self, row: Row) -> None:
        """Add a row, once."""
        if isinstance(row, ListedRow):
            if not self.list_read:
                self.expect(row.session_id, row.last_n)
            return
        columns = attrs.astuple(row, recurse=False)
        places = ", ".join("?" * len(columns))
        self.scratch.execute(f"INSERT OR IGNORE INTO {_PLACES[type(row)]} VALUES ({places})", columns)  # noqa: S608

    def expect(self, session_id: SessionId, last_n: int) -> None:
        """Note how many records a session should have."""
        self.scratch.execute(
            "INSERT INTO expected VALUES (?1, ?2) ON CONFLICT DO UPDATE SET last_n = max(last_n, ?2)",
            (session_id, last_n),
        )


def harvest_store(
    home: Path, scratch: Path, connect: Connect, findings: Sequence[StoreFinding], progress: Progress
) -> Harvest:
    """Gather what can be read; the caller closes `Harvest.scratch`, and holds the lock of the home.

    `findings` are those of `verify`: if there are any, raw pages are searched too.
    """
    database = sqlite3.connect(scratch, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("PRAGMA synchronous = OFF")
        database.executescript(_SCRATCH)
        problems = [each.what for each in findings if each.session_id is None and each.severity == "error"]
        harvest = Harvest(scratch=database, problems=problems, sound=not problems)
        database.execute("BEGIN")
        log_file = wal_path(store_file(home))
        log = log_file.read_bytes() if log_file.exists() else b""  # SQLite may empty it when it is done
        _harvest_tables(harvest, home, connect, progress)
        if (harvest.problems or findings) and harvest.foreign is None:
            progress("searching the raw pages for records")
            _harvest_pages(harvest, store_file(home), log)
        database.execute("COMMIT")
    except BaseException:
        database.close()
        raise
    return harvest


# --- from the tables --------------------------------------------------------------------------------------------------


def _harvest_tables(harvest: Harvest, home: Path, connect: Connect, progress: Progress) -> None:
    try:
        connection = connect(home, True)
    except sqlite3.Error as error:
        harvest.problems.append(f"SQLite cannot open the file: {error}")
        return
    with closing(connection) as db:
        db.text_factory = surrogate_text
        if not _check_schema(harvest, db):
            return
        progress("reading the records")
        for what, read in (
            ("the records", _read_events),
            ("the blobs", _read_blobs),
            ("unfinished answers", _read_passing),
            ("saved code state", _read_leaves),
            ("the list of sessions", _read_list),
            ("remembered replies", _read_replies),
            ("values of extensions", _read_values),
        ):
            try:
                read(harvest, db)
            except (sqlite3.Error, ValueError, TypeError, OverflowError) as error:
                harvest.problems.append(f"{what} cannot be read: {error}")


def _check_schema(harvest: Harvest, db: sqlite3.Connection) -> bool:
    try:
        found = schema_of(db)
    except (sqlite3.Error, ValueError) as error:
        harvest.problems.append(f"SQLite cannot read the file: {error}")
        return False
    expected = expected_schema()
    if has_right_schema(db):
        return True
    harvest.problems.append("the description of the tables is damaged")
    # A damaged file still has most of our schema; a file of another or a newer program does not.
    known = {row[1] for row in expected}
    if found and len(known.intersection(row[1] for row in found)) < len(known) // 2:
        harvest.foreign = "it is a database of another program"
    return harvest.foreign is None


def _read_events(harvest: Harvest, db: sqlite3.Connection) -> None:
    unproven = 0
    for session, *columns in db.execute("SELECT session, n, format, checksum, payload, links FROM event NOT INDEXED"):
        row = verify_event_row(*columns)
        if row is None:
            unproven += 1
            continue
        harvest.add(row)
        harvest.owners.setdefault(session, row.session_id)
        if row.written_as > FORMAT:
            harvest.foreign = "it holds records of a newer session-core; update this one"
    if unproven:
        harvest.problems.append(f"{unproven} records are not what was written")
    harvest.records_read = not unproven
    harvest.complete = not harvest.problems


def _read_blobs(harvest: Harvest, db: sqlite3.Connection) -> None:
    _read_rows(harvest, db.execute("SELECT digest, data FROM blob NOT INDEXED"), verify_blob_row, "a blob")


def _read_passing(harvest: Harvest, db: sqlite3.Connection) -> None:
    rows = db.execute("SELECT about, checksum, payload FROM passing NOT INDEXED ORDER BY id")
    _read_rows(harvest, rows, verify_passing_row, "the text of an unfinished answer")


def _read_leaves(harvest: Harvest, db: sqlite3.Connection) -> None:
    rows = db.execute("SELECT digest, data FROM leaf") if has_table(db, "leaf") else ()
    _read_rows(harvest, rows, verify_leaf_row, "a part of a saved code state")


def _read_rows(harvest: Harvest, rows: Iterable[tuple[Any, ...]], verify: Callable[..., Row | None], what: str) -> None:
    for columns in rows:
        row = verify(*columns)
        if row is None:
            harvest.problems.append(f"{what} is not what was written")
        else:
            harvest.add(row)


def _read_list(harvest: Harvest, db: sqlite3.Connection) -> None:
    for session, listed_as, last_n, name in db.execute("SELECT id, session_id, last_n, name FROM session NOT INDEXED"):
        session_id = harvest.owners.get(session, listed_as)
        if session_id != listed_as:
            harvest.problems.append(f"session {session_id} is listed under another name")
        if isinstance(session_id, str) and isinstance(last_n, int):
            harvest.expect(SessionId(session_id), last_n)
            if isinstance(name, str) and name.isprintable():
                harvest.names[SessionId(session_id)] = name
        else:
            harvest.problems.append("an entry of the list of sessions is damaged")
    harvest.list_read = True


def _read_replies(harvest: Harvest, db: sqlite3.Connection) -> None:
    columns = "client_id, key, fingerprint, payload, checksum, session_id"
    for row in db.execute(f"SELECT {columns} FROM reply NOT INDEXED ORDER BY id"):  # noqa: S608 - the line above
        if read_reply(*row) is not None:
            harvest.replies.append(row)


def _read_values(harvest: Harvest, db: sqlite3.Connection) -> None:
    for row in kv_rows(db):
        if row is None:
            harvest.lost_values += 1
        else:
            harvest.scratch.execute("INSERT OR REPLACE INTO kv VALUES (?, ?, ?, ?)", row)


# --- from the pages ---------------------------------------------------------------------------------------------------


def _harvest_pages(harvest: Harvest, path: Path, log: bytes) -> None:
    if not path.stat().st_size:
        return  # nothing to map
    with path.open("rb") as file, closing(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)) as data:
        size = page_size_of(data[:HEADER_BYTES])
        for page_size in PAGE_SIZES if size is None else (size,):
            for row in carve_rows(data, log, page_size):
                harvest.add(row)


def carve_rows(data: bytes | mmap.mmap, log: bytes, page_size: int) -> Iterator[Row]:
    """Find all rows in a file and the log beside it."""
    wal = read_log(log, page_size)
    newer = wal.pages if wal is not None and wal.page_size == page_size else {}
    count = max(-(-len(data) // page_size), *newer, 0)

    def page_at(number: int) -> bytes | None:
        if number in newer:
            return newer[number]
        page = data[(number - 1) * page_size : number * page_size] if 0 < number <= count else b""
        return page if len(page) == page_size else None

    for number in range(1, count + 1):
        page = page_at(number) or data[(number - 1) * page_size : number * page_size]
        yield from carve_records(page, page_at, page_size)
    if wal is not None and wal.page_size == page_size and wal.beyond:
        newest = {**newer, **dict(wal.beyond)}
        for _, page in wal.beyond:
            yield from carve_records(page, lambda number: newest.get(number) or page_at(number), page_size)
