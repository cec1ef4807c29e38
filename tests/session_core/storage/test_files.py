"""The files of a SQLite store: who may read them, and signs that one of them is not what it should be."""

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
import trio

from session_core.errors import StoreDamaged, StoreUnusable
from session_core.storage import files, schema
from session_core.storage.files import MARK_FILE, STORE_FILE, open_for_reading, open_for_writing
from session_core.storage.home import prepare_home
from session_core.storage.schema import VERSION
from session_core.storage.sqlite import SqliteStore
from session_core.storage.sqlite_reader import SqliteReader
from session_core.testing.check_store import open_live_sessions
from tests.session_core.storage._harness import change, rows


def new_home(tmp_path: Path) -> Path:
    home = prepare_home(tmp_path / "home")
    open_for_writing(home, files.connect).close()
    return home


async def test_files_are_private(tmp_path: Path) -> None:
    """Nobody else can read anything of a home, at work and at rest, whatever was there before."""
    home = tmp_path / "home"
    home.mkdir(0o755)
    (home / STORE_FILE).touch(0o644)
    async with open_live_sessions(SqliteStore(home)) as live:
        live.create()
        await live.wait_durable()
        at_work = {path.name: stat.S_IMODE(path.stat().st_mode) for path in home.iterdir()}
    names = {STORE_FILE, MARK_FILE, "lock"}
    assert dict.fromkeys((*names, f"{STORE_FILE}-wal", f"{STORE_FILE}-shm"), 0o600) == at_work
    assert names == {path.name for path in home.iterdir()}
    assert 0o700 == stat.S_IMODE(home.stat().st_mode)


def test_every_commit_reaches_the_disk(tmp_path: Path) -> None:
    """The store is written ahead, synced at every commit, and deleted text is wiped."""
    home = prepare_home(tmp_path)
    with closing(open_for_writing(home, files.connect)) as connection:
        found = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
        assert ["wal", 2] == found
        assert 1 == connection.execute("PRAGMA secure_delete").fetchone()[0]


@pytest.mark.parametrize("name", ["a ? b", "a # b", "100 %41", "ü & 日本", "file:x?mode=memory", "a'b\"c"])
async def test_homes_with_odd_names(tmp_path: Path, name: str) -> None:
    """The store is inside the home, whatever its name is."""
    home = tmp_path / name
    async with open_live_sessions(SqliteStore(home)) as live:
        session_id = live.create()
        await live.wait_durable()
        reader = SqliteReader(home)
        async with reader.open_reader():
            assert [session_id] == [each.session_id for each in await reader.list_sessions()]
    assert (home / STORE_FILE).stat().st_size
    assert [home] == await trio.to_thread.run_sync(lambda: list(tmp_path.iterdir()))


@pytest.mark.parametrize("emptied", [True, False])
def test_a_lost_store_is_noticed(tmp_path: Path, *, emptied: bool) -> None:
    """Where sessions were kept, a missing or empty file is damage; without the mark it is a new beginning."""
    home = new_home(tmp_path)
    (home / STORE_FILE).unlink()
    if emptied:
        (home / STORE_FILE).touch()
    for _ in range(2):
        with pytest.raises(StoreDamaged, match="missing or empty") as damage:
            open_for_writing(home, files.connect)
        assert str(home / MARK_FILE) in damage.value.message
    (home / MARK_FILE).unlink()
    open_for_writing(home, files.connect).close()
    assert (home / MARK_FILE).exists()


def test_the_mark_stays(tmp_path: Path) -> None:
    """The mark is made once and says what it is for."""
    home = new_home(tmp_path)
    mark = (home / MARK_FILE).read_text()
    assert "session-core" in mark
    open_for_writing(home, files.connect).close()
    assert mark == (home / MARK_FILE).read_text()


