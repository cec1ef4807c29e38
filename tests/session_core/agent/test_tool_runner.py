"""Running the tool calls of one step."""

import math

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from session_core import limits
from session_core.agent.tool_results import limit_text
from session_core.agent.tool_runner import ToolRunner
from session_core.session.session import Session
from session_core.session.turn_handle import TurnHandle
from session_core.testing.scripted import ScriptedTool, ToolRun
from session_core.tools.base import ToolContext, ToolFailed, ToolOutput
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import Event
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ToolCallPart, ToolProgress, ToolResultPart
from session_core.vocabulary.sessions import Decision, PermissionMode
from session_core.vocabulary.tools import Effect
from tests.session_core.session._helpers import answer, call, started


async def run(
    handle: TurnHandle, session: Session, calls: list[ToolCallPart], *tools: ScriptedTool, malformed: int = 0
) -> list[ToolResultPart]:
    """Run calls and return the results that joined the conversation."""
    message = answer(*calls)
    session.record(ev.MessageCompleted(message=message))
    runner = ToolRunner(handle, {tool.spec.name: tool for tool in tools})
    await runner.run(message, {each.call_id for each in calls[:malformed]})
    return [part for part in session.state.transcript[-1].parts if isinstance(part, ToolResultPart)]


async def one(run_tool: ToolRun | str | BaseException, *, name: str = "t", malformed: int = 0) -> ToolResultPart:
    """Run one call of a reading tool."""
    session, handle, _ = started()
    (result,) = await run(handle, session, [call(name)], ScriptedTool("t", run=run_tool), malformed=malformed)
    return result


async def test_a_result() -> None:
    """A tool's text, images and details become the result of its call."""

    async def work(arguments: JsonObject, context: ToolContext) -> ToolOutput:
        return ToolOutput(text=f"{arguments['number']} in {context.cwd}", details=JsonObject({"a": 1}))

    expected = ToolResultPart(
        call_id=call("t").call_id, name="t", status="success", text="1 in /", details=JsonObject({"a": 1})
    )
    assert expected == await one(work)


async def test_unknown_tools_and_bad_arguments() -> None:
    """The model is told which tools there are, and that its arguments were no JSON; nothing runs."""
    unknown = await one("never", name="gone")
    assert ("error", "There is no tool called 'gone'. Tools: t.") == (unknown.status, unknown.text)
    bad = await one("never", malformed=1)
    assert "error" == bad.status
    assert "JSON" in bad.text


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (ToolFailed("no such file"), "no such file"),
        (ToolFailed(), "The tool failed."),
        (KeyError("x"), "The tool failed unexpectedly: KeyError: 'x'"),
        (ExceptionGroup("many", [ValueError("x")]), "The tool failed unexpectedly: ExceptionGroup: many"),
    ],
)
async def test_whatever_a_tool_raises_is_a_result(raised: BaseException, said: str) -> None:
    """A failure on purpose and a bug both become error results that the model can read."""
    result = await one(raised)
    assert "error" == result.status
    assert result.text.startswith(said)


async def test_a_tool_that_returns_nonsense() -> None:
    """A tool that returns something else than an output has failed; the turn goes on."""

    async def nonsense(arguments: JsonObject, context: ToolContext) -> ToolOutput:
        return None  # type: ignore[return-value]

    assert "error" == (await one(nonsense)).status


async def test_output_is_shortened_and_cleaned() -> None:
    """A long output keeps its beginning and end and says what is missing; half characters are replaced."""
    result = await one("a" + "x" * limits.MAX_TOOL_OUTPUT_CHARS * 2 + "z\ud800")
    assert ("a", "z?") == (result.text[0], result.text[-2:])
    assert "characters left out" in result.text
    assert len(result.text) < limits.MAX_TOOL_OUTPUT_CHARS + 100
    assert "short" == limit_text("short")


async def test_reads_run_side_by_side_and_writes_alone() -> None:
    """Neighbouring reads run together, a write waits for them and keeps others waiting, results keep the order."""
    log: list[str] = []

    def logging(name: str) -> ToolRun:
        async def work(arguments: JsonObject, context: ToolContext) -> str:
            log.append(f"{name}{arguments['number']}+")
            await wait_all_tasks_blocked()
            log.append(f"{name}{arguments['number']}-")
            return f"{name}{arguments['number']}"

        return work

    session, handle, _ = started("full")
    names = ["read", "read", "write", "write", "read"]
    calls = [call(name, number) for number, name in enumerate(names)]
    results = await run(
        handle,
        session,
        calls,
        ScriptedTool("read", run=logging("read")),
        ScriptedTool("write", effects=("write",), run=logging("write")),
    )
    assert {"read0+", "read1+"} == set(log[:2])
    assert {"read0-", "read1-"} == set(log[2:4])
    assert ["write2+", "write2-", "write3+", "write3-", "read4+", "read4-"] == log[4:]
    assert ["read0", "read1", "write2", "write3", "read4"] == [result.text for result in results]


