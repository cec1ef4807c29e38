"""A reader that does not read costs little and holds nobody up, and giving up anywhere leaves the client usable."""

from itertools import count
from pathlib import Path

import anyio
import pytest

import session_core as sc
from frontends.client.feed import MAX_WAITING_ITEMS
from tests._mostly_slow import mostly_slow
from tests.frontends.client._scripted import (
    SESSION,
    Mirror,
    ScriptedServer,
    run,
    tell,
    until,
    until_phase,
)


@pytest.fixture
def server(tmp_path: Path) -> ScriptedServer:
    """A server that is not running yet."""
    return ScriptedServer(tmp_path / "s")


@pytest.mark.parametrize("by", mostly_slow(["bytes", "items"], quick=1))
def test_a_reader_that_does_not_read(backend: str, server: ScriptedServer, by: str) -> None:
    """A feed that nobody reads is cut at a bound while commands go on, and its reader then misses nothing."""
    steps, size = (MAX_WAITING_ITEMS // 400 + 3, 1) if by == "items" else (14, 1_200)

    async def body() -> None:
        async with server.running(), server.client() as client, client.follow(SESSION) as feed:
            mirror = Mirror()
            mirror.take(await feed.receive_batch())
            for step in range(steps):
                for number in range(400):
                    server.happen(f"{step}.{number} " + "x" * size)
                await server.flush_all()
                await client.load_session(SESSION)  # answered, although nobody reads the feed
            assert 1 == feed.cuts
            assert feed._waiting_items <= MAX_WAITING_ITEMS + 400
            assert feed._waiting_bytes <= 4 * 1024 * 1024
            assert ["hello", "follow"] == [each for each in server.asked if each not in {"execute", "unfollow"}]
            last = server.events[-1].event
            assert isinstance(last, sc.events.SessionRenamed)
            await mirror.follow(feed, lambda state: state.name == last.name)
            assert server.state == mirror.state
            assert (1, 0) == (mirror.snapshots, feed.gaps)

    run(backend, body)


def test_a_cut_feed_stays_at_rest_over_a_reconnect(backend: str, server: ScriptedServer) -> None:
    """A feed that was cut as nobody read it is not asked for again by a reconnect, but by its reader."""

    async def body() -> None:
        async with server.running(), server.client() as client, client.follow(SESSION) as feed:
            mirror = Mirror()
            mirror.take(await feed.receive_batch())
            for _ in range(2):
                for number in range(MAX_WAITING_ITEMS):
                    server.happen(str(number))
                await server.flush_all()
            await client.load_session(SESSION)
            assert 1 == feed.cuts
            await server.cut_all()
            await until_phase(client, "lost")
            await client.load_session(SESSION)
            assert 1 == server.asked.count("follow")
            server.keeps_from = server.cursor.seq
            await mirror.follow(feed, lambda state: state.cursor == server.cursor)
            assert (2, sc.Resync(reason="expired")) == (mirror.snapshots, feed.last_resync)
            assert server.state == mirror.state

    run(backend, body)


def test_a_lag_is_told(backend: str, server: ScriptedServer) -> None:
    """A snapshot in band says why it is there and how many events it stands for."""

    async def body() -> None:
        async with server.running(), server.client() as client, client.follow(SESSION) as feed:
            await feed.receive_batch()
            for name in "abc":
                server.happen(name)
            batch = sc.wire.FeedBatch(feed=1, items=(server.state,), cursor=server.cursor, resync="lagged", missed=3)
            await server.send(server.connections[0], tell("feed", batch))
            assert [server.state] == await feed.receive_batch()
            assert (2, sc.Resync(reason="lagged", missed=3)) == (feed.resyncs, feed.last_resync)

    run(backend, body)


def test_a_cancelled_request_is_told(backend: str, server: ScriptedServer) -> None:
    """Giving up a request tells the server which one, and its late reply harms nobody."""

    async def body() -> None:
        async with server.running(), server.client() as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.wait_for_turn, SESSION)
                await until(lambda: "execute" in server.asked)
                tasks.cancel_scope.cancel()
            await client.load_session(SESSION)
            assert ["hello", "execute", "$/cancel", "execute"] == server.asked
            assert {"id": 2} == server.params[2]
            await server.send(server.connections[0], b'{"jsonrpc":"2.0","id":2,"result":{}}\n')
            assert server.state == await client.load_session(SESSION)

    run(backend, body)


def test_cancelled_anywhere(backend: str, server: ScriptedServer) -> None:
    """Requests, readings and follows that are cancelled after any number of steps leave a client that works."""

    async def body() -> None:
        async with server.running(), server.client() as client, client.follow(SESSION) as feed:
            mirror, names = Mirror(), count()

            async def work() -> None:
                await client.rename_session(SESSION, f"{next(names)}")
                mirror.take(await feed.receive_batch())
                async with client.follow(SESSION) as other:
                    await other.receive_batch()
                await client.load_session(SESSION)

            for steps in range(40):
                if steps % 7 == 6:
                    await server.cut_all()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(work)
                    for _ in range(steps):
                        await anyio.lowlevel.checkpoint()
                    tasks.cancel_scope.cancel()
            await client.rename_session(SESSION, "the end")
            await mirror.follow(feed, lambda state: state.name == "the end")
            assert server.state == mirror.state
            assert len(set(server.done)) == len(server.done)
            assert {feed} == set(client._feeds)
            assert {feed} == set(client.feeds_by_number.values())

    run(backend, body)


def test_cancelled_while_opening(backend: str, server: ScriptedServer) -> None:
    """An opening that is cancelled after any number of steps leaves nothing behind."""

    async def body() -> None:
        async with server.running():
            opened = 0
            for steps in range(60):

                async def work() -> None:
                    nonlocal opened
                    async with server.client() as client:
                        opened += 1
                        await client.wait_for_turn(SESSION)

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(work)
                    for _ in range(steps):
                        await anyio.lowlevel.checkpoint()
                    tasks.cancel_scope.cancel()
            assert 0 < opened < 60

    run(backend, body)


def test_waiting_requests_end_with_the_client(backend: str, server: ScriptedServer) -> None:
    """Requests and feeds of other tasks end with a typed error when the block of their client is left."""

    async def body() -> None:
        ended: list[str] = []
        async with server.running(), anyio.create_task_group() as tasks:

            async def wait(what: object, begun: anyio.Event) -> None:
                begun.set()
                try:
                    await what  # type: ignore[misc]
                except sc.ServiceClosed:
                    ended.append("closed")

            async with server.client() as client:
                feed = client.follow(SESSION)
                await feed.receive_batch()
                for what in (client.wait_for_turn(SESSION), feed.receive_batch()):
                    begun = anyio.Event()
                    tasks.start_soon(wait, what, begun)
                    await begun.wait()
                await client.load_session(SESSION)
            with pytest.raises(sc.ServiceClosed):
                await client.load_session(SESSION)
            with pytest.raises(sc.ServiceClosed):
                client.follow(SESSION)
        assert ["closed", "closed"] == ended

    run(backend, body)


def test_a_failing_listener_harms_nobody(
    backend: str, server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A function that hears of the state and fails is logged, and the client goes on."""

    def fail(_: object) -> None:
        raise ZeroDivisionError

    async def body() -> None:
        async with server.running(), server.client(on_state=fail) as client:
            assert server.state == await client.load_session(SESSION)

    run(backend, body)
    assert "state failed" in caplog.text
