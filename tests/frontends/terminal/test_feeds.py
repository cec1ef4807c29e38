"""What a terminal knows."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

import anyio
import anyio.lowlevel
import pytest

import session_core as sc
from frontends.client import RemoteFeed
from frontends.shared.socket_path import socket_path_of_home
from frontends.terminal.feeds import LAG_MS, Lag, TerminalState, Topic
from session_core.testing.scripted import Pause, ScriptedProvider, text
from tests.frontends.client._real import RealServer, real_server
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal.transcript.test_older_messages import Feed, Scene


class Told:
    """Hears what a desk tells, and waits for something to be so."""

    def __init__(self) -> None:
        self.topics: list[Topic] = []
        self._event = anyio.Event()

    def __call__(self, topic: Topic) -> None:
        """Hear of a change."""
        self.topics.append(topic)
        self._event.set()

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait for it."""
        while not holds():
            self._event = anyio.Event()
            await self._event.wait()


def at_the_desk(server: RealServer, test: Callable[[TerminalState, Told], Awaitable[None]]) -> None:
    """Run a test with a desk that is connected."""

    async def main() -> None:
        told = Told()
        desk = TerminalState(told)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(desk.run, socket_path_of_home(server.home))
            await told.until(lambda: desk.session_list is not None)
            await test(desk, told)
            tasks.cancel_scope.cancel()

    on_asyncio(main)


def test_it_knows_what_the_service_knows(tmp_path: Path) -> None:
    """After any number of events the viewed session is exactly what the service has."""

    async def scene(desk: TerminalState, told: Told) -> None:
        assert desk.client is not None
        created = await desk.client.create_session(cwd="/")
        desk.view(created.session_id)
        await desk.client.send_user_message(created.session_id, "hi")
        await told.until(lambda: desk.viewed and desk.viewed.state and desk.viewed.state.last_outcome)
        truth = server.snapshot(created.session_id)
        assert desk.viewed is not None
        assert desk.viewed.state is not None
        await told.until(lambda: desk.viewed and desk.viewed.state and desk.viewed.state.sseq == truth.sseq)
        assert desk.viewed.state.snapshot(truth.cursor) == truth
        assert desk.session_list is not None
        assert list(desk.session_list.sessions) == [created.session_id]
        assert {"connection", "session_list", "session"} == set(told.topics)

    with real_server(tmp_path) as server:
        at_the_desk(server, scene)


def test_viewing_another_session_leaves_the_first(tmp_path: Path) -> None:
    """What happens in a session that is viewed no more changes nothing but the list."""

    async def scene(desk: TerminalState, told: Told) -> None:
        assert desk.client is not None
        first = (await desk.client.create_session(cwd="/", model="slow")).session_id
        second = (await desk.client.create_session(cwd="/", model="slow")).session_id
        desk.view(first)
        await told.until(lambda: desk.viewed and desk.viewed.state)
        left = desk.viewed
        assert left is not None
        desk.view(second)
        await told.until(lambda: desk.viewed and desk.viewed.state)
        await desk.client.send_user_message(first, "go")
        await told.until(lambda: desk.session_list and desk.session_list.sessions[first].activity.name == "streaming")
        server.call(provider.release, "on")
        await told.until(lambda: desk.session_list and desk.session_list.sessions[first].activity.name == "idle")
        assert left.state is not None
        assert not left.state.messages
        assert desk.viewed is not None
        assert desk.viewed.session_id == second

    provider = ScriptedProvider([*text("one")[:-1], Pause("on"), *text("two")])
    config = sc.ServiceConfig(store=sc.MemoryStore(), tools=(), models={"slow": provider})
    with real_server(tmp_path, config) as server:
        at_the_desk(server, scene)


def test_a_deleted_session_is_told(tmp_path: Path) -> None:
    """Somebody else's deleting the viewed session is known, and no error."""

    async def scene(desk: TerminalState, told: Told) -> None:
        assert desk.client is not None
        created = await desk.client.create_session(cwd="/")
        desk.view(created.session_id)
        await told.until(lambda: desk.viewed and desk.viewed.state)
        await desk.client.delete_session(created.session_id)
        await told.until(lambda: desk.viewed and desk.viewed.is_deleted)

    with real_server(tmp_path) as server:
        at_the_desk(server, scene)


