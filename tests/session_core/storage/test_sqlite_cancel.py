"""Cancelling the SQLite store at any step tears nothing: no lock, no connection, no event is lost."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs

from session_core.ids import SessionId
from session_core.storage.sqlite import SqliteStore
from session_core.storage.sqlite_reader import SqliteReader
from session_core.testing.cancel_sweep import SweepRun, cancel_sweep
from session_core.testing.check_store_world import LiveSessions, check_loads, open_live_sessions, read_journal

# Only the steps of the swept task are counted, and a thread takes as long as it takes: no clock is needed.


@attrs.define
class World:
    """A running store with one session, and what the swept operation has noted."""

    live: LiveSessions
    session_id: SessionId
    done: list[str] = attrs.field(factory=list)


def running_store(directory: Path) -> Callable[[], AbstractAsyncContextManager[World]]:
    @asynccontextmanager
    async def prepare() -> AsyncGenerator[World]:
        with TemporaryDirectory(dir=directory) as home:
            async with open_live_sessions(SqliteStore(Path(home))) as live:
                session_id = live.create()
                live.say(session_id, "zephyrine")
                await live.wait_durable()
                yield World(live, session_id)
                assert live.store.failure is None
            async with open_live_sessions(SqliteStore(Path(home))) as again:
                assert live.expected_journal(session_id) == await read_journal(again.store, session_id)

    return prepare


def home_with_a_session(directory: Path) -> Callable[[], AbstractAsyncContextManager[Path]]:
    @asynccontextmanager
    async def prepare() -> AsyncGenerator[Path]:
        with TemporaryDirectory(dir=directory) as home:
            async with open_live_sessions(SqliteStore(Path(home))) as live:
                live.create()
            yield Path(home)

    return prepare


async def is_free_and_whole(home: Path, run: SweepRun) -> None:
    async with open_live_sessions(SqliteStore(home)) as live:
        names = [summary.name for summary in live.opened.summaries]
        assert "check" == names[0]
        assert ["check", "second"] == names or run.cancelled
        for summary in live.opened.summaries:
            assert await read_journal(live.store, summary.session_id)


async def test_opening_and_closing(tmp_path: Path) -> None:
    """Cancelled anywhere between opening and the end of the block, the home is free again and everything is whole."""

    async def operation(home: Path) -> None:
        async with open_live_sessions(SqliteStore(home)) as live:
            live.create("second")
            await live.wait_durable()

    assert await cancel_sweep(home_with_a_session(tmp_path), operation, is_free_and_whole) > 5


async def test_reading_beside_a_writer(tmp_path: Path) -> None:
    """Cancelled anywhere, a reader of its own leaves no connection open and disturbs nobody."""

    async def operation(world: World) -> None:
        store = world.live.store
        assert isinstance(store, SqliteStore)
        reader = SqliteReader(store.home)
        async with reader.open_reader():
            await check_loads(world.live, world.session_id)
            assert 1 == len(await reader.search("zephyrine", limit=5))

    async def check(world: World, run: SweepRun) -> None:
        await check_loads(world.live, world.session_id)

    assert await cancel_sweep(running_store(tmp_path), operation, check) > 3


async def test_reading(tmp_path: Path) -> None:
    """Cancelled anywhere, loading, searching and paging disturb neither the store nor the next reader."""

    async def operation(world: World) -> None:
        store = world.live.store
        await store.load(world.session_id)
        await store.search("zephyrine", limit=5)
        await store.load_messages(world.session_id, before=9, limit=9)
        async for _ in store.journal(world.session_id):
            world.done.append("page")

    async def check(world: World, run: SweepRun) -> None:
        await check_loads(world.live, world.session_id)
        assert 1 == len(await world.live.store.search("zephyrine", limit=5))
        assert ["page"] == world.done or run.cancelled

    assert await cancel_sweep(running_store(tmp_path), operation, check) > 3


async def test_waiting_for_the_disk(tmp_path: Path) -> None:
    """Cancelled anywhere, somebody who waits takes nothing back: what was handed over is written all the same."""

    async def operation(world: World) -> None:
        for number in range(3):
            world.live.say(world.session_id, f"message {number}")
            world.done.append("said")
            await world.live.wait_durable()
            assert world.live.seq == world.live.store.durable_seq
            world.done.append("durable")

    async def check(world: World, run: SweepRun) -> None:
        await world.live.wait_durable()
        said = world.done.count("said")
        assert 1 + said == len(world.live.messages[world.session_id])
        assert world.live.expected_journal(world.session_id) == await read_journal(world.live.store, world.session_id)
        assert 3 == world.done.count("durable") or run.cancelled

    assert await cancel_sweep(running_store(tmp_path), operation, check) > 3
