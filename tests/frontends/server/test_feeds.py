"""What a client reads: replayed, or a snapshot and what follows, also when it is slow."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import attrs
import pytest
import trio
import trio.testing

import session_core as sc
from frontends.server import frames
from frontends.server import server as server_module
from frontends.server.connection import ClientConnection, serve_connection
from frontends.server.feeds import MAX_FEEDS
from frontends.server.frames import FRAME_BYTES, Encodings
from session_core import limits
from session_core.rpc.messages import encode_request
from session_core.testing.scripted import text
from session_core.wire import strict_json
from tests.frontends.server._world import World, open_world

c = sc.commands


def folded(items: list[sc.FeedItem]) -> sc.SessionSnapshot:
    """What a frontend has after these items."""
    last = max(place for place, item in enumerate(items) if isinstance(item, sc.SessionSnapshot))
    snapshot = items[last]
    assert isinstance(snapshot, sc.SessionSnapshot)
    later = [item for item in items[last + 1 :] if isinstance(item, sc.SessionEvent)]
    return sc.fold(snapshot, later)


def test_a_batch_of_nothing_is_no_frame() -> None:
    """A reader that has just noticed a gap passes nothing on; that makes no frame, and ends nobody's connection."""
    epoch = sc.Epoch("run_1")
    assert tuple(Encodings().pieces([], epoch)) == ()


async def test_a_snapshot_and_then_what_happens() -> None:
    """A new reader gets a snapshot and everything after it; folded it is the session as it is."""
    async with open_world(text("one", "two", "three")) as world, world.client() as client:
        made = await client.run(c.CreateSession())
        told = await client.follow(made.session_id)
        assert sc.wire.Followed(feed=1, answer="snapshot", reason="initial") == told
        sent = await client.run(c.SendUserMessage(session_id=made.session_id, text="go"))
        await client.run(c.WaitForTurn(session_id=made.session_id, turn_id=sent.turn_id))
        now = await world.service.load_session(made.session_id)
        items = await client.until_at(1, now.cursor.seq)
        assert without_cursor(now) == without_cursor(folded(items))


def without_cursor(snapshot: sc.SessionSnapshot) -> sc.SessionSnapshot:
    """A snapshot without its place in the order of all sessions, which others move on."""
    return attrs.evolve(snapshot, cursor=sc.Cursor(epoch=snapshot.cursor.epoch, seq=0))


async def test_replay_after_a_cursor() -> None:
    """A reader that comes back with its cursor gets exactly what it has missed, and is told so."""
    async with open_world() as world:
        made = await world.service.create_session()
        for name in ("a", "b", "c"):
            await world.service.rename_session(made.session_id, name)
        async with world.client() as client:
            told = await client.follow(made.session_id, made.cursor)
            assert sc.wire.Followed(feed=1, answer="replaying", after=made.cursor) == told
            items = await client.until_at(1, made.cursor.seq + 3)
            assert [sc.events.SessionRenamed(name=name) for name in "abc"] == [
                item.event for item in items if isinstance(item, sc.SessionEvent)
            ]
            assert [None] == list({batch.resync for batch in client.batches(1)})


@pytest.mark.parametrize(
    ("cursor", "reason"),
    [
        (sc.Cursor(epoch=sc.Epoch("run_of_yesterday"), seq=1), "foreign_epoch"),
        (None, "future"),
    ],
)
async def test_a_cursor_of_no_use_brings_a_snapshot(cursor: sc.Cursor | None, reason: str) -> None:
    """A cursor of another run, or from the future, is answered with a snapshot, and with the reason."""
    async with open_world() as world, world.client() as client:
        made = await world.service.create_session()
        asked = cursor or sc.Cursor(epoch=made.cursor.epoch, seq=10_000)
        told = await client.follow(made.session_id, asked)
        assert ("snapshot", reason) == (told.answer, told.reason)
        await client.until_heard("feed")
        (batch,) = client.batches(1)
        assert (reason, 1) == (batch.resync, len(batch.items))


