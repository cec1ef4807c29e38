"""Real extensions beside a whole service: how they are greeted, what they are told and asked, what people see."""

import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
import trio

from session_core.agent.hooks import is_wanted
from session_core.errors import ExtensionFailed, Forbidden, NotFound, Unavailable
from session_core.rpc.failures import RpcFailed
from session_core.sep.host.catalogue.discovery import Discovery
from session_core.sep.host.catalogue.folder_digest import digest_of
from session_core.sep.host.host import ExtensionHost, HostConfig, Watcher
from session_core.sep.protocol.names import EVENTS, HOOKS
from session_core.sep.protocol.service_api import Delegate
from session_core.service.config import ServiceConfig
from session_core.session.state import apply
from session_core.testing.cancel_sweep import SweepRun, cancel_sweep
from session_core.testing.scripted import ScriptedTool, failure, text, tool_call
from session_core.tools.base import ToolContext
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.extensions import Completion
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import TurnLimits
from session_core.vocabulary.snapshots import ServiceSnapshot
from tests.session_core.sep._children import PATIENCE, is_alive
from tests.session_core.sep._service import Home, World, open_world
from tests.session_core.service._helpers import until

ECHO = {"name": "echo", "description": "say it again", "parameters": {"type": "object"}}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


async def test_how_an_extension_is_greeted(home: Home) -> None:
    """It is told where it is, its flags, what it may do, and after a reload which dialogs somebody can answer now."""
    home.install("one", manifest="[capabilities]\nkv = true\ncommands = true\n")
    flags = {"extensions.flags": ["plan", "depth=3", "name=a b"]}
    async with open_world(home, flags=flags) as world:
        first = (await world.heard("one"))[0]
        with world.service.attach("somebody", ui=frozenset({"confirm", "notify"})):
            await world.service.reload_extension("one")
            again = (await world.heard("one"))[0]

    enabled = {"kv", "commands"}
    groups = ("tools", "commands", "ui", "exec", "kv", "bus", "session", "providers")
    greeting = first[1]
    assert "initialize" == first[0]
    assert "session-core" == greeting.pop("host")["name"]
    assert {
        "protocol_version": 1,
        "workspace": {"root": str(home.folder), "trusted": False},
        "session": {},
        "mode": "cli",
        "ui_capabilities": [],
        "flags": {"plan": True, "depth": 3, "name": "a b"},
        "capabilities_enabled": {each: each in enabled for each in groups},
    } == greeting
    assert ["confirm", "notify"] == again[1]["ui_capabilities"]


async def test_the_session_of_a_greeting(home: Home) -> None:
    """A host that is about one session names it; one that serves many says that there are sessions, and no id."""
    home.install("one")
    async with open_world(home) as world:
        assert {} == (await world.heard("one"))[0][1]["session"]
        world.host.config = attrs.evolve(world.host.config, session_id=world.session_id)
        await world.service.reload_extension("one")
        assert {"id": world.session_id} == (await world.heard("one"))[0][1]["session"]


async def _look(_: JsonObject, context: ToolContext) -> str:
    context.report("half of it")
    return "looked"


async def test_every_event_is_really_told(home: Home) -> None:
    """Whatever happens in a session is told to those who subscribe, in its order, and with the session it is about."""
    home.install("ear", registrations={"subscriptions": list(EVENTS)})
    home.install("mouth")
    answers = (tool_call("look"), text("done", thinking="hm"), text("a summary"))
    async with open_world(home, *answers, tools=(ScriptedTool("look", run=_look),)) as world:
        await world.turn()
        told = await world.until_told("ear", "agent_end")
        await _everything_else(world)
        later = await world.until_told("ear", "session_shutdown")

    answer = ["message_start", "message_update", "after_provider_response", "message_end"]
    tool = ["tool_execution_start", "tool_execution_update", "tool_execution_end"]
    thinking = [answer[0], "message_update", *answer[1:]]
    turn = ["agent_start", "turn_start", *answer, *tool, *thinking, "turn_end", "agent_end"]
    assert ["session_start", *turn] == [name for name, _ in told]
    assert {world.session_id} == {payload["session_id"] for _, payload in told}
    ends = [payload["content"] for name, payload in told if name == "message_end"]
    assert ["", "done"] == ends
    assert set(EVENTS) == {name for name, _ in later}
    assert {"from": "mouth", "topic": "t", "payload": {"n": 1}} == dict(later)["bus/event"]
    assert "x" == dict(later)["widget/key"]["key"]


