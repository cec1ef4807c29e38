"""A stop reaches real child processes. These tests run in real time."""

import os
import sys

import trio

from session_core.processes.child import Launch
from session_core.processes.run import run_in_group
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedProvider, ScriptedTool, text, tool_call
from session_core.tools.base import ToolContext
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ToolResultPart
from tests.session_core.service._helpers import new_session, of_type, say, scripted

STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
while True:
    time.sleep(60)
"""


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_stop_kills_a_child_that_ignores_sigterm() -> None:
    """A stop ends a child process that ignores SIGTERM before it says that the tool call has ended."""

    async def stubborn(arguments: JsonObject, context: ToolContext) -> str:
        outcome = await run_in_group(
            Launch(argv=[sys.executable, "-c", STUBBORN], cwd=context.cwd), on_output=context.report
        )
        return outcome.output

    provider = ScriptedProvider(tool_call("stubborn"), text("ok"))
    tool = ScriptedTool("stubborn", run=stubborn)
    async with open_checked_service(scripted(provider, tools=(tool,))) as service:
        session_id = await new_session(service)
        async with service.subscribe(session_id) as events:
            await service.send_user_message(session_id, "go")
            with trio.fail_after(300):
                async for event in events:
                    if isinstance(event.event, ev.ToolOutputDelta):
                        break
        (live,) = (await service.load_session(session_id)).tools
        pid = int(live.output)
        assert not is_gone(pid)

        with trio.fail_after(300):
            outcome = await service.request_stop(session_id)

        assert is_gone(pid)
        assert "stopped" == outcome.result
        assert ["turn", "tool_call"] == [work.kind for work in outcome.ended]
        (result,) = (await service.load_session(session_id)).transcript[-1].parts
        assert isinstance(result, ToolResultPart)
        assert "cancelled" == result.status
        assert 1 == len(of_type(service, session_id, ev.TurnEnded))
        assert "completed" == (await say(service, session_id)).status