async def test_a_missing_session_is_refused() -> None:
    """Following what does not exist is refused, and leaves no feed."""
    async with open_world() as world, world.client() as client:
        with pytest.raises(sc.NotFound):
            await client.follow(sc.SessionId("ses_none"))
        with pytest.raises(sc.NotFound, match="there is no feed 1"):
            await client.ask("unfollow", feed=1)


async def test_too_many_feeds_are_refused() -> None:
    """A connection has a bounded number of feeds, and one that is left makes room."""
    async with open_world() as world, world.client() as client:
        for _ in range(MAX_FEEDS):
            await client.follow(None)
        with pytest.raises(sc.Overloaded):
            await client.follow(None)
        await client.ask("unfollow", feed=7)
        assert MAX_FEEDS + 1 == (await client.follow(None)).feed


async def test_nothing_comes_after_unfollow() -> None:
    """Once a feed was left, nothing of it is sent any more; others go on."""
    async with open_world() as world, world.client() as client:
        made = await client.run(c.CreateSession())
        await client.follow(made.session_id)
        await client.follow(made.session_id)
        await client.until_heard("feed", 2)
        await client.ask("unfollow", feed=1)
        renamed = await client.run(c.RenameSession(session_id=made.session_id, name="new"))
        await client.until_at(2, renamed.cursor.seq)
        assert 1 == len(client.batches(1))


async def test_a_feed_ends_with_its_session() -> None:
    """The reader of a session that is deleted gets its last event and the end."""
    async with open_world() as world, world.client() as client:
        made = await client.run(c.CreateSession())
        await client.follow(made.session_id)
        await client.run(c.DeleteSession(session_id=made.session_id))
        (ended,) = await client.until_heard("feed_ended")
        assert sc.wire.FeedEnded(feed=1, reason="deleted") == sc.wire.from_json(ended.params, sc.wire.FeedEnded)
        last = client.items(1)[-1]
        assert isinstance(last, sc.SessionEvent)
        assert sc.events.SessionDeleted() == last.event


# --- slow readers -----------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class SlowClient:
    """A client at a real socket that reads only when it is told to."""

    stream: trio.SocketStream
    batches: list[sc.wire.FeedBatch] = attrs.field(factory=list)
    asked: int = 0

    async def say(self, method: str, **params: object) -> None:
        """Send a request."""
        self.asked += 1
        await self.stream.send_all(encode_request(self.asked, method, params))

    async def until_at(self, seq: int) -> list[sc.wire.FeedBatch]:
        """Read on until the feed has come as far as this."""
        lines = b""
        while not self.batches or self.batches[-1].cursor.seq < seq:
            lines += await self.stream.receive_some(65_536)
            *whole, lines = lines.split(b"\n")
            for line in whole:
                message = strict_json.parse(line)
                if message.get("method") == "feed":
                    self.batches.append(sc.wire.from_json(message["params"], sc.wire.FeedBatch))
        return self.batches


@asynccontextmanager
async def slow_client(
    world: World, session_id: sc.SessionId, after: sc.Cursor | None = None
) -> AsyncGenerator[SlowClient]:
    """Connect a client that follows a session and reads nothing yet."""
    ours, theirs = trio.socket.socketpair()
    for end in (ours, theirs):
        end.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_SNDBUF, 4_096)
    served = trio.SocketStream(theirs)
    async with trio.SocketStream(ours) as stream:
        world.nursery.start_soon(serve_connection, world.server, served, served)
        client = SlowClient(stream)
        await client.say("hello")
        await client.say("follow", session_id=session_id, after=None if after is None else sc.wire.to_json(after))
        while world.service.statistics().stream.subscribers == 0:
            await trio.testing.wait_all_tasks_blocked()
        yield client
    served.socket.close()


