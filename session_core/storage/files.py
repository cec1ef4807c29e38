"""The files of a SQLite store: where they are, how to open them, and how to notice that one of them was lost."""

import os
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from session_core.errors import NoStore, StoreDamaged, StoreUnusable
from session_core.ids import new_id
from session_core.storage.private_files import make_private_file, private_open
from session_core.storage.schema import (
    OLDEST_READABLE,
    UNREADABLE,
    bring_up_to_date,
    refuse_newer,
    store_error,
    version_of,
)

STORE_FILE = "sessions.sqlite3"
MARK_FILE = "store-id"
BUSY_TIMEOUT_MS = 10_000  # other processes only read, and never for long

Connect = Callable[[Path, bool], sqlite3.Connection]
"""Opens the store file of a home, read-only if the second argument is true."""


def store_file(home: Path) -> Path:
    """Return the path of a home's store file."""
    return home / STORE_FILE


def connect(home: Path, read_only: bool) -> sqlite3.Connection:  # noqa: FBT001 - the shape of `Connect`
    """Open the store file of a home, readable by its owner alone."""
    path = store_file(home)
    if not read_only:
        make_private_file(path)  # SQLite gives its other files the same mode
    mode = "ro" if read_only else "rw"
    if read_only and not os.access(home, os.W_OK) and not wal_path(path).exists():
        mode += "&immutable=1"  # otherwise SQLite would create its own files there; without a log, none are needed
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False
    )


def wal_path(path: Path) -> Path:
    """Return the path of the write-ahead log beside a store file."""
    return path.with_name(path.name + "-wal")


def _lenient_text(data: bytes) -> str:
    """Decode text that may be damaged: one bad byte in one row must not hide all other rows."""
    return data.decode("utf-8", "replace")


def surrogate_text(data: bytes) -> str:
    """Decode text that may be damaged: a damaged character shows as a difference instead of raising."""
    return data.decode("utf-8", "surrogateescape")


def open_for_writing(home: Path, connect: Connect) -> sqlite3.Connection:
    """Open the store of a home whose lock is held, and create or migrate its tables.

    Raises:
        StoreUnusable: The file cannot be used.
        StoreDamaged: It cannot be read, or is gone although it had sessions.
    """
    with _connect_and_close_on_error(home, connect, read_only=False) as connection:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        mark = home / MARK_FILE
        if mark.exists() and version_of(connection) == 0:
            raise _missing_store_error(home)
        # Fetching matters: an error during the change of the mode is only reported when the result is fetched.
        if connection.execute("PRAGMA journal_mode = WAL").fetchall() != [("wal",)]:
            raise StoreUnusable(f"the file system of {home} cannot keep a write-ahead log; choose another home")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA cache_size = -8192")
        bring_up_to_date(connection)
        if not mark.exists():
            _write_mark(mark)
    return connection


def open_for_reading(home: Path, connect: Connect) -> sqlite3.Connection:
    """Open the store of a home read-only; another process may be writing to it.

    Raises:
        NoStore: No sessions are stored here yet.
        StoreUnusable: It cannot be used.
        StoreDamaged: It cannot be read.
    """
    with _connect_and_close_on_error(home, connect, read_only=True) as connection:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA query_only = ON")
        found = version_of(connection)
        if found == 0:
            raise _missing_store_error(home)
        if found < OLDEST_READABLE:
            raise StoreUnusable(
                f"the store in {home} has the older format {found}; the next command that writes brings it up to date"
            )
        refuse_newer(found)
    return connection


@contextmanager
def _connect_and_close_on_error(home: Path, connect: Connect, *, read_only: bool) -> Generator[sqlite3.Connection]:
    """Connect, and close again if the block fails."""
    connection = _connect_or_refuse(home, connect, read_only=read_only)
    try:
        yield connection
    except UNREADABLE as error:
        connection.close()
        raise store_error(error) from error
    except BaseException:
        connection.close()
        raise


def _connect_or_refuse(home: Path, connect: Connect, *, read_only: bool) -> sqlite3.Connection:
    try:
        connection = connect(home, read_only)
        connection.text_factory = _lenient_text
        return connection
    except sqlite3.DatabaseError as error:
        if read_only and not store_file(home).exists():
            raise _missing_store_error(home) from None
        raise StoreUnusable(f"the store file {store_file(home)} cannot be opened: {error}") from error


def require_store(home: Path) -> None:
    """Refuse a directory that never had sessions, before anything is done to it.

    Raises:
        NoStore: It never had any.
    """
    if not store_file(home).exists() and not (home / MARK_FILE).exists():
        raise _missing_store_error(home)


def _missing_store_error(home: Path) -> StoreDamaged | NoStore:
    mark = home / MARK_FILE
    if not mark.exists():
        return NoStore(f"no sessions are stored in {home} yet")
    return StoreDamaged(
        f"the store file {store_file(home)} is missing or empty, but sessions were stored here; put back a "
        f"backup (`session-core store restore FILE`), or remove {mark} to start empty"
    )


def _write_mark(mark: Path) -> None:
    descriptor = private_open(mark, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        os.write(descriptor, f"{new_id('store')}\nThis home holds sessions of session-core.\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
