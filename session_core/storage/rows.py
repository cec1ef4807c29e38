"""Inserting many rows into a table of ours."""

import sqlite3
from collections.abc import Sequence
from functools import cache

ROWS_PER_STATEMENT = 1024


def insert_rows(db: sqlite3.Connection, into: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Insert rows, many with one statement; the first column of none of them may be empty.

    A statement runs without the interpreter's lock. Getting it back from a busy service takes up to five milliseconds,
    in which the service pays for a failed hand-over with every tick: what counts is how few statements there are. So
    that few different ones have to be prepared, the number of places is a power of two; those left over stay empty.
    """
    for start in range(0, len(rows), ROWS_PER_STATEMENT):
        chunk = rows[start : start + ROWS_PER_STATEMENT]
        width, places = len(chunk[0]), 1 << (len(chunk) - 1).bit_length()
        values = [value for row in chunk for value in row]
        values += [None] * (places * width - len(values))
        db.execute(_insert(into, width, places), values)


@cache
def _insert(into: str, width: int, places: int) -> str:
    rows = ", ".join([f"({', '.join('?' * width)})"] * places)
    # Only called with tables of ours.
    return f"INSERT INTO {into} SELECT * FROM (VALUES {rows}) WHERE column1 IS NOT NULL"  # noqa: S608
