"""Records are found in raw pages, however long they are and whatever has become of the tables around them."""

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.ids import SessionId
from session_core.storage import executor_state
from session_core.storage.maintenance.forensics.harvest import carve_rows
from session_core.storage.maintenance.forensics.raw_file import read_log
from session_core.storage.maintenance.forensics.salvage import (
    BlobRow,
    EventRow,
    LeafRow,
    ListedRow,
    PassingRow,
    Row,
    carve_records,
)
from session_core.storage.records import PARTIAL_FORMAT, checksum, digest_of
from session_core.storage.schema import TABLES

PAGE_SIZES = (512, 4096)
WRITTEN_AS = 1


def event(session_id: str, n: int, filling: str = "", links: bytes | None = None) -> EventRow:
    payload = f'{{"seq":{n},"session_id":"{session_id}","text":"{filling}"}}'.encode()
    return EventRow(session_id=SessionId(session_id), n=n, written_as=WRITTEN_AS, payload=payload, links=links)


def blob(data: bytes) -> BlobRow:
    return BlobRow(digest=digest_of(data), data=data)


def leaf(data: bytes) -> LeafRow:
    return LeafRow(digest=executor_state.digest_of(data), data=data)


def insert(db: sqlite3.Connection, row: Row, session: int = 1) -> None:
    match row:
        case EventRow():
            crc = checksum(row.session_id, row.n, row.payload, row.links, written_as=row.written_as)
            values = (session, row.n, row.written_as, crc, row.payload, row.links)
            db.execute(
                "INSERT INTO event (session, n, format, checksum, payload, links) VALUES (?, ?, ?, ?, ?, ?)", values
            )
        case PassingRow():
            crc = checksum(row.session_id, 0, row.payload, written_as=PARTIAL_FORMAT)
            db.execute("INSERT INTO passing VALUES (NULL, ?, ?, ?, ?)", (session, row.about, crc, row.payload))
        case BlobRow():
            db.execute("INSERT INTO blob VALUES (?, ?)", (row.digest, row.data))
        case LeafRow():
            db.execute("INSERT INTO leaf VALUES (?, ?, ?)", (session, row.digest, row.data))
        case ListedRow():
            db.execute("INSERT INTO session (session_id, last_n) VALUES (?, ?)", (row.session_id, row.last_n))


def image_of(rows: list[Row], page_size: int) -> bytes:
    """The bytes of a store with these rows."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute(f"PRAGMA page_size = {page_size}")
        db.executescript(TABLES)
        for row in rows:
            insert(db, row)
        return db.serialize()


def found_in(image: bytes, page_size: int, log: bytes = b"") -> set[Row]:
    return set(carve_rows(image, log, page_size))


def sample() -> list[Row]:
    """Rows of all kinds, in one page and in many."""
    owner = SessionId("ses_1")
    return [
        *(event("ses_1", n, "x" * (n * n * 7)) for n in range(1, 60)),
        event("ses_1", 60, "y" * 50_000),
        event("ses_1", 61, links=b'[[["text"],"abcd"]]'),
        PassingRow(session_id=owner, about="msg_1", payload=event("ses_1", 0, "half").payload),
        PassingRow(session_id=owner, about="msg_2", payload=event("ses_1", 0, "h" * 9_000).payload),
        *(blob(Random(size).randbytes(size)) for size in (1, 400, 4_000, 20_000, 300_000)),
        *(leaf(Random(size).randbytes(size)) for size in (0, 1, 60, 900, 1_000, 4_000, 50_000)),
        ListedRow(session_id=owner, last_n=61),
        ListedRow(session_id=SessionId("ses_another"), last_n=70_000),
    ]


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_all_rows_are_found(page_size: int) -> None:
    """Every row of a sound file is found, short or spread over many pages, and nothing else."""
    assert found_in(image_of(sample(), page_size), page_size) == set(sample())


@given(
    page_size=st.sampled_from(PAGE_SIZES),
    sizes=st.lists(st.integers(0, 3_000), min_size=1, max_size=30),
    large=st.integers(0, 70_000),
)
def test_rows_of_any_length_are_found(page_size: int, sizes: list[int], large: int) -> None:
    """Whatever lengths the records have, each is found as it was written."""
    rows: list[Row] = [event("ses_1", n, "z" * size) for n, size in enumerate([*sizes, large], 1)]
    rows += [leaf(Random(size).randbytes(size)) for size in {*sizes, large}]

    assert found_in(image_of(rows, page_size), page_size) == set(rows)


@pytest.mark.parametrize("flips", [75, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_a_flipped_bit_costs_one_row_at_most(page_size: int, flips: int) -> None:
    """A bit flipped anywhere costs the record it hits, and invents none."""
    rows: list[Row] = [*(event("ses_1", n, "x" * (n * 31)) for n in range(1, 40)), blob(b"b" * 5_000)]
    rows += [leaf(bytes([n]) * n * 70) for n in range(1, 30)]
    image = image_of(rows, page_size)
    random = Random(page_size)
    for _ in range(flips):
        changed = bytearray(image)
        changed[random.randrange(len(image))] ^= 1 << random.randrange(8)

        found = found_in(bytes(changed), page_size)

        assert found <= set(rows)
        assert len(found) >= len(rows) - 1


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_the_tree_is_not_needed(page_size: int) -> None:
    """Rows are found although the first 100 bytes and the header of every page are wiped out."""
    image = bytearray(image_of(sample(), page_size))
    for start in range(0, len(image), page_size):
        if image[start] in {2, 5, 10, 13}:  # pages of trees; the others are parts of long records
            image[start : start + 8] = bytes(8)
    image[:100] = bytes(100)

    assert found_in(bytes(image), page_size) == set(sample())


def test_a_row_counts_only_at_its_own_place() -> None:
    """A record with another number, another session or other bytes than its checksum says is not taken."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.executescript(TABLES)
        for n in (1, 2, 3):
            insert(db, event("ses_1", n))
        db.execute("UPDATE event SET n = 7 WHERE n = 1")
        db.execute("UPDATE event SET payload = replace(payload, 'ses_1', 'ses_2') WHERE n = 2")
        image = db.serialize()

    assert found_in(image, 4096) == {event("ses_1", 3)}


