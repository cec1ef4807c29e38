"""Values in the SQLite store: what it does about a disk that fails, about damage, and about the end."""

from pathlib import Path

import pytest
import trio
import trio.testing

from session_core import limits
from session_core.errors import Overloaded, ServiceClosed, StorageFailed, StoreDamaged
from session_core.storage.kv import decode_value, encode_value
from session_core.storage.sqlite import SqliteStore
from session_core.testing.check_store_world import open_live_sessions
from tests.session_core.storage._harness import Gate, WatchedDisk, change, rows, serving_until_failure


async def cancel_soon(scope: trio.CancelScope) -> None:
    await trio.testing.wait_all_tasks_blocked()
    scope.cancel()


async def test_a_change_returns_when_it_is_committed_and_not_before(tmp_path: Path) -> None:
    """Whoever keeps a value waits for the commit that holds it, and a cancelled one may be kept all the same."""
    disk = WatchedDisk()
    returned = trio.Event()
    async with open_live_sessions(SqliteStore(tmp_path, connect=disk.connect)) as live, trio.open_nursery() as nursery:
        gate = Gate(disk)

        async def keep() -> None:
            await live.store.kv_set("ext", "slow", 1)
            returned.set()

        nursery.start_soon(keep)
        await gate.reached()
        with trio.CancelScope() as given_up:
            async with trio.open_nursery() as beside:
                beside.start_soon(cancel_soon, given_up)
                await live.store.kv_set("ext", "given up", 2)
        assert not returned.is_set()
        with trio.CancelScope() as too_late:
            too_late.cancel()
            await live.store.kv_set("ext", "never handed over", 3)
        gate.open()
        await returned.wait()
    assert [("given up",), ("slow",)] == rows(tmp_path, "SELECT key FROM kv ORDER BY key")


async def test_a_disk_that_fails_is_told(tmp_path: Path) -> None:
    """A value that could not be written is a failure for whoever keeps it, and so is every later one."""
    disk = WatchedDisk()
    async with serving_until_failure(SqliteStore(tmp_path, connect=disk.connect)) as live:
        await live.store.kv_set("ext", "good", 1)
        disk.fail("COMMIT")
        with pytest.raises(StorageFailed, match="could not be written"):
            await live.store.kv_set("ext", "bad", 1)
        disk.heal()
        with pytest.raises(StorageFailed, match="could not be written"):
            await live.store.kv_delete("ext", "good")
    assert [("good",)] == rows(tmp_path, "SELECT key FROM kv")


async def test_a_slow_disk_is_no_endless_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When too much waits for the disk, another value is refused instead of joining."""
    monkeypatch.setattr(limits, "MAX_BACKLOG_BYTES", 10)
    disk = WatchedDisk()
    async with open_live_sessions(SqliteStore(tmp_path, connect=disk.connect)) as live, trio.open_nursery() as nursery:
        gate = Gate(disk)
        nursery.start_soon(live.store.kv_set, "ext", "first", "longer than ten")
        await gate.reached()
        with pytest.raises(Overloaded, match="try again"):
            await live.store.kv_set("ext", "second", 1)
        gate.open()


async def test_a_closed_store_keeps_nothing(tmp_path: Path) -> None:
    """Before it is opened and after it was closed, a change is an error and not a wait without end."""
    store = SqliteStore(tmp_path)
    with pytest.raises(ServiceClosed):
        await store.kv_set("ext", "early", 1)
    async with open_live_sessions(store):
        await store.kv_set("ext", "between", 1)
    with pytest.raises(ServiceClosed):
        await store.kv_set("ext", "late", 1)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE kv SET value = CAST('2' AS BLOB) WHERE key = 'hit'",
        "UPDATE kv SET checksum = checksum + 1 WHERE key = 'hit'",
        "UPDATE kv SET value = 'text' WHERE key = 'hit'",
        "UPDATE kv SET owner = 'ext', key = 'hit' WHERE owner = 'other'",
    ],
)
async def test_a_damaged_value_is_not_handed_out(tmp_path: Path, damage: str) -> None:
    """A value that is not what was written, or belongs elsewhere, is an error; it can be replaced or let go of."""
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        if "other" in damage:
            await live.store.kv_set("other", "theirs", 1)
        else:
            await live.store.kv_set("ext", "hit", 1)
        await live.store.kv_set("ext", "beside", 2)
    change(tmp_path, damage)
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        with pytest.raises(StoreDamaged, match='"ext" stores under "hit" is damaged'):
            await live.store.kv_get("ext", "hit")
        assert 2 == await live.store.kv_get("ext", "beside")
        await live.store.kv_set("ext", "hit", 3)
        assert 3 == await live.store.kv_get("ext", "hit")


def test_a_kept_value_is_nobodys_to_change() -> None:
    """What comes back is a new value each time, so that changing it does not change what is kept."""
    raw = encode_value({"list": [1]})
    decode_value(raw)["list"].append(2)
    assert {"list": [1]} == decode_value(raw)
