"""What a folder says reaches everybody who does something there: people, extensions, code, and those who wait."""

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from session_core.agent import tool_runner
from session_core.agent.call_preview import build_preview
from session_core.agent.folder_settings import FolderUnusable
from session_core.assembly.folders import mcp_servers
from session_core.assembly.folders.files import read_user_settings
from session_core.assembly.folders.registry import Folders, open_folders
from session_core.assembly.setup import open_setup
from session_core.assembly.surroundings import AgentEnvironment
from session_core.errors import Conflict, Forbidden
from session_core.service.extension_bridge import programs
from session_core.service.extension_bridge.programs import ProgramGate
from session_core.service.service import open_session_service
from session_core.testing.cancel_sweep import SweepRun, cancel_sweep
from session_core.testing.scripted import ScriptedProvider, text, tool_call
from session_core.tools.base import CallPreview, Tool, ToolContext
from session_core.vocabulary.messages import ToolCallPart
from tests.session_core.sep._service import Home
from tests.session_core.service._folders import SERVER, deny, folder, served, told_of
from tests.session_core.service._helpers import new_session, say
from tests.session_core.service._programs import People, make_caller

BROKEN = "permissions = 1\n"


def made(top: Path) -> list[Path]:
    """The files that nobody was to make."""
    return [*top.rglob("made")]


async def test_what_a_person_types_obeys_the_folder(tmp_path: Path) -> None:
    """A command that a person types is refused where the folder forbids it, and where it cannot be read."""
    strict = folder(tmp_path, "strict", deny("bash"))
    async with served(tmp_path) as world:
        service = world.service
        session = await new_session(service, cwd=strict)
        await service.run_shell_line(session, "touch made")
        await service.wait_for_turn(session)
        line = (await service.load_session(session)).transcript[-1]

    assert "a rule in the configuration forbids it" in line.text
    assert [] == made(tmp_path)


async def test_programs_of_extensions_obey_the_folder(tmp_path: Path) -> None:
    """A program of an extension is judged by the folder of its session, and by none that it has left meanwhile."""
    strict, free = folder(tmp_path, "strict", deny("bash")), folder(tmp_path, "free", "")
    async with served(tmp_path) as world:
        people = People()
        gate = ProgramGate(world.service.core, people)
        session = await new_session(world.service, cwd=strict)
        with pytest.raises(Forbidden, match="a rule in the configuration forbids it"):
            await gate(make_caller(session), "touch made", None)
        await world.service.change_working_directory(session, free)

        async def leave() -> None:
            await world.service.change_working_directory(session, strict)

        people.meanwhile = leave
        with pytest.raises((Forbidden, Conflict)):
            await gate(make_caller(session), "touch made", None)

    assert 1 == len(people.asked)
    assert [] == made(tmp_path)


