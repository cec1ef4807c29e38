"""A client has the methods of the service, and survives its connections."""

from pathlib import Path
from typing import Any

import anyio
import pytest

import session_core as sc
from tests.frontends.client._scripted import (
    SESSION,
    Connection,
    Mirror,
    ScriptedServer,
    goodbye,
    refuse,
    run,
    tell,
    until,
    until_phase,
)


@pytest.fixture
def server(tmp_path: Path) -> ScriptedServer:
    """A server that is not running yet."""
    return ScriptedServer(tmp_path / "run" / "service.sock")


def test_commands_and_feeds(backend: str, server: ScriptedServer) -> None:
    """Commands get their typed replies, and a feed gives a snapshot and then events that fold to the server's state."""

    async def body() -> None:
        async with server.running(), server.client(name="me", kind="script", client_id="ann") as client:
            assert ("ann", "connected") == (client.client_id, client.state.phase)
            async with client.follow(SESSION) as feed:
                first = await feed.receive_batch()
                assert [server.state] == first
                assert (1, sc.Resync(reason="initial")) == (feed.resyncs, feed.last_resync)
                reply = await client.rename_session(SESSION, "a")
                assert sc.replies.Acknowledged(cursor=server.cursor) == reply
                events = await feed.receive_batch()
                assert server.state == sc.fold(first[0], events) == await client.load_session(SESSION)
                assert server.cursor == feed.cursor
            with pytest.raises(sc.ServiceClosed):
                await feed.receive_batch()
            await client.load_session(SESSION)
        assert ["hello", "follow", "execute", "execute", "unfollow", "execute"] == server.asked

    run(backend, body)


def test_the_iterator_moves_the_cursor_item_by_item(backend: str, server: ScriptedServer) -> None:
    """While items of a batch are handed out one by one, the cursor says how far exactly the reader has come."""

    async def body() -> None:
        async with server.running(), server.client() as client:
            async with client.follow(SESSION) as feed:
                await feed.receive_batch()
                for name in "abc":
                    server.happen(name)
                await server.flush_all()
                seen = []
                async for item in feed:
                    seen.append((item.seq, feed.cursor.seq))
                    if item.seq == 2:
                        break
                assert [(1, 1), (2, 2)] == seen
                assert server.events[2:] == await feed.receive_batch()
                assert server.cursor == feed.cursor

    run(backend, body)


def test_a_feed_goes_on_after_a_cursor(backend: str, server: ScriptedServer) -> None:
    """A feed that begins at a cursor gives what came after it, without a snapshot."""
    server.happen("a")
    cursor = server.cursor
    server.happen("b")

    async def body() -> None:
        async with server.running(), server.client() as client, client.follow(SESSION, after=cursor) as feed:
            assert server.events[1:] == await feed.receive_batch()
            assert (0, server.cursor) == (feed.resyncs, feed.cursor)

    run(backend, body)


def test_typed_errors_travel(backend: str, server: ScriptedServer) -> None:
    """What the server refuses is raised as the typed error that it is, by commands and by feeds."""

    def answer(_: ScriptedServer, __: Connection, request: sc.wire.Request) -> list[bytes] | None:
        if request.method == "follow":
            return [refuse(request, sc.NotFound("no such session", field="session_id"))]
        return None

    server.answer = answer

    async def body() -> None:
        async with server.running(), server.client() as client:
            with pytest.raises(sc.NotFound) as caught:
                await client.archive_session(SESSION)
            assert "session_id" == caught.value.field
            with pytest.raises(sc.NotFound):
                await client.follow(SESSION).receive_batch()
            with pytest.raises(sc.InvalidInput):
                client.follow(5)
            with pytest.raises(sc.InvalidInput):
                await client.execute("not a command")
            with pytest.raises(sc.InvalidInput):
                await client.rename_session(SESSION, 7)

    run(backend, body)


def test_errors_of_the_block_are_not_wrapped(backend: str, server: ScriptedServer) -> None:
    """An error raised within the block of a client comes out as it is, not as a group."""

    async def body() -> None:
        async with server.running():
            with pytest.raises(ZeroDivisionError):
                async with server.client():
                    raise ZeroDivisionError

    run(backend, body)


