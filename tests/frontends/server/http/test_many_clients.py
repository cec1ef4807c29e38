"""Many clients at once, and clients that come and go, at the HTTP listener."""

import random
from pathlib import Path

import pytest
import trio

import session_core as sc
from frontends.client.factory import open_client
from session_core.testing.scripted import Pause, ScriptedProvider, text
from tests.frontends.server.http._listener import RunningListener, open_listener, until
from tests.frontends.server.http.test_hostile import UPGRADE


async def test_the_client_library_speaks_over_a_websocket(tmp_path: Path) -> None:
    """A `SessionClient` at this listener acts and follows as at the home's own socket."""
    async with open_listener(tmp_path, text("one ", "two")) as world:
        address = world.url.replace("http", "ws", 1) + "/v1/ws"
        async with open_client(address=address, token=world.token, name="far away") as client:
            made = await client.create_session(name="x")
            async with client.follow(made.session_id) as feed:
                snapshot = await anext(feed)
                await client.send_user_message(made.session_id, "go")
                await client.wait_for_turn(made.session_id)
                fresh = await world.service.load_session(made.session_id)
                events: list[sc.FeedItem] = []
                while not events or getattr(events[-1], "seq", 0) < fresh.cursor.seq:
                    events.append(await anext(feed))

            assert isinstance(snapshot, sc.SessionSnapshot)
            assert fresh == sc.fold(snapshot, [each for each in events if isinstance(each, sc.SessionEvent)])
            assert ["far away"] == [each.name for each in (await world.service.load_service()).clients]


@pytest.mark.slow
async def test_clients_that_drop_at_any_moment_leave_nothing(tmp_path: Path) -> None:
    """After many connections that break at random places of requests, feeds and WebSockets, nothing is left of them."""
    provider = ScriptedProvider([*text("a"), Pause("now"), *text("b")])
    dice = random.Random(7)
    async with open_listener(tmp_path, provider) as world:
        made = (await world.service.create_session(name="x")).session_id
        await world.service.send_user_message(made, "go")

        async def visit() -> None:
            sent = dice.choice(
                [
                    world.head(f"/v1/sessions/{made}/events"),
                    world.head("/v1/events"),
                    world.head("/v1/ws", *UPGRADE) + b"\x81\x80\0\0\0\0",
                    world.head(f"/v1/sessions/{made}") * 3,
                    world.head("/v1/commands/wait_for_turn", "Content-Type: application/json", method="POST"),
                ]
            )
            async with await world.raw() as stream:
                await stream.send_all(sent[: dice.choice([len(sent), dice.randrange(len(sent))])])
                with trio.move_on_after(dice.choice([0, 0.01, 0.05])):
                    await stream.receive_some(dice.choice([1, 10_000]))

        for _ in range(4):
            async with trio.open_nursery() as nursery:
                for _ in range(15):
                    nursery.start_soon(visit)
        await nothing_left(world)
        provider.release("now")

        assert "completed" == (await world.service.wait_for_turn(made)).outcome.status
        assert () == (await world.service.load_service()).clients


async def nothing_left(world: RunningListener) -> None:
    await until(
        lambda: not (world.listener.connections or world.server.connections or world.listener.app.served_clients)
    )
    assert 0 == world.service.statistics().stream.subscribers


async def test_a_reader_that_stalls_does_not_delay_others(tmp_path: Path) -> None:
    """With feeds that nobody reads, another reader gets everything, and they leave nothing behind."""
    provider = ScriptedProvider(text(*["x" * 50_000] * 200))
    async with open_listener(tmp_path, provider) as world:
        made = (await world.service.create_session(name="x")).session_id
        stalled = [await world.raw() for _ in range(5)]
        for stream in stalled:
            await stream.send_all(world.head(f"/v1/sessions/{made}/events"))
        await until(lambda: world.service.statistics().stream.subscribers == 5)
        async with world.events(f"/v1/sessions/{made}/events") as reader:
            first = [await reader.next(), await reader.next()]
            await world.service.send_user_message(made, "go")
            await world.service.wait_for_turn(made)
            fresh = await world.service.load_session(made)
            rest = await reader.until(fresh.cursor.seq)

        batches = [sc.wire.from_json(each.data, sc.wire.FeedBatch) for each in first + rest if each.name == "feed"]
        items = [item for batch in batches for item in batch.items]
        place = max(number for number, item in enumerate(items) if isinstance(item, sc.SessionSnapshot))
        snapshot = items[place]
        assert isinstance(snapshot, sc.SessionSnapshot)
        later = [item for item in items[place + 1 :] if isinstance(item, sc.SessionEvent)]
        assert fresh == sc.fold(snapshot, later)
        for stream in stalled:
            await stream.aclose()
        await nothing_left(world)