@given(st.binary(max_size=4096))
def test_any_bytes_are_taken(page: bytes) -> None:
    """Whatever a page holds, looking for records in it ends, without an error."""
    for row in carve_records(page, lambda _: page or None, 4096):
        assert not isinstance(row, EventRow)


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_newer_pages_of_the_log_count(tmp_path: Path, page_size: int) -> None:
    """What is only in the write-ahead log is found, and what it replaced is not."""
    path = tmp_path / "a.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"PRAGMA page_size = {page_size}")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA secure_delete = ON")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.executescript(TABLES)
        for row in sample():
            insert(db, row)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        db.execute("DELETE FROM event WHERE n > 3")
        insert(db, event("ses_1", 4, "new" * 5_000))
        log = path.with_name("a.sqlite3-wal").read_bytes()
        image = path.read_bytes()

    events = {row for row in found_in(image, page_size, log) if isinstance(row, EventRow)}

    assert events == {*(event("ses_1", n, "x" * (n * n * 7)) for n in (1, 2, 3)), event("ses_1", 4, "new" * 5_000)}
    assert {row for row in found_in(image, page_size) if isinstance(row, EventRow)} == {
        row for row in sample() if isinstance(row, EventRow)
    }


def make_log(tmp_path: Path) -> bytes:
    path = tmp_path / "b.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        for number in range(5):
            db.execute(f"CREATE TABLE t{number} (x)")
        return path.with_name("b.sqlite3-wal").read_bytes()


def test_a_log_is_read_as_sqlite_reads_it(tmp_path: Path) -> None:
    """A sound log holds the pages that SQLite sees, and is not cut off."""
    log = read_log(make_log(tmp_path), 4096)

    assert log is not None
    assert (log.page_size, log.cut_off, log.beyond) == (4096, False, ())
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        image = b"".join(log.pages[number] for number in sorted(log.pages))
        db.deserialize(image[:18] + b"\1\1" + image[20:])  # a database in memory has no log
        assert db.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (5,)


def test_every_bit_of_a_log_counts(tmp_path: Path) -> None:
    """A bit flipped in a log is noticed by the commits after it, wherever it is but for its unused last bytes."""
    data = make_log(tmp_path)
    sound = read_log(data, 4096)
    random = Random(5)
    for place in [*range(32), *(random.randrange(32, len(data)) for _ in range(200))]:
        changed = bytearray(data)
        changed[place] ^= 1 << random.randrange(8)

        log = read_log(bytes(changed), 4096)

        assert log is not None
        assert log != sound
        assert log.cut_off or len(log.pages) < 6