def test_no_server(backend: str, server: ScriptedServer) -> None:
    """Without a server, opening a client says so at once, and how to start one."""

    async def body() -> None:
        with pytest.raises(sc.Disconnected, match=r"no server runs at .*session-core serve"):
            async with server.client():
                pass
        server.path.parent.mkdir()
        server.path.touch()
        with pytest.raises(sc.Disconnected, match="session-core serve"):
            async with server.client():
                pass

    run(backend, body)


def test_waiting_for_a_server(backend: str, server: ScriptedServer) -> None:
    """With some patience, a client connects to a server that is only just being started."""

    async def body() -> None:
        async with anyio.create_task_group() as tasks:
            states: list[Any] = []
            tried = anyio.Event()

            def note(state: object) -> None:
                states.append(state)
                if len(states) == 3:
                    tried.set()

            async def start_late() -> None:
                await tried.wait()
                async with server.running():
                    await anyio.sleep_forever()

            tasks.start_soon(start_late)
            async with server.client(wait_s=60, on_state=note) as client:
                assert "connected" == client.state.phase
            assert ["connecting"] * 3 == [state.phase for state in states[:3]]
            assert [1, 2, 3] == [state.attempt for state in states[:3]]
            tasks.cancel_scope.cancel()
        with pytest.raises(sc.Disconnected, match="no server runs"):
            async with server.client(wait_s=0.05):
                pass

    run(backend, body)


@pytest.mark.parametrize(
    "error", [sc.Conflict("there is one already", field="client_id"), sc.AccessDenied("no"), sc.InvalidInput("what?")]
)
def test_a_refused_greeting(backend: str, server: ScriptedServer, error: sc.SessionCoreError) -> None:
    """A server that does not take a client says why, and the client does not try again."""
    server.answer = lambda _, __, request: [refuse(request, error)]

    async def body() -> None:
        async with server.running():
            with pytest.raises(type(error), match=error.message):
                async with server.client(wait_s=20):
                    pass
        assert ["hello"] == server.asked

    run(backend, body)


def test_a_lost_connection(backend: str, server: ScriptedServer) -> None:
    """After a cut, the client greets as the same one, its feed goes on without a snapshot, and everybody can see it."""
    states: list[Any] = []

    async def body() -> None:
        async with server.running(), server.client(on_state=states.append) as client:
            mirror = Mirror()
            async with client.follow(SESSION) as feed:
                await mirror.follow(feed, lambda state: True)
                await server.cut_all()
                server.happen("meanwhile")
                await mirror.follow(feed, lambda state: state.name == "meanwhile")
            assert (1, 1, 0) == (mirror.snapshots, feed.resyncs, feed.gaps)
            assert server.state == mirror.state
        first, second = server.hellos
        assert ("client_given", first.instance) == (second.client_id, second.instance)
        assert first.instance
        assert ["connected", "lost", "connected", "ended"] == [state.phase for state in states]
        assert "the service has closed the connection" == states[1].reason

    run(backend, body)


def test_another_epoch(backend: str, server: ScriptedServer) -> None:
    """A server that is another run refuses the cursor, and the feed goes on with one snapshot that says why."""

    async def body() -> None:
        async with server.running(), server.client() as client, client.follow(SESSION) as feed:
            mirror = Mirror()
            server.happen("before")
            await mirror.follow(feed, lambda state: True)
            server.restart("run_b")
            await server.cut_all()
            server.happen("after")
            await mirror.follow(feed, lambda state: state.name == "after")
            assert (2, sc.Resync(reason="foreign_epoch")) == (feed.resyncs, feed.last_resync)
            assert server.state == mirror.state
            assert "run_b" == client.state.welcome.epoch

    run(backend, body)


def test_giving_up(backend: str, server: ScriptedServer) -> None:
    """A request gives up after its patience, a feed does not, and both go on when the server is back."""

    async def body() -> None:
        async with server.running(), server.client(patience_s=0.05) as client, client.follow(SESSION) as feed:
            await feed.receive_batch()
            server.path.unlink()  # nobody can come in
            await server.cut_all()
            await until(lambda: "no server runs" in client.state.reason)
            with pytest.raises(sc.Disconnected, match="no server runs"):
                await client.load_session(SESSION)
            async with ScriptedServer(server.path, epoch="run_c").running():
                [snapshot] = await feed.receive_batch()
                assert "run_c" == snapshot.cursor.epoch
                assert snapshot == await client.load_session(SESSION)

    run(backend, body)