async def _everything_else(world: World) -> None:
    service, session_id = world.service, world.session_id
    with service.attach("somebody", ui=frozenset({"set_widget"})):
        widget = {"kind": "widget", "widget_id": "w", "body": {"kind": "markdown", "text": "?"}, "keybindings": []}
        await world.asks("ear", "ui/request", kind="set_widget", widget=widget, context="$context")
        await service.press_widget_key(session_id, "ear", "w", "x")
    await service.compact_context(session_id)
    await world.until_told("ear", "session_compact")
    await service.switch_model(session_id, "m")
    await service.clear_context(session_id)
    await world.asks("mouth", "bus/publish", topic="t", payload={"n": 1})
    await service.delete_session((await service.create_session(name="another")).session_id)
    await world.until_told("ear", "bus/event")


async def test_every_hook_is_really_asked(home: Home) -> None:
    """Each of the ten places asks once where it belongs, within the session, and with what the place is about."""
    home.install("guard", registrations={"hooks": list(HOOKS)})
    answers = (tool_call("look", {"at": 1}), text("done"), text("again"), text("a summary"))
    async with open_world(home, *answers, tools=(ScriptedTool("look"),)) as world:
        await world.turn("hello")
        asked = await world.hooks("guard")
        service, session_id = world.service, world.session_id
        with pytest.raises(Unavailable):  # it was not refused, but nothing here runs commands
            await service.run_shell_line(session_id, "ls")
        first = (await service.load_session(session_id)).messages[0]
        await service.edit_message(session_id, first.message_id, "hello again")
        await service.wait_for_turn(session_id)
        await service.compact_context(session_id)
        every = await world.hooks("guard")
        while "session_before_compact" not in dict(every):  # which is asked by the work that the command starts
            every = await world.hooks("guard")

    turn = [
        "input",
        "before_agent_start",
        *("context", "before_provider_request", "message_end"),
        *("tool_call", "tool_result"),
        *("context", "before_provider_request", "message_end"),
    ]
    assert turn == [name for name, _ in asked]
    assert {world.session_id} == {value["session_id"] for _, value in every}
    inputs = dict(asked)
    assert "hello" == inputs["input"]["text"]
    assert ("look", {"at": 1}) == (inputs["tool_call"]["tool"], inputs["tool_call"]["arguments"])
    assert ("done", False) == (inputs["tool_result"]["content"], inputs["tool_result"]["is_error"])
    assert set(HOOKS) == {name for name, _ in every}
    assert "ls" == dict(every)["user_bash"]["command"]


async def test_what_hooks_decide_counts(home: Home) -> None:
    """A prompt, the words of the user and a result are changed by a hook; a call is not run when one says no."""
    modify = {
        "input": {"action": "modify", "patch": {"text": "hello, kindly"}},
        "before_agent_start": {"action": "modify", "patch": {"system_prompt": "be brief"}},
        "tool_result": {"action": "modify", "patch": {"content": "changed"}},
        "user_bash": {"action": "block", "reason": "no shell here"},
    }
    home.install("guard", registrations={"hooks": list(HOOKS)}, hooks=modify)
    home.install("second", registrations={"hooks": ["tool_call"]}, hooks={"tool_call": {"action": "block"}})
    tool = ScriptedTool("look")
    async with open_world(home, tool_call("look"), text("done"), tools=(tool,)) as world:
        await world.turn("hello")
        with pytest.raises(Forbidden, match="no shell here"):
            await world.service.run_shell_line(world.session_id, "ls")
        messages = (await world.service.load_session(world.session_id)).messages

    assert [] == tool.calls
    assert "hello, kindly" == messages[0].text
    assert "be brief" == world.provider.requests[0].system
    (result,) = messages[2].parts
    assert "blocked by tool_call hook" in result.text  # type: ignore[union-attr]


