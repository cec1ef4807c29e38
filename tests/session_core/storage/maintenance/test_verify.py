"""`verify_store` has an answer to any damage, names what it hits, and changes nothing."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from session_core.errors import StoreInUse
from session_core.ids import SessionId
from session_core.storage.files import MARK_FILE, STORE_FILE
from session_core.storage.home_lock import HomeLock
from session_core.storage.maintenance.rebuild import rebuild_store
from session_core.storage.maintenance.verify import StoreFinding, verify_store
from session_core.storage.records import checksum, digest_of
from tests.session_core.storage.maintenance._stores import Contents, change, contents_of


def files_of(home: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in home.iterdir() if not path.name.endswith("-shm")}


def errors_of(home: Path) -> list[StoreFinding]:
    return [finding for finding in verify_store(home).findings if finding.severity == "error"]


def test_a_sound_store_has_no_findings(home: Path, contents: Contents) -> None:
    """A store that was closed cleanly is counted in full, and nothing is found."""
    before = (home / STORE_FILE).read_bytes()
    steps: list[str] = []

    report = verify_store(home, progress=steps.append)

    assert report.ok
    assert report.findings == ()
    assert report.sessions == len(contents.listed) == 3
    assert report.events == sum(map(len, contents.journals.values()))
    assert (report.blobs, report.bytes) == (1, len(before))
    assert steps == ["checking the pages of the file", "checking session 1 of 3", "checking data shared by sessions"]
    assert (home / STORE_FILE).read_bytes() == before


def test_a_store_after_a_crash_has_no_findings(interrupted_home: Path) -> None:
    """What a crash leaves behind is sound too, half an answer in a write-ahead log included."""
    before = files_of(interrupted_home)

    report = verify_store(interrupted_home)

    assert (report.findings, report.sessions) == ((), 1)
    assert files_of(interrupted_home) == before


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("DELETE FROM event WHERE session = 2 AND n = 5", "record 5 is missing"),
        ("DELETE FROM event WHERE session = 2 AND n = 1", "record 1 is missing"),
        ("DELETE FROM event WHERE session = 2 AND n > 18", "it has 18 records, but should have"),
        ("UPDATE event SET payload = payload || ' ' WHERE session = 2 AND n = 5", "record 5 is not what was written"),
        ("UPDATE event SET payload = x'' WHERE session = 2 AND n = 5", "record 5 is not what was written"),
        ("UPDATE event SET payload = 'text' WHERE session = 2 AND n = 5", "record 5 is not what was written"),
        ("UPDATE event SET checksum = 0 WHERE session = 2 AND n = 5", "record 5 is not what was written"),
        ("UPDATE event SET n = 'x' WHERE session = 2 AND n = 5", "record 5 is missing"),
        ("UPDATE session SET name = 'another' WHERE id = 2", "the list of sessions has wrong values: name"),
        ("UPDATE session SET queued = 7, wakeups = 9 WHERE id = 2", "wrong values: queued, wakeups"),
        ("UPDATE session SET bytes = bytes + 1 WHERE id = 2", "wrong values: bytes"),
        ("UPDATE session SET messages = 0 WHERE id = 2", "wrong values: messages"),
        ("DELETE FROM message WHERE session = 2 AND number = 1", "message 1 is not in the index"),
        ("UPDATE message SET role = 'user' WHERE session = 2 AND number = 1", "message 1 is not in the index"),
        ("UPDATE message SET session = 2, number = 50 WHERE session = 1 AND number = 3", "index has"),
    ],
)
def test_damage_is_named_with_its_session(home: Path, contents: Contents, sql: str, what: str) -> None:
    """Whatever is wrong with a session is an error that names it, and other sessions are still checked."""
    second = sorted(contents.listed)[1]
    change(home, sql)

    report = verify_store(home)

    found = [finding for finding in report.findings if finding.session_id == second]
    assert any(what in finding.what for finding in found), report.findings
    assert not report.ok
    assert all(finding.advice for finding in report.findings)
    assert report.sessions == 3


def test_a_missing_long_text_is_named_for_every_session_that_uses_it(home: Path, contents: Contents) -> None:
    """Sessions that lost a long text are named, and the one that has none is not."""
    first, _, third = sorted(contents.listed)
    change(home, "DELETE FROM blob")

    found = errors_of(home)

    assert {finding.session_id for finding in found} == {None, first, third}
    assert any("that belongs to it is missing" in finding.what for finding in found)


def test_a_changed_long_text_is_named(home: Path, contents: Contents) -> None:
    """A long text with another digest than its name is an error for the sessions that use it."""
    first, _, third = sorted(contents.listed)
    change(home, "UPDATE blob SET data = 'something else'")

    assert {finding.session_id for finding in errors_of(home)} == {None, first, third}


def test_a_use_that_is_not_noted_is_an_error(home: Path, contents: Contents) -> None:
    """A long text whose use is not noted would be deleted with another session, so it is an error."""
    change(home, "DELETE FROM blob_use WHERE session = 1")

    [found] = errors_of(home)

    assert (found.session_id, "not marked as used" in found.what) == (min(contents.listed), True)


def test_what_nobody_uses_is_a_warning(home: Path) -> None:
    """A long text that no session uses harms nobody."""
    data = b"left over"
    change(home, "INSERT INTO blob VALUES (?, ?)", digest_of(data), data)

    report = verify_store(home)

    assert report.ok
    assert [finding.what for finding in report.findings] == ["1 blobs are used by no session"]


@pytest.mark.parametrize(
    "values", ["'a', 'k', CAST(x'd4e2' AS TEXT), x'00'", "CAST(x'd4e2' AS TEXT), 'k', x'00', x'00'"]
)
def test_replies_that_cannot_be_read(home: Path, contents: Contents, values: str) -> None:
    """A remembered reply with a column that cannot be read is told, harms nothing else, and a rebuild drops it."""
    change(home, f"INSERT INTO reply (client_id, key, fingerprint, payload, checksum) VALUES ({values}, 7)")

    found = verify_store(home).findings
    rebuild_store(home)

    assert any("remembered replies cannot be read" in finding.what for finding in found)
    assert verify_store(home).findings == ()
    assert contents_of(home) == contents


def test_a_list_that_no_service_can_read(home: Path, contents: Contents) -> None:
    """Half a character in one session's line, if it keeps the whole list from being read, is an error of the store."""
    change(home, "UPDATE session SET name = CAST(x'd4e2' AS TEXT) WHERE id = 2")
    readable = contents_of(home).listed.keys() == contents.listed.keys()

    named = {finding.session_id for finding in errors_of(home)}

    assert named == {sorted(contents.listed)[1]} | (set() if readable else {None})


