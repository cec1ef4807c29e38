"""Every example of an extension runs beside a real service, and does what it says."""

import re
from pathlib import Path

import trio

from session_core.sep.protocol.manifest import read_manifest
from session_core.stream.subscription import Subscription
from session_core.testing.scripted import Pause, ScriptedTool, text, tool_call
from session_core.tools.shell import ShellTool
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import thaw_json
from tests._needs import needs_sandbox
from tests.examples._extensions import (
    FOLDER,
    NAMES,
    answering,
    command,
    home_with,
    results,
    seen,
    shown_by,
    source_of,
)
from tests.session_core.sep._service import open_world

RISKY = {"command": "rm -rf build"}


def test_each_is_small_and_explains_itself() -> None:
    """Each has a manifest without mistakes, one short file of Python, and a README that says how to try it."""
    assert ("git-status", "notifier", "permission-gate", "plan-mode", "replay-provider", "todo") == NAMES
    for name in NAMES:
        manifest, source = read_manifest(FOLDER / name), source_of(name)
        assert (name, ()) == (manifest.name, manifest.remarks)
        assert ("python3", (source.name,)) == (manifest.run.command, manifest.run.args)
        assert f'Extension("{name}", "{manifest.version}")' in source.read_text()
        assert len(source.read_text().splitlines()) < 150
        readme = (FOLDER / name / "README.md").read_text()
        assert f"session-core ext trust {name}" in readme


async def test_todo(tmp_path: Path) -> None:
    """The model fills the list, people see it as a widget and by /todo, and it outlives the process."""
    answers = (
        tool_call("todo.add", {"text": "write it"}),
        tool_call("todo.add", {"text": "test it"}),
        tool_call("todo.done", {"number": 7}),
        tool_call("todo.done", {"number": "two"}),
        tool_call("todo.done", {"number": 1}),
        tool_call("todo.list"),
        text("done"),
    )
    async with open_world(home_with(tmp_path, ["todo"]), *answers, permission_mode="full") as world, answering(world):
        await world.turn()
        told = await results(world)
        await world.service.reload_extension("todo")
        listed = await command(world, "todo")
        completed = (await world.service.complete_command(world.session_id, "todo", "done ")).completions
        await command(world, "todo", "add  celebrate ")
        shown = shown_by(await world.service.load_session(world.session_id), "todo").widget
        await world.service.press_widget_key(world.session_id, "todo", "todo", "c")
        await seen(world, lambda now: shown_by(now, "todo").widget != shown)
        cleared = await command(world, "todo")

    everything = "1. [x] write it\n2. [ ] test it"
    assert ["1. [ ] write it", "2. [ ] test it"] == told[:2]
    assert "there is no task 7; there are:\n1. [ ] write it\n2. [ ] test it" == told[2]
    assert "number" in told[3]
    assert ["1. [x] write it", everything] == told[4:]
    assert everything == listed
    assert [("done 2", "test it")] == [(each.value, each.description) for each in completed]
    assert shown is not None
    assert [["x", "write it"], ["", "test it"], ["", "celebrate"]] == thaw_json(shown)["body"]["rows"]
    assert "2. [ ] test it\n3. [ ] celebrate" == cleared


async def test_permission_gate(tmp_path: Path) -> None:
    """A risky command does not run when nobody can be asked or somebody says no, and runs after a yes."""
    shell = ScriptedTool("bash", effects=("execute",), run="it ran")
    harmless = {"command": "ls -rf; git push"}
    answers = [tool_call("bash", arguments) for arguments in (harmless, RISKY, RISKY, RISKY)]
    turns = [step for answer in answers for step in (answer, text("done"))]
    home = home_with(tmp_path, ["permission-gate"])
    async with open_world(home, *turns, tools=(shell,), permission_mode="full") as world:
        await world.turn()
        await world.turn()
        async with answering(world, False, True) as asked:
            await world.turn()
            await world.turn()
        told = await results(world)

    why = "Blocked by an extension: permission-gate: it deletes without asking, and"
    assert ["it ran", f"{why} nobody is there who could be asked", f"{why} somebody said no", "it ran"] == told
    assert [harmless, RISKY] == [thaw_json(call) for call in shell.calls]
    assert ["permission-gate"] * 2 == [dialog.extension for dialog in asked]
    assert "May this run? (it deletes without asking)\n\nrm -rf build" == asked[0].message


