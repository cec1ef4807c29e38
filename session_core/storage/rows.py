"""Inserting many rows into a table of ours."""

import sqlite3
from collections.abc import Sequence
from functools import cache

ROWS_PER_STATEMENT = 128


def insert_rows(db: sqlite3.Connection, into: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Insert rows, many with one statement.

    A statement runs without the interpreter's lock, and waiting for that lock again after each row would let a busy
    service hold the writing up. The sizes are powers of two, so that few different statements have to be prepared.
    """
    start = 0
    while start < len(rows):
        size = min(ROWS_PER_STATEMENT, 1 << (len(rows) - start).bit_length() - 1)
        chunk = rows[start : start + size]
        db.execute(_insert(into, len(chunk[0]), size), [value for row in chunk for value in row])
        start += size


@cache
def _insert(into: str, width: int, rows: int) -> str:
    places = f"({', '.join('?' * width)})"
    return f"INSERT INTO {into} VALUES {', '.join([places] * rows)}"  # noqa: S608 - only called with our own tables
