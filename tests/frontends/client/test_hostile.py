"""Whatever a server sends, there is a typed error or a new connection, never a hang or a traceback."""

import json
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

import session_core as sc
from frontends.client.backoff import LONGEST_PAUSE_S, pause_before
from frontends.client.link import MAX_FRAMES
from session_core import limits
from tests.frontends.client._scripted import (
    SESSION,
    Connection,
    Mirror,
    ScriptedServer,
    empty_session,
    listen,
    run,
    tell,
    until_phase,
)


@pytest.fixture
def server(tmp_path: Path) -> ScriptedServer:
    """A server that is not running yet."""
    return ScriptedServer(tmp_path / "s")


HARMLESS = [
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
    b"\x00\xff\xfe{\n[]\n{}\n\n\n",
    b'{"jsonrpc":"2.0","id":999,"result":{}}\n',
    b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"both"}}\n' * 2,
    b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"to nothing"}}\n',
    b'{"jsonrpc":"2.0","method":"no such thing","params":{}}\n',
    b'{"jsonrpc":"2.0","id":"x","method":"answer me","params":{}}\n',
    b'{"jsonrpc":"2.0","method":"feed","params":{"feed":77,"items":"none"}}\n',
    b'{"jsonrpc":"2.0","method":"feed","params":{"feed":true}}\n',
    b"x" * 17_000_000 + b"\n",
]