async def test_plan_mode(tmp_path: Path) -> None:
    """While people plan, by flag or by command, the model is told so and left with what reads; then all comes back."""
    tools = tuple(ScriptedTool(name) for name in ("read", "grep", "write"))
    answers = (text("a plan"), text("plain"), tool_call("write"), text("1. Write it."), text("written"))
    home, flags = home_with(tmp_path, ["plan-mode"]), {"extensions.flags": ["plan"]}
    async with open_world(home, *answers, tools=tools, flags=flags, permission_mode="full") as world, answering(world):
        await world.turn()
        await command(world, "plan", "off")
        await world.turn()
        said = await command(world, "plan")
        status = shown_by(await world.service.load_session(world.session_id), "plan-mode").status
        await world.turn()
        await command(world, "plan", "go")
        outcome = (await world.service.wait_for_turn(world.session_id)).outcome
        snapshot = await world.service.load_session(world.session_id)

    narrow, whole = ["grep", "read"], ["grep", "read", "write"]
    requests = world.provider.requests
    assert [narrow, whole, narrow, narrow, whole] == [sorted(tool.name for tool in each.tools) for each in requests]
    assert [True, False, True, True, False] == ["You are in plan mode" in each.system for each in requests]
    assert said.startswith("Planning. The model can use read, ")
    assert ("planning", []) == (status, tools[2].calls)
    assert ("written", "The plan is good. Carry it out.") == (outcome.final_text, snapshot.messages[-2].text)
    assert not shown_by(snapshot, "plan-mode").status


@needs_sandbox
async def test_git_status(tmp_path: Path) -> None:
    """After a turn the status line tells the branch and what has changed; in a folder without git it tells nothing."""
    home = home_with(tmp_path, ["git-status"])
    for line in ("init -q -b main", "-c user.name=a -c user.email=a@b commit -q --allow-empty -m first"):
        await trio.run_process(["git", *line.split()], cwd=home.folder)
    (home.folder / "new.txt").write_text("new")
    async with (
        open_world(home, text("one"), text("two"), tools=(ShellTool(),), permission_mode="full") as world,
        answering(world),
    ):
        await world.turn()
        await seen(world, lambda now: shown_by(now, "git-status").status == "main ?1")
        await trio.run_process(["git", "add", "new.txt"], cwd=home.folder)
        await world.turn()
        await seen(world, lambda now: shown_by(now, "git-status").status == "main ~1")


async def test_notifier(tmp_path: Path) -> None:
    """People are told of a turn that took long, and in the right session of what other extensions publish."""
    answers = (
        (Pause("another"), *tool_call("todo.add", {"text": "x"})),
        text("meanwhile"),
        tool_call("todo.done", {"number": 1}),
        (Pause("told"), *text("done")),
    )
    home, flags = home_with(tmp_path, ["notifier", "todo"]), {"extensions.flags": ["notify-after=0"]}
    home.install("mouth")
    async with open_world(home, *answers, flags=flags, permission_mode="full") as world, answering(world):
        another = (await world.service.create_session(name="another")).session_id
        async with world.service.subscribe(world.session_id) as events, world.service.subscribe(another) as others:
            await world.service.send_user_message(world.session_id, "hi")
            await world.provider.wait_for_pause("another")
            await world.turn(session_id=another)
            await _notice(others)  # so that what happened last has happened there
            world.provider.release("another")
            assert ("notifier", "info", "todo: All tasks are done.") == await _notice(events)
            world.provider.release("told")
            assert re.fullmatch(r"The turn ended after \d+ s: completed\.", (await _notice(events))[2])
            # Without a session, it is shown in the one where something has happened last.
            await world.asks("mouth", "bus/publish", topic="notify", payload={"message": "hi", "level": "error"})
            assert ("notifier", "error", "mouth: hi") == await _notice(events)


async def _notice(events: Subscription) -> tuple[str, str, str]:
    async for each in events:
        if isinstance(notice := each.event, ev.NoticeShown):
            return notice.extension, notice.level, notice.message
    raise AssertionError("the session has ended")


async def test_replay_provider(tmp_path: Path) -> None:
    """What was recorded comes word by word, with its thoughts, its tool calls and what it has used."""
    listing = ScriptedTool("list", run="nothing")
    home, flags = home_with(tmp_path, ["replay-provider"]), {"extensions.flags": ["replay-pause=0"]}
    async with open_world(home, tools=(listing,), flags=flags, permission_mode="full") as world:
        await world.service.switch_model(world.session_id, "replay/recording")
        async with world.service.subscribe(world.session_id) as events:
            first = await world.turn("What is here?")
            pieces = [each.event.text for each in await events.receive_batch() if isinstance(each.event, ev.PartDelta)]
        usage = (await world.service.load_session(world.session_id)).usage
        over = await world.turn("And now?")

    assert first.startswith("That is all there is. Everything I say was recorded")
    assert ["That ", "is ", "all "] == pieces[pieces.index("That ") :][:3]
    assert "They want to know what is here. I should look first." in pieces
    assert 1 == len(listing.calls)
    assert "The recording is over." == over
    assert (300, 42) == (usage.input_tokens, usage.output_tokens)
