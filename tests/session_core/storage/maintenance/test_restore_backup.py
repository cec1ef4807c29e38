"""`restore_store` puts a backup in the place of a store: all of it or nothing, and what was there is not lost."""

import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from session_core.errors import SessionCoreError, StoreDamaged, StoreInUse, StoreUnusable
from session_core.service.config import ServiceConfig
from session_core.service.service import open_session_service
from session_core.storage.files import MARK_FILE, STORE_FILE
from session_core.storage.home_lock import HomeLock
from session_core.storage.maintenance import file_swap
from session_core.storage.maintenance.rebuild import rebuild_store
from session_core.storage.maintenance.store_files import RestoreReport, backup_store, restore_store
from session_core.storage.maintenance.verify import verify_store
from session_core.storage.schema import VERSION
from session_core.storage.sqlite import SqliteStore
from session_core.testing.scripted import ScriptedProvider, text
from tests._mostly_slow import mostly_slow
from tests.session_core.storage.maintenance._stores import Contents, change, contents_of, said

LOG_ENDINGS = ("-wal", "-shm")
LOG_FILES = tuple(STORE_FILE + ending for ending in LOG_ENDINGS)


@pytest.fixture
def backup(home: Path, tmp_path: Path) -> Path:
    """A backup of the home with three sessions."""
    return backup_store(home, tmp_path / "backup file?#%.sqlite3").path


def names_in(home: Path) -> set[str]:
    return {path.name for path in home.iterdir()}


def content_set_aside(aside: Path, folder: Path) -> Contents:
    """Read a store that was set aside, together with its log."""
    folder.mkdir(mode=0o700)
    for name in ("", "-wal"):
        if (source := aside.with_name(aside.name + name)).exists():
            shutil.copyfile(source, folder / (STORE_FILE + name))
    return contents_of(folder)


def test_a_new_home_gets_everything(backup: Path, contents: Contents, tmp_path: Path) -> None:
    """Restored into a home that does not exist, a backup is a whole store; the file stays as it is."""
    home, before = tmp_path / "new", backup.read_bytes()

    report = restore_store(home, backup)

    assert report == RestoreReport(sessions=3, bytes=(home / STORE_FILE).stat().st_size, set_aside=None)
    assert contents_of(home) == contents
    assert verify_store(home).findings == ()
    assert names_in(home) - set(LOG_FILES) == {STORE_FILE, MARK_FILE, "lock"}
    assert stat.S_IMODE((home / STORE_FILE).stat().st_mode) == 0o600
    assert (backup.read_bytes(), names_in(backup.parent)) == (before, {"home", "new", backup.name})


async def test_a_service_goes_on_with_it(backup: Path, contents: Contents, tmp_path: Path) -> None:
    """A session of a restored store can be used like any other."""
    home, provider = tmp_path / "new", ScriptedProvider(text("Here I am again."))
    restore_store(home, backup)

    async with open_session_service(ServiceConfig(models={"scripted": provider}, store=SqliteStore(home))) as service:
        await said(service, min(contents.listed), "Still there?")
        assert (await service.load_session(min(contents.listed))).messages[-1].text == "Here I am again."


def test_the_log_of_the_old_store_goes_with_it(
    interrupted_home: Path, backup: Path, contents: Contents, tmp_path: Path
) -> None:
    """After a crash the newest records are in the log: it is set aside with the old file, and never meets the new."""
    before = contents_of(interrupted_home)
    assert before.listed
    assert (interrupted_home / LOG_FILES[0]).stat().st_size

    report = restore_store(interrupted_home, backup)

    assert contents_of(interrupted_home) == contents
    assert report.set_aside is not None
    assert report.set_aside.name.startswith(f"{STORE_FILE}.replaced-")
    assert stat.S_IMODE(report.set_aside.stat().st_mode) == 0o600
    assert content_set_aside(report.set_aside, tmp_path / "aside") == before


def test_there_and_back(interrupted_home: Path, backup: Path, contents: Contents) -> None:
    """What was set aside can itself be restored, with what was in its log."""
    before = contents_of(interrupted_home)
    first = restore_store(interrupted_home, backup)
    assert first.set_aside is not None

    second = restore_store(interrupted_home, first.set_aside)

    assert contents_of(interrupted_home) == before
    assert second.set_aside not in {None, first.set_aside}
    assert verify_store(interrupted_home).findings == ()
    assert second.set_aside is not None
    restore_store(interrupted_home, second.set_aside)
    assert contents_of(interrupted_home) == contents


