"""What is done around a tool call so that its changes of files can be undone."""

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from session_core.testing.scripted import ScriptedTool, tool_call
from session_core.tools.base import ToolContext, ToolFailed
from session_core.vocabulary.frozen import JsonObject
from tests.session_core.agent._talk import talk


class RecordingHost:
    """Notes when it is told that files may change."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.fault: BaseException | None = None

    async def before_command(self) -> None:
        self.log.append("before")
        if self.fault is not None:
            raise self.fault

    async def after_call(self) -> None:
        await trio.lowlevel.checkpoint()
        self.log.append("after")


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> RecordingHost:
    """The host of every tool call."""
    recording = RecordingHost()
    monkeypatch.setattr("session_core.service.core.TurnHost", lambda **_: recording)
    return recording


@pytest.mark.parametrize(
    ("effects", "expected"),
    [(("read",), ["run"]), (("write",), ["run", "after"]), (("execute",), ["before", "run", "after"])],
)
@pytest.mark.parametrize("fails", [False, True])
async def test_files_are_kept_around_a_call(
    host: RecordingHost,
    effects: Any,
    expected: list[str],
    fails: bool,  # noqa: FBT001
) -> None:
    """Before a command the folder is kept; after whatever changes files, their state is noted, also after a failure."""

    async def work(arguments: JsonObject, context: ToolContext) -> str:
        host.log.append("run")
        if fails:
            raise ToolFailed("no")
        return "done"

    async with talk(
        tool_call("t"), tools=(ScriptedTool("t", effects=effects, run=work),), permission_mode="full"
    ) as turn:
        (result,) = await turn.results()
    assert (expected, "error" if fails else "success") == (host.log, result.status)


async def test_files_are_noted_after_a_stop(host: RecordingHost) -> None:
    """A call that is stopped has its files noted before the turn ends."""
    tool = ScriptedTool("t", effects=("execute",), run=_hang)
    async with talk(tool_call("t"), tools=(tool,), permission_mode="full") as turn:
        await wait_all_tasks_blocked()
        await turn.service.request_stop(turn.session_id)
        (result,) = await turn.results()
        assert "cancelled" == result.status
    assert ["before", "after"] == host.log


async def _hang(arguments: JsonObject, context: ToolContext) -> str:
    await trio.sleep_forever()
    raise AssertionError


async def test_a_folder_that_cannot_be_kept(host: RecordingHost) -> None:
    """A command does not run when its changes could not be undone."""
    host.fault = ToolFailed("the disk is full")
    tool = ScriptedTool("t", effects=("execute",))
    async with talk(tool_call("t"), tools=(tool,), permission_mode="full") as turn:
        (result,) = await turn.results()
    assert ("error", "the disk is full", []) == (result.status, result.text, tool.calls)