def test_newer_stores_are_left_alone(tmp_path: Path) -> None:
    """A store of a newer program is neither written nor read, and stays as it is."""
    home = new_home(tmp_path)
    with closing(sqlite3.connect(home / STORE_FILE)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    before = (home / STORE_FILE).read_bytes()
    for opening in (open_for_writing, open_for_reading):
        with pytest.raises(StoreUnusable, match="newer"):
            opening(home, files.connect)
    assert before == (home / STORE_FILE).read_bytes()


@pytest.mark.parametrize("marked", [True, False])
def test_databases_of_other_programs_are_left_alone(tmp_path: Path, *, marked: bool) -> None:
    """A database that is not ours, with a mark of its own or without, is neither written nor read."""
    home = prepare_home(tmp_path)
    with closing(sqlite3.connect(home / STORE_FILE)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
        connection.execute(f"PRAGMA application_id = {77 if marked else 0}")
        connection.commit()
    for opening in (open_for_writing, open_for_reading):
        with pytest.raises(StoreUnusable, match="another program"):
            opening(home, files.connect)
    assert [("theirs",)] == rows(home, "SELECT name FROM sqlite_schema")


def test_what_is_no_database_is_damage(tmp_path: Path) -> None:
    """A file of anything else is damage, and stays as it is."""
    home = prepare_home(tmp_path)
    (home / STORE_FILE).write_bytes(b"This is no database, but a text of some length. " * 100)
    before = (home / STORE_FILE).read_bytes()
    for opening in (open_for_writing, open_for_reading):
        with pytest.raises(StoreDamaged, match="damaged"):
            opening(home, files.connect)
    assert before == (home / STORE_FILE).read_bytes()


def test_reading_makes_nothing(tmp_path: Path) -> None:
    """Reading where no store is says so and makes no files."""
    home = prepare_home(tmp_path)
    with pytest.raises(StoreUnusable, match="no sessions are stored"):
        open_for_reading(home, files.connect)
    assert [] == list(home.iterdir())


async def test_reading_an_empty_file(tmp_path: Path) -> None:
    """A store file in which nothing was ever written is unusable for a reader, with a typed error."""
    home = prepare_home(tmp_path)
    (home / STORE_FILE).touch()
    reader = SqliteReader(home)
    with pytest.raises(StoreUnusable):
        async with reader.open_reader():
            pass


def test_readers_cannot_write(tmp_path: Path) -> None:
    """A connection for reading refuses to change anything."""
    home = new_home(tmp_path)
    with (
        closing(open_for_reading(home, files.connect)) as connection,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        connection.execute("INSERT INTO meta VALUES ('a', 'b')")


async def test_a_store_that_cannot_be_opened_lets_the_home_go(tmp_path: Path) -> None:
    """After a failed opening the home is free again, and the same store opens once the fault is gone."""
    home = new_home(tmp_path)
    change(home, "INSERT INTO meta VALUES ('a', 'b')")
    whole = (home / STORE_FILE).read_bytes()
    (home / STORE_FILE).write_bytes(b"no database at all " * 100)
    store = SqliteStore(home)
    for _ in range(2):
        with pytest.raises(StoreDamaged):
            async with store.open():
                pass
    (home / STORE_FILE).write_bytes(whole)
    async with store.open() as opened:
        assert () == opened.summaries


# --- migrations -------------------------------------------------------------------------------------------------------


def _add_colour(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE session ADD COLUMN colour TEXT NOT NULL DEFAULT 'grey'")


def _add_shape(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE session ADD COLUMN shape TEXT NOT NULL DEFAULT 'round'")


def _fail(connection: sqlite3.Connection) -> None:
    raise RuntimeError("a bug in a migration")


NEXT = VERSION + 1


def columns(connection: sqlite3.Connection) -> set[str]:
    return {row[1] for row in connection.execute("PRAGMA table_info(session)")}


def test_older_stores_are_migrated(tmp_path: Path) -> None:
    """An older store goes through every later version in order, and then counts as the newest."""
    home = new_home(tmp_path)
    with closing(files.connect(home, False)) as connection:
        schema.bring_up_to_date(connection, version=NEXT + 1, migrations={VERSION: _add_colour, NEXT: _add_shape})
        assert {"colour", "shape"} <= columns(connection)
        assert NEXT + 1 == schema.version_of(connection)


def test_a_failed_migration_changes_nothing(tmp_path: Path) -> None:
    """When a later step fails, the earlier ones are undone and the store is as old as it was."""
    home = new_home(tmp_path)
    with closing(files.connect(home, False)) as connection:
        with pytest.raises(RuntimeError):
            schema.bring_up_to_date(connection, version=NEXT + 1, migrations={VERSION: _add_colour, NEXT: _fail})
        assert "colour" not in columns(connection)
        assert VERSION == schema.version_of(connection)
