"""The tables of the SQLite store, and the migrations of older files.

`event` is the source of truth: one row per event, numbered without gaps per session and checksummed. `passing` holds
the text of answers that are being written right now. `blob` and `blob_use` hold each long string once, and its users.
`reply` makes a retried command safe across a crash. `kv` holds the values of extensions, and `leaf` the large parts of
executor states: both are as much a source of truth as `event`. The rest is derived: `session` (the list), `state` (the
newest state of a session without its messages), `message` (which event holds which message) and `message_text` (the
search index).
"""

import sqlite3
from collections.abc import Callable, Mapping

from session_core.errors import StoreDamaged, StoreUnusable
from session_core.storage.executor_state import LEAF_TABLE
from session_core.storage.kv import KV_TABLE
from session_core.storage.search import SEARCH_INDEX

APPLICATION_ID = 0x5E55C0DE
"""Marks the file as ours, for the program `file` and for people."""
VERSION = 3
OLDEST_READABLE = 1
"""The oldest format that can be read as it is; a writer migrates it."""
KV_SINCE = 2
"""The format that introduced the table `kv`."""
LEAVES_SINCE = 3
"""The format that introduced the table `leaf`."""

TABLES = (
    """
CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE session (
    id INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL UNIQUE,
    last_n INTEGER NOT NULL DEFAULT 0,
    messages INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    name TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL DEFAULT 0,
    updated_at INTEGER NOT NULL DEFAULT 0,
    archived INTEGER NOT NULL DEFAULT 0,
    parent_id TEXT,
    cwd TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '',
    activity TEXT NOT NULL DEFAULT 'idle',
    retry_at INTEGER,
    activity_message TEXT,
    queued INTEGER NOT NULL DEFAULT 0,
    open_requests INTEGER NOT NULL DEFAULT 0,
    wakeups INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE event (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    n INTEGER NOT NULL,
    format INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    payload BLOB NOT NULL,
    links BLOB
);
CREATE UNIQUE INDEX event_in_order ON event (session, n);

CREATE TABLE passing (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    about TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    payload BLOB NOT NULL
);
CREATE INDEX passing_of ON passing (session, about);

CREATE TABLE blob (
    digest BLOB PRIMARY KEY,
    data BLOB NOT NULL
);
CREATE TABLE blob_use (
    session INTEGER NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (session, digest)
) WITHOUT ROWID;
CREATE INDEX blob_users ON blob_use (digest);

CREATE TABLE reply (
    id INTEGER PRIMARY KEY,
    client_id TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    payload BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    session_id TEXT,
    UNIQUE (client_id, key)
);

CREATE TABLE state (
    session INTEGER PRIMARY KEY,
    n INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    payload BLOB NOT NULL
);

CREATE TABLE message (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    number INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    parent_id TEXT,
    role TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    chars INTEGER NOT NULL,
    n INTEGER NOT NULL
);
CREATE UNIQUE INDEX message_in_order ON message (session, number);
CREATE INDEX message_by_id ON message (session, message_id);

INSERT INTO meta VALUES ('searchable', '0');

"""
    + KV_TABLE
    + LEAF_TABLE
    + SEARCH_INDEX
)

UNREADABLE = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What SQLite raises when it cannot read a file; `store_error` describes it."""

Migration = Callable[[sqlite3.Connection], None]


def _to_format_2(connection: sqlite3.Connection) -> None:
    """Migrate to format 2, which fills the search index late and so records its progress, and adds values (`kv`)."""
    connection.execute("INSERT OR REPLACE INTO meta SELECT 'searchable', coalesce(max(id), 0) FROM message")
    connection.execute(KV_TABLE)


def _to_format_3(connection: sqlite3.Connection) -> None:
    """Migrate to format 3, which stores the leaves of executor states (`leaf`)."""
    connection.execute(LEAF_TABLE)


MIGRATIONS: Mapping[int, Migration] = {1: _to_format_2, 2: _to_format_3}
"""For each older version, the step to the next one; all steps run in one transaction."""


def bring_up_to_date(
    connection: sqlite3.Connection, *, version: int = VERSION, migrations: Mapping[int, Migration] = MIGRATIONS
) -> None:
    """Create the tables in an empty file, or migrate an older file; all or nothing.

    Raises:
        StoreUnusable: The file is not ours, or newer than this program.
        StoreDamaged: It is no longer a database.
    """
    try:
        found = version_of(connection)
        if found == version:
            return
        refuse_newer(found, version)
        connection.execute("BEGIN IMMEDIATE")
        try:
            if found == 0:
                _create(connection)
            for older in range(max(found, 1), version) if found else ():
                migrations[older](connection)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {version}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
    except UNREADABLE as error:
        raise store_error(error) from error


def refuse_newer(found: int, version: int = VERSION) -> None:
    """Refuse a store that was written by a newer program.

    Raises:
        StoreUnusable: It was written by a newer program.
    """
    if found > version:
        raise StoreUnusable(
            f"the store has format {found}, and this program reads up to {version}: it was written by a newer "
            "session-core; update this one"
        )


def version_of(connection: sqlite3.Connection) -> int:
    """Return the format of a store file; 0 if it is empty.

    Raises:
        StoreUnusable: The file belongs to another program.
    """
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application_id not in {0, APPLICATION_ID} or (application_id == 0 and tables):
        raise StoreUnusable("the store file is a database of another program; move it away or choose another home")
    if tables and not version:
        raise StoreDamaged("the store file is damaged: its format is missing; try `session-core store rebuild`")
    return int(version)


def store_error(error: sqlite3.DatabaseError | UnicodeDecodeError) -> StoreDamaged | StoreUnusable:
    """Return our error for a file that SQLite cannot read, or cannot use now.

    A `UnicodeDecodeError` means that SQLite quoted a damaged file in one of its messages.
    """
    if isinstance(error, sqlite3.OperationalError):
        return StoreUnusable(f"the store file cannot be used: {error}")
    return StoreDamaged(
        f"the store file is damaged ({error}); `session-core store verify` shows details, and "
        "`session-core store rebuild` saves what can still be read"
    )


def _create(connection: sqlite3.Connection) -> None:
    for statement in TABLES.split(";\n"):
        if statement.strip():
            connection.execute(statement)
