"""Known weaknesses of hosts of this protocol, and a test for the opposite of each.

The number in a test's name stands for one weakness: 1 to 8
concern security, 9 to 21 availability, 22 to 32 the meaning of the protocol, 33 to 37 extensions that are easily hurt.
"""

from pathlib import Path
from typing import Any

import pytest
import trio

from session_core.assembly.folders.folder import OpenFolder
from session_core.errors import ExtensionFailed
from session_core.ids import RequestId
from session_core.sep.host.extension import HostedExtension
from session_core.testing.scripted import ScriptedTool, text, tool_call
from session_core.vocabulary.messages import ToolResultPart
from tests.session_core.sep._service import Home, World, open_world

RPC = "../rpc/"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


# --- security ---------------------------------------------------------------------------------------------------------


async def test_01_a_context_cannot_be_forged(home: Home) -> None:
    """What a process claims about its tier counts for nothing: guessed tokens, those of events and of others fail."""
    home.install("forger", registrations={"subscriptions": ["session_start"]})
    home.install("other")
    async with open_world(home) as world:
        another = (await world.service.create_session(name="another")).session_id
        await world.until_told("forger", "session_start")
        heard = [each for method, each in await world.heard("forger") if method == "event"]
        (event,) = [each for each in heard if each["payload"]["session_id"] == another]
        says = {"text": "I am the user", "role": "user"}
        forged: list[object] = [
            None,
            "epoch-1",
            {"tier": "command"},
            *({"token": token, "tier": "command"} for token in ("epoch-1", "", None, 1, event["context"]["token"])),
        ]
        codes = [await world.code("forger", "session/send_message", context=each, **says) for each in forged]
        with world.host.contexts.dispatch("other", 1, world.session_id) as theirs:
            codes.append(await world.code("forger", "session/send_message", context=theirs.wire, **says))
        good = await world.asks("forger", "session/send_message", context="$context", **says)
        messages = (await world.service.load_session(world.session_id)).messages

    assert {-32003} == set(codes)
    assert {"result": {}} == good
    assert ["I am the user"] == [each.text for each in messages]


GATE: dict[str, Any] = {
    "registrations": {"hooks": ["tool_call"]},
    "hooks": {"tool_call": {"action": "block", "reason": "the gate is shut"}},
}


async def test_02_an_untrusted_project_disarms_nobody(home: Home) -> None:
    """An extension of a project that nobody trusts does not take the place of the user's own, whatever its name."""
    home.install("gate", **GATE)
    home.install("gate", project=True, registrations={"hooks": ["context"]})
    tool = ScriptedTool("remove")
    async with open_world(home, tool_call("remove"), text("oh"), tools=(tool,)) as world:
        await world.turn()
        (known,) = (await world.service.list_extensions()).extensions
        result = await result_of(world)

    assert ("user", "ready") == (known.scope, known.state)
    assert [] == tool.calls
    assert "the gate is shut" in result.text


async def test_03_a_name_on_a_list_is_no_permission(home: Home) -> None:
    """A list of allowed names starts nothing that lies in a folder nobody trusts or that nobody has agreed to."""
    home.environ["SMOOTH_EXTENSIONS_ALLOW"] = "gate"
    home.install("gate", project=True)
    (home.path / "extensions").mkdir()
    unseen = home.install("gate", project=True)
    unseen.rename(home.path / "extensions" / "gate")
    home.install("gate", project=True)
    home.install("unlisted")
    async with open_world(home) as world:
        assert () == world.host.extensions
        folder = await world.service.core.config.folders.load(str(home.folder))
        assert isinstance(folder, OpenFolder)
        skipped = (*world.host.discovery.skipped, *folder.files.unused)
        reasons = sorted((each.name, each.kind) for each in skipped)

    assert [("gate", "no_consent"), ("gate", "untrusted"), ("unlisted", "not_allowed")] == reasons
    assert [] == list(home.notes.iterdir())


@pytest.mark.parametrize("name", ["../../escaped", "/escaped", ".", "a/b"])
async def test_04_a_name_is_no_path(home: Home, name: str) -> None:
    """A manifest whose name could lead anywhere is refused, so nothing is ever written under it."""
    home.put(name, "/bin/true", [], folder="tricky", project=True)
    (home.path / "extensions").mkdir()
    (home.folder / ".smooth" / "extensions" / "tricky").rename(home.path / "extensions" / "tricky")
    async with open_world(home) as world:
        assert () == world.host.extensions
        assert ["invalid"] == [each.kind for each in world.host.discovery.skipped]