async def test_no_more_than_so_many_at_once() -> None:
    """Of many reads only a bounded number runs at a time."""
    running = most = 0

    async def work(arguments: JsonObject, context: ToolContext) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await wait_all_tasks_blocked()
        running -= 1
        return ""

    session, handle, _ = started()
    calls = [call("t", number) for number in range(20)]
    assert 20 == len(await run(handle, session, calls, ScriptedTool("t", run=work)))
    assert limits.MAX_TOOLS_AT_ONCE == most


async def test_live_output() -> None:
    """What a tool reports is shown while it runs, and not any more after its result."""
    reporters = []

    async def work(arguments: JsonObject, context: ToolContext) -> str:
        context.report("half \ud800")
        context.report("")
        reporters.append(context.report)
        return "done"

    session, handle, seen = started()
    await run(handle, session, [call("t")], ScriptedTool("t", run=work))
    reporters[0]("late")
    assert ["half ?"] == [event.text for event in seen if isinstance(event, ev.ToolOutputDelta)]


async def test_progress() -> None:
    """How far a tool is shows while it runs, within bounds, and not any more after its result."""
    reporters = []

    async def work(arguments: JsonObject, context: ToolContext) -> str:
        context.progress(ToolProgress(message="half \ud800", progress=1.5, details=JsonObject({"step": 1})))
        context.progress(ToolProgress(progress=math.nan, details="x" * limits.MAX_ENTRY_BYTES))
        reporters.append(context.progress)
        return "done"

    session, handle, seen = started()
    await run(handle, session, [call("t")], ScriptedTool("t", run=work))
    reporters[0](ToolProgress(message="late"))
    told = [event for event in seen if isinstance(event, ev.ToolProgressed)]
    call_id = told[0].call_id
    assert [
        ev.ToolProgressed(call_id=call_id, message="half ?", progress=1.0, details=JsonObject({"step": 1})),
        ev.ToolProgressed(call_id=call_id),
    ] == told


# --- permissions ------------------------------------------------------------------------------------------------------

ASKED: dict[PermissionMode, set[Effect]] = {
    "ask_all": {"read", "write", "execute", "network"},
    "ask_writes": {"write", "execute", "network"},
    "auto_edit": {"execute", "network"},
    "full": set(),
}


async def decide(session: Session, decision: Decision) -> int:
    """Answer every approval that comes until everything else waits; returns how many there were."""
    count = 0
    while True:
        await wait_all_tasks_blocked()
        if not session.state.approvals:
            return count
        session.resolve_approval(session.state.approvals[0].request_id, decision, "answered")
        count += 1


@pytest.mark.parametrize("mode", ASKED)
@pytest.mark.parametrize("effect", ["read", "write", "execute", "network"])
async def test_modes(mode: PermissionMode, effect: Effect) -> None:
    """Each mode asks for the effects it names and lets the others pass."""
    session, handle, _ = started(mode)
    tool = ScriptedTool("t", effects=(effect,))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, handle, session, [call("t")], tool)
        asked = await decide(session, "allow_once")
    assert (1 if effect in ASKED[mode] else 0) == asked
    assert 1 == len(tool.calls)


@pytest.mark.parametrize(("decision", "asked"), [("allow_once", 3), ("allow_session", 1)])
async def test_grants(decision: Decision, asked: int) -> None:
    """A yes for once is asked again for every call, a yes for the session only once."""
    session, handle, _ = started()
    tool = ScriptedTool("t", effects=("write",))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, handle, session, [call("t", number) for number in range(3)], tool)
        assert asked == await decide(session, decision)
    assert 3 == len(tool.calls)


async def test_a_denial_reaches_the_model() -> None:
    """A denied call does not run and gets a result that says so, in its place among the others."""
    session, handle, seen = started()
    write, read = ScriptedTool("w", effects=("write",)), ScriptedTool("r", run="fine")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, handle, session, [call("w", 1), call("r", 2)], write, read)
        await decide(session, "deny")
    results = [part for part in session.state.transcript[-1].parts if isinstance(part, ToolResultPart)]
    assert [("w", "denied"), ("r", "success")] == [(result.name, result.status) for result in results]
    assert "not allowed" in results[0].text
    assert [] == write.calls
    assert started_tools(seen) == ["r"]


def started_tools(events: list[Event]) -> list[str]:
    return [event.name for event in events if isinstance(event, ev.ToolCallStarted)]