async def test_who_leaves_while_a_call_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that is looked at in one folder is not judged by the rules of another, and nobody is asked about it."""
    left, right = folder(tmp_path, "left", ""), folder(tmp_path, "right", "")

    async def look_and_leave(tool: Tool, call: ToolCallPart, context: ToolContext) -> CallPreview:
        preview = await build_preview(tool, call, context)
        await world.service.change_working_directory(session, right)
        return preview

    for module in (tool_runner, programs):
        monkeypatch.setattr(module, "build_preview", look_and_leave)
    async with served(tmp_path, tool_call("write", {"path": "made", "content": "x"}), text("done")) as world:
        session = await new_session(world.service, cwd=left)
        await say(world.service, session)
        (result,) = await world.results(session)
        await world.service.change_working_directory(session, left)
        people = People()
        with pytest.raises(Conflict, match="another folder"):
            await ProgramGate(world.service.core, people)(make_caller(session), "touch made", None)

    assert ("error", True) == (result.status, "another folder" in result.text)
    assert ([], []) == (people.asked, made(tmp_path))


async def test_nothing_runs_where_the_rules_cannot_be_read(tmp_path: Path) -> None:
    """A session that is led to a broken folder by a link does nothing there, whoever wants it."""
    good, broken = folder(tmp_path, "good", ""), folder(tmp_path, "broken", BROKEN)
    link, other = tmp_path / "link", tmp_path / "other"
    link.symlink_to(good)
    async with served(tmp_path) as world:
        session = await new_session(world.service, cwd=str(link))
        other.symlink_to(broken)
        other.replace(link)
        outcome = await say(world.service, session)
        gate = ProgramGate(world.service.core, People())
        with pytest.raises(FolderUnusable, match="line 1"):
            await world.folders.hold(str(link))
        assert world.folders.get_known(str(link)) is None
        with pytest.raises(FolderUnusable, match="line 1"):
            await gate(make_caller(session), "touch made", None)

    assert ("failed", True) == (outcome.status, "line 1" in (outcome.error or ""))


async def test_a_server_that_never_answers_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first turn in a folder waits for its servers, but not for ever, and the next one does not wait at all."""
    path = folder(tmp_path, "left", "")
    server = {"command": sys.executable, "args": [str(SERVER), "mute"]}
    (tmp_path / "left" / "mcp.json").write_text(json.dumps({"mcpServers": {"mute": server}}))
    folder(tmp_path, "left")
    place = AgentEnvironment(home=tmp_path / "home", folder=path, environ={"HOME": str(tmp_path)}, is_persistent=False)
    base = read_user_settings(place, {})
    monkeypatch.setattr(mcp_servers, "FOLDER_SERVERS_WAIT_MS", 1)
    with trio.fail_after(300):
        async with open_folders(place, base, {}) as folders:
            release = await folders.hold(path)
            monkeypatch.setattr(mcp_servers, "FOLDER_SERVERS_WAIT_MS", 3_600_000)
            (await folders.hold(path))()
            states = [each.state for each in (await folders.load(path)).servers.statuses()]
            release()

    assert ["connecting"] == states


async def test_whoever_gives_up_holds_nothing(tmp_path: Path) -> None:
    """Who is cancelled at any step of coming into a folder leaves nothing behind that keeps it or its servers open."""
    left, right = folder(tmp_path, "left", ""), folder(tmp_path, "right", "")
    idle = {"mcpServers": {"idle": {"command": "/bin/false", "disabled": True}}}
    (tmp_path / "left" / "mcp.json").write_text(json.dumps(idle))
    folder(tmp_path, "left")
    place = AgentEnvironment(home=tmp_path / "home", folder=left, environ={"HOME": str(tmp_path)}, is_persistent=False)
    base = read_user_settings(place, {})

    @asynccontextmanager
    async def prepare() -> AsyncGenerator[Folders]:
        async with open_folders(place, base, {}, most=1) as folders:
            yield folders

    async def operation(folders: Folders) -> None:
        release = await folders.hold(left)
        assert 1 == len(folders._pool._open)
        release()

    async def check(folders: Folders, _run: SweepRun) -> None:
        (await folders.hold(right))()
        assert (1, 0) == (len(folders._open), len(folders._pool._open))

    with trio.fail_after(300):
        await cancel_sweep(prepare, operation, check)


async def test_extensions_that_nobody_agreed_to_are_not_started(tmp_path: Path) -> None:
    """The user's own take part in all sessions but where a folder does not want them; others need a yes, and say so."""
    home = Home(tmp_path)
    tool = {"name": "greet", "description": "Says hello.", "parameters": {"type": "object"}}
    home.install("mine", manifest="[capabilities]\ntools = true\n", registrations={"tools": [tool]})
    home.install("theirs", project=True)
    work, quiet = folder(tmp_path, "work"), folder(tmp_path, "quiet", "[extensions]\nuse = false\n")
    model = ScriptedProvider(text("one"), text("two"))
    with trio.fail_after(300):
        async with open_setup(home.place, flags={"model": "demo"}, open_folder=False) as setup:
            own = setup.extensions.own
            assert own is not None
            config = attrs.evolve(setup.service, models={"demo": model}, model_infos={})
            async with open_session_service(config) as service, service.subscribe() as events:
                await own.settled.wait()
                names = [each.name for each in own.extensions]
                sessions = [await new_session(service, cwd=each) for each in (work, quiet)]
                told = await told_of(events, work)
                for each in sessions:
                    await say(service, each)
                listed = [(each.name, each.folder) for each in (await service.list_extensions()).extensions]

    assert (["mine"], [("mine", None)]) == (names, listed)
    assert "the extension theirs of this folder is not used: nobody has agreed to it yet" in told.warnings[0]
    assert [True, False] == [any("greet" in tool.name for tool in each.tools) for each in model.requests]
