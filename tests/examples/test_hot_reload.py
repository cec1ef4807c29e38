"""An author reloads a changed example while a turn is running: the turn ends well, and the new version is next."""

import os
from pathlib import Path

import pytest
import trio

from session_core.providers.base import TextChunk
from session_core.testing.scripted import Pause, ScriptedTool, text, tool_call
from session_core.vocabulary import events as ev
from tests.examples._extensions import change, home_with, results, seen
from tests.session_core.sep._service import World, open_world


class Gate:
    """A named pipe at which changed code of an extension waits for the test."""

    def __init__(self, place: Path) -> None:
        self._path = place / "gate"
        os.mkfifo(self._path)

    @property
    def code(self) -> str:
        """What the extension does to wait; it is what the test has said."""
        return f"await trio.Path({str(self._path)!r}).read_text()"

    async def reached(self) -> None:
        """Wait until the extension waits there."""
        self._descriptor = await trio.to_thread.run_sync(os.open, self._path, os.O_WRONLY, abandon_on_cancel=True)

    def say(self, words: str) -> None:
        """Let it go on."""
        os.write(self._descriptor, words.encode())
        os.close(self._descriptor)


async def reload_begun(world: World, name: str, nursery: trio.Nursery) -> None:
    """Reload an extension, and come back when the new process has taken over; the old one may still be at work."""
    generation = world.extension(name).generation
    nursery.start_soon(world.service.reload_extension, name)
    await world.until(name, lambda each: each.generation > generation and each.state == "ready")


async def test_while_the_model_streams_and_a_tool_runs(tmp_path: Path) -> None:
    """A call that runs is finished by the version it began with, later ones are answered by the newest."""
    home, gate = home_with(tmp_path, ["todo"]), Gate(tmp_path)
    reading = "return listed(await load(ctx))\n\n\n@ext.tool\n"
    answers = (
        (TextChunk(text="Let me "), Pause("streaming"), *tool_call("todo.list")),
        tool_call("todo.list"),
        text("That is it."),
    )
    async with open_world(home, *answers, permission_mode="full") as world, trio.open_nursery() as nursery:
        await world.service.send_user_message(world.session_id, "Go on.")
        await world.provider.wait_for_pause("streaming")
        change(home, "todo", reading, reading.replace("listed(await load(ctx))", gate.code))
        await world.service.reload_extension("todo")
        world.provider.release("streaming")
        await gate.reached()
        change(home, "todo", gate.code, '"said by the third version"')
        await reload_begun(world, "todo", nursery)
        gate.say("said by the second version")
        outcome = (await world.service.wait_for_turn(world.session_id)).outcome
        told = await results(world)

    assert ("completed", "That is it.") == (outcome.status, outcome.final_text)
    assert ["said by the second version", "said by the third version"] == told


async def test_while_its_own_model_streams(tmp_path: Path) -> None:
    """An answer comes to its end from the version that began it; the next one is the new version's."""
    home, gate = home_with(tmp_path, ["replay-provider"]), Gate(tmp_path)
    pause = 'await trio.sleep(ctx.flag("replay-pause"))'
    change(home, "replay-provider", f"        {pause}", f'        if word == "Let ":\n            {gate.code}')
    tools, flags = (ScriptedTool("list"),), {"extensions.flags": ["replay-pause=0"]}
    async with (
        open_world(home, tools=tools, flags=flags, permission_mode="full") as world,
        trio.open_nursery() as nursery,
        world.service.subscribe(world.session_id) as events,
    ):
        await world.service.switch_model(world.session_id, "replay/recording")
        await world.service.send_user_message(world.session_id, "Go on.")
        await gate.reached()
        async for each in events:
            if isinstance(each.event, ev.PartDelta) and each.event.text == "Let ":
                break
        change(home, "replay-provider", "yield word", "yield word.upper()")
        change(home, "replay-provider", gate.code, "pass")
        await reload_begun(world, "replay-provider", nursery)
        gate.say("")
        outcome = (await world.service.wait_for_turn(world.session_id)).outcome
        messages = (await world.service.load_session(world.session_id)).messages

    assert "completed" == outcome.status
    assert "Let me look at what is in this folder." == messages[1].text
    assert outcome.final_text.startswith("THAT IS ALL THERE IS.")


@pytest.mark.slow
async def test_while_a_hook_asks_somebody(tmp_path: Path) -> None:
    """A dialog that is open when its extension is reloaded still counts when it is answered."""
    home = home_with(tmp_path, ["permission-gate"])
    shell, risky = ScriptedTool("bash", run="it ran"), tool_call("bash", {"command": "sudo ls"})
    async with open_world(home, risky, risky, text("done"), tools=(shell,), permission_mode="full") as world:
        with world.service.attach("somebody", ui=frozenset({"confirm"})) as somebody:
            async with trio.open_nursery() as nursery:
                await world.service.send_user_message(world.session_id, "Go on.")
                (first,) = (await seen(world, lambda now: bool(now.dialogs))).dialogs
                change(home, "permission-gate", "it runs as another user", "it is a bad idea")
                await reload_begun(world, "permission-gate", nursery)
                await somebody.answer_dialog(world.session_id, first.request_id, True)
            later = await seen(world, lambda now: bool(now.dialogs) and now.dialogs[0].request_id != first.request_id)
            await somebody.answer_dialog(world.session_id, later.dialogs[0].request_id, False)
            outcome = (await world.service.wait_for_turn(world.session_id)).outcome
        told = await results(world)

    assert "completed" == outcome.status
    refused = "Blocked by an extension: permission-gate: it is a bad idea, and somebody said no"
    assert ["it ran", refused] == told