def test_a_session_under_another_name(home: Path, contents: Contents) -> None:
    """A session whose id in the list is not the one in its records is named by both."""
    second = sorted(contents.listed)[1]
    change(home, "UPDATE session SET session_id = 'ses_other' WHERE id = 2")

    assert {finding.session_id for finding in errors_of(home)} == {"ses_other", second}


def test_records_without_an_entry_in_the_list(home: Path, contents: Contents) -> None:
    """Records of a session that the list does not know are found, under the id they prove."""
    second = sorted(contents.listed)[1]
    change(home, "DELETE FROM session WHERE id = 2")

    found = errors_of(home)

    assert second in {finding.session_id for finding in found}
    assert any("rows of message belong to no session" in finding.what for finding in found)


def test_a_search_index_that_does_not_fit(home: Path) -> None:
    """A text in the search index that is not the one of its message is found, and so is a broken index."""
    change(home, "UPDATE message_text_content SET c0 = 'something else' WHERE id = 1")

    found = errors_of(home)

    assert any("is not in the search index as it should be" in finding.what for finding in found)
    assert any("the search index is damaged" in finding.what for finding in found)


def test_a_broken_index_does_not_hide_the_records(home: Path, contents: Contents) -> None:
    """When the index of the records is broken, all sessions are named, and all records are still read and counted."""
    with closing(sqlite3.connect(home / STORE_FILE)) as db:
        (page,) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'event_in_order'").fetchone()
    path = home / STORE_FILE
    data = path.read_bytes()
    path.write_bytes(data[: (page - 1) * 4096] + bytes(4096) + data[page * 4096 :])

    report = verify_store(home)

    assert {finding.session_id for finding in report.findings} >= set(contents.listed)
    assert report.events == sum(map(len, contents.journals.values()))


