"""The scripted provider and tool: they do what the script says, when the test says so."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from session_core.ids import CallId
from session_core.providers.base import (
    ModelFailed,
    ModelFinished,
    ModelRequest,
    Provider,
    ProviderEvent,
    TextChunk,
    ThinkingChunk,
    ToolCallChunk,
    ToolCallOpened,
)
from session_core.testing.scripted import (
    Forever,
    Hang,
    Pause,
    ScriptedProvider,
    ScriptedTool,
    ScriptItem,
    TaskSwitch,
    failure,
    text,
    tool_call,
    tool_calls,
)
from session_core.tools.base import Tool, ToolContext, ToolFailed, ToolOutput
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Usage
from session_core.vocabulary.sessions import SandboxPolicy
from tests.session_core.providers._contract import (
    check_abandoning,
    check_cancelling,
    collect,
    message,
    request,
    said,
)

CONTEXT = ToolContext(call_id=CallId("call_1"), cwd=".", sandbox=SandboxPolicy(), report=lambda _: None)
ASKED = request("hello")


async def test_answers_are_played_in_order() -> None:
    """Each call gets the next answer, and when they run out the script says it is over."""
    provider = ScriptedProvider(text("a", "b"), text("c"))

    assert [TextChunk(text="a"), TextChunk(text="b"), ModelFinished()] == await collect(provider, ASKED)
    assert [TextChunk(text="c"), ModelFinished()] == await collect(provider, ASKED)
    for _ in range(2):
        assert [TextChunk(text="(script is over)"), ModelFinished()] == await collect(provider, ASKED)


async def test_requests_are_recorded() -> None:
    """Every request is kept, in order, from the moment the call is opened."""
    provider: ScriptedProvider = ScriptedProvider(Hang())
    first, second = request("one"), request("two")

    async with provider.stream(first):
        assert [first] == provider.requests
    await collect(provider, second)

    assert [first, second] == provider.requests


async def test_answers_made_from_the_request() -> None:
    """An answer, or one item of it, may be a function of the request."""

    def echo(asked: ModelRequest) -> ProviderEvent:
        return TextChunk(text=asked.messages[-1].text)

    def twice(asked: ModelRequest) -> tuple[ScriptItem, ...]:
        return text(asked.messages[-1].text * 2)

    provider = ScriptedProvider((echo, ModelFinished()), twice)

    assert "hello" == said(await collect(provider, ASKED))
    assert "hellohello" == said(await collect(provider, ASKED))


async def test_a_pause_lasts_until_released(nursery: trio.Nursery) -> None:
    """At a pause nothing comes until the test releases it, and the test can wait for the pause to be reached."""
    provider = ScriptedProvider((TextChunk(text="a"), Pause("middle"), *text("b")))
    got: list[ProviderEvent] = []

    async def consume() -> None:
        async with provider.stream(ASKED) as events:
            async for event in events:
                got.append(event)  # noqa: PERF401 - looked at while it grows

    nursery.start_soon(consume)
    await provider.wait_for_pause("middle")
    await wait_all_tasks_blocked()
    assert [TextChunk(text="a")] == got

    provider.release("middle")
    await wait_all_tasks_blocked()
    assert [TextChunk(text="a"), TextChunk(text="b"), ModelFinished()] == got


async def test_a_pause_released_early_does_not_hold() -> None:
    """A pause that was released before it is reached, or in an earlier answer, lets everything pass."""
    answer = (Pause("gate"), *text("a"))
    provider = ScriptedProvider(answer, answer)
    provider.release("gate")

    assert "a" == said(await collect(provider, ASKED))
    assert "a" == said(await collect(provider, ASKED))
    await provider.wait_for_pause("gate")


async def test_a_hang_lasts_until_cancelled(autojump_clock: MockClock) -> None:
    """A hang sends nothing, ever, and can be cancelled."""
    with trio.move_on_after(1_000_000) as scope:
        await collect(ScriptedProvider((*text("a")[:-1], Hang())), ASKED)

    assert scope.cancelled_caught


async def test_a_step_is_one_checkpoint() -> None:
    """A step lets other tasks run exactly once and sends nothing."""
    assert 0 == await check_cancelling(lambda: ScriptedProvider(text("a")), ASKED)
    assert 2 == await check_cancelling(lambda: ScriptedProvider((TaskSwitch(), TaskSwitch(), *text("a"))), ASKED)


async def test_forever_never_ends() -> None:
    """An endless answer goes on for as long as it is read, and lets other tasks run."""
    got = 0
    with trio.CancelScope() as scope:
        async with ScriptedProvider(Forever("la ")).stream(ASKED) as events:
            async for event in events:
                assert TextChunk(text="la ") == event
                got += 1
                if got == 1000:
                    scope.cancel()

    assert scope.cancelled_caught
    assert 1000 == got


def test_helpers_build_answers() -> None:
    """The helpers build answers with the pieces in the right order and one end."""
    usage = Usage(input_tokens=1)

    assert (ThinkingChunk(text="hm"), TextChunk(text="a"), ModelFinished(usage=usage)) == text(
        "a", thinking="hm", usage=usage
    )
    assert (ToolCallOpened(name="x"), ToolCallChunk(text='{"a": 1}'), ModelFinished()) == tool_call("x", {"a": 1})
    assert (
        ToolCallOpened(name="x"),
        ToolCallChunk(text="{}"),
        ToolCallOpened(name="y"),
        ToolCallChunk(text="{broken"),
        ModelFinished(),
    ) == tool_calls(("x", {}), ("y", "{broken"))
    assert (ModelFailed(kind="network", message="gone", retry_after_ms=5),) == failure("network", "gone", 5)


async def test_it_keeps_the_provider_contract() -> None:
    """It is a provider that can be abandoned after every event."""
    answers = [text("a", "b", thinking="t")] * 10

    def make() -> Provider:
        return ScriptedProvider(*answers)

    await check_abandoning(make, request(message("user", "x")))


async def test_a_tool_gives_a_text() -> None:
    """A scripted tool gives its text, states its effects and records its calls."""
    tool: Tool = ScriptedTool("look", effects=("read", "network"), run="seen")

    assert ToolOutput(text="seen") == await tool.run(JsonObject({"a": 1}), CONTEXT)
    assert ("look", frozenset({"read", "network"})) == (tool.spec.name, tool.effects)


async def test_a_tool_runs_a_function() -> None:
    """A scripted tool runs an async function with the arguments and the context, and takes text or output from it."""

    async def report(arguments: JsonObject, context: ToolContext) -> str:
        await trio.lowlevel.checkpoint()
        return f"{arguments['a']} in {context.cwd}"

    async def output(arguments: JsonObject, context: ToolContext) -> ToolOutput:
        await trio.lowlevel.checkpoint()
        return ToolOutput(text="whole")

    tool = ScriptedTool("do", run=report)

    assert ToolOutput(text="1 in .") == await tool.run(JsonObject({"a": 1}), CONTEXT)
    assert [JsonObject({"a": 1})] == tool.calls
    assert ToolOutput(text="whole") == await ScriptedTool("do", run=output).run(JsonObject(), CONTEXT)


async def test_a_tool_raises() -> None:
    """A scripted tool raises the exception it was given."""
    with pytest.raises(ToolFailed, match="no"):
        await ScriptedTool("do", run=ToolFailed("no")).run(JsonObject(), CONTEXT)
