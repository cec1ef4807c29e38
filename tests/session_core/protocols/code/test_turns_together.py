"""Turns of models that write code, with people, tools, helpers and options; what runs the code is a double."""

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from session_core.errors import SessionCoreError
from session_core.protocols.execution import CellResult, Execution
from session_core.protocols.options import PluginOptions
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedProvider, ScriptedTool, text
from session_core.tools.base import ToolContext, ToolOutput
from session_core.tools.task import TaskTool
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from tests.session_core.protocols.code._fake_executor import CELLS, FakeCode, FakeExecutor, cell, coding
from tests.session_core.service._helpers import new_session, of_type, say, scripted, transcript

TASK = JsonObject({"title": "count", "prompt": "how many?"})


async def test_steering_between_cells() -> None:
    """A message that steers is read after the cell that was running, before the model is asked again."""
    running, go_on = trio.Event(), trio.Event()

    async def wait(_execution: Execution) -> CellResult:
        running.set()
        await go_on.wait()
        return CellResult(output="waited")

    provider = ScriptedProvider(text(cell("wait()")), text("as you say"))
    async with open_checked_service(scripted(provider, **coding(FakeExecutor({"wait()": wait})))) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await running.wait()
        await service.send_user_message(session_id, "be brief", deliver_as="steer")
        go_on.set()
        assert "as you say" == (await service.wait_for_turn(session_id)).outcome.final_text
        assert [
            ("user", "[Output of the cell]\nwaited"),
            ("user", "be brief"),
            ("assistant", "as you say"),
        ] == (await transcript(service, session_id))[2:]


async def test_a_follow_up_after_finish() -> None:
    """What waits when a cell calls `finish` is answered in the same turn, whose output is then that of the last."""
    running, go_on = trio.Event(), trio.Event()

    async def wait(_execution: Execution) -> CellResult:
        running.set()
        await go_on.wait()
        return CellResult(finished=True, value=1)

    provider = ScriptedProvider(text(cell("wait()")), text(cell("finish(3)")))
    async with open_checked_service(scripted(provider, **coding(FakeExecutor({**CELLS, "wait()": wait})))) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await running.wait()
        await service.send_user_message(session_id, "and then?", deliver_as="follow_up")
        go_on.set()
        outcome = (await service.wait_for_turn(session_id)).outcome
        assert (3, 2) == (outcome.output, outcome.steps)


async def test_tools_are_called_from_cells() -> None:
    """A cell calls a tool through the same gate, and the call is seen as one of the turn."""

    async def use(execution: Execution) -> CellResult:
        result = await execution.call_tool("t", JsonObject({"x": 1}))
        return CellResult(output=result.text, tool_calls=1)

    tool = ScriptedTool("t", run="tool says")
    config = scripted(text(cell("use()")), text("so"), tools=(tool,), **coding(FakeExecutor({"use()": use})))
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        names = [event.name for event in of_type(service, session_id, ev.ToolCallStarted)]
        assert ("user", "[Output of the cell]\ntool says") == (await transcript(service, session_id))[2]
    assert ("completed", ["cell", "t"]) == (outcome.status, names)
    assert [JsonObject({"x": 1})] == tool.calls


async def test_a_tool_that_is_called_like_a_cell() -> None:
    """A tool may be called `cell`: its calls are those of the cell that makes them, and end with it."""

    async def use(execution: Execution) -> CellResult:
        return CellResult(output=(await execution.call_tool("cell", JsonObject())).text)

    tool = ScriptedTool("cell", run="tool says")
    config = scripted(text(cell("use()")), text("so"), tools=(tool,), **coding(FakeExecutor({"use()": use})))
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        said = await transcript(service, session_id)
    assert [("user", "[Output of the cell]\ntool says"), ("assistant", "so")] == said[2:]


@pytest.mark.parametrize("required", [False, True])
async def test_helpers_act_by_code_too(required: bool) -> None:  # noqa: FBT001
    """A session that works for another one has its protocol and options; its prose is passed on if it may end so."""

    async def delegate(execution: Execution) -> CellResult:
        result = await execution.call_tool("task", TASK)
        return CellResult(output=f"{result.status}: {result.text}")

    provider = ScriptedProvider(text(cell("delegate()")), *[text("It is 3.")] * 2, text(cell("finish(3)")))
    stated = PluginOptions.for_plugin(FakeCode.id, JsonObject({"finish_required": required, "no_progress": 2}))
    executor = FakeExecutor({**CELLS, "delegate()": delegate})
    config = scripted(provider, tools=(TaskTool(),), protocol_options=stated, **coding(executor))
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        _, result = (await transcript(service, session_id))[2]
    told = [required, required]
    assert told == ["nothing else ends your work" in request.system for request in provider.requests[:2]]
    assert ("error: The subagent did not finish: failed" if required else "success: It is 3.") in result


async def test_helpers_finish_with_a_value() -> None:
    """Whatever its parent may do, one that works for another ends with `finish`; a text is passed on as it is."""

    async def delegate(execution: Execution) -> CellResult:
        return CellResult(output=(await execution.call_tool("task", TASK)).text)

    provider = ScriptedProvider(text(cell("delegate()")), text("It is 3."), text(cell("finish()")), text("So it is 3."))
    executor = FakeExecutor({"delegate()": delegate, "finish()": CellResult(finished=True, value="It is\n3.")})
    async with open_checked_service(scripted(provider, tools=(TaskTool(),), **coding(executor))) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        _, result = (await transcript(service, session_id))[2]
    assert ("[Output of the cell]\nIt is\n3.", "So it is 3.") == (result, outcome.final_text)


async def test_a_call_that_the_cell_does_not_wait_for() -> None:
    """A call that still runs when its cell has ended is cancelled, and gets a result like every other."""

    async def use(execution: Execution) -> CellResult:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(execution.call_tool, "t", JsonObject())
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        return CellResult(output="done")

    tool = ScriptedTool("t", run=never)
    config = scripted(text(cell("use()")), text("so"), tools=(tool,), **coding(FakeExecutor({"use()": use})))
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        assert "completed" == (await say(service, session_id)).status
        ended = [(each.result.name, each.result.status) for each in of_type(service, session_id, ev.ToolCallFinished)]
    assert [("t", "cancelled"), ("cell", "success")] == ended


async def never(_arguments: JsonObject, _context: ToolContext) -> ToolOutput:
    """A tool that does not come back."""
    await trio.sleep_forever()
    raise AssertionError


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"no_progress": 0}, "no_progress"),
        ({"cell_seconds": 100_000}, "cell_seconds"),
        ({"output_chars": 1}, "output_chars"),
        ({"finish_required": "yes"}, "finish_required"),
        ({"unknown": 1}, "unknown"),
    ],
)
async def test_options_are_checked(options: Any, field: str) -> None:
    """Options out of bounds, or that there are not, are refused when a session is made, naming the field."""
    async with open_checked_service(scripted(**coding(FakeExecutor({})))) as service:
        with pytest.raises(SessionCoreError) as caught:
            await service.create_session(options=JsonObject({FakeCode.id: options}))
        assert f"options.{FakeCode.id}.{field}" == caught.value.field


async def test_options_have_their_effect() -> None:
    """A session can require `finish`, and a service can bound the steps without progress."""
    stated = PluginOptions.for_plugin(FakeCode.id, JsonObject({"finish_required": True, "no_progress": 2}))
    config = scripted(*[text("done")] * 9, protocol_options=stated, **coding(FakeExecutor({})))
    async with open_checked_service(config) as service:
        outcome = await say(service, await new_session(service))
    assert ("failed", 2) == (outcome.status, outcome.steps)
