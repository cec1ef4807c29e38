"""Rows of our tables: insert many at once, and tell whether a store has a table."""

import sqlite3
from collections.abc import Sequence
from functools import cache

ROWS_PER_STATEMENT = 1024


def insert_rows(db: sqlite3.Connection, into: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Insert rows, many per statement; their first column must not be NULL.

    A statement runs without the GIL. Getting it back from a busy service takes up to five milliseconds, in which the
    service pays for a failed hand-over with every tick, so the number of statements must be small. To prepare only a
    few different statements, the number of row placeholders is a power of two; unused ones stay NULL.
    """
    for start in range(0, len(rows), ROWS_PER_STATEMENT):
        chunk = rows[start : start + ROWS_PER_STATEMENT]
        width, places = len(chunk[0]), 1 << (len(chunk) - 1).bit_length()
        values = [value for row in chunk for value in row]
        values += [None] * (places * width - len(values))
        db.execute(_build_insert(into, width, places), values)


def has_table(db: sqlite3.Connection, name: str) -> bool:
    """Return whether a store has a table; one of an older format may lack it."""
    found = db.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", (name,)).fetchone()
    return found is not None


@cache
def _build_insert(into: str, width: int, places: int) -> str:
    rows = ", ".join([f"({', '.join('?' * width)})"] * places)
    # Only called with our own tables.
    return f"INSERT INTO {into} SELECT * FROM (VALUES {rows}) WHERE column1 IS NOT NULL"  # noqa: S608
