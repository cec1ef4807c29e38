"""Compacting, copying and counting a store."""

import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import trio

from session_core.errors import SessionCoreError, StoreDamaged, StoreInUse, StoreUnusable
from session_core.service.config import ServiceConfig
from session_core.service.service import open_session_service
from session_core.storage.files import STORE_FILE
from session_core.storage.home_lock import HomeLock
from session_core.storage.maintenance import store_files
from session_core.storage.maintenance.store_files import backup_store, compact_store, store_statistics
from session_core.storage.maintenance.verify import verify_store
from session_core.storage.records import digest_of
from session_core.storage.sqlite import SqliteStore
from tests.session_core.storage.maintenance._stores import LONG, Contents, change, contents_of


def test_compacting_drops_what_nobody_uses(home: Path, contents: Contents) -> None:
    """Long texts that no session uses are gone afterwards, the file is smaller, and all that was there still is."""
    rubbish = b"r" * 1_000_000
    change(home, "INSERT INTO blob VALUES (?, ?)", digest_of(rubbish), rubbish)
    steps: list[str] = []

    report = compact_store(home, progress=steps.append)

    assert report.before_bytes > 1_000_000
    assert report.after_bytes == (home / STORE_FILE).stat().st_size < 500_000
    assert contents_of(home) == contents
    assert verify_store(home).findings == ()
    assert len(steps) == 3


def test_compacting_keeps_what_a_record_needs(home: Path, contents: Contents) -> None:
    """A long text that a record links to stays, even if the table of uses has lost it."""
    change(home, "DELETE FROM blob_use")

    compact_store(home)

    assert contents_of(home).journals == contents.journals


def test_compacting_a_damaged_store_changes_nothing(home: Path) -> None:
    """When nobody can tell what is in use, nothing is dropped."""
    change(home, "DELETE FROM blob_use")
    change(home, "UPDATE event SET links = 'nonsense' WHERE links IS NOT NULL")

    with pytest.raises(StoreDamaged):
        compact_store(home)

    with closing(sqlite3.connect(home / STORE_FILE)) as db:
        assert db.execute("SELECT count(*) FROM blob").fetchone() == (1,)


def test_compacting_needs_the_home_for_itself(home: Path, tmp_path: Path) -> None:
    """A home in use, or without a store, is refused."""
    lock = HomeLock.acquire(home)
    try:
        with pytest.raises(StoreInUse):
            compact_store(home)
    finally:
        lock.release()
    with pytest.raises(StoreUnusable):
        compact_store(tmp_path / "nowhere")


def test_a_backup_is_a_whole_store(home: Path, contents: Contents, tmp_path: Path) -> None:
    """A backup put in the place of a store file has everything, and is for its owner only."""
    target = tmp_path / "backup.sqlite3"

    report = backup_store(home, target)

    assert (report.path, report.sessions, report.bytes) == (target, 3, target.stat().st_size)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    shutil.copy(target, other / STORE_FILE)
    assert contents_of(other) == contents
    assert verify_store(other).findings == ()
    assert {path.name for path in tmp_path.iterdir()} == {"backup.sqlite3", "home", "other"}


async def test_a_backup_while_a_service_writes(home: Path, tmp_path: Path) -> None:
    """A running service goes on while it is backed up, and the copy is the store of one moment."""
    target = tmp_path / "backup.sqlite3"
    async with open_session_service(ServiceConfig(store=SqliteStore(home))) as service, trio.open_nursery() as nursery:
        session_id = (await service.create_session(name="busy")).session_id
        stopped = trio.Event()

        async def write() -> None:
            number = 0
            while not stopped.is_set():
                number += 1
                await service.rename_session(session_id, f"name {number}")

        nursery.start_soon(write)
        report = await trio.to_thread.run_sync(backup_store, home, target)
        verified = await trio.to_thread.run_sync(verify_store, home)
        statistics = await trio.to_thread.run_sync(store_statistics, home)
        stopped.set()

    assert report.sessions == statistics.sessions == verified.sessions == 4
    assert verified.findings == ()
    other = trio.Path(tmp_path / "other")
    await other.mkdir(mode=0o700)
    await (other / STORE_FILE).write_bytes(await trio.Path(target).read_bytes())
    assert verify_store(Path(other)).findings == ()


def test_a_backup_overwrites_nothing(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is there, or comes while the copy is made, is never replaced."""
    target = tmp_path / "precious"
    target.write_text("mine")
    with pytest.raises(StoreUnusable, match="exists already"):
        backup_store(home, target)
    late = tmp_path / "late"
    monkeypatch.setattr(store_files, "sync_file", lambda _: late.write_text("mine"))
    with pytest.raises(StoreUnusable, match="exists already"):
        backup_store(home, late)

    assert (target.read_text(), late.read_text()) == ("mine", "mine")
    assert {path.name for path in tmp_path.iterdir()} == {"precious", "late", "home"}


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM event WHERE session = 2 AND n = 4",
        "UPDATE event SET payload = payload || ' ' WHERE session = 2 AND n = 4",
        "UPDATE event SET session = 99 WHERE session = 2",
        "UPDATE event SET payload = 7 WHERE n = 1",
        "UPDATE blob SET data = x'00'",
        "DROP INDEX event_in_order",
        "DROP TABLE session",
    ],
)
def test_a_backup_of_a_damaged_store_says_so(home: Path, tmp_path: Path, damage: str) -> None:
    """What has lost records, or anything else, can be copied as it is, and nobody is told that the copy is sound."""
    assert not backup_store(home, tmp_path / "sound").damaged
    change(home, damage)

    report = backup_store(home, tmp_path / "backup")

    assert report.damaged
    assert report.sessions == (0 if "TABLE" in damage else 3)
    assert report.path.exists()


def test_statistics(home: Path, contents: Contents) -> None:
    """The counts are those of the sessions that are there."""
    statistics = store_statistics(home)

    assert (statistics.sessions, statistics.archived, statistics.running) == (3, 1, 0)
    assert statistics.events == sum(map(len, contents.journals.values()))
    assert statistics.messages == sum(len(each.messages) for each in contents.loaded.values())
    assert (statistics.blobs, statistics.blob_bytes) == (1, len(LONG))
    assert statistics.file_bytes == (home / STORE_FILE).stat().st_size
    assert statistics.oldest_at == min(each.created_at for each in contents.listed.values())
    assert statistics.newest_at == max(each.updated_at for each in contents.listed.values())
    assert {(each, name) for each, name, _ in statistics.largest} == {
        (each.session_id, each.name) for each in contents.listed.values()
    }
    assert [size for _, _, size in statistics.largest] == sorted((s for _, _, s in statistics.largest), reverse=True)


def test_a_running_session_counts_as_running(interrupted_home: Path) -> None:
    """A session that was at work when its service crashed counts as running."""
    statistics = store_statistics(interrupted_home)

    assert (statistics.sessions, statistics.running) == (1, 1)
    assert statistics.wal_bytes > 0


@pytest.mark.parametrize("use", [store_statistics, lambda home: backup_store(home, home / "copy")])
def test_no_store_is_a_typed_error(tmp_path: Path, use: Callable[[Path], object]) -> None:
    """Where there is no store, or mere bytes, the error says so."""
    with pytest.raises(StoreUnusable, match="no sessions are stored"):
        use(tmp_path)
    (tmp_path / STORE_FILE).write_bytes(b"nonsense" * 1000)
    with pytest.raises(SessionCoreError, match="damaged"):
        use(tmp_path)
