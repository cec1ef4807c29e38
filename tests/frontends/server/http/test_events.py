"""Server-sent events over a real socket."""

from math import inf
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import session_core as sc
from frontends.server.access import EVERYTHING
from frontends.server.http.served_clients import ServedClient
from frontends.server.http.tokens import Credential, scoped_token
from session_core.testing.scripted import Pause, ScriptedProvider, text
from tests.frontends.server.http._listener import EventReader, RunningListener, Sent, open_listener, until


def items(batches: list[Sent]) -> list[Any]:
    found = [sc.wire.from_json(each.data, sc.wire.FeedBatch) for each in batches if each.name == "feed"]
    return [item for batch in found for item in batch.items]


async def test_events_begin_with_a_snapshot_and_fold_to_the_state(tmp_path: Path) -> None:
    """The first event says how the feed begins, the second holds a snapshot; with what follows it gives the state."""
    async with open_listener(tmp_path, text("one ", "two ", "three")) as world:
        made = (await world.service.create_session(name="x")).session_id
        async with world.events(f"/v1/sessions/{made}/events") as source:
            followed = await source.next()
            first = await source.next()
            await world.service.send_user_message(made, "go")
            await world.service.wait_for_turn(made)
            fresh = await world.service.load_session(made)
            later = await source.until(fresh.cursor.seq)

        assert ("followed", "snapshot", "initial") == (followed.name, followed.data["answer"], followed.data["reason"])
        batch = sc.wire.from_json(first.data, sc.wire.FeedBatch)
        assert "initial" == batch.resync
        assert f"{batch.cursor.epoch}:{batch.cursor.seq}" == first.id
        snapshot, *rest = items([first, *later])
        assert fresh == sc.fold(snapshot, rest)


async def test_a_reconnect_misses_nothing(tmp_path: Path) -> None:
    """Cut in the middle and resumed with Last-Event-ID, events are all there once, in order, without a new snapshot."""
    async with open_listener(tmp_path, text(*[f"{number} " for number in range(30)])) as world:
        made = (await world.service.create_session(name="x")).session_id
        begin = await world.service.load_session(made)
        await world.service.send_user_message(made, "go")
        await world.service.wait_for_turn(made)
        fresh = await world.service.load_session(made)
        last_id = f"{begin.cursor.epoch}:{begin.cursor.seq}"
        seen: list[Any] = []
        connections = 0
        while not seen or seen[-1].seq < fresh.cursor.seq:
            connections += 1
            async with world.events(f"/v1/sessions/{made}/events", last_id) as source:
                followed = await source.next()
                assert ("followed", "replaying") == (followed.name, followed.data["answer"])
                batch = await source.next()
                # Only a part of it has "arrived": the connection breaks in the middle of a batch.
                part = items([batch])[: 1 + connections]
                seen += part
                last_id = f"{begin.cursor.epoch}:{part[-1].seq}"

        assert connections > 3
        places = [begin.cursor.seq, *(event.seq for event in seen)]
        assert places[:-1] == [event.seq - event.merged for event in seen]
        assert fresh == sc.fold(begin, seen)


async def test_a_cursor_of_no_use_gets_a_snapshot_and_the_reason(tmp_path: Path) -> None:
    """A cursor of another run or of the future is answered with a snapshot that says why, never with a gap."""
    async with open_listener(tmp_path) as world:
        made = (await world.service.create_session(name="x")).session_id
        epoch = world.server.epoch
        for cursor, reason in [("run_other:1", "foreign_epoch"), (f"{epoch}:999", "future")]:
            async with world.events(f"/v1/sessions/{made}/events?after={cursor}") as source:
                followed, batch = await source.next(), await source.next()

            assert ("snapshot", reason) == (followed.data["answer"], followed.data["reason"])
            assert reason == batch.data["resync"]
            assert isinstance(items([batch])[0], sc.SessionSnapshot)


async def test_a_slow_reader_is_told_in_band(tmp_path: Path) -> None:
    """A client that does not read for long gets, on the same connection, a snapshot marked as lagged, and the state."""
    provider = ScriptedProvider([*text(*["x" * 20_000] * 1_500)])
    config = {"session_stream_capacity": 16}
    async with open_listener(tmp_path, provider, config=config) as world:
        made = (await world.service.create_session(name="x")).session_id
        async with world.events(f"/v1/sessions/{made}/events") as source:
            first = [await source.next(), await source.next()]
            await world.service.send_user_message(made, "go")
            await world.service.wait_for_turn(made)  # nobody reads meanwhile: far more than sockets hold
            fresh = await world.service.load_session(made)
            rest = await source.until(fresh.cursor.seq)

        lagged = [each for each in rest if each.data.get("resync") == "lagged"]
        assert lagged
        assert all(each.data["missed"] > 0 for each in lagged)
        got = items(first + rest)
        last = max(place for place, item in enumerate(got) if isinstance(item, sc.SessionSnapshot))
        assert fresh == sc.fold(got[last], got[last + 1 :])