async def test_nobody_is_asked_about_their_own_messages(home: Home) -> None:
    """What an extension says in the user's name is shown to the `input` hooks of all others, and not to its own."""
    for name in ("one", "two"):
        home.install(name, registrations={"hooks": ["input"]})
    async with open_world(home, text("done"), text("done")) as world:
        await world.turn("typed")
        await world.asks("one", "session/send_user_message", text="said", context="$context")
        await world.service.wait_for_turn(world.session_id)
        asked = [[value["text"] for _, value in await world.hooks(name)] for name in ("one", "two")]

    assert [["typed"], ["typed", "said"]] == asked


async def test_tools_and_commands_of_extensions(home: Home) -> None:
    """A model calls an extension's tool by its own name; commands answer, complete and fail with their own words."""
    home.install("one", registrations={"tools": [ECHO], "hooks": ["input"], "commands": [
        {"name": each, "description": ""} for each in ("say", "heard", "fail")
    ]})  # fmt: skip
    async with open_world(home, tool_call("one.echo", {"a": 1}), text("done"), permission_mode="full") as world:
        service, session_id = world.service, world.session_id
        await world.turn()
        said = (await service.run_command(session_id, "say", 'Bob "and Eve"')).content
        completed = (await service.complete_command(session_id, "say", "brief", extension="one")).completions
        with pytest.raises(ExtensionFailed, match="not today"):
            await service.run_command(session_id, "fail")
        with pytest.raises(RpcFailed) as caught:
            await world.extension("one").run_command(world.host.contexts, session_id, "fail", "")
        with pytest.raises(NotFound):
            await service.run_command(session_id, "nothing")
        (result,) = (await service.load_session(session_id)).messages[2].parts
        asked = dict(await world.heard("one"))["tool/execute"]

    assert ('{"a": 1}', JsonObject({"said": ()})) == (result.text, result.details)  # type: ignore[union-attr]
    assert ("echo", {"a": 1}) == (asked["tool"], asked["arguments"])
    whole = 'Bob "and Eve"'
    assert {"text": whole, "args": ["Bob", "and Eve"], "phrase": whole, "state": whole} == json.loads(said[5:])
    assert (Completion(value="briefly", description="more of it"),) == completed
    assert (-32000, "not today", {"why": "rain"}) == (caught.value.code, caught.value.message, caught.value.data)


async def test_a_tool_that_was_switched_off_is_not_shown(home: Home) -> None:
    """What people have switched off by name is not offered to a model, also when an extension brings it."""
    home.install("one", registrations={"tools": [ECHO, {**ECHO, "name": "other"}]})
    async with open_world(home, text("done"), flags={"tools.disabled": ["one.echo"]}) as world:
        await world.turn()

    assert ["one.other"] == [each.name for each in world.provider.requests[0].tools]


async def test_the_end_of_a_turn_is_told_however_it_ends(home: Home) -> None:
    """A turn that fails, and one that was stopped at its limit, have an end for extensions too."""
    home.install("ear", registrations={"subscriptions": ["turn_end", "agent_end"]})
    answers = (failure("auth"), tool_call("look"))
    limits = TurnLimits(steps=1)
    async with open_world(home, *answers, tools=(ScriptedTool("look"),), turn_limits=limits) as world:
        await world.turn()
        await world.turn()
        while len(told := await world.events("ear")) < 4:
            pass

    assert ["turn_end", "agent_end"] * 2 == [name for name, _ in told]
    assert "completed" not in [payload.get("status") for _, payload in told]