@pytest.mark.parametrize("garbage", HARMLESS, ids=lambda each: repr(each[:40]))
def test_garbage_is_passed_over(
    backend: str, server: ScriptedServer, garbage: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines that mean nothing change nothing, and what follows them is understood."""
    monkeypatch.setattr(sc.wire, "MAX_SNAPSHOT_LINE", limits.MAX_RPC_LINE)  # so the longest takes less time

    async def body() -> None:
        async with server.running(), server.client() as client, client.follow(SESSION) as feed:
            await feed.receive_batch()
            await server.send(server.connections[0], garbage)
            if not garbage.endswith(b"\n"):
                await server.send(server.connections[0], b"\n")
            await client.rename_session(SESSION, "fine")
            assert server.events == await feed.receive_batch()
            assert 1 == len(server.connections)

    run(backend, body)


@pytest.mark.parametrize(
    ("piece", "times"),
    [
        (tell("heartbeat", sc.wire.Goodbye(reason="a wrong type")), 1),
        (b'{"jsonrpc":"2.0","method":"goodbye","params":{"reason":7}}\n', 1),
        (b'{"jsonrpc":"2.0","method":"feed_ended","params":{"feed":1,"reason":"mood"}}\n', 1),
        (b"\n", 17_000_000),
        pytest.param(b"y", 300_000_000, marks=pytest.mark.slow),
    ],
    ids=["heartbeat", "goodbye", "feed_ended", "blank lines", "an endless line"],
)
def test_nonsense_means_a_new_connection(backend: str, server: ScriptedServer, piece: bytes, times: int) -> None:
    """A server whose notifications are nonsense, or that floods the line, is connected to anew."""

    async def body() -> None:
        async with server.running(), server.client() as client, client.follow(SESSION) as feed:
            await feed.receive_batch()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(server.send, server.connections[0], piece * times)
                await until_phase(client, "lost")
                tasks.cancel_scope.cancel()
            await client.rename_session(SESSION, "fine")
            assert server.events == await feed.receive_batch()

    run(backend, body)


def results(*results: object, method: str = "execute") -> Callable[..., list[bytes] | None]:
    """Answer a method with these results, then as one should."""
    left = list(results)

    def answer(_: ScriptedServer, __: Connection, request: sc.wire.Request) -> list[bytes] | None:
        if request.method != method or not left:
            return None
        return [json.dumps({"jsonrpc": "2.0", "id": request.id, **left.pop(0)}).encode() + b"\n"]  # type: ignore[dict-item]

    return answer


@pytest.mark.parametrize(
    "answered",
    [
        {"result": None},
        {"result": {"type": "acknowledged"}},
        {"result": {"type": "stop_outcome"}},
        {"result": [1, 2]},
        {"error": {"code": -32601, "message": "no such method"}},
        {"error": {"code": -32000, "message": "odd", "data": {"code": 7}}},
        {"error": {"code": "x"}},
    ],
    ids=str,
)
def test_replies_of_wrong_types(backend: str, server: ScriptedServer, answered: object) -> None:
    """A reply that is not what the command asks for is a protocol error of that command, and of no other."""
    server.answer = results(answered)

    async def body() -> None:
        async with server.running(), server.client() as client:
            with pytest.raises(sc.ProtocolError):
                await client.rename_session(SESSION, "a")
            await client.rename_session(SESSION, "b")
            assert ["b"] == server.done
            assert await client.load_session(SESSION) == server.state

    run(backend, body)


def test_an_unknown_error_keeps_its_words(backend: str, server: ScriptedServer) -> None:
    """An error of a code that this version does not know is raised with its code and message."""
    info = {"type": "error_info", "code": "moon_phase", "message": "not tonight", "field": None, "details": None}
    server.answer = results({"error": {"code": -32000, "message": "x", "data": info}})

    async def body() -> None:
        async with server.running(), server.client() as client:
            with pytest.raises(sc.SessionCoreError) as caught:
                await client.rename_session(SESSION, "a")
            assert ("moon_phase", "not tonight") == (caught.value.code, caught.value.message)

    run(backend, body)


@pytest.mark.parametrize(
    "answered",
    [
        {"result": None},
        {"result": {"type": "welcome"}},
        {"result": sc.wire.to_json(sc.wire.Welcome(contract=99, version="9", epoch=sc.Epoch("e"),
                                         client_id=sc.ClientId("c"), role="controller", heartbeat_ms=1))},
        {"error": {"code": -32601, "message": "no such method"}},
    ],
    ids=["nothing", "half", "another version", "unknown"],
)  # fmt: skip
def test_a_welcome_of_another_kind(backend: str, server: ScriptedServer, answered: object) -> None:
    """A server that does not speak the contract is told from one that does, at once."""
    server.answer = results(answered, method="hello")

    async def body() -> None:
        async with server.running():
            with pytest.raises(sc.ProtocolError):
                async with server.client(wait_s=20):
                    pass

    run(backend, body)


OTHER = sc.SessionId("ses_zzzzzzzzzzzzzzzzzzzzzzzzzz")
AT = sc.Cursor(epoch=sc.Epoch("run_a"), seq=1)


def event(seq: int, session_id: sc.SessionId = SESSION) -> sc.SessionEvent:
    return sc.SessionEvent(
        seq=seq, sseq=seq, session_id=session_id, at=0, event=sc.events.SessionRenamed(name="planted")
    )


@pytest.mark.parametrize(
    "batch",
    [
        {"items": "none"},
        {"items": [7], "cursor": sc.wire.to_json(AT)},
        {"items": [{"type": "session_event", "event": {"type": "not_invented_yet"}}], "cursor": sc.wire.to_json(AT)},
        {"items": [sc.wire.to_json(event(1, OTHER))], "cursor": sc.wire.to_json(AT)},
        {
            "items": [sc.wire.to_json(sc.ServiceSnapshot(cursor=AT, sessions=()))],
            "cursor": sc.wire.to_json(AT),
            "resync": "lagged",
        },
    ],
    ids=["no list", "a number", "a later event", "another session", "another kind of snapshot"],
)
def test_a_batch_of_wrong_types(backend: str, server: ScriptedServer, batch: dict[str, object]) -> None:
    """A batch that makes no sense is raised to the reader, who reads on from a sound snapshot."""

    async def body() -> None:
        async with server.running(), server.client() as client, client.follow(SESSION) as feed:
            mirror = Mirror()
            mirror.take(await feed.receive_batch())
            line = json.dumps(
                {"jsonrpc": "2.0", "method": "feed", "params": {"type": "feed_batch", "feed": 1, **batch}}
            )
            await server.send(server.connections[0], line.encode() + b"\n")
            with pytest.raises(sc.ProtocolError):
                await feed.receive_batch()
            await client.rename_session(SESSION, "sound")
            await mirror.follow(feed, lambda state: state.name == "sound")
            assert server.state == mirror.state
            assert (2, 1) == (mirror.snapshots, len(server.connections))

    run(backend, body)


@pytest.mark.parametrize(
    ("items", "epoch", "reason"),
    [
        ([event(5)], "run_a", sc.Resync(reason="gap", missed=4)),
        ([event(1)], "run_z", sc.Resync(reason="foreign_epoch")),
    ],
    ids=["a hole", "another run"],
)
def test_a_hole_is_found_out(
    backend: str, server: ScriptedServer, items: list[sc.SessionEvent], epoch: str, reason: sc.Resync
) -> None:
    """Events whose numbers do not follow on are not passed on: the feed begins anew, says why, and counts it."""

    async def body() -> None:
        async with server.running(), server.client() as client, client.follow(SESSION) as feed:
            await feed.receive_batch()
            cursor = sc.Cursor(epoch=sc.Epoch(epoch), seq=5)
            await server.send(
                server.connections[0], tell("feed", sc.wire.FeedBatch(feed=1, items=tuple(items), cursor=cursor))
            )
            first, *held = await feed.receive_batch()
            assert isinstance(first, sc.SessionSnapshot)
            assert (1, 2, reason) == (feed.gaps, feed.resyncs, feed.last_resync)
            assert ["hello", "follow", "unfollow", "follow"] == server.asked
            assert all(isinstance(each, sc.SessionEvent) for each in held)

    run(backend, body)


def test_a_wrong_place_in_a_heartbeat_loses_nothing(backend: str, server: ScriptedServer) -> None:
    """A server that claims to have sent what it has not is found out by the numbers that come next."""

    async def body() -> None:
        async with server.running(), server.client() as client, client.follow(SESSION) as feed:
            mirror = Mirror()
            mirror.take(await feed.receive_batch())
            beat = sc.wire.Heartbeat(
                at=1, feeds=(sc.wire.FeedPlace(feed=1, cursor=sc.Cursor(epoch=sc.Epoch("run_a"), seq=2)),)
            )
            await server.send(server.connections[0], tell("heartbeat", beat))
            for name in "abc":
                server.happen(name)
            await client.load_session(SESSION)
            await mirror.follow(feed, lambda state: state.name == "c")
            assert server.state == mirror.state
            beat = sc.wire.Heartbeat(
                at=1, feeds=(sc.wire.FeedPlace(feed=1, cursor=sc.Cursor(epoch=sc.Epoch("run_a"), seq=4)),)
            )
            await server.send(server.connections[0], tell("heartbeat", beat))
            await client.load_session(SESSION)
            await server.cut_all()
            for name in "de":
                server.happen(name)
            await mirror.follow(feed, lambda state: state.name == "e")
            assert server.state == mirror.state
            assert 1 == feed.gaps

    run(backend, body)


def test_a_server_that_goes_on_where_nothing_was_begun(backend: str, server: ScriptedServer) -> None:
    """A feed without a cursor that the server claims to continue is a protocol error, and can be read again."""
    followed = sc.wire.to_json(sc.wire.Followed(feed=50, answer="replaying", after=AT))
    server.answer = results({"result": followed}, {"result": {"type": "followed"}}, method="follow")

    async def body() -> None:
        async with server.running(), server.client() as client, client.follow(SESSION) as feed:
            for _ in range(2):
                with pytest.raises(sc.ProtocolError):
                    await feed.receive_batch()
            assert [empty_session("run_a")] == await feed.receive_batch()

    run(backend, body)


def test_a_deleted_session_ends_its_feed(backend: str, server: ScriptedServer) -> None:
    """A feed ends when its session is deleted, also while there was no connection; what came before is read first."""

    async def body() -> None:
        async with server.running(), server.client() as client:
            async with client.follow(SESSION) as feed, client.follow(SESSION) as other:
                await other.receive_batch()
                await server.send(
                    server.connections[0], tell("feed_ended", sc.wire.FeedEnded(feed=1, reason="deleted"))
                )
                await client.load_session(SESSION)
                assert [server.state] == [item async for item in feed]
                with pytest.raises(anyio.EndOfStream):
                    await feed.receive_batch()
                gone = sc.wire.to_json(sc.wire.error_info(sc.NotFound("it was deleted")))
                server.answer = results({"error": {"code": -32000, "message": "", "data": gone}}, method="follow")
                await server.cut_all()
                assert [] == [item async for item in other]

    run(backend, body)


def test_a_feed_survives_a_service_that_ends(backend: str, server: ScriptedServer) -> None:
    """A feed that ends as the service does goes on with the next service, without an error."""
    closed = sc.wire.to_json(sc.wire.error_info(sc.ServiceClosed("about to end")))

    async def body() -> None:
        async with server.running(), server.client() as client, client.follow(SESSION) as feed:
            await feed.receive_batch()
            server.answer = results({"error": {"code": -32000, "message": "", "data": closed}}, method="follow")
            await server.send(server.connections[0], tell("feed_ended", sc.wire.FeedEnded(feed=1, reason="closing")))
            server.happen("next")
            assert server.events == await feed.receive_batch()

    run(backend, body)


def test_a_server_that_cuts_each_request(backend: str, server: ScriptedServer) -> None:
    """A server that welcomes and then cuts the line at each request does not keep its clients waiting for ever."""

    def answer(_: ScriptedServer, connection: Connection, request: sc.wire.Request) -> list[bytes] | None:
        if request.method == "execute":
            connection.budget = 0
            return [b"x"]
        return None

    server.answer = answer

    async def body() -> None:
        for patience_s in (0.1, 1, 10):  # a slow machine needs more of it to try that often
            server.hellos.clear()
            async with server.running(), server.client(patience_s=patience_s, pause_before=lambda _: 0.001) as client:
                with pytest.raises(sc.Disconnected, match="closed the connection"):
                    await client.load_session(SESSION)
            if len(server.hellos) > 2:
                break
        assert len(server.hellos) > 2

    run(backend, body)


def test_a_server_that_does_not_welcome(backend: str, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that takes the connection and says nothing is given up after a while."""
    monkeypatch.setattr("frontends.client.link.GREETING_S", 0.05)
    server.answer = lambda _, __, ___: []

    async def body() -> None:
        async with server.running():
            with pytest.raises(sc.Disconnected, match=r"has not answered the hello for 0\.05 s"):
                async with server.client():
                    pass

    run(backend, body)


def test_a_server_that_does_not_read(backend: str, tmp_path: Path) -> None:
    """Requests to a server that reads nothing wait without piling up, and can be given up."""

    async def body() -> None:
        path = tmp_path / "s"
        server = ScriptedServer(path)

        async def welcome_only(stream: anyio.abc.ByteStream) -> None:
            async with stream:
                asked = json.loads(await stream.receive())
                request = sc.wire.Request(id=asked["id"], method="hello", params={})
                await stream.send(server.reply(request, server.welcome(sc.wire.Hello())))
                await anyio.sleep_forever()

        async with await listen(path) as listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, welcome_only)
            async with server.client() as client:
                async with anyio.create_task_group() as requests:
                    for _ in range(40):
                        requests.start_soon(client.rename_session, SESSION, "x" * 100_000)
                    await anyio.wait_all_tasks_blocked()  # all of them wait for what does not happen
                    assert 0 < client.link._outbox_bytes < 2_000_000
                    requests.cancel_scope.cancel()
                assert client.link._outbox_bytes < 2_000_000
                assert len(client.link._outbox) < MAX_FRAMES
                assert "connected" == client.state.phase
            tasks.cancel_scope.cancel()

    run(backend, body)


def test_the_pauses() -> None:
    """Pauses double from 50 ms up to 5 s, and chance makes each up to half of it shorter."""
    assert [0.05, 0.1, 0.2, 0.4] == [pause_before(attempt, lambda: 0.0) for attempt in (1, 2, 3, 4)]
    assert [0.05, LONGEST_PAUSE_S, LONGEST_PAUSE_S] == [pause_before(each, lambda: 0.0) for each in (0, 8, 10**9)]
    assert 0.025 == pause_before(1, lambda: 1.0)
    assert 1 < len({pause_before(5) for _ in range(20)})
