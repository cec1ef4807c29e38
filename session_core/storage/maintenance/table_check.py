"""Check the data that all sessions share: the pages, the tables, blobs, the search index, replies."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from typing import Any

from session_core import limits
from session_core.ids import SessionId
from session_core.storage.kv import kv_rows
from session_core.storage.maintenance.findings import REBUILD_DERIVED, StoreFindings
from session_core.storage.maintenance.forensics.salvage import parse_owner, verify_blob_row
from session_core.storage.rows import has_table
from session_core.storage.schema import KV_SINCE, LEAVES_SINCE, TABLES, VERSION
from session_core.storage.session_list import read_replies

_SEARCH_INDEX = "message_text"
_SEARCH_PARTS = ("data", "idx", "content", "docsize", "config")


def run_check(findings: StoreFindings, what: str, check: Callable[[], None]) -> bool:
    """Run a check; if it cannot be run, that is a finding too."""
    try:
        check()
    except Exception as error:  # noqa: BLE001 - damaged data can raise anything
        findings.add_error(f"{what} cannot be read: {error}")
        return False
    return True


def schema_of(db: sqlite3.Connection) -> list[tuple[Any, ...]]:
    """Return the schema of a database, in a fixed order."""
    return db.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name").fetchall()


@cache
def expected_schema(version: int = VERSION) -> list[tuple[Any, ...]]:
    """Return the schema that a store of this format should have."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(TABLES)
        if version < KV_SINCE:
            db.execute("DROP TABLE kv")
        if version < LEAVES_SINCE:
            db.execute("DROP TABLE leaf")
        return schema_of(db)


def has_right_schema(db: sqlite3.Connection) -> bool:
    """Return whether the tables of a store match its declared format."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return schema_of(db) == expected_schema(version)


def check_pages(db: sqlite3.Connection, findings: StoreFindings) -> None:
    """Ask SQLite whether its pages, trees and indexes are sound."""
    for (said,) in db.execute("PRAGMA integrity_check(100)"):
        if said != "ok":
            findings.add_error(f"SQLite says: {said}")


def check_schema(db: sqlite3.Connection, findings: StoreFindings) -> None:
    """Compare the tables with those that this program creates."""
    if not has_right_schema(db):
        findings.add_error("the description of the tables is not the one this program writes")


def check_shared(db: sqlite3.Connection, findings: StoreFindings) -> None:
    """Check everything that belongs to no session alone."""
    run_check(findings, "blobs", lambda: _check_blobs(db, findings))
    run_check(findings, "rows of unknown sessions", lambda: _check_orphans(db, findings))
    run_check(findings, "the search index", lambda: _check_search_index(db, findings))
    run_check(findings, "remembered replies", lambda: _check_replies(db, findings))
    run_check(findings, "values of extensions", lambda: _check_values(db, findings))


def _check_blobs(db: sqlite3.Connection, findings: StoreFindings) -> None:
    for digest, data in db.execute("SELECT digest, data FROM blob"):
        findings.blobs += 1
        if verify_blob_row(digest, data) is None:
            findings.add_error(f"the blob {_abbreviate_digest(digest)} is damaged")
    missing = "SELECT DISTINCT digest FROM blob_use WHERE digest NOT IN (SELECT digest FROM blob)"
    for (digest,) in db.execute(missing):
        findings.add_error(f"the blob {_abbreviate_digest(digest)} is missing")
    (unused,) = db.execute("SELECT count(*) FROM blob WHERE digest NOT IN (SELECT digest FROM blob_use)").fetchone()
    if unused:
        findings.add_warning(f"{unused} blobs are used by no session", "run `session-core store compact` to drop them")


def _abbreviate_digest(digest: object) -> str:
    return digest.hex()[:12] if isinstance(digest, bytes) else repr(digest)


def _check_orphans(db: sqlite3.Connection, findings: StoreFindings) -> None:
    for table in ("passing", "state", "message", "blob_use", *(("leaf",) if has_table(db, "leaf") else ())):
        query = f"SELECT count(*) FROM {table} WHERE session NOT IN (SELECT id FROM session)"  # noqa: S608 - our names
        (count,) = db.execute(query).fetchone()
        if count:
            findings.add_error(f"{count} rows of {table} belong to no session", REBUILD_DERIVED)
    lost = "SELECT payload FROM event WHERE session NOT IN (SELECT id FROM session) GROUP BY session"
    for (payload,) in db.execute(lost):
        _report_unlisted(findings, parse_owner(payload))
    unindexed = "SELECT count(*) FROM message_text_content WHERE id NOT IN (SELECT id FROM message)"
    (count,) = db.execute(unindexed).fetchone()
    if count:
        findings.add_error(f"{count} texts of the search index belong to no message", REBUILD_DERIVED)


def _report_unlisted(findings: StoreFindings, session_id: SessionId | None) -> None:
    findings.add_error(
        "there are records of it, but it is not in the list of sessions", REBUILD_DERIVED, session_id=session_id
    )


def _check_search_index(db: sqlite3.Connection, findings: StoreFindings) -> None:
    """Let SQLite check a copy of the search index, because it needs write access for that."""
    with closing(sqlite3.connect("", isolation_level=None)) as copy:
        copy.execute("PRAGMA journal_mode = OFF")
        copy.execute("BEGIN")
        copy.execute(next(sql for _, name, _, sql in expected_schema() if name == _SEARCH_INDEX))
        for part in _SEARCH_PARTS:
            table = f"{_SEARCH_INDEX}_{part}"
            copy.execute(f"DELETE FROM {table}")  # noqa: S608 - our names
            rows = db.execute(f"SELECT * FROM {table}")  # noqa: S608
            places = ", ".join("?" for _ in rows.description)
            copy.executemany(f"INSERT INTO {table} VALUES ({places})", rows)  # noqa: S608
        copy.execute("COMMIT")
        try:
            copy.execute(f"INSERT INTO {_SEARCH_INDEX} ({_SEARCH_INDEX}) VALUES ('integrity-check')")  # noqa: S608
        except sqlite3.DatabaseError as error:
            findings.add_error(f"the search index is damaged: {error}", REBUILD_DERIVED)


def _check_replies(db: sqlite3.Connection, findings: StoreFindings) -> None:
    (stored,) = db.execute("SELECT count(*) FROM reply").fetchone()
    unreadable = min(stored, limits.IDEMPOTENCY_CAPACITY) - len(read_replies(db))
    if unreadable:
        findings.add_warning(
            f"{unreadable} remembered replies cannot be read",
            "none: a command that is sent again with one of their keys runs again",
        )


def _check_values(db: sqlite3.Connection, findings: StoreFindings) -> None:
    if damaged := sum(row is None for row in kv_rows(db)):
        findings.add_error(f"{damaged} values of extensions are damaged")
