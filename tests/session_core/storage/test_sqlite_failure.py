"""The SQLite store on a disk that fails: everybody is told, nothing is pretended, and reading goes on."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from session_core import limits
from session_core.errors import ProtocolError, StorageFailed
from session_core.ids import ClientId
from session_core.storage.base import StoredReply
from session_core.storage.sqlite import SqliteStore
from session_core.testing.check_store_world import NOWHERE, list_ids, open_live_sessions, read_journal
from session_core.vocabulary import events as ev
from session_core.vocabulary.replies import Acknowledged
from tests.session_core.storage._harness import Gate, WatchedDisk, serving_until_failure


@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "INSERT INTO event", "UPDATE session", "COMMIT"])
@pytest.mark.usefixtures("quiet_log")
async def test_a_failed_commit_is_the_last(tmp_path: Path, statement: str) -> None:
    """All who wait are told, the service learns it once, nothing more is written, and reading goes on."""
    disk = WatchedDisk()
    store = SqliteStore(tmp_path, connect=disk.connect)
    told: list[str] = []
    async with serving_until_failure(store) as live:
        session_id = live.create()
        live.say(session_id, "acknowledged")
        await live.wait_durable()
        acknowledged, seq = live.expected_journal(session_id), live.seq
        disk.fail(statement)

        async def call() -> None:
            live.say(session_id, "lost")
            try:
                await live.wait_durable()
            except StorageFailed as failure:
                told.append(failure.message)

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(call)
        disk.heal()
        assert 20 == len(told)
        assert "disk I/O error" in told[0]
        assert str(tmp_path) in told[0]
        assert store.failure is live.failures[0]
        live.say(session_id, "ignored")
        store.remember(StoredReply(client_id=ClientId("c"), key="k", fingerprint=b"", reply=None))
        store.forget(session_id)
        with pytest.raises(StorageFailed):
            await live.wait_durable()
        await store.wait_durable(seq)
        assert (0, seq, 1) == (store.backlog, store.durable_seq, len(live.failures))
        assert acknowledged == await read_journal(store, session_id), "reading goes on"
        assert 1 == len(await store.search("acknowledged", limit=5))
    async with open_live_sessions(SqliteStore(tmp_path)) as again:
        assert [session_id] == list_ids(again.opened.summaries)
        assert acknowledged == await read_journal(again.store, session_id)


@pytest.mark.usefixtures("quiet_log")
async def test_those_who_come_during_a_failing_commit_are_told(tmp_path: Path) -> None:
    """What was handed over while a failing commit was under way is not written either, and whoever waits learns it."""
    disk = WatchedDisk()
    async with serving_until_failure(SqliteStore(tmp_path, connect=disk.connect)) as live:
        gate = Gate(disk)
        told: list[str] = []

        async def call(name: str) -> None:
            live.create(name)
            try:
                await live.wait_durable()
            except StorageFailed:
                told.append(name)

        async def read() -> None:
            live.create("read")
            if not await live.store.list_sessions():
                told.append("read")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, "first")
            await gate.reached()
            nursery.start_soon(call, "second")
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            gate.break_down()
        assert ["first", "read", "second"] == sorted(told)
        assert 1 == len(live.failures)


@pytest.mark.usefixtures("quiet_log")
async def test_text_that_was_held_back_is_not_written_after_a_failure(tmp_path: Path, mock_clock: MockClock) -> None:
    """After a failure nothing is written, not even text of an answer; what was lost never counts as durable."""
    disk = WatchedDisk()
    store = SqliteStore(tmp_path, connect=disk.connect)
    async with serving_until_failure(store) as live:
        session_id = live.create()
        message_id = live.start_answer(session_id)
        await live.wait_durable()
        seq = live.seq
        live.record(session_id, ev.PartDelta(message_id=message_id, text="held back"))
        disk.fail("COMMIT")
        live.record(session_id, ev.SessionRenamed(name="lost"))
        with pytest.raises(StorageFailed):
            await live.wait_durable()
        disk.heal()
        written = disk.commits
        mock_clock.jump(2 * limits.PARTIAL_TEXT_EVERY_MS / 1000)
        await trio.testing.wait_all_tasks_blocked()
        await store.list_sessions()
        await trio.testing.wait_all_tasks_blocked()
        assert written == disk.commits
        assert (seq, 1) == (store.durable_seq, len(live.failures))
        with pytest.raises(StorageFailed):
            await store.wait_durable(live.seq)


@pytest.mark.usefixtures("quiet_log")
async def test_a_failure_while_closing_is_told(tmp_path: Path) -> None:
    """When the rest cannot be written, leaving the block says so, and the home is free all the same."""
    disk = WatchedDisk()
    async with serving_until_failure(SqliteStore(tmp_path, connect=disk.connect)) as live:
        live.create()
        await live.wait_durable()
        live.create("lost")
        disk.fail("COMMIT")
    async with open_live_sessions(SqliteStore(tmp_path)) as again:
        assert 1 == len(again.opened.summaries)


@pytest.mark.parametrize("key", ["\ud83d", "half \udc00"])
async def test_a_reply_that_cannot_be_written_is_refused(tmp_path: Path, key: str) -> None:
    """A key that has no encoding is refused when it comes, and is no failure of the disk later."""
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        reply = StoredReply(client_id=ClientId("c"), key=key, fingerprint=b"", reply=Acknowledged(cursor=NOWHERE))
        with pytest.raises(ProtocolError):
            live.store.remember(reply)
        live.create()
        await live.wait_durable()
        assert live.store.failure is None
    async with open_live_sessions(SqliteStore(tmp_path)) as again:
        assert () == again.opened.replies


def test_watched_disks_fail_as_disks_do(tmp_path: Path) -> None:
    """The disk of these tests fails where it was told to, and nowhere else."""
    disk = WatchedDisk()
    with closing(disk.connect(tmp_path, False)) as connection:
        connection.execute("CREATE TABLE t (x)")
        disk.fail("INSERT")
        with pytest.raises(sqlite3.OperationalError):
            connection.execute("INSERT INTO t VALUES (1)")
        disk.heal()
        connection.execute("INSERT INTO t VALUES (2)")
        assert [(2,)] == connection.execute("SELECT x FROM t").fetchall()