@pytest.mark.parametrize("table", ["event", "session", "message", "blob", "reply", "passing", "state", "blob_use"])
def test_a_table_that_is_gone(home: Path, table: str) -> None:
    """A store without one of its tables is reported, whichever it is."""
    change(home, f"DROP TABLE {table}")

    assert "the description of the tables is not the one this program writes" in {e.what for e in errors_of(home)}


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda data: b"", "missing or empty"),
        (lambda data: b"x" * 50, "only 50 bytes"),
        (lambda data: b"x" * 5000, "does not begin like a SQLite database"),
        (lambda data: data[:-100], "was cut off"),
        (lambda data: data[:16] + b"\0\0" + data[18:], "page size"),
        (lambda data: data[:18] + b"\x03" + data[19:], "file format is 3/2"),
        (lambda data: data[:60] + b"\0\0\0\x09" + data[64:], "format of the store is 9"),
        (lambda data: data[:68] + b"ABCD" + data[72:], "application id"),
        (lambda data: data[:4096] + bytes(len(data) - 4096), "malformed"),
        (lambda data: bytes(len(data)), "does not begin like a SQLite database"),
    ],
)
def test_a_file_that_is_no_store_any_more(home: Path, spoil: Callable[[bytes], bytes], what: str) -> None:
    """A file that SQLite cannot or should not open is an error with advice, and stays as it is."""
    path = home / STORE_FILE
    path.write_bytes(spoil(path.read_bytes()))
    before = path.read_bytes()

    found = errors_of(home)

    assert any(what in finding.what for finding in found), found
    assert all(finding.advice for finding in found)
    assert path.read_bytes() == before


def test_no_store_at_all(tmp_path: Path, home: Path) -> None:
    """An empty place is worth a warning, a place where a store has been is an error."""
    [warning] = verify_store(tmp_path / "nowhere").findings
    (home / STORE_FILE).unlink()
    [error] = verify_store(home).findings

    assert (warning.severity, error.severity) == ("warning", "error")
    assert str(home / MARK_FILE) in error.advice


@pytest.mark.parametrize("place", [40, 60, -3000])
def test_a_damaged_log_is_told(interrupted_home: Path, place: int) -> None:
    """When the end of the log is damaged, SQLite silently drops commits, but verify says so."""
    log = interrupted_home / f"{STORE_FILE}-wal"
    data = bytearray(log.read_bytes())
    data[place] ^= 1
    log.write_bytes(data)

    whats = [finding.what for finding in verify_store(interrupted_home).findings]

    assert any("write-ahead log is damaged" in what for what in whats)


def test_a_log_in_use_is_not_judged(interrupted_home: Path) -> None:
    """The end of a log that somebody is writing to may be unfinished, and that is no finding."""
    log = interrupted_home / f"{STORE_FILE}-wal"
    data = bytearray(log.read_bytes())
    data[-3000] ^= 1
    log.write_bytes(data)
    lock = HomeLock.acquire(interrupted_home)
    try:
        with pytest.raises(StoreInUse):
            HomeLock.acquire(interrupted_home)
        assert verify_store(interrupted_home).ok
        assert not any("write-ahead log" in finding.what for finding in verify_store(interrupted_home).findings)
    finally:
        lock.release()


def test_unfinished_text_that_was_changed(interrupted_home: Path) -> None:
    """Text of an unfinished answer that is not what was written is named with its session."""
    [session_id] = contents_of(interrupted_home).listed
    payload = b'{"nothing": "useful"}'
    change(
        interrupted_home,
        "UPDATE passing SET payload = ?, checksum = ?",
        payload,
        checksum(SessionId(session_id), 0, payload),
    )

    found = errors_of(interrupted_home)

    assert [finding.session_id for finding in found] == [session_id] * len(found)
    assert any("text of an unfinished answer" in finding.what for finding in found)