async def test_heartbeats_carry_the_place(tmp_path: Path) -> None:
    """A feed that is quiet says now and then that the server lives, with an id from which one can go on."""
    async with open_listener(tmp_path, heartbeat_ms=30) as world:
        made = (await world.service.create_session(name="x")).session_id
        async with world.events(f"/v1/sessions/{made}/events") as source:
            await source.next()
            await source.next()
            for number in range(3):  # of another session, which moves the place of this feed too
                await world.service.create_session(name=f"{number}")
            beat = await source.next()
            while beat.id != f"{world.server.epoch}:4":
                beat = await source.next()

        assert "heartbeat" == beat.name
        assert 4 == sc.wire.from_json(beat.data, sc.wire.Heartbeat).feeds[0].cursor.seq


async def test_the_list_of_sessions_can_be_followed(tmp_path: Path) -> None:
    """The events of the whole service begin with the list of sessions and fold to it."""
    async with open_listener(tmp_path) as world, world.events("/v1/events") as source:
        first = [await source.next(), await source.next()]
        await world.service.create_session(name="new")
        fresh = await world.service.load_service()
        snapshot, *rest = items(first + await source.until(fresh.cursor.seq))

        assert fresh == sc.fold(snapshot, rest)


async def test_a_head_of_events_ends_at_once(tmp_path: Path) -> None:
    """Who asks for the head of a feed gets that, and no feed is opened."""
    async with open_listener(tmp_path) as world, world.client() as client:
        answer = await client.head("/v1/events")

        assert (200, "") == (answer.status_code, answer.text)
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert 0 == world.service.statistics().stream.subscribers


async def test_the_end_is_told(tmp_path: Path) -> None:
    """When the session is deleted, or the server ends, the feed says so and the answer is complete."""
    async with open_listener(tmp_path) as world:
        made = (await world.service.create_session(name="x")).session_id
        async with world.events(f"/v1/sessions/{made}/events") as one:
            await one.next()
            await one.next()
            await world.service.delete_session(made)
            deleted = (await one.rest())[-1]
        async with world.events("/v1/events") as other:
            await other.next()
            await other.next()
            assert 1 == world.server.connections
            world.server.end(sc.wire.Goodbye(reason="enough"))
            ended = (await other.rest())[-1]

        assert ("ended", "deleted") == (deleted.name, deleted.data["reason"])
        assert ("ended", "closing") == (ended.name, ended.data["reason"])
        assert one.ended
        assert other.ended
        async with world.client() as client:
            refused = await client.get("/v1/events")
        assert (503, "closed") == (refused.status_code, refused.json()["code"])


@pytest.fixture
def long_farewell(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine needs longer than half a second for a last word."""
    monkeypatch.setattr("frontends.server.http.served_clients._FAREWELL_S", 60.0)


@pytest.mark.usefixtures("long_farewell")
async def test_a_new_token_ends_feeds(tmp_path: Path) -> None:
    """A feed that was opened by the old token says why it ends when the token is changed, and leaves nothing behind."""
    async with open_listener(tmp_path) as world:
        async with world.events("/v1/events") as source:
            await source.next()
            await source.next()
            world.listener.rotate_token()
            await world.service.create_session(name="not for them")
            rest = await source.rest()

        assert [("ended", "token_ended")] == [(each.name, each.data["reason"]) for each in rest]
        assert source.ended
        await until_left(world)


@pytest.mark.usefixtures("long_farewell")
async def test_a_token_that_runs_out_ends_feeds(tmp_path: Path, mock_clock: MockClock) -> None:
    """A feed that was opened by a token with a time says at that time that it has ended."""
    mock_clock.rate = 1
    async with open_listener(tmp_path) as world, await world.raw() as stream:
        now = world.server.now()
        world.server.now = lambda: now  # the token has an hour, however long it takes to begin
        token = scoped_token(tmp_path, EVERYTHING, expires_at=now + 3_600_000)
        source = EventReader(stream)
        await source.begin("/v1/events", {"host": world.host, "authorization": f"Bearer {token}"})
        begun = [await source.next(), await source.next()]
        mock_clock.jump(3_600)
        *beats, ended = await source.rest()

        assert ["followed", "feed"] == [each.name for each in begun]
        assert {"heartbeat"} >= {each.name for each in beats}
        assert ("ended", "token_ended", True) == (ended.name, ended.data["reason"], source.ended)


async def test_whoever_does_not_read_the_last_word_is_cut_off(autojump_clock: MockClock) -> None:
    """What is done for a served client ends half a second after its token, although it may say goodbye."""
    credential = Credential(id="token", kind="token", access=EVERYTHING, generation=1)
    served = ServedClient(credential, trio.CancelScope(), inf)
    began = trio.current_time()
    with served.scope:
        served.reserve_goodbye()
        served.disconnect()
        await served.wait_ended()
        await trio.sleep_forever()

    assert 0.5 == pytest.approx(trio.current_time() - began)


async def test_a_reader_that_goes_leaves_nothing(tmp_path: Path) -> None:
    """A client that disappears in the middle of a turn is forgotten: no connection, no feed, no served client."""
    provider = ScriptedProvider([*text("a"), Pause("now")])
    async with open_listener(tmp_path, provider) as world:
        made = (await world.service.create_session(name="x")).session_id
        async with world.events(f"/v1/sessions/{made}/events") as source:
            await source.next()
        await until_left(world)

        assert 0 == world.service.statistics().stream.subscribers


async def until_left(world: RunningListener) -> None:
    await until(lambda: not (world.server.connections or world.listener.app.served_clients))
