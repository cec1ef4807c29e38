"""The SQLite store: group commit; see also `test_sqlite_open`, `test_sqlite_failure` and `test_check_store`."""

from pathlib import Path

import trio
import trio.testing
from trio.testing import MockClock

from session_core import limits
from session_core.storage.sqlite import SqliteStore
from session_core.testing.check_store_world import open_live_sessions, read_journal
from session_core.vocabulary import events as ev
from tests.session_core.storage._harness import Gate, WatchedDisk, rows

# --- group commit -----------------------------------------------------------------------------------------------------


async def test_many_waiting_callers_share_a_commit(tmp_path: Path) -> None:
    """What many callers hand over in one moment is one transaction, and so is all that comes while it is written."""
    disk = WatchedDisk()
    async with open_live_sessions(SqliteStore(tmp_path, connect=disk.connect)) as live:
        session_id = live.create()
        await live.wait_durable()
        before = disk.commits
        gate = Gate(disk)

        async def call() -> None:
            live.say(session_id, "a command")
            await live.wait_durable()

        async with trio.open_nursery() as nursery:
            for _ in range(200):
                nursery.start_soon(call)
            await gate.reached()
            for _ in range(100):
                nursery.start_soon(call)
            await trio.testing.wait_all_tasks_blocked()
            gate.open()
        assert 2 == disk.commits - before
        assert [(301,)] == rows(tmp_path, "SELECT count(*) FROM event")


async def test_a_busy_store_writes_too(tmp_path: Path) -> None:
    """However busy the others are, somebody who waits is not put off for ever: here, for two hundred ticks."""
    store = SqliteStore(tmp_path)
    async with open_live_sessions(store) as live:
        session_id = live.create()
        written = trio.Event()

        async def wait() -> None:
            await live.wait_durable()
            written.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            for _ in range(200):
                live.record(session_id, ev.SessionRenamed(name="busy"))
                await trio.lowlevel.checkpoint()
                if is_writing(store) or written.is_set():
                    break
            else:
                raise AssertionError("two hundred steps came, and nothing was written")


def is_writing(store: SqliteStore) -> bool:
    return store._in_writing is not None


async def test_what_nobody_waits_for_is_written_soon(tmp_path: Path, mock_clock: MockClock) -> None:
    """Events that nobody waits for gather for a moment, and are written when it is over or when they are many."""
    store = SqliteStore(tmp_path)
    async with open_live_sessions(store) as live:
        session_id = live.create()
        await trio.testing.wait_all_tasks_blocked()
        assert not is_writing(store), "they should gather"
        mock_clock.jump(limits.COMMIT_AFTER_MS / 1000)
        await trio.testing.wait_all_tasks_blocked()
        await store.list_sessions()
        assert live.seq == store.durable_seq
        for _ in range(limits.COMMIT_AFTER_STEPS):
            assert not is_writing(store)
            live.record(session_id, ev.SessionRenamed(name="many"))
        for _ in range(100):
            await trio.lowlevel.checkpoint()
            if is_writing(store) or live.seq == store.durable_seq:
                break
        else:
            raise AssertionError("many events came, and nothing was written")


async def test_an_idle_store_writes_at_once(tmp_path: Path) -> None:
    """A single event does not wait for company."""
    disk = WatchedDisk()
    async with open_live_sessions(SqliteStore(tmp_path, connect=disk.connect)) as live:
        session_id = live.create()
        for _ in range(5):
            before = disk.commits
            live.say(session_id, "alone")
            await live.wait_durable()
            assert 1 == disk.commits - before
            assert live.seq == live.store.durable_seq


async def test_the_file_never_holds_half_a_step(tmp_path: Path) -> None:
    """Seen from a second connection after every commit, each step is there with all its events, or not at all."""
    disk = WatchedDisk()
    seen: list[list[int]] = []

    def look(statement: str) -> None:
        if statement == "COMMIT":
            found = rows(tmp_path, "SELECT count(*) FROM event GROUP BY session ORDER BY session")
            listed = rows(tmp_path, "SELECT last_n FROM session WHERE name != '' ORDER BY id")
            assert found == listed, "events and the list do not fit"
            seen.append([count for (count,) in found])

    async with open_live_sessions(SqliteStore(tmp_path, connect=disk.connect)) as live:
        disk.after = look
        sessions = [live.create(f"number {number}") for number in range(3)]
        for number in range(30):
            for session_id in sessions:  # one step: a message in each
                live.say(session_id, f"step {number}")
            for _ in range(number % 3):
                await trio.lowlevel.checkpoint()
            if number % 3 == 0:
                await live.wait_durable()
        await live.wait_durable()
    assert [31, 31, 31] == seen[-1]
    assert len(seen) > 5, "the check should see many commits"
    assert all(len(counts) == 3 and len(set(counts)) == 1 for counts in seen), "half a step was durable"


async def test_the_backlog_counts_what_waits(tmp_path: Path) -> None:
    """The backlog grows with what is handed over, and shrinks only when that is written."""
    disk = WatchedDisk()
    async with open_live_sessions(SqliteStore(tmp_path, connect=disk.connect)) as live:
        gate = Gate(disk)
        session_id = live.create()
        live.say(session_id, "x" * 10_000)
        waiting = live.store.backlog
        assert 10_000 < waiting < 12_000
        await gate.reached()
        assert waiting == live.store.backlog
        live.say(session_id, "x" * 20_000)
        assert 30_000 < live.store.backlog < 32_000
        gate.open()
        await live.wait_durable()
        assert 0 == live.store.backlog


async def test_a_caller_who_gives_up_takes_nothing_back(tmp_path: Path) -> None:
    """Cancelling a wait in the middle of a commit leaves the commit, its events and the other callers alone."""
    disk = WatchedDisk()
    async with open_live_sessions(SqliteStore(tmp_path, connect=disk.connect)) as live:
        session_id = live.create()
        gate = Gate(disk)
        done = 0

        async def call() -> None:
            nonlocal done
            await live.wait_durable()
            done += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            with trio.CancelScope() as scope:
                nursery.start_soon(gate.reached)
                await gate.reached()
                scope.cancel()
                await live.wait_durable()
            assert scope.cancelled_caught
            gate.open()
        assert 1 == done
        assert live.expected_journal(session_id) == await read_journal(live.store, session_id)


async def test_reading_waits_for_what_was_handed_over(tmp_path: Path) -> None:
    """Whoever reads right after handing something over reads that too."""
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        for number in range(5):
            session_id = live.create(f"number {number}")
            live.say(session_id, f"quick{number}")
            assert 1 == len(await live.store.search(f"quick{number}", limit=5))
            live.delete(session_id)
            assert await live.store.load(session_id) is None