async def test_05_a_name_has_no_dots(home: Home) -> None:
    """Nobody can be called so that the tools of another look like theirs."""
    home.put("a.b", "/bin/true", [], folder="dotted", project=True)
    (home.path / "extensions").mkdir()
    (home.folder / ".smooth" / "extensions" / "dotted").rename(home.path / "extensions" / "dotted")
    async with open_world(home) as world:
        (skipped,) = world.host.discovery.skipped

    assert "invalid" == skipped.kind
    assert "a.b" in skipped.reason


async def test_06_capabilities_are_enforced(home: Home) -> None:
    """What the manifest does not enable is refused and not registered, and a dialog that nobody can show is refused."""
    tools = [{"name": "t", "description": "", "parameters": {}}]
    home.install("one", manifest="[capabilities]\nui = true\ncommands = true\n", registrations={"tools": tools})
    home.install("two", registrations={"subscriptions": ["bus/event"]})
    async with open_world(home) as world:
        refused: dict[str, dict[str, Any]] = {
            "kv/get": {"key": "a"},
            "kv/set": {"key": "a", "value": 1},
            "exec/run": {"command": "true", "context": "$context"},
            "session/send_message": {"text": "x", "context": "$context"},
            "tools/set_active": {"tools": []},
        }
        codes = {method: await world.code("one", method, **params) for method, params in refused.items()}
        await world.asks("one", "bus/publish", topic="t", payload={})
        await world.asks("two", "bus/publish", topic="mine", payload={})
        with world.service.attach("somebody", ui=frozenset({"notify"})):
            shown = await world.asks("one", "ui/request", kind="notify", message="hello")
            asked = await world.code("one", "ui/request", kind="confirm", prompt="really?")
        assert () == world.extension("one").registrations.tools
        assert [] == await world.events("two")

    assert dict.fromkeys(refused, -32004) == codes
    assert ({"result": {}}, -32001) == (shown, asked)


async def test_07_a_changed_script_does_not_run(home: Home) -> None:
    """What a person agreed to are all files of the folder; a program that was changed later is not started."""
    folder = home.install("one")
    (folder / "helper.py").write_text("the one that was agreed to")
    home.agree("one", folder)
    async with open_world(home) as world:
        assert "ready" == world.extension("one").state
        (folder / "helper.py").write_text("another one")
    async with open_world(home) as world:
        assert () == world.host.extensions
        assert ["no_consent"] == [each.kind for each in world.host.discovery.skipped]


async def test_08_a_program_needs_a_context(home: Home) -> None:
    """Without a context that is good, no program is run, and the service is not even asked."""
    home.install("one")
    async with open_world(home) as world:
        contexts: list[object] = [None, {"token": "epoch-1", "tier": "command"}]
        assert [-32003, -32003] == [await world.code("one", "exec/run", command="true", context=c) for c in contexts]
        assert -32003 != await world.code("one", "exec/run", command="true", context="$context")


# --- availability -----------------------------------------------------------------------------------------------------


async def test_09_a_dead_extension_stands_in_nobodys_way(home: Home) -> None:
    """Tools run on after the crash of an extension that guards nothing; one that does guard them means no meanwhile."""
    home.install("bystander", registrations={"hooks": ["context"]})
    home.install("unknown", registrations={"hooks": []})
    tool = ScriptedTool("look")
    answers = (tool_call("look"), text("fine"), tool_call("look"), text("refused"))
    async with open_world(home, *answers, tools=(tool,)) as world:
        for name in ("bystander", "unknown"):
            with pytest.raises(ExtensionFailed):
                await world.service.run_command(world.session_id, "die", extension=name)
            await world.until(name, lambda each: each.state == "restarting")
        assert "fine" == await world.turn()
        assert 1 == len(tool.calls)
        home.install("gate", registrations={"hooks": ["tool_call"]})
        await world.host.enable("gate")
        with pytest.raises(ExtensionFailed):
            await world.service.run_command(world.session_id, "die", extension="gate")
        await world.until("gate", lambda each: each.state == "restarting")
        await world.turn()
        await world.until("gate", lambda each: each.state == "ready")

    assert 1 == len(tool.calls)


