"""Inserting many rows with few statements."""

import sqlite3
from collections.abc import Generator
from contextlib import closing

import pytest

from session_core.storage.rows import ROWS_PER_STATEMENT as MOST
from session_core.storage.rows import insert_rows


@pytest.fixture
def db() -> Generator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE kept (id INTEGER PRIMARY KEY, n INTEGER NOT NULL, text TEXT, data BLOB)")
        yield connection


@pytest.mark.parametrize(
    ("count", "statements"),
    [(0, 0), (1, 1), (2, 1), (3, 1), (20, 1), (MOST - 1, 1), (MOST, 1), (MOST + 1, 2), (2 * MOST + 3, 3)],
)
def test_all_rows_are_there_in_order(db: sqlite3.Connection, count: int, statements: int) -> None:
    """However many rows there are, each is inserted once, as it is and in order, with as few statements as possible."""
    given = [(number, None if number % 3 else f"row {number}", b"\0" * (number % 5)) for number in range(count)]
    seen: list[str] = []
    db.set_trace_callback(seen.append)
    insert_rows(db, "kept (n, text, data)", given)
    db.set_trace_callback(None)
    assert given == db.execute("SELECT n, text, data FROM kept ORDER BY id").fetchall()
    assert statements == len(seen)


def test_a_refused_row_takes_its_statement_with_it(db: sqlite3.Connection) -> None:
    """A row that the table does not take is an error, and none of the rows beside it is there."""
    db.execute("CREATE UNIQUE INDEX once ON kept (n)")
    with pytest.raises(sqlite3.IntegrityError):
        insert_rows(db, "kept (n, text)", [(1, "a"), (2, "b"), (1, "c")])
    assert [(0,)] == db.execute("SELECT count(*) FROM kept").fetchall()
