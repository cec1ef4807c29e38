"""What all connections share: status, shutting down, ending by itself."""

import gc

import pytest
import trio

import session_core as sc
from frontends.server.server import pause_garbage_collection
from session_core.testing.scripted import Hang, ScriptedProvider
from tests.frontends.server._world import open_world

c = sc.commands


async def test_status_tells_what_the_server_does() -> None:
    """The status names the home, the sessions, those at work and the clients."""
    async with open_world((Hang(),)) as world, world.client() as client:
        made = await client.run(c.CreateSession())
        await client.run(c.CreateSession())
        await client.run(c.SendUserMessage(session_id=made.session_id, text="go"))
        status = sc.wire.from_json(await client.ask("status"), sc.wire.ServiceStatus)
        assert ("/home/of/nobody", 2, 1, 1, None) == (
            status.home,
            status.sessions,
            status.running,
            status.clients,
            status.ends_at,
        )
        assert sc.__version__ == status.version


async def test_shutting_down_is_refused_while_something_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without force nobody ends a server with a session at work; with force, everybody hears that it ends."""
    monkeypatch.setattr("frontends.server.server.GOODBYE_S", 60.0)  # a slow machine may need that long
    async with open_world((Hang(),)) as world, world.client() as client, world.client() as other:
        made = await client.run(c.CreateSession())
        await client.run(c.SendUserMessage(session_id=made.session_id, text="go"))
        with pytest.raises(sc.Conflict, match="a session is at work"):
            await client.ask("shutdown", force=False)
        assert not world.server.closing
        await client.ask("shutdown", force=True)
        await world.server.ending.wait()
        await world.server.say_goodbye()
        for each in (client, other):
            (goodbye,) = await each.until_heard("goodbye")
            assert not goodbye.params["retry"]
            await each.connection.wait_closed()
        assert 0 == world.server.connections
        async with world.connected() as late:
            (goodbye,) = await late.until_heard("goodbye")
            assert "shutting down" in goodbye.params["reason"]


async def test_an_idle_server_ends_itself(autojump_clock: object) -> None:
    """A server without clients or work ends after its time, which starts anew whenever somebody leaves."""
    async with open_world(idle_s=60) as world:
        world.nursery.start_soon(world.server.end_when_idle)
        async with world.client():
            await trio.sleep(300)
        assert not world.server.closing
        left = trio.current_time()
        await world.server.ending.wait()
        assert 60 <= trio.current_time() - left <= 62


@pytest.mark.parametrize("what", ["turn", "wakeup", "dialog"])
async def test_work_keeps_a_server_alive(what: str, autojump_clock: object) -> None:
    """A server stays while a turn runs, a wake-up is armed or a question is open, although nobody is connected."""
    config = {"now": lambda: int(trio.current_time() * 1000)}
    provider = ScriptedProvider((Hang(),))
    async with open_world(provider, idle_s=60, config=config) as world:
        made = await world.service.create_session()
        world.nursery.start_soon(world.server.end_when_idle)
        match what:
            case "turn":
                await world.service.send_user_message(made.session_id, "go")
            case "wakeup":
                await world.service.schedule_wakeup(made.session_id, 3_600_000, "later")
            case _:
                world.nursery.start_soon(world.service.open_dialog, made.session_id, "confirm", "sure?")
        await trio.sleep(240)
        assert not world.server.closing
        assert world.server.status().ends_at is None


@pytest.mark.parametrize("is_on", [True, False])
def test_the_collector_is_left_as_it_was(is_on: bool) -> None:  # noqa: FBT001 - what pytest gives
    """While much ends nothing is collected; afterwards it is as before, and nothing that was frozen has thawed."""
    was_on = gc.isenabled()
    frozen: list[object] = []
    assert any(each is frozen for each in gc.get_objects())
    gc.freeze()
    try:
        (gc.enable if is_on else gc.disable)()
        with pause_garbage_collection():
            assert not gc.isenabled()
            with pause_garbage_collection():
                pass
            assert not gc.isenabled()
        assert is_on == gc.isenabled()
        assert not any(each is frozen for each in gc.get_objects())  # those are the ones that are not frozen
    finally:
        (gc.enable if was_on else gc.disable)()