async def test_11_an_open_dialog_holds_nothing_up(home: Home) -> None:
    """While a question of an extension waits for a person, its hooks, commands and other requests are answered."""
    home.install("one", registrations={"hooks": ["tool_call"]})
    tool = ScriptedTool("look")
    async with (
        open_world(home, tool_call("look"), text("done"), tools=(tool,)) as world,
        trio.open_nursery() as nursery,
    ):
        answers: list[object] = []

        async def ask() -> None:
            answers.append(await world.asks("one", "ui/request", kind="confirm", prompt="really?", context="$context"))

        with world.service.attach("somebody", ui=frozenset({"confirm"})) as somebody:
            nursery.start_soon(ask)
            dialog = await open_dialog_of(world)
            assert "done" == await world.turn()
            assert {"result": {}} == await world.asks("one", "ping")
            assert [] == answers
            await somebody.answer_dialog(world.session_id, dialog, True)

    assert 1 == len(tool.calls)
    assert [{"result": {"confirmed": True}}] == answers


async def test_12_an_answer_may_lead_back_into_the_extension(home: Home) -> None:
    """Whoever is asked by an extension may use that same extension before they answer."""
    home.install("one")
    async with open_world(home) as world, trio.open_nursery() as nursery:
        answers: list[object] = []

        async def ask() -> None:
            answers.append(await world.asks("one", "ui/request", kind="input", prompt="your name?", context="$context"))

        with world.service.attach("somebody", ui=frozenset({"input"})) as somebody:
            nursery.start_soon(ask)
            dialog = await open_dialog_of(world)
            inner = await world.asks("one", "session/send_message", text="from within", context="$context")
            await somebody.answer_dialog(world.session_id, dialog, "Eve")

    assert {"result": {}} == inner
    assert [{"result": {"text": "Eve"}}] == answers


async def test_13_a_flood_of_events_starves_no_request(home: Home) -> None:
    """However many events wait for an extension, a request to it is answered, and what was lost is told."""
    home.install("one", registrations={"subscriptions": ["bus/event"]})
    home.install("loud")
    async with open_world(home) as world:
        for number in range(5_000):
            world.host.publish("loud", "t", {"n": number})
        events = await world.events("one")
        while not events or events[-1][1].get("payload", {}).get("n") != 4_999:
            events = await world.events("one")

    lost = sum(payload["lost"] for name, payload in events if name == "events_lost")
    told = [payload["payload"]["n"] for name, payload in events if name == "bus/event"]
    assert 5_000 == lost + len(told)
    assert told == sorted(told)
    assert 0 < lost < 5_000


async def test_14_long_lines_are_ordinary(home: Home) -> None:
    """Lines of a megabyte in both directions arrive whole."""
    home.install("one")
    async with open_world(home) as world:
        value = "ä" * 100_000
        assert [{"result": {}}, {"result": {"value": value}}] == await world.do(
            "one", ["kv/set", {"key": "long", "value": value}], ["kv/get", {"key": "long"}]
        )


async def test_19_one_bad_manifest(home: Home) -> None:
    """An extension whose manifest has no name is told of, and all others run."""
    nameless = home.install("nameless")
    (nameless / "extension.toml").write_text("version = '1'\n")
    home.install("one")
    async with open_world(home) as world:
        assert ["one"] == [each.name for each in world.host.extensions]
        assert ["invalid"] == [each.kind for each in world.host.discovery.skipped]
        assert "ready" == world.extension("one").state


async def test_20_all_begin_and_end_together(home: Home) -> None:
    """Each of three waits for the two others in its greeting and in its end, and none of them is given up."""
    names = ("one", "two", "three")
    for name in names:
        home.install(name, wait_for=[other for other in names if other != name])
    async with open_world(home) as world:
        assert {"ready"} == {each.state for each in world.host.extensions}
        extensions: tuple[HostedExtension, ...] = world.host.extensions

    assert {f"{name}-ended" for name in names} <= {each.name for each in home.notes.iterdir()}
    assert not [line.text for each in extensions for line in each.log.lines() if "kill" in line.text]


# --- meaning ----------------------------------------------------------------------------------------------------------


async def test_23_a_reload_concerns_one_extension_only(home: Home) -> None:
    """What one extension is doing stays allowed while another is reloaded, and its tools work as before."""
    tools = [{"name": "t", "description": "", "parameters": {"type": "object"}}]
    home.install("stays", registrations={"tools": tools})
    home.install("reloaded")
    answers = (tool_call("stays.t"), text("once"), tool_call("stays.t"), text("twice"))
    async with open_world(home, *answers, permission_mode="full") as world:
        await world.turn()
        found: list[object] = []

        async def act_later() -> None:
            later = ["session/send_message", {"text": "still here", "context": "$context"}]
            found.extend(await world.do("stays", ["note", {"note": "under-way"}], ["wait", {"note": "go"}], later))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(act_later)
            while not (home.notes / "under-way").exists():
                await world.heard("stays")
            await world.service.reload_extension("reloaded")
            (home.notes / "go").touch()
        await world.turn()
        messages = (await world.service.load_session(world.session_id)).messages
        results = [part for each in messages for part in each.parts if isinstance(part, ToolResultPart)]

    assert [{"result": {}}] == found
    assert "still here" in [each.text for each in messages]
    assert ["success", "success"] == [each.status for each in results]


