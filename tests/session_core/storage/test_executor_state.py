"""How the SQLite store writes what executors keep: once, together with its event, and counted while it waits."""

from pathlib import Path

import pytest

from session_core.errors import StorageFailed
from session_core.storage.sqlite import SqliteStore
from session_core.testing.check_store_leaves import build_leaves, save
from session_core.testing.check_store_world import open_live_sessions
from tests.session_core.storage._harness import Gate, WatchedDisk, rows, serving_until_failure

SMALL, LARGE = build_leaves(b"small"), build_leaves(b"large" * 20_000)


async def test_a_leaf_is_written_once(tmp_path: Path) -> None:
    """A leaf that is there is not written again, however often it is handed over; one that is new goes alone."""
    disk = WatchedDisk()
    async with open_live_sessions(SqliteStore(tmp_path, connect=disk.connect)) as live:
        session_id = live.create()
        save(live, session_id, {**SMALL, **LARGE})
        await live.wait_durable()
        disk.statements.clear()
        save(live, session_id, {**SMALL, **LARGE})
        await live.wait_durable()
        assert [] == [each for each in disk.statements if each.startswith(("INSERT INTO leaf", "DELETE FROM leaf"))]
        save(live, session_id, LARGE, new={})
        await live.wait_durable()
    assert [bytes.fromhex(each) for each in LARGE] == [
        digest for (digest,) in rows(tmp_path, "SELECT digest FROM leaf")
    ]


async def test_many_leaves_come_back(tmp_path: Path) -> None:
    """More leaves than one statement takes are all written, and all read."""
    many = build_leaves(*(f"part {number}".encode() for number in range(1_500)))
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        session_id = live.create()
        save(live, session_id, many)
        assert many == await live.store.load_leaves(session_id, many)


async def test_leaves_count_into_the_backlog(tmp_path: Path) -> None:
    """Leaves that wait for the disk are counted, and no longer when they are written."""
    disk = WatchedDisk()
    async with open_live_sessions(SqliteStore(tmp_path, connect=disk.connect)) as live:
        session_id = live.create()
        await live.wait_durable()
        save(live, session_id, LARGE)
        assert 100_000 < live.store.backlog < 102_000
        await live.wait_durable()
        assert 0 == live.store.backlog


async def test_leaves_fail_with_their_event(tmp_path: Path) -> None:
    """When the commit fails, neither the leaves nor their event are there, and later ones are not taken over."""
    disk = WatchedDisk()
    async with serving_until_failure(SqliteStore(tmp_path, connect=disk.connect)) as live:
        session_id = live.create()
        await live.wait_durable()
        gate = Gate(disk)
        save(live, session_id, SMALL)
        gate.break_down()
        with pytest.raises(StorageFailed):
            await live.wait_durable()
        live.store.keep_leaves(session_id, LARGE)
        assert 0 == live.store.backlog
    assert [(1, 0)] == rows(tmp_path, "SELECT (SELECT count(*) FROM event), (SELECT count(*) FROM leaf)")