async def test_a_reload_takes_the_new_files(home: Home) -> None:
    """After a reload the new process answers with what it brings, and the old one was told and is gone."""
    folder = home.install("one", registrations={"tools": [ECHO]})
    async with open_world(home) as world:
        old = int((await world.service.run_command(world.session_id, "pid")).content)
        home.install("one", registrations={"tools": [ECHO, {**ECHO, "name": "more"}]})
        assert folder.is_dir()
        await world.service.reload_extension("one")
        (known,) = (await world.service.list_extensions()).extensions
        told = await world.until_told("one", "session_start")
        assert not is_alive(old)
        farewell = json.loads((home.notes / f"heard-{old}").read_text())

    assert (("one.echo", "one.more"), 2, "ready") == (known.tools, known.generation, known.state)
    assert [("session_start", {"reason": "reload"})] == told
    assert ["event", "session_shutdown", {"reason": "reload"}] == [
        farewell[-2][0], farewell[-2][1]["event"], farewell[-2][1]["payload"]
    ]  # fmt: skip


async def test_a_reload_that_fails_changes_nothing(home: Home) -> None:
    """Files that nobody has agreed to, and a program that does not start, leave the process that there was."""
    folder = home.install("one")
    async with open_world(home) as world:
        before = (await world.service.run_command(world.session_id, "pid")).content
        (folder / "more.txt").write_text("changed by somebody")
        with pytest.raises(ExtensionFailed, match="not reloaded") as unseen:
            await world.service.reload_extension("one")
        (folder / "more.txt").unlink()
        home.put("one", "/bin/false", [])
        with pytest.raises(ExtensionFailed, match="not reloaded"):
            await world.service.reload_extension("one")
        after = (await world.service.run_command(world.session_id, "pid")).content
        (known,) = (await world.service.list_extensions()).extensions

    assert before == after
    assert ("ready", None) == (known.state, known.problem)
    assert "the extension one was not reloaded: its files have changed since it was agreed to" == unseen.value.message


async def test_people_see_what_becomes_of_extensions(home: Home) -> None:
    """Whoever follows the service sees every start, crash, restart, change and end, and folds it to what there is."""
    home.install("one")
    async with open_world(home) as world, world.service.follow() as feed:
        (first,) = await feed.receive_batch()
        assert isinstance(first, ServiceSnapshot)
        shown, seen = first, list[Any]()

        async def follow() -> None:
            nonlocal shown
            while True:
                for item in await feed.receive_batch():
                    assert isinstance(item, SessionEvent)
                    shown = apply(shown, item)
                    if isinstance(item.event, ev.ExtensionChanged):
                        seen.append((item.event.extension.state, len(item.event.extension.tools)))
                    elif isinstance(item.event, ev.ExtensionRemoved):
                        seen.append("gone")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow)
            await world.do("one", ["registry/update", {"tools": [ECHO]}, "tell"])
            await world.until("one", lambda each: bool(each.registrations.tools))
            with pytest.raises(ExtensionFailed):
                await world.service.run_command(world.session_id, "die")
            await world.until("one", lambda each: each.state == "ready" and each.generation == 2)
            await world.service.disable_extension("one")
            await until(lambda: seen[-1] == "gone")
            disabled = (await world.service.list_extensions()).extensions
            gone = shown
            await world.service.enable_extension("one")
            await until(lambda: seen[-1] == ("ready", 0))
            nursery.cancel_scope.cancel()
        known = (await world.service.list_extensions()).extensions

    assert ["disabled"] == [each.state for each in disabled]
    assert () == gone.extensions
    assert known == shown.extensions
    states = list(dict.fromkeys(each for each in seen if each != "gone"))
    assert [("ready", 1), ("restarting", 1), ("ready", 0), ("starting", 0)] == states


