"""What extensions register while they run: large updates hold nobody up, and count in the order in which they came."""

import threading
from pathlib import Path
from typing import Any

import pytest
import trio

from session_core import limits
from session_core.rpc.failures import RpcFailed
from session_core.sep.host import registry_updates as module
from session_core.sep.host.registrations import Registrations, merge_update
from tests.session_core.sep._inbound import SESSION, Host, Speaking, World, speaking
from tests.session_core.sep._service import Home, open_world


def tools(first: int, count: int, *, chars: int = 1_000) -> dict[str, Any]:
    """An update with so many tools, each with a schema of about so many characters."""
    return {
        "tools": [
            {"name": f"t{number}", "description": "x" * chars, "parameters": {"type": "object"}}
            for number in range(first, first + count)
        ]
    }


class TakingHost(Host):
    """Takes over what is registered, as the real one does."""

    def __init__(self, extension: Speaking) -> None:
        super().__init__()
        self._extension = extension

    def registry_updated(self, extension: str, registrations: Registrations) -> None:
        self._extension.registrations = registrations


@pytest.fixture
def extension() -> Speaking:
    return speaking()


@pytest.fixture
def world(extension: Speaking) -> World:
    return World(TakingHost(extension))


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each large update was checked in the thread of the event loop."""
    ours, checked = threading.current_thread(), list[bool]()

    def noted(old: Registrations, update: object) -> Registrations:
        checked.append(threading.current_thread() is ours)
        return merge_update(old, update)

    monkeypatch.setattr(module, "merge_update", noted)
    return checked


async def test_many_tiny_updates_behind_a_large_one(
    world: World, extension: Speaking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that wait are bounded in number too, however little is in them; when they are done there is room again."""
    monkeypatch.setattr(limits, "MAX_EXTENSION_REGISTERS", 200_000)
    async with trio.open_nursery() as nursery:
        await nursery.start(world.inbound.registry_updater.run)
        for first in (0, 100):
            world.host.logged.clear()
            world.tell(extension, "registry/update", tools(first, 100))
            for _ in range(100):
                world.tell(extension, "registry/update", {})
            refused = [each for each in world.host.logged if "more than 200,000 bytes" in each[2]]
            assert 0 < len(refused) < 100, first
            await world.inbound.registry_updater.wait_settled("ext")
        nursery.cancel_scope.cancel()
    assert 200 == len(extension.registrations.tools)


async def test_large_updates_are_checked_aside_and_in_order(
    world: World, extension: Speaking, threads: list[bool]
) -> None:
    """A large one leaves the loop free; a small one behind it waits, and so does what the extension asks for then."""
    async with trio.open_nursery() as nursery:
        await nursery.start(world.inbound.registry_updater.run)
        world.tell(extension, "registry/update", tools(0, 100))
        world.tell(extension, "registry/update", tools(50, 1, chars=1))
        assert 0 == len(extension.registrations.tools)
        with world.contexts.dispatch("ext", 1, SESSION) as context:
            await world.ask(extension, "tools/set_active", {"tools": ["t50"], "context": context.wire})
        changed = extension.registrations.tool("t50")
        assert changed is not None
        assert (100, "x") == (len(extension.registrations.tools), changed.description)
        assert [False, False] == threads
        world.tell(extension, "registry/update", {"flags": ["f"]})
        assert ("f",) == extension.registrations.flags, "a small one counts at once"
        nursery.cancel_scope.cancel()


async def test_a_large_update_that_is_asked_for_is_answered(world: World, extension: Speaking) -> None:
    """As a request it is answered when it counts, or with what is wrong; as a notification that goes to the log."""
    wrong = {**tools(0, 100), "flags": [5]}
    async with trio.open_nursery() as nursery:
        await nursery.start(world.inbound.registry_updater.run)
        assert {} == await world.ask(extension, "registry/update", tools(0, 100))
        assert 100 == len(extension.registrations.tools)
        with pytest.raises(RpcFailed, match="text") as refused:
            await world.ask(extension, "registry/update", wrong)
        assert (-32602, [], ()) == (refused.value.code, world.host.logged, extension.registrations.flags)
        world.tell(extension, "registry/update", wrong)
        await world.inbound.registry_updater.wait_settled("ext")
        assert 1 == len(world.host.logged)
        assert "registry/update was ignored" in world.host.logged[0][2]
        nursery.cancel_scope.cancel()


async def test_too_much_at_once_is_refused(world: World, extension: Speaking, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits to be checked is bounded: an update over that is refused, and those before it count."""
    monkeypatch.setattr(limits, "MAX_EXTENSION_REGISTERS", 150_000)
    async with trio.open_nursery() as nursery:
        await nursery.start(world.inbound.registry_updater.run)
        world.tell(extension, "registry/update", tools(0, 100))
        world.tell(extension, "registry/update", tools(100, 100))
        assert "more than 150,000 bytes" in world.host.logged[0][2]
        await world.inbound.registry_updater.wait_settled("ext")
        assert 100 == len(extension.registrations.tools)
        nursery.cancel_scope.cancel()


async def test_a_process_that_is_replaced_meanwhile_registers_nothing(world: World, extension: Speaking) -> None:
    """An update that is still being checked when another process takes over is passed over, and said so."""
    async with trio.open_nursery() as nursery:
        await nursery.start(world.inbound.registry_updater.run)
        world.tell(extension, "registry/update", tools(0, 100))
        extension.generation = 2
        await world.inbound.registry_updater.wait_settled("ext")
        nursery.cancel_scope.cancel()
    assert () == extension.registrations.tools
    assert "only the running process" in world.host.logged[0][2]


async def test_what_a_command_registers_can_be_used_when_it_has_ended(tmp_path: Path) -> None:
    """A whole service serves others while hundreds of tools come, and has them when the command is answered."""
    home = Home(tmp_path)
    home.install("one")
    async with open_world(home) as world:
        await world.do("one", ["registry/update", tools(0, 200, chars=3_000), "tell"])
        assert 200 == len(world.extension("one").registrations.tools)


async def test_an_extension_that_was_switched_off_and_on_has_nothing_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update that is still being checked when its extension ends does not count for the one that begins."""
    home, checking, go_on = Home(tmp_path), threading.Event(), threading.Event()
    home.install("one")

    def slow(old: Registrations, update: object) -> Registrations:
        checking.set()
        go_on.wait()
        return merge_update(old, update)

    async with open_world(home) as world:
        monkeypatch.setattr(module, "merge_update", slow)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.do, "one", ["registry/update", tools(0, 200, chars=3_000), "tell"])
            await trio.to_thread.run_sync(checking.wait)
            await world.service.disable_extension("one")
            await world.service.enable_extension("one")
            go_on.set()
        await world.host.wait_registered("one")
        assert () == world.extension("one").registrations.tools