def test_a_session_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """A session that does not exist gives a reason, and the desk goes on."""

    async def scene(desk: TerminalState, told: Told) -> None:
        desk.view(sc.SessionId("ses_00000000000000000000000000"))
        await told.until(lambda: desk.viewed and desk.viewed.refused)
        assert desk.client is not None
        created = await desk.client.create_session(cwd="/")
        desk.view(created.session_id)
        await told.until(lambda: desk.viewed and desk.viewed.state)

    with real_server(tmp_path) as server:
        at_the_desk(server, scene)


def test_a_service_that_is_shut_down_ends_it(tmp_path: Path) -> None:
    """When the service is shut down on purpose, the desk ends with the reason."""

    async def main() -> None:
        told = Told()
        desk = TerminalState(told)

        async def end() -> None:
            await told.until(lambda: desk.session_list is not None)
            assert desk.client is not None
            await desk.client.shutdown()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(end)
            assert "shut down" in await desk.run(socket_path_of_home(server.home))

    with real_server(tmp_path) as server:
        on_asyncio(main)


def test_a_fault_while_folding_leaves_a_desk_that_can_be_used(tmp_path: Path) -> None:
    """After a fault of our own another session can be viewed, and a new connection shows what is viewed."""

    async def main() -> None:
        faults = [RuntimeError("a fault")]
        told = Told()

        def happened(_: sc.SessionEvent) -> None:
            if faults:
                raise faults.pop()

        desk = TerminalState(told)
        desk.handle_event = happened

        async def work() -> None:
            await told.until(lambda: desk.session_list is not None)
            assert desk.client is not None
            created.append((await desk.client.create_session(cwd="/")).session_id)
            desk.view(created[0])
            await told.until(lambda: desk.viewed and desk.viewed.state)
            with suppress(sc.ServiceClosed):  # the fault may end the client before there is a reply
                await desk.client.rename_session(created[0], "another name")

        created: list[sc.SessionId] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="a fault"), flatten_subgroups=True):
                await desk.run(socket_path_of_home(server.home))
        desk.view(None)
        desk.view(created[0])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(desk.run, socket_path_of_home(server.home))
            await told.until(lambda: desk.viewed and desk.viewed.state)
            tasks.cancel_scope.cancel()

    with real_server(tmp_path) as server:
        on_asyncio(main)


def test_what_is_viewed_is_followed_at_the_next_service_too(tmp_path: Path) -> None:
    """When the service ends and another takes its place, the session on the screen is followed there."""

    async def main() -> None:
        told = Told()
        desk = TerminalState(told)
        store = sc.MemoryStore()

        async def end_it() -> None:
            await told.until(lambda: desk.session_list is not None)
            assert desk.client is not None
            desk.view((await desk.client.create_session(cwd="/")).session_id)
            await told.until(lambda: desk.viewed and desk.viewed.state)
            await desk.client.shutdown()

        with real_server(tmp_path, sc.ServiceConfig(store=store, tools=())) as server:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(end_it)
                assert "shut down" in await desk.run(socket_path_of_home(server.home))
        assert desk.viewed is not None
        viewed = desk.viewed
        with real_server(tmp_path, sc.ServiceConfig(store=store, tools=())) as server:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(desk.run, socket_path_of_home(server.home))
                client = await desk.wait_connected()
                await client.rename_session(viewed.session_id, "another name")
                await told.until(lambda: viewed.state and viewed.state.name == "another name")
                tasks.cancel_scope.cancel()

    on_asyncio(main)


async def test_that_something_was_skipped_is_told_for_a_while() -> None:
    """A new beginning says how many events it has skipped, and that is forgotten after some seconds."""
    scene = Scene()
    scene.say(1)
    scene.resync()
    lag = scene.viewed.lag
    assert lag is not None
    assert lag == Lag(noticed_at=lag.noticed_at, missed=3)
    assert scene.viewed.recent_lag(lag.noticed_at + LAG_MS - 1) is lag
    assert scene.viewed.recent_lag(lag.noticed_at + LAG_MS) is None


async def test_that_the_service_had_to_wait_is_told() -> None:
    """When more came than may wait for being shown, people are told that what they see was behind."""

    class Flooded(Feed):
        async def receive_batch(self) -> list[sc.FeedItem]:
            await anyio.lowlevel.checkpoint()
            self.cuts += 1
            return []

    scene = Scene()
    assert await scene.desk._read(cast(RemoteFeed, Flooded()), scene.viewed)
    lag = scene.viewed.lag
    assert lag is not None
    assert lag == Lag(noticed_at=lag.noticed_at, waited=True)
