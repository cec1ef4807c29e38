"""Foreign code may raise whatever it likes; only cancellation and Ctrl-C pass through."""

import pytest
import trio

from session_core import limits
from session_core.agent import streamed_answer
from session_core.foreign_faults import must_propagate
from session_core.ids import CallId, SessionId
from session_core.providers.base import ModelFinished, ProviderEvent, TextChunk, ThinkingChunk, ToolCallOpened
from session_core.stream.coalesce import coalesce
from session_core.stream.event_stream import EventStream
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedProvider, ScriptedTool, text, tool_call
from session_core.tools.base import ToolContext, ToolOutput
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart
from tests.session_core.service._helpers import new_session, of_type, say, scripted


@pytest.mark.parametrize("error", [ValueError(), SystemExit(), BaseExceptionGroup("", [SystemExit()])])
def test_faults_are_held(error: BaseException) -> None:
    """Errors, exits and groups of them belong to the foreign code that raised them."""
    assert not must_propagate(error)


async def test_cancellation_passes_also_in_a_group() -> None:
    """A cancellation goes on to whoever cancelled, alone or among others, and so does Ctrl-C."""
    with trio.CancelScope() as scope:
        scope.cancel()
        with pytest.raises(trio.Cancelled) as caught:
            await trio.lowlevel.checkpoint()
        cancelled = caught.value
        assert must_propagate(cancelled)
        assert must_propagate(BaseExceptionGroup("", [BaseExceptionGroup("", [cancelled]), SystemExit()]))
    assert must_propagate(KeyboardInterrupt())


async def exit_in_a_nursery(_arguments: JsonObject, _context: ToolContext) -> ToolOutput:
    async with trio.open_nursery():
        raise SystemExit("enough")


@pytest.mark.usefixtures("quiet_log")
async def test_a_tool_that_exits_inside_its_nursery() -> None:
    """An exit wrapped by a tool's own nursery is an error result too, and the service goes on."""
    provider = ScriptedProvider(tool_call("t"), text("ok"))
    async with open_checked_service(scripted(provider, tools=(ScriptedTool("t", run=exit_in_a_nursery),))) as service:
        session_id = await new_session(service)
        assert "completed" == (await say(service, session_id)).status
        assert ["error"] == [event.result.status for event in of_type(service, session_id, ev.ToolCallFinished)]


@pytest.mark.usefixtures("quiet_log")
async def test_a_compactor_that_exits() -> None:
    """A compactor that exits ends its compaction as failed, and the session is usable."""

    async def compactor(_messages: object) -> str:
        raise SystemExit("enough")

    provider = ScriptedProvider(text("a"), text("b"))
    async with open_checked_service(scripted(provider, compactor=compactor)) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        await service.compact_context(session_id)
        assert "completed" == (await say(service, session_id)).status
        assert ["failed"] == [event.status for event in of_type(service, session_id, ev.CompactionFinished)]


HUGE = "x" * (limits.MAX_ANSWER_CHARS + 1)


@pytest.mark.parametrize(
    "chunks",
    [
        (TextChunk(text=HUGE),),
        (ThinkingChunk(text="", signature=HUGE),),
        (ToolCallOpened(name=HUGE),),
        (ToolCallOpened(name="t"),) * 100,
    ],
    ids=["text", "signature", "name", "calls"],
)
async def test_no_part_of_an_answer_is_without_bound(
    chunks: tuple[ProviderEvent, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever of an answer is too long, the turn fails before it is recorded."""
    monkeypatch.setattr(streamed_answer, "TOOL_CALL_COST", limits.MAX_ANSWER_CHARS // 50)
    async with open_checked_service(scripted(ScriptedProvider((*chunks, ModelFinished())))) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        assert ("failed", "malformed: the model's answer does not end") == (outcome.status, outcome.error)
        assert limits.MAX_ANSWER_CHARS > sum(len(each.text) for each in of_type(service, session_id, ev.PartDelta))


@pytest.mark.usefixtures("quiet_log")
@pytest.mark.parametrize(
    "output",
    [
        ToolOutput(text="", images=(ImagePart(media_type="image/png", data="!!!"),)),
        ToolOutput(text="", details=JsonObject({"a": "x" * (limits.MAX_MESSAGE_CHARS + 1)})),
        ToolOutput(text="", details=JsonObject({"a": float("nan")})),
    ],
    ids=["image", "long details", "odd details"],
)
async def test_outputs_nobody_could_read(output: ToolOutput) -> None:
    """A tool output that could not be sent to anybody is an error result."""

    async def run(_arguments: JsonObject, _context: ToolContext) -> ToolOutput:
        return output

    provider = ScriptedProvider(tool_call("t"), text("ok"))
    async with open_checked_service(scripted(provider, tools=(ScriptedTool("t", run=run),))) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        assert ["error"] == [event.result.status for event in of_type(service, session_id, ev.ToolCallFinished)]


def test_merging_has_a_bound() -> None:
    """Merged deltas never grow beyond what one text may be, and nothing is lost on the way."""
    stream = EventStream(capacity=100)
    delta = ev.ToolOutputDelta(call_id=CallId("c"), text="x" * (limits.MAX_TEXT_CHARS // 4))
    batch = [stream.publish(SessionId("s"), delta) for _ in range(10)]
    merged = coalesce(batch)
    assert [4, 4, 2] == [event.merged for event in merged]
    assert limits.MAX_TEXT_CHARS >= max(len(getattr(event.event, "text", "")) for event in merged)