def test_a_command_for_now(backend: str, server: ScriptedServer) -> None:
    """A command for now is not sent again after a lost connection, and without one it is not sent at all."""

    async def body() -> None:
        rename = sc.commands.RenameSession(session_id=SESSION, name="a")
        async with server.running(), server.client() as client:
            reply = await client.execute_now(rename)
            assert sc.replies.Acknowledged(cursor=server.cursor) == reply
            server.connections[-1].budget = 0  # the reply is lost
            with pytest.raises(sc.Disconnected, match="the connection to the server is lost"):
                await client.execute_now(rename)
            with pytest.raises(sc.Disconnected, match="the connection to the server is lost"):
                await client.execute_now(rename)
            await client.load_session(SESSION)
            assert ["hello", "execute", "execute", "hello", "execute"] == server.asked

    run(backend, body)


def test_a_last_goodbye(backend: str, server: ScriptedServer) -> None:
    """A server that does not want the client any more ends it, with its reason, for feeds and requests alike."""

    async def body() -> None:
        async with server.running(), server.client() as client, client.follow(SESSION) as feed:
            await feed.receive_batch()
            await server.send(server.connections[0], goodbye("you are replaced", retry=False))
            with pytest.raises(sc.Disconnected, match="you are replaced"):
                await feed.receive_batch()
            with pytest.raises(sc.Disconnected, match="you are replaced"):
                await client.load_session(SESSION)
            with pytest.raises(sc.Disconnected, match="you are replaced"):
                client.follow(SESSION)
            assert ("ended", 1) == (client.state.phase, len(server.hellos))

    run(backend, body)


def test_a_passing_goodbye(backend: str, server: ScriptedServer) -> None:
    """After a goodbye that invites to come back, the client does."""

    async def body() -> None:
        async with server.running(), server.client() as client, client.follow(SESSION) as feed:
            await feed.receive_batch()
            await server.send(server.connections[0], goodbye("back soon", retry=True))
            server.happen("x")
            assert server.events == await feed.receive_batch()
            assert 2 == len(server.hellos)

    run(backend, body)


def test_shutdown(backend: str, server: ScriptedServer) -> None:
    """Shutting a server down returns when it has agreed, also if its last word was the goodbye, and ends the client."""

    async def body() -> None:
        async with server.running():
            async with server.client() as client:
                await client.shutdown()
                await until_phase(client, "ended")
            server.answer = lambda _, __, asked: [goodbye("ends", retry=False)] if asked.method == "shutdown" else None
            async with server.client() as client:
                await client.shutdown(force=True)
            assert [{"force": False}, {"force": True}] == [each for each in server.params if "force" in each]
            server.answer = None
            async with server.client() as client:
                server.connections[-1].budget = 0
                with pytest.raises(sc.Disconnected):
                    await client.shutdown()

    run(backend, body)


def test_silence_means_a_lost_connection(backend: str, server: ScriptedServer) -> None:
    """A server that says nothing for twice its heartbeat is given up, and the client connects anew."""

    async def body() -> None:
        async with server.running(), server.client() as client, client.follow(SESSION) as feed:
            await feed.receive_batch()
            server.heartbeat_ms = 20
            await server.cut_all()
            while "sent nothing" not in client.state.reason:
                await client.state_change()
            assert ("lost", "the server has sent nothing for 0.04 s") == (client.state.phase, client.state.reason)
            server.heartbeat_ms = 60_000
            await until_phase(client, "connected")
            await client.rename_session(SESSION, "still there")
            assert server.events == await feed.receive_batch()

    run(backend, body)


def test_heartbeats_move_the_cursor(backend: str, server: ScriptedServer) -> None:
    """A heartbeat says from where a quiet feed can be resumed, and keeps the connection alive."""

    async def body() -> None:
        async with server.running(), server.client() as client, client.follow(SESSION) as feed:
            await feed.receive_batch()
            place = sc.Cursor(epoch=sc.Epoch("run_a"), seq=40)
            beat = sc.wire.Heartbeat(
                at=1, feeds=(sc.wire.FeedPlace(feed=1, cursor=place), sc.wire.FeedPlace(feed=9, cursor=place))
            )
            await server.send(server.connections[0], tell("heartbeat", beat))
            await client.load_session(SESSION)
            assert place == feed.cursor

    run(backend, body)
