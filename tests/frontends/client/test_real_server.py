"""The client and the server of a home, over its socket."""

from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from random import Random

import anyio
import anyio.abc
import attrs
import pytest

import session_core as sc
from frontends.client import open_client
from frontends.shared.socket_path import short_socket_name, socket_path_of_home
from session_core import limits
from session_core.ids import new_session_id
from session_core.testing.scripted import Hang, ScriptedProvider, text
from tests.frontends.client._real import RealServer, real_server
from tests.frontends.client._scripted import Mirror, listen, run, until_phase


def test_a_turn_is_followed(backend: str, tmp_path: Path) -> None:
    """What a client folds from a whole turn is what the service holds, for the session and for the list of all."""
    with real_server(tmp_path) as server:

        async def body() -> None:
            async with open_client(tmp_path, name="me", kind="script", client_id="ann") as client:
                session_id = (await client.create_session(name="x")).session_id
                mirror = Mirror()
                async with client.follow(session_id) as feed, client.follow(None) as session_list:
                    await client.send_user_message(session_id, "hello")
                    await client.wait_for_turn(session_id)
                    truth = await client.load_session(session_id)
                    await mirror.follow(feed, lambda state: state.sseq >= truth.sseq)
                    first = await anext(session_list)
                    assert isinstance(first, sc.ServiceSnapshot)
                    while first.cursor != truth.cursor:
                        event = await anext(session_list)
                        assert isinstance(event, sc.SessionEvent)
                        first = sc.apply(first, event)
                    assert await client.load_service() == first
                assert (1, 0) == (mirror.snapshots, feed.gaps)
                assert mirror.state is not None
                assert truth.messages == mirror.state.messages
                [me] = (await client.load_service()).clients
                assert ("ann", "me", "script", "controller") == (me.client_id, me.name, me.kind, me.role)
                status = await client.status()
                assert (1, 1, str(tmp_path)) == (status.sessions, status.clients, status.home)

        run(backend, body)
        assert server.home == tmp_path