@pytest.mark.parametrize("left", ["nothing", "an empty file", "only a log"])
def test_a_lost_store_comes_back(interrupted_home: Path, backup: Path, contents: Contents, left: str) -> None:
    """A home whose store file is gone or empty can be restored; a log that was left is kept, but not used."""
    path = interrupted_home / STORE_FILE
    path.unlink()
    if left == "an empty file":
        path.touch(mode=0o600)
    log = (interrupted_home / LOG_FILES[0]).read_bytes()
    if left != "only a log":
        (interrupted_home / LOG_FILES[0]).unlink()

    report = restore_store(interrupted_home, backup)

    assert contents_of(interrupted_home) == contents
    if left == "only a log":
        assert report.set_aside is not None
        assert report.set_aside.read_bytes() == log
    else:
        assert report.set_aside is None


def test_a_home_in_use_is_refused(home: Path, backup: Path) -> None:
    """As long as somebody holds the home, nothing is restored."""
    lock = HomeLock.acquire(home)
    try:
        with pytest.raises(StoreInUse):
            restore_store(home, backup)
    finally:
        lock.release()


def test_what_is_no_sound_backup_is_refused(home: Path, backup: Path, contents: Contents, tmp_path: Path) -> None:
    """What is missing, foreign, newer, empty or damaged changes nothing, and a sentence says why."""
    before = names_in(home)
    changed = {
        "damaged: session ses_.*record 4": "UPDATE event SET payload = payload || ' ' WHERE session = 2 AND n = 4",
        "damaged: the list|damaged: session": "UPDATE session SET name = 'wrong'",
        f"has format {VERSION + 1}.*newer session-core; update": f"PRAGMA user_version = {VERSION + 1}",
        "another program; nothing was changed": "PRAGMA application_id = 77",
    }
    kind: type[SessionCoreError]
    cases: list[tuple[Path, type[SessionCoreError], str]] = [
        (tmp_path / "nowhere", StoreUnusable, "there is no backup"),
        (tmp_path, StoreUnusable, "there is no backup"),
    ]
    for number, (why, sql) in enumerate(changed.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        shutil.copyfile(backup, folder / STORE_FILE)
        change(folder, sql)
        cases.append((folder / STORE_FILE, StoreDamaged if "damaged" in why else StoreUnusable, why))
    for name, content in (("empty", b""), ("text", b"dear diary\n" * 1000), ("cut", backup.read_bytes()[:50_000])):
        (tmp_path / name).write_bytes(content)
        kind = StoreUnusable if name == "empty" else StoreDamaged
        cases.append((tmp_path / name, kind, {"empty": "it is empty", "text": "is not a backup"}.get(name, "damaged")))
    with closing(sqlite3.connect(tmp_path / "foreign")) as db:
        db.execute("CREATE TABLE somebody (elses)")
    cases.append((tmp_path / "foreign", StoreUnusable, "another program; nothing was changed"))

    for file, kind, why in cases:
        with pytest.raises(kind, match=why):
            restore_store(home, file)

    assert contents_of(home) == contents
    assert names_in(home) - set(LOG_FILES) == before - set(LOG_FILES)


class Crash(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("again", ["restore", "rebuild"])
@pytest.mark.parametrize("step", mostly_slow(range(1, 11), quick=2))
async def test_a_crash_at_any_step_loses_nothing(  # noqa: PLR0917 - fixtures
    interrupted_home: Path,
    backup: Path,
    contents: Contents,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    step: int,
    again: str,
    marked: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Wherever a restore is interrupted, a service finds the old store, the new one, or refuses: never a mixture."""
    home, before = interrupted_home, contents_of(interrupted_home)
    if not marked:
        (home / MARK_FILE).unlink()
    steps = 0

    def counted(owner: object, name: str) -> None:
        real = getattr(owner, name)

        def call(*arguments: object, **options: object) -> object:
            nonlocal steps
            steps += 1
            if steps == step:
                raise Crash
            return real(*arguments, **options)

        monkeypatch.setattr(owner, name, call)

    with monkeypatch.context() as patched:
        monkeypatch = patched
        for name in ("rename", "unlink", "chmod"):
            counted(Path, name)
        patched.setattr(shutil, "rmtree", lambda *_, **__: None)
        try:
            restore_store(home, backup)
        except Crash:
            pass
        else:
            assert steps < step
    if (home / STORE_FILE).exists():
        found = contents_of(home)
        assert found in (before, contents)
    else:
        found = None
        with pytest.raises(StoreDamaged, match="missing or empty"):
            async with SqliteStore(home).open():
                raise AssertionError

    if again == "restore":
        restore_store(home, backup)
        assert contents_of(home) == contents
    else:
        rebuild_store(home)
        assert contents_of(home) == (before if found == before else contents)
    assert verify_store(home).findings == ()
    assert not {file_swap.WORK_FOLDER, file_swap.READY_FOLDER} & names_in(home)
    if found != before:
        kept = [path for path in home.iterdir() if ".replaced-" in path.name and not path.name.endswith(LOG_ENDINGS)]
        aside = [content_set_aside(path, tmp_path / path.name) for path in kept]
        assert before in aside
