"""Extensions with the habits of published ones protect what they protect elsewhere, and read what people type."""

import os
from pathlib import Path
from typing import Any

import pytest

from session_core.testing.scripted import text, tool_call
from session_core.tools.files import coding_file_tools
from session_core.tools.shell import ShellTool
from session_core.vocabulary.messages import ToolResultPart
from session_core.vocabulary.sessions import SandboxPolicy
from tests._needs import needs_node
from tests.session_core.sep._children import SCRIPTS
from tests.session_core.sep._service import Home, World, open_world

pytestmark = needs_node
REMOVE = {"command": "rm -rf kept"}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.environ["PATH"] = os.environ["PATH"]
    home.put("gates", "node", [str(SCRIPTS / "gates.mjs")])
    (home.folder / "kept").mkdir()
    return home


def with_tools() -> dict[str, Any]:
    """Return the settings of a service whose model may do everything, with the real tools."""
    return {
        "tools": (ShellTool(), *coding_file_tools()),
        "permission_mode": "full",
        "sandbox": SandboxPolicy(mode="full_access"),
    }


def files(home: Home) -> set[str]:
    """Return the names of what is in the folder."""
    return {each.name for each in home.folder.iterdir()}


async def results(world: World) -> list[tuple[str, str, str]]:
    """The tool results of the session: tool, status and text."""
    messages = (await world.service.load_session(world.session_id)).messages
    parts = (part for message in messages for part in message.parts)
    return [(part.name, part.status, part.text) for part in parts if isinstance(part, ToolResultPart)]


@pytest.mark.parametrize("tool", ["bash", "shell"])
async def test_a_gate_on_bash_protects(home: Home, tool: str) -> None:
    """A gate that knows the tool as `bash` keeps a folder from being removed, whatever the model calls the tool."""
    answers = (tool_call(tool, REMOVE), tool_call("bash", {"command": "echo harmless"}), text("done"))
    async with open_world(home, *answers, **with_tools()) as world:
        await world.turn()
        (_, removed, why), (_, harmless, said) = await results(world)

    assert ("denied", "success") == (removed, harmless)
    assert "dangerous" in why
    assert "harmless" in said
    assert (home.folder / "kept").is_dir()


async def test_plan_mode_blocks_bash_and_write(home: Home) -> None:
    """While it plans, commands and changes are blocked and reading is not, until `/plan off` however it is typed."""
    calls = (
        tool_call("bash", {"command": "touch made"}),
        tool_call("write", {"path": "written", "content": ""}),
        tool_call("list", {}),
        text("done"),
    )
    async with open_world(home, *calls, *calls, **with_tools()) as world:

        async def plan(typed: str) -> str:
            return (await world.service.run_command(world.session_id, "plan", typed)).content

        assert "planning: true" == await plan("on")
        await world.turn()
        assert {"kept"} == files(home)
        said = [await plan(typed) for typed in ("off", "state=off", '{"state": "off"}', "off")]
        await world.turn()
        statuses = [status for _, status, _ in await results(world)]

    assert ["planning: false"] * 4 == said
    assert ["denied", "denied", "success", "success", "success", "success"] == statuses
    assert {"kept", "made", "written"} == files(home)


async def test_typed_arguments_have_names(home: Home) -> None:
    """What people type reaches the keys that commands read: those of their descriptions, or the customary ones."""
    async with open_world(home) as world:

        async def run(command: str, typed: str = "") -> str:
            return (await world.service.run_command(world.session_id, command, typed)).content

        assert "Usage: /echo <phrase>" == await run("echo")
        assert "You said: hi there" == await run("echo", "hi there")
        assert '{"source":"a b","target":"c d"}' == await run("move", "'a b' c d")
        assert '{"source":"a","target":"b"}' == await run("move", "target=b a")