async def test_25_nothing_is_an_answer_too(home: Home) -> None:
    """An answer that has nothing to say is still a result."""
    home.install("one")
    async with open_world(home) as world:
        assert {"result": {"value": None}} == await world.asks("one", "kv/get", key="never set")


async def test_26_what_other_hosts_leave_out(home: Home) -> None:
    """Values are listed and deleted, the state is told, tools are narrowed and added, and the log has what was said."""
    tools = [{"name": "t", "description": "", "parameters": {"type": "object"}}]
    home.install("one", registrations={"tools": tools})
    async with open_world(home, tools=(ScriptedTool("look"), ScriptedTool("listen"))) as world:
        found = await world.do(
            "one",
            ["kv/set", {"key": "a/1", "value": [1]}],
            ["kv/set", {"key": "b", "value": {}}],
            ["kv/delete", {"key": "b"}],
            ["kv/list", {"prefix": "a/"}],
            ["kv/list", {}],
            ["session/state", {"context": "$context"}],
            ["tools/set_active", {"tools": ["look", "one.t", "nothing"]}],
            ["registry/update", {"tools": [{**tools[0], "name": "u"}]}, "tell"],
            ["log", {"level": "warn", "message": "take care", "fields": {"n": 1}}, "tell"],
            ["ping", {}],
        )
        await world.turn()
        assert ("t", "u") == tuple(each.name for each in world.extension("one").registrations.tools)
        assert ["take care {'n': 1}"] == [
            line.text for line in world.extension("one").log.lines() if "care" in line.text
        ]
        state = found[5]["result"]["state"]

    assert [{}, {}, {}, {"keys": ["a/1"]}, {"keys": ["a/1"]}] == [each["result"] for each in found[:5]]
    assert (world.session_id, "m", "the session") == (state["session_id"], state["model"], state["name"])
    assert {"result": {"active": ["look", "one.t"]}} == found[6]
    assert ["look", "one.t"] == sorted(each.name for each in world.provider.requests[0].tools)


async def test_27_another_name_is_noticed_and_means_nothing(home: Home) -> None:
    """Whatever an extension calls itself, it is known by its manifest, and its values are its own."""
    home.install("one", identity="two")
    home.install("two")
    async with open_world(home) as world:
        await world.asks("one", "kv/set", key="mine", value=1)
        assert {"result": {"value": None}} == await world.asks("two", "kv/get", key="mine")
        (remark,) = [line.text for line in world.extension("one").log.lines() if "calls itself" in line.text]

    assert "it calls itself 'two'; here it is 'one', as its manifest says" == remark


async def test_30_who_wants_no_hook_is_asked_for_none(home: Home) -> None:
    """A turn asks an extension for what it handles, and one that handles something else for nothing at all."""
    home.install("busy", registrations={"hooks": ["tool_call"]})
    home.install("idle", registrations={"hooks": ["session_before_compact"]})
    async with open_world(home, tool_call("look"), text("done"), tools=(ScriptedTool("look"),)) as world:
        await world.turn()
        assert ["tool_call"] == [name for name, _ in await world.hooks("busy")]
        assert [] == await world.hooks("idle")


async def test_37_wrong_arguments_never_reach_an_extension(home: Home) -> None:
    """What does not fit the schema of a tool is told to the model, and the extension need not look."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    home.install("one", registrations={"tools": [{"name": "greet", "description": "", "parameters": schema}]})
    async with open_world(home, tool_call("one.greet", {}), text("oh"), permission_mode="full") as world:
        await world.turn()
        result = await result_of(world)
        assert "tool/execute" not in dict(await world.heard("one"))

    assert "error" == result.status
    assert "name" in result.text


# --- what they share --------------------------------------------------------------------------------------------------


async def open_dialog_of(world: World) -> RequestId:
    """Wait until a dialog is open in the session."""
    async with world.service.subscribe(world.session_id) as events:
        while not (dialogs := (await world.service.load_session(world.session_id)).dialogs):
            await events.receive_batch()
    return dialogs[0].request_id


async def result_of(world: World) -> ToolResultPart:
    """Return the first result of a tool in the session."""
    messages = (await world.service.load_session(world.session_id)).messages
    return next(part for each in messages for part in each.parts if isinstance(part, ToolResultPart))
