"""Real file tools in real turns: a yes is for the file that was shown, and rules about files hold in searches."""

from pathlib import Path
from typing import Any

import pytest
import trio

from session_core.permissions.rules import PermissionRule
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedProvider, text, tool_call
from session_core.tools.edit import EditTool
from session_core.tools.search import GrepTool
from session_core.vocabulary import events as ev
from tests.session_core.service._helpers import new_session, of_type, scripted

LINES = "".join(f"line {number}\n" for number in range(100))


@pytest.mark.parametrize("meddled", [False, True])
async def test_a_yes_is_for_the_file_that_was_shown(tmp_path: Path, *, meddled: bool) -> None:
    """A change far away from the lines that a person was shown makes their yes void; without one, it counts."""
    file = tmp_path / "f"
    file.write_text(LINES)
    call = tool_call("edit", {"path": "f", "old_text": "line 5\n", "new_text": "five\n"})
    provider = ScriptedProvider(call, text("done"))
    async with open_checked_service(scripted(provider, tools=(EditTool(),), cwd=str(tmp_path))) as service:
        session_id = await new_session(service)
        async with service.subscribe(session_id=session_id) as events:
            await service.send_user_message(session_id, "go")
            with trio.fail_after(300):
                while not (asked := [each for each in await events.receive_batch() if _asks(each.event)]):
                    pass
        if meddled:
            file.write_text(LINES.replace("line 90\n", "ninety\n"))
        request = asked[0].event
        assert isinstance(request, ev.ApprovalRequested)
        await service.answer_approval(session_id, request.approval.request_id, "allow_once")
        await service.wait_for_turn(session_id)
        (finished,) = of_type(service, session_id, ev.ToolCallFinished)
    if meddled:
        assert finished.result.status == "error"
        assert "has changed since this call was allowed, so nothing was written" in finished.result.text
    else:
        assert finished.result.status == "success"
    wanted = LINES.replace("line 90\n", "ninety\n") if meddled else LINES.replace("line 5\n", "five\n")
    assert file.read_text() == wanted


def _asks(event: Any) -> bool:
    return isinstance(event, ev.ApprovalRequested)


async def test_a_search_leaves_denied_files_out(tmp_path: Path) -> None:
    """A search over a folder shows no line of a file that a rule denies, and says so."""
    (tmp_path / ".env").write_text("KEY=canary\n")
    (tmp_path / "plain").write_text("a canary sings\n")
    provider = ScriptedProvider(tool_call("grep", {"pattern": "canary"}), text("done"))
    rules = (PermissionRule(decision="deny", path=".env"),)
    async with open_checked_service(scripted(provider, tools=(GrepTool(),), cwd=str(tmp_path), rules=rules)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        with trio.fail_after(300):
            await service.wait_for_turn(session_id)
        (finished,) = of_type(service, session_id, ev.ToolCallFinished)
    assert finished.result.text == "plain\n  1: a canary sings\n[1 file not shown: denied by a rule]"
