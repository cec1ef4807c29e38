"""Wherever a connection is cut, nothing is lost, nothing is done twice, and what was folded is the server's state."""

from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

import session_core as sc
from tests.frontends.client._scripted import SESSION, Mirror, ScriptedServer, run, tell


async def play(server: ScriptedServer) -> None:
    """Three commands and a feed, over however many connections, and a look at what became of it."""
    mirror = Mirror()
    async with (
        server.running(),
        server.client(client_id="ann", wait_s=20) as client,
        client.follow(SESSION) as feed,
    ):
        for name in "abc":
            await client.rename_session(SESSION, name)
        loaded = await client.load_session(SESSION)
        await mirror.follow(feed, lambda state: state.sseq == 3)
        assert ["a", "b", "c"] == server.done
        assert server.state == loaded == mirror.state
        assert server.cursor == feed.cursor
        assert 0 == feed.gaps


def test_a_cut_at_every_place(backend: str, tmp_path: Path) -> None:
    """A connection that is cut before, within and after each frame is taken up again without any harm."""
    whole = ScriptedServer(tmp_path / "s")
    run(backend, lambda: play(whole))
    ends = list(accumulate(map(len, whole.connections[0].sent)))
    assert len(ends) >= 9
    places = sorted({0, 1, *(end + shift for end in ends for shift in (-20, -1, 0, 1))})
    for place in places:
        server = ScriptedServer(tmp_path / "s", cuts=[place])
        run(backend, lambda server=server: play(server))  # type: ignore[misc]
        assert 2 == len(server.connections) or place >= ends[-1]


def test_several_cuts(backend: str, tmp_path: Path) -> None:
    """Connections that are cut again and again, each a little later, get everything done in the end."""
    server = ScriptedServer(tmp_path / "s", cuts=list(range(0, 2_600, 130)))
    run(backend, lambda: play(server))
    assert {"ann"} == {hello.client_id for hello in server.hellos}
    assert 1 == len({hello.instance for hello in server.hellos})


STEPS = st.lists(
    st.one_of(
        st.just(("event", 0)),
        st.just(("flush", 0)),
        st.tuples(st.just("cut"), st.integers(0, 900)),
        st.just(("cut now", 0)),
        st.just(("twice", 0)),
        st.just(("lag", 0)),
        st.just(("drop", 0)),
        st.just(("expire", 0)),
        st.just(("restart", 0)),
        st.just(("command", 0)),
        st.just(("read", 0)),
    ),
    max_size=14,
)


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
@given(steps=STEPS, chance=st.random_module())
def test_whatever_happens_on_the_way(
    backend: str, tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], chance: object
) -> None:
    """After any schedule of events, cuts, repeats, lags, holes and restarts, the folded state is the server's."""
    server = ScriptedServer(tmp_path_factory.mktemp("s") / "s")
    run(backend, lambda: follow_through(server, steps))


async def follow_through(server: ScriptedServer, steps: list[tuple[str, int]]) -> None:
    """Play the steps, then read until the client is where the server is."""
    mirror = Mirror()
    async with server.running(), server.client() as client, client.follow(SESSION) as feed:
        for turn, (step, number) in enumerate(steps):
            if step == "command":
                await client.rename_session(SESSION, f"command {turn}")
            elif step == "read":
                with anyio.move_on_after(0):
                    mirror.take(await feed.receive_batch())
            else:
                await disturb(server, step, number, turn)
        server.doctor = None
        await client.rename_session(SESSION, "the end")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(mirror.follow, feed, lambda state: state.cursor == server.cursor)
            tasks.start_soon(server.flush_all)
        assert server.state == mirror.state
        assert len(set(server.done)) == len(server.done)
        assert server.cursor == feed.cursor


async def disturb(server: ScriptedServer, step: str, number: int, turn: int) -> None:
    """Let something happen at the server."""
    match step:
        case "event":
            server.happen(f"event {turn}")
        case "flush":
            await server.flush_all()
        case "cut":
            for connection in server.connections:
                connection.budget = number
        case "cut now":
            await server.cut_all()
        case "twice":
            server.doctor = lambda batch: [tell("feed", batch), tell("feed", batch)]
        case "lag":
            server.doctor = lag_once(server)
        case "drop":
            server.doctor = drop_once(server)
        case "expire":
            server.keeps_from = server.cursor.seq
        case _:
            server.restart(f"run_{turn}")
            server.keeps_from = 0
            await server.cut_all()


Doctor = Callable[[sc.wire.FeedBatch], list[bytes]]


def lag_once(server: ScriptedServer) -> Doctor:
    """Send a snapshot in place of the next batch, as for a reader that fell behind."""

    def doctor(batch: sc.wire.FeedBatch) -> list[bytes]:
        server.doctor = None
        lagged = sc.wire.FeedBatch(
            feed=batch.feed, items=(server.state,), cursor=server.cursor, resync="lagged", missed=len(batch.items)
        )
        return [tell("feed", lagged)]

    return doctor


def drop_once(server: ScriptedServer) -> Doctor:
    """Leave out the first event of the next batch, as no server should."""

    def doctor(batch: sc.wire.FeedBatch) -> list[bytes]:
        server.doctor = None
        return [tell("feed", sc.wire.FeedBatch(feed=batch.feed, items=batch.items[1:], cursor=batch.cursor))]

    return doctor