async def test_switching_off_is_remembered(home: Home) -> None:
    """An extension that was switched off does not start with the next service, and says so to whoever asks."""
    home.install("one")
    async with open_world(home) as world:
        await world.service.disable_extension("one")
        with pytest.raises(NotFound):
            await world.service.run_command(world.session_id, "pid")
    async with open_world(home) as world:
        (known,) = (await world.service.list_extensions()).extensions
        assert ("disabled", 0) == (known.state, known.generation)
        await world.service.enable_extension("one")
        assert (await world.service.run_command(world.session_id, "pid")).content.isdigit()
    async with open_world(home) as world:
        assert "ready" == world.extension("one").state


async def test_an_extension_that_somebody_works_on_is_reloaded_by_itself(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files change and it runs anew without a question; another one, which is not watched, stays as it is."""
    monkeypatch.setattr("session_core.assembly.extension_setup._LOOK_EVERY_S", 0.01)
    one, two = home.install("one"), home.install("two")
    async with open_world(home, flags={"extensions.watch": ["one"]}) as world:
        (two / "more.txt").write_text("changed")
        (one / "more.txt").write_text("changed")
        await world.until("one", lambda each: each.generation == 2 and each.state == "ready")
        assert 1 == world.extension("two").generation


async def test_files_that_did_not_change_are_not_read(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A watched folder is looked through again and again, but its files are read once for each change."""
    monkeypatch.setattr("session_core.assembly.extension_setup._LOOK_EVERY_S", 0.001)
    looks, reads = Counter[str](), list[str]()
    enough = trio.Event()

    async def run_sync(work: Any, *args: Any, **settings: Any) -> Any:
        looks[getattr(work, "__name__", "")] += 1
        if looks["outline_of"] >= 20:
            enough.set()
        return await in_thread(work, *args, **settings)

    def digest(folder: Path) -> str:
        reads.append(digest_of(folder))
        return reads[-1]

    in_thread = trio.to_thread.run_sync
    monkeypatch.setattr("session_core.assembly.extension_setup.digest_of", digest)
    folder = home.install("one")
    async with open_world(home, flags={"extensions.watch": ["one"]}) as world:
        monkeypatch.setattr("trio.to_thread.run_sync", run_sync)
        await enough.wait()
        before = len(reads)
        (folder / "more.txt").write_text("changed")
        await world.until("one", lambda each: each.generation == 2)

    assert 1 == before
    assert 3 >= len(reads)
    assert reads[0] != reads[1]


async def test_no_extensions_change_nothing(home: Home) -> None:
    """A service whose home has none works like one that never heard of them."""
    async with open_world(home, tool_call("look"), text("done"), tools=(ScriptedTool("look"),)) as world:
        assert "done" == await world.turn()
        assert () == (await world.service.list_extensions()).extensions
        assert not any(is_wanted(world.service.core.config.hooks, hook, world.session_id) for hook in HOOKS)
        assert frozenset() == world.host.subscribed_events
    assert ServiceConfig().extensions is None


async def test_who_gives_up_while_the_host_begins_is_not_kept() -> None:
    """A host that is cancelled at any step of its beginning ends, with nobody left waiting for it."""

    @asynccontextmanager
    async def prepare() -> AsyncGenerator[ExtensionHost]:
        yield ExtensionHost(Discovery, HostConfig(folder="/"))

    async def operation(host: ExtensionHost) -> None:
        with trio.CancelScope() as scope:

            class Begun:
                def started(self, value: None = None) -> None:
                    scope.cancel()

            await host.run(cast(Delegate, None), cast(Watcher, None), task_status=Begun())

    async def check(host: ExtensionHost, _run: SweepRun) -> None:
        await host.settled.wait()

    with trio.fail_after(PATIENCE):
        await cancel_sweep(prepare, operation, check)