async def test_a_slow_client_is_resynced_in_band(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that stops reading is told how much it missed, gets a snapshot in the same feed, and is right again."""
    monkeypatch.setattr(limits, "RPC_WAIT_BYTES", 4_096)
    async with open_world(config={"session_stream_capacity": 64}) as world:
        made = await world.service.create_session()
        async with slow_client(world, made.session_id) as slow:
            for number in range(400):
                await world.service.rename_session(made.session_id, f"{number} " + "x" * 150)
            now = await world.service.load_session(made.session_id)
            with trio.fail_after(60):
                batches = await slow.until_at(now.cursor.seq)
        resyncs = [batch for batch in batches if batch.resync is not None]
        assert ["initial", "lagged"] == [batch.resync for batch in resyncs]
        delivered = sum(1 for batch in batches for item in batch.items if isinstance(item, sc.SessionEvent))
        lagged = resyncs[1].missed
        assert lagged is not None
        assert 400 - 64 == delivered + lagged  # the snapshot stands for these and for all that the stream still held
        assert without_cursor(now) == without_cursor(folded([item for batch in batches for item in batch.items]))


async def test_a_stalled_client_delays_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one client reads nothing at all, another gets every event."""
    monkeypatch.setattr(limits, "RPC_WAIT_BYTES", 4_096)
    async with open_world(config={"session_stream_capacity": 64}) as world, world.client() as quick:
        made = await world.service.create_session()
        async with slow_client(world, made.session_id):
            await quick.follow(made.session_id)
            for number in range(400):
                await world.service.rename_session(made.session_id, f"{number} " + "x" * 150)
            await quick.until_at(1, world.service.core.stream.seq)
            names = [item for item in quick.items(1) if isinstance(item, sc.SessionEvent)]
            assert 400 == len(names)
            assert {None, "initial"} == {batch.resync for batch in quick.batches(1)}


async def test_the_end_does_not_wait_for_who_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that has so much to read that there is no room for a goodbye is let go at once, when the server ends."""
    monkeypatch.setattr(limits, "RPC_WAIT_BYTES", 4_096)
    monkeypatch.setattr(limits, "RPC_FLUSH_MS", 600_000)
    monkeypatch.setattr(server_module, "GOODBYE_S", 600.0)
    async with open_world() as world:
        made = await world.service.create_session()
        async with slow_client(world, made.session_id):
            for number in range(100):
                await world.service.rename_session(made.session_id, f"{number} " + "x" * 150)
            await trio.testing.wait_all_tasks_blocked()
            with trio.fail_after(60):
                await world.server.say_goodbye()
        assert 0 == world.server.connections


# --- what is shared ---------------------------------------------------------------------------------------------------


async def test_readers_share_what_is_written() -> None:
    """However many clients read a session, a snapshot of one cursor is written once."""
    async with open_world() as world:
        made = await world.service.create_session()
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(world.client(role="observer")) for _ in range(20)]
            before = world.server.encodings.made
            for client in clients:
                await client.follow(made.session_id)
            for client in clients:
                await client.until_heard("feed")
        assert 1 == world.server.encodings.made - before


async def test_readers_share_a_batch() -> None:
    """However many clients read a session, what happens in it at once is written once for all of them."""
    async with open_world() as world:
        made = await world.service.create_session()
        session = world.service.core.sessions[made.session_id]
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(world.client(role="observer")) for _ in range(20)]
            for client in clients:
                await client.follow(made.session_id)
                await client.until_heard("feed")
            before = world.server.encodings.made
            for number in range(40):
                session.record(sc.events.SessionRenamed(name=f"{number}"))
            for client in clients:
                items = await client.until_at(1, world.service.core.stream.seq)
                assert 41 == len(items)
        assert 1 == world.server.encodings.made - before


def test_what_is_shared_is_the_same() -> None:
    """Batches that begin and end alike, and are as long, are not taken for each other, and none is written twice."""

    def renamed(session: str, seq: int, merged: int = 1) -> sc.SessionEvent:
        event = sc.events.SessionRenamed(name=f"{seq} to {merged}")
        return sc.SessionEvent(seq=seq, sseq=seq, session_id=sc.SessionId(session), at=0, event=event, merged=merged)

    first, second, third, last = (renamed("ses_ours", seq) for seq in (1, 2, 3, 5))
    of_all = (first, renamed("ses_ours", 3, merged=2), renamed("ses_other", 4), last)
    encodings = Encodings()
    encodings.pieces(of_all, sc.Epoch("run_x"))
    batch = (first, second, third, last)

    (piece,) = encodings.pieces(batch, sc.Epoch("run_x"))

    assert b",".join(map(sc.wire.encode_event, batch)) == piece.data
    assert piece is encodings.pieces(batch, sc.Epoch("run_x"))[0]
    assert 2 == encodings.made


def test_a_batch_is_put_into_its_envelope_once() -> None:
    """Readers who are at the same place share the frame and the server-sent event, and nobody else's resync."""
    named = sc.events.SessionRenamed(name="x")
    event = sc.SessionEvent(seq=1, sseq=1, session_id=sc.SessionId("ses_ours"), at=0, event=named)
    (piece,) = Encodings().pieces((event,), sc.Epoch("run_x"))
    here, there = (sc.Cursor(epoch=sc.Epoch("run_x"), seq=seq) for seq in (1, 2))
    for written in (piece.frame, piece.event):
        first = written(1, here, None)
        resync = written(1, here, sc.Resync(reason="lagged", missed=3))
        assert first is written(1, here, None)
        assert b"lagged" in resync
        assert b"lagged" not in first
        assert first != written(1, there, None) != written(2, there, None)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of endlessly many batches the newest are remembered, and of very long ones fewer."""
    monkeypatch.setattr(frames, "_REMEMBERED_BYTES", 100_000)
    encodings = Encodings()
    for seq in range(1, 200):
        event = sc.events.SessionRenamed(name="x" * (20_000 if seq > 100 else 1))
        batch = (sc.SessionEvent(seq=seq, sseq=seq, session_id=sc.SessionId("ses_1"), at=0, event=event),)
        encodings.pieces(batch, sc.Epoch("run_x"))
        assert len(encodings._known) <= min(seq, 64)
    assert 4 == len(encodings._known)
    assert sum(len(piece.data) for known in encodings._known.values() for piece in known.pieces) == encodings._bytes


async def test_a_long_batch_comes_in_several_frames() -> None:
    """What would make a long line is sent as several, each with the cursor that it leads to."""
    async with open_world() as world, world.client() as client:
        made = await world.service.create_session()
        texts = [f"{number}" + "x" * (FRAME_BYTES // 2) for number in range(6)]
        for each in texts:
            await world.service.append_messages(made.session_id, each[:1], [sc.NewMessage(role="user", text=each)])
        await client.follow(made.session_id, made.cursor)
        end = (await world.service.load_session(made.session_id)).cursor.seq
        items = await client.until_at(1, end)
        batches = client.batches(1)
        assert len(batches) > 2
        assert sorted(batch.cursor.seq for batch in batches) == [batch.cursor.seq for batch in batches]
        assert [item.seq for item in items if isinstance(item, sc.SessionEvent)] == list(
            range(made.cursor.seq + 1, end + 1)
        )


async def test_heartbeats_keep_a_quiet_feed_alive(autojump_clock: object) -> None:
    """A feed in which nothing happens is told where it stands, so that its cursor does not grow old."""
    async with open_world(heartbeat_ms=1_000) as world, world.client() as client:
        quiet = await world.service.create_session()
        await client.follow(quiet.session_id)
        await client.until_heard("feed")
        await world.service.create_session()
        beats = await client.until_heard("heartbeat", 2)
        beat = sc.wire.from_json(beats[-1].params, sc.wire.Heartbeat)
        assert (sc.wire.FeedPlace(feed=1, cursor=world.service.core.stream.cursor),) == beat.feeds


async def test_a_heartbeat_is_never_ahead_of_what_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a client has not been sent all of a batch, no heartbeat says that its feed stands at the end."""
    monkeypatch.setattr(limits, "RPC_WAIT_BYTES", 4_096)
    async with open_world() as world:
        made = await world.service.create_session()
        for number in range(8):
            text = f"{number}" + "x" * (FRAME_BYTES // 2)
            await world.service.append_messages(made.session_id, str(number), [sc.NewMessage(role="user", text=text)])
        async with slow_client(world, made.session_id, made.cursor):
            await trio.testing.wait_all_tasks_blocked(0.05)
            (attendant,) = world.server.clients
            assert isinstance(attendant, ClientConnection)
            assert attendant._feeds is not None
            assert () == attendant._feeds.places()
