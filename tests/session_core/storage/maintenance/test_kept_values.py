"""What extensions keep survives everything that is done to a store: migration, check, rebuild, backup, compaction."""

import shutil
from pathlib import Path

import pytest

from session_core.storage.files import STORE_FILE
from session_core.storage.maintenance.rebuild import rebuild_store
from session_core.storage.maintenance.store_files import backup_store, compact_store, restore_store
from session_core.storage.maintenance.verify import verify_store
from session_core.storage.sqlite import SqliteStore
from session_core.testing.check_store_world import open_live_sessions
from tests.session_core.storage.maintenance._stores import change

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
KEPT = {("one", "a"): 1, ("one", "b"): {"deep": ["x"]}, ("two", "a"): None}


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    folder = tmp_path / "kept"
    async with open_live_sessions(SqliteStore(folder)) as live:
        live.say(live.create("beside"), "hello")
        for (owner, key), value in KEPT.items():
            await live.store.kv_set(owner, key, value)
    return folder


async def kept_in(home: Path) -> dict[tuple[str, str], object]:
    async with open_live_sessions(SqliteStore(home)) as live:
        return {
            (owner, key): await live.store.kv_get(owner, key)
            for owner in ("one", "two")
            for key in await live.store.kv_list(owner)
        }


async def test_a_sound_store_is_rebuilt_with_its_values(home: Path) -> None:
    """A check finds nothing wrong with values that are right, and a rebuild carries all of them over."""
    assert () == verify_store(home).findings
    report = rebuild_store(home)
    assert ((), ()) == (report.repaired, report.lost)
    assert KEPT == await kept_in(home)


async def test_a_damaged_value_is_found_and_only_that_one_is_lost(home: Path) -> None:
    """A check reports a value that is not what was written; a rebuild says it is lost, and keeps all others."""
    change(home, "UPDATE kv SET value = CAST('9' AS BLOB) WHERE owner = 'one' AND key = 'a'")
    (finding,) = verify_store(home).findings
    assert ("error", "1 values of extensions are damaged") == (finding.severity, finding.what)
    report = rebuild_store(home)
    assert ("1 values of extensions cannot be read any more",) == report.lost
    assert () == verify_store(home).findings
    assert {key: value for key, value in KEPT.items() if key != ("one", "a")} == await kept_in(home)


async def test_a_backup_holds_the_values(home: Path, tmp_path: Path) -> None:
    """A store is compacted with its values, a copy has them, and one with a damaged value says so."""
    compact_store(home)
    assert not backup_store(home, tmp_path / "copy").damaged
    restore_store(tmp_path / "new", tmp_path / "copy")
    assert KEPT == await kept_in(tmp_path / "new")
    change(home, "UPDATE kv SET checksum = checksum + 1 WHERE owner = 'two'")
    assert backup_store(home, tmp_path / "bad copy").damaged


async def test_a_store_of_format_1_is_sound_and_gets_the_table(tmp_path: Path) -> None:
    """A store from before there were values is checked and copied as it is, and keeps values once it is written to."""
    home = tmp_path / "old"
    home.mkdir(mode=0o700)
    shutil.copyfile(FIXTURES / "store-v1" / STORE_FILE, home / STORE_FILE)
    assert verify_store(home).ok
    assert not backup_store(home, tmp_path / "copy").damaged
    async with open_live_sessions(SqliteStore(home)) as live:
        await live.store.kv_set("one", "a", 1)
    assert verify_store(home).ok
    assert {("one", "a"): 1} == await kept_in(home)


async def test_values_of_the_kept_store_read_as_they_did(tmp_path: Path) -> None:
    """The value in the store that was kept of format 2 comes back as it was written then."""
    home = tmp_path / "kept store"
    home.mkdir(mode=0o700)
    shutil.copyfile(FIXTURES / "store-v2" / STORE_FILE, home / STORE_FILE)
    async with open_live_sessions(SqliteStore(home)) as live:
        assert {"colour": "blue", "times": [1, 2.5]} == await live.store.kv_get("kept-extension", "settings")