def test_work_that_is_not_listed(backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of very many sessions some are not listed, but those of them at work are loaded all the same, each once."""
    monkeypatch.setattr(limits, "MAX_LIST_BYTES", 20_000)
    provider = ScriptedProvider((Hang(),))
    config = sc.ServiceConfig(store=sc.MemoryStore(), tools=(), models={"m": provider})

    async def body() -> None:
        async with open_client(tmp_path) as client:
            ids = [(await client.create_session(name=f"x{number}")).session_id for number in range(20)]
            listed = await client.load_service()
            assert ids[0] not in {each.session_id for each in listed.sessions}
            assert list(listed.sessions) == await client.load_sessions()
            await client.send_user_message(ids[0], "hello")
            await client.send_user_message(ids[-1], "hello")
            found = [each.session_id for each in await client.load_sessions()]
            assert sorted([ids[0], *(each.session_id for each in listed.sessions)]) == sorted(found)

    with real_server(tmp_path, config):
        run(backend, body)


def test_a_killed_server(backend: str, tmp_path: Path) -> None:
    """After the server was killed and another has taken its place, the client goes on, and nothing is done twice."""

    def config() -> sc.ServiceConfig:
        return sc.ServiceConfig(store=sc.SqliteStore(tmp_path), tools=())

    async def body() -> None:
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(in_thread(real_server(tmp_path, config())))
            client = await stack.enter_async_context(
                open_client(tmp_path, client_id="ann", pause_before=lambda _: 0.01)
            )
            created = await client.create_session(name="x", idempotency_key="once")
            mirror, feed = Mirror(), client.follow(created.session_id)
            await mirror.follow(feed, lambda state: True)
            await anyio.to_thread.run_sync(first.kill)
            server = await stack.enter_async_context(in_thread(real_server(tmp_path, config())))
            await client.rename_session(created.session_id, "y")
            await mirror.follow(feed, lambda state: state.name == "y")
            again = await client.create_session(name="x", idempotency_key="once")
            assert created.session_id == again.session_id
            assert 1 == len((await client.load_service()).sessions)
            truth = await anyio.to_thread.run_sync(server.snapshot, created.session_id)
            assert mirror.state is not None
            assert truth == attrs.evolve(mirror.state, cursor=truth.cursor)
            assert sc.Resync(reason="foreign_epoch") == feed.last_resync

    run(backend, body)


@asynccontextmanager
async def in_thread(server: AbstractContextManager[RealServer]) -> AsyncGenerator[RealServer]:
    """Start and end a server without holding up the loop."""
    running = await anyio.to_thread.run_sync(server.__enter__)
    try:
        yield running
    finally:
        with anyio.move_on_after(300, shield=True):
            await anyio.to_thread.run_sync(lambda: server.__exit__(None, None, None))


def test_refusals_of_the_real_server(backend: str, tmp_path: Path) -> None:
    """Names that are taken, observers that act, sessions that are not there: each is its typed error."""
    with real_server(tmp_path):

        async def body() -> None:
            async with open_client(tmp_path, client_id="ann") as client:
                with pytest.raises(sc.Conflict, match="ann"):
                    async with open_client(tmp_path, client_id="ann"):
                        pass
                with pytest.raises(sc.NotFound):
                    await client.follow(new_session_id()).receive_batch()
                with pytest.raises(sc.NotFound):
                    await client.load_session(new_session_id())
                created = await client.create_session()
                async with open_client(tmp_path, role="observer") as watcher, watcher.follow(None) as feed:
                    await feed.receive_batch()
                    with pytest.raises(sc.Forbidden):
                        await watcher.rename_session(created.session_id, "no")
                async with client.follow(created.session_id) as feed:
                    await feed.receive_batch()
                    await client.delete_session(created.session_id)
                    rest = [item async for item in feed]
                    assert all(isinstance(item, sc.SessionEvent) for item in rest)

        run(backend, body)


def test_a_clone_takes_over(backend: str, tmp_path: Path) -> None:
    """A client that comes with the same name and secret takes the place of the first, which is told and ends."""
    with real_server(tmp_path):

        async def body() -> None:
            async with open_client(tmp_path, client_id="ann", instance="secret") as first:
                async with open_client(tmp_path, client_id="ann", instance="secret") as second:
                    await until_phase(first, "ended")
                    with pytest.raises(sc.Disconnected, match="has reconnected"):
                        await first.load_service()
                    assert (await second.load_service()).sessions == ()

        run(backend, body)


def test_shutting_down_the_real_server(backend: str, tmp_path: Path) -> None:
    """A client can end the server, and is told that it has ended."""
    with real_server(tmp_path):

        async def body() -> None:
            async with open_client(tmp_path) as client:
                await client.shutdown()
                await until_phase(client, "ended")
                with pytest.raises(sc.Disconnected, match="shut down"):
                    await client.load_service()

        run(backend, body)


def test_a_home_with_a_long_path(backend: str, tmp_path: Path) -> None:
    """A server and its clients meet at a socket whose path is too long for the system."""
    home = tmp_path / ("x" * 100) / ("y" * 100)
    home.parent.mkdir()
    with real_server(home):

        async def body() -> None:
            async with open_client(home) as client:
                assert () == (await client.load_service()).sessions

        run(backend, body)


_BREAKS = (900, 300, 4_000, 1_500, 9_000, 200_000)  # one of them lets the longest frame through


@asynccontextmanager
async def faulty_line(path: Path, server: Path, chance: Random) -> AsyncGenerator[list[int]]:
    """A socket that leads to the server, over lines that break after some bytes; yields how many lines there were."""
    lines: list[int] = []

    async def carry(stream: anyio.abc.ByteStream) -> None:
        lines.append(_BREAKS[len(lines) % len(_BREAKS)] + chance.randrange(300))
        left = lines[-1]
        with short_socket_name(server) as name:
            behind = await anyio.connect_unix(name)
        async with stream, behind, anyio.create_task_group() as tasks:

            async def pass_on(source: anyio.abc.ByteStream, sink: anyio.abc.ByteStream) -> None:
                nonlocal left
                with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    while left > 0:
                        data = await source.receive(chance.choice([1, 50, 5_000]))
                        await sink.send(data[:left])
                        left -= len(data)
                tasks.cancel_scope.cancel()

            tasks.start_soon(pass_on, stream, behind)
            tasks.start_soon(pass_on, behind, stream)

    async with await listen(path) as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, carry)
        yield lines
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("seed", [1, 2])
def test_a_line_that_breaks_all_the_time(backend: str, tmp_path: Path, seed: int) -> None:
    """Over lines that break after some bytes, turns are run once each, and the folded state is that of the service."""
    answers = [text(*(f"{turn}:{word} " for word in range(40))) for turn in range(8)]
    config = sc.ServiceConfig(store=sc.MemoryStore(), tools=(), models={"m": ScriptedProvider(*answers)})
    with real_server(tmp_path / "home", config) as server:

        async def body() -> None:
            behind = socket_path_of_home(tmp_path / "home")
            async with (
                faulty_line(tmp_path / "s", behind, Random(seed)) as lines,
                open_client(address=tmp_path / "s", wait_s=20, pause_before=lambda _: 0.001) as client,
            ):
                session_id = (await client.create_session()).session_id
                mirror = Mirror()
                async with client.follow(session_id) as feed:
                    for turn in range(8):
                        await client.send_user_message(session_id, f"turn {turn}")
                        await client.wait_for_turn(session_id)
                    truth = await anyio.to_thread.run_sync(server.snapshot, session_id)
                    await mirror.follow(feed, lambda state: state.sseq >= truth.sseq)
                    assert 0 == feed.gaps
                assert mirror.state is not None
                assert truth == attrs.evolve(mirror.state, cursor=truth.cursor)
                assert 16 == len(truth.messages)
                assert len(lines) >= 6

        run(backend, body)
