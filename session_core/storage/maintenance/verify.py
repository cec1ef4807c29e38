"""Verify the store of a home: reads everything, changes nothing, and copes with any damage.

From the outside in: the bytes of the file and its write-ahead log, SQLite's own check of its pages, our tables, each
session separately, and the data they share.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from session_core.errors import NoStore, SessionCoreError, StoreDamaged
from session_core.ids import SessionId
from session_core.storage.files import (
    MARK_FILE,
    Connect,
    connect,
    open_for_reading,
    store_file,
    surrogate_text,
    wal_path,
)
from session_core.storage.home_lock import lock_holder
from session_core.storage.maintenance.findings import (
    LOG_CUT_OFF,
    REBUILD,
    REBUILD_DERIVED,
    Progress,
    StoreFindings,
    ignore_progress,
)
from session_core.storage.maintenance.findings import StoreFinding as StoreFinding
from session_core.storage.maintenance.findings import VerifyReport as VerifyReport
from session_core.storage.maintenance.forensics.raw_file import HEADER_BYTES, header_faults, page_size_of, read_log
from session_core.storage.maintenance.session_check import SessionCheck
from session_core.storage.maintenance.table_check import check_pages, check_schema, check_shared, run_check
from session_core.storage.session_list import read_replies, read_summaries

_BACKUP = "`session-core store restore FILE` restores a backup; or remove {mark} to start empty"


def verify_store(
    home: Path, *, connect: Connect = connect, progress: Progress = ignore_progress, lock_held: bool = False
) -> VerifyReport:
    """Check the store of a home; a service may be using it meanwhile, unless the caller holds the lock of the home."""
    findings = StoreFindings()
    path = store_file(home)
    try:
        size = path.stat().st_size
    except OSError as error:
        size = 0
        if not isinstance(error, FileNotFoundError):
            findings.add_error(
                f"the store file cannot be read: {error.strerror}", "check the disk and the mode of the file"
            )
            return findings.build_report(0)
    if not size:
        _report_empty(home, findings)
        return findings.build_report(0)
    run_check(
        findings,
        "the bytes of the file",
        lambda: _check_bytes(home, findings, in_use=not lock_held and lock_holder(home) is not None),
    )
    try:
        connection = open_for_reading(home, connect)
    except NoStore:
        _report_empty(home, findings)
        return findings.build_report(size)
    except SessionCoreError as error:
        findings.add_error(error.message, REBUILD if isinstance(error, StoreDamaged) else _ADVICE_UNUSABLE)
        return findings.build_report(size)
    except Exception as error:  # noqa: BLE001 - the sqlite3 module fails on messages that quote damaged text
        findings.add_error(f"the store file cannot be opened: {error}")
        return findings.build_report(size)
    with closing(connection) as db:
        run_check(findings, "the list of sessions, as a service reads it,", lambda: _read_as_service(db))
        db.text_factory = surrogate_text
        progress("checking the pages of the file")
        run_check(findings, "the pages", lambda: check_pages(db, findings))
        run_check(findings, "the tables", lambda: check_schema(db, findings))
        _check_sessions(db, findings, progress)
        progress("checking data shared by sessions")
        check_shared(db, findings)
    return findings.build_report(size)


_ADVICE_UNUSABLE = (
    "if the store was written by a newer session-core, update this one; otherwise make a copy of the home, then run "
    "`session-core store rebuild`"
)


def _read_as_service(db: sqlite3.Connection) -> None:
    read_summaries(db)
    read_replies(db)


def _report_empty(home: Path, findings: StoreFindings) -> None:
    mark = home / MARK_FILE
    if mark.exists():
        findings.add_error(
            f"the store file {store_file(home)} is missing or empty, but sessions were stored here",
            _BACKUP.format(mark=mark),
        )
    else:
        findings.add_warning(f"no sessions are stored in {home} yet", "none, if this is the right folder")


def _check_bytes(home: Path, findings: StoreFindings, *, in_use: bool) -> None:
    if in_use:
        return  # closing the file would release the locks that SQLite may hold on it in this process
    path = store_file(home)
    log_file = wal_path(path)
    log_bytes = log_file.read_bytes() if log_file.exists() else b""
    with path.open("rb") as file:
        head = file.read(HEADER_BYTES)
    page_size = page_size_of(head)
    log = read_log(log_bytes, page_size)
    if log is not None and 1 in log.pages:
        head = log.pages[1][:HEADER_BYTES]
    for fault in header_faults(head):
        findings.add_error(fault)
    if page_size is not None and path.stat().st_size % page_size:
        findings.add_error("the file ends in the middle of a page: it was cut off")
    if log is not None and log.cut_off:
        findings.add_warning(
            LOG_CUT_OFF,
            "after a power loss, nothing acknowledged is lost; otherwise `session-core store rebuild` saves "
            "the changes that can still be read",
        )


def _check_sessions(db: sqlite3.Connection, findings: StoreFindings, progress: Progress) -> None:
    sessions: list[tuple[int, Any]] = []

    def read_list(hint: str) -> None:
        sessions[:] = db.execute(f"SELECT id, session_id FROM session {hint}").fetchall()  # noqa: S608 - our own words

    if not run_check(findings, "the list of sessions", lambda: read_list("ORDER BY session_id")):
        run_check(findings, "the list of sessions", lambda: read_list("NOT INDEXED"))
    for place, (session, session_id) in enumerate(sessions, 1):
        if not isinstance(session_id, str):
            findings.add_error("a session in the list has no name", REBUILD_DERIVED)
            continue
        if place % 100 == 1:
            progress(f"checking session {place} of {len(sessions)}")
        SessionCheck(db=db, findings=findings, session=session, session_id=SessionId(session_id)).run()
        findings.sessions += 1
