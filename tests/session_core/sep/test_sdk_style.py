"""An extension in the style of the TypeScript SDK, in Node, beside a whole service."""

import json
import os
import shutil
from pathlib import Path

import pytest
import trio

from session_core.errors import ExtensionFailed
from session_core.sep.protocol.names import HOOKS
from session_core.testing.scripted import text, tool_call
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ToolResultPart
from tests._needs import needs_node
from tests.session_core.sep._children import SCRIPTS
from tests.session_core.sep._service import Home, World, open_world

NODE = shutil.which("node")
pytestmark = needs_node


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.environ["PATH"] = os.environ["PATH"]
    home.put("hello", "node", [str(SCRIPTS / "sdk_style.mjs"), str(home.notes)])
    return home


async def run(world: World, command: str) -> str:
    return (await world.service.run_command(world.session_id, command, extension="hello")).content


async def test_an_extension_of_the_sdk_works(home: Home) -> None:
    """It registers without naming hooks, is asked for all of them, and its tools, flags and contexts work."""
    answers = (tool_call("hello.greet", {"name": "Eve"}), text("done"))
    flags = {"extensions.flags": ["plan"]}
    async with open_world(home, *answers, flags=flags, permission_mode="full") as world:
        assert all(world.host.handles(hook) for hook in HOOKS)
        assert "done" == await world.turn()
        assert "said" == await run(world, "talk")
        assert {"plan": True} == json.loads(await run(world, "flags"))
        messages = (await world.service.load_session(world.session_id)).messages
        assert "ready" == world.extension("hello").state

    (result,) = (part for each in messages for part in each.parts if isinstance(part, ToolResultPart))
    assert ("Hello, Eve! and more", JsonObject({"tool": "greet"})) == (result.text, result.details)
    assert ("assistant", "said by the extension") == (messages[-1].role, messages[-1].text)


async def test_dialogs_without_a_context_reach_the_session(home: Home) -> None:
    """Its dialogs name no session, and appear in the one whose command it runs; without anybody it is told so."""
    async with open_world(home) as world, trio.open_nursery() as nursery:
        assert "nobody is there" == await run(world, "confirm")
        with world.service.attach("somebody", ui=frozenset({"confirm"})) as somebody:
            await world.service.reload_extension("hello")  # it learns who is there from its greeting only
            found: list[str] = []

            async def ask() -> None:
                found.append(await run(world, "confirm"))

            nursery.start_soon(ask)
            async with world.service.subscribe(world.session_id) as events:
                while not (dialogs := (await world.service.load_session(world.session_id)).dialogs):
                    await events.receive_batch()
            await somebody.answer_dialog(world.session_id, dialogs[0].request_id, False)

    assert [{"confirmed": False}] == [json.loads(each) for each in found]


async def test_the_bus_is_answered_well(home: Home) -> None:
    """What it publishes as a request that it does not wait for does not kill it, and reaches the others."""
    home.install("ear", registrations={"subscriptions": ["bus/event"]})
    async with open_world(home) as world:
        assert "published" == await run(world, "publish")
        told = await world.until_told("ear", "bus/event")
        await world.asks("ear", "bus/publish", topic="back", payload={})
        while not (heard := json.loads(await run(world, "bus"))):
            pass
        assert 1 == world.extension("hello").generation

    assert {"from": "hello", "topic": "news", "payload": {"n": 1}} == told[-1][1]
    assert [{"from": "ear", "topic": "back", "payload": {}}] == heard


async def test_an_error_passes_through_its_commands(home: Home) -> None:
    """What we refuse it within a command comes back as the error of that command, with the words we gave it."""
    async with open_world(home) as world:
        with pytest.raises(ExtensionFailed, match="key: is missing"):
            await run(world, "fail")
        assert "ready" == world.extension("hello").state


async def test_one_that_dies_of_an_error_comes_back(home: Home) -> None:
    """An error nobody catches ends its process; what waited fails at once, and soon it answers again."""
    async with open_world(home) as world:
        with pytest.raises(ExtensionFailed):
            await run(world, "unhandled")
        await world.until("hello", lambda each: each.state == "restarting")
        await world.until("hello", lambda each: each.state == "ready" and each.generation == 2)
        assert any("no/such_method" in line.text for line in world.extension("hello").log.lines())
        assert "said" == await run(world, "talk")


async def test_no_line_is_anything_but_an_object(home: Home) -> None:
    """Through a turn with a stop in it nothing is sent that such a reader dies of, and it hears of the stop."""
    answers = (tool_call("hello.greet", {"name": "nobody"}), text("done"))
    async with open_world(home, *answers, permission_mode="full") as world:
        async with world.service.subscribe(world.session_id) as events:
            await world.service.send_user_message(world.session_id, "hi")
            async for each in events:
                if isinstance(each.event, ev.ToolProgressed):
                    break
        await world.service.request_stop(world.session_id)
        while not (home.notes / "cancelled").exists():
            await run(world, "flags")
        assert "done" == await world.turn("again")
        assert 1 == world.extension("hello").generation
