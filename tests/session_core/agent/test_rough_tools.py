"""Tools and providers that do what they should not: other threads, huge outputs, exits, answers without an end."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from session_core import limits
from session_core.agent import streamed_answer
from session_core.providers.base import ModelRequest, TextChunk, ThinkingChunk
from session_core.service.service import SessionService
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Forever, ScriptedProvider, ScriptedTool, text, tool_call
from session_core.tools.base import ToolContext, ToolOutput
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart, InterruptedPart, ToolResultPart
from session_core.wire.codec import decode, encode_event
from tests.session_core.service._helpers import new_session, of_type, recorded, say, scripted


def check_readable(service: SessionService) -> None:
    """Everything that was recorded can be sent and read."""
    for event in recorded(service):
        assert event == decode(encode_event(event), SessionEvent)


def result_of(service: SessionService) -> ToolResultPart:
    """The result of the only tool call."""
    (finished,) = [event.event for event in recorded(service) if isinstance(event.event, ev.ToolCallFinished)]
    return finished.result


# --- other threads ----------------------------------------------------------------------------------------------------


async def test_reporting_from_another_thread_is_refused_with_the_way_out() -> None:
    """A report from a worker thread raises an error that says what to do, and readers go on receiving."""
    raised: list[BaseException] = []

    async def work(arguments: JsonObject, context: ToolContext) -> str:
        try:
            await trio.to_thread.run_sync(context.report, "from a thread")
        except RuntimeError as error:
            raised.append(error)
        context.report("from here")
        return "done"

    provider = ScriptedProvider(tool_call("t"), text("ok"))
    async with open_checked_service(scripted(provider, tools=(ScriptedTool("t", run=work),))) as service:
        session_id = await new_session(service)
        async with service.follow(session_id) as feed, trio.open_nursery() as nursery:
            shown: list[object] = []

            async def read() -> None:
                async for item in feed:
                    shown.append(item)  # noqa: PERF401 - a comprehension would show them only at the end

            nursery.start_soon(read)
            await wait_all_tasks_blocked()
            assert "completed" == (await say(service, session_id)).status
            await wait_all_tasks_blocked()
            assert recorded(service, session_id)[-1] == shown[-1]
            nursery.cancel_scope.cancel()
        assert ["trio.from_thread.run_sync(context.report, text)" in str(error) for error in raised] == [True]
        assert ["from here"] == [event.text for event in of_type(service, session_id, ev.ToolOutputDelta)]


async def test_reporting_from_another_thread_through_trio() -> None:
    """The way named by that error works: live output of a thread is shown in its order, and readers get it."""

    async def work(arguments: JsonObject, context: ToolContext) -> str:
        def in_thread() -> str:
            for piece in ("a", "b", "c"):
                trio.from_thread.run_sync(context.report, piece)
            return "done"

        return await trio.to_thread.run_sync(in_thread)

    provider = ScriptedProvider(tool_call("t"), text("ok"))
    async with open_checked_service(scripted(provider, tools=(ScriptedTool("t", run=work),))) as service:
        session_id = await new_session(service)
        async with service.subscribe(session_id) as events:
            assert "completed" == (await say(service, session_id)).status
            received = [event.event for event in await events.receive_batch()]
        assert ["a", "b", "c"] == [event.text for event in received if isinstance(event, ev.ToolOutputDelta)]
        assert "success" == result_of(service).status


# --- exits ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("quiet_log")
@pytest.mark.parametrize("exit_", [SystemExit(3), GeneratorExit("enough")], ids=["SystemExit", "GeneratorExit"])
async def test_a_tool_that_exits_has_failed(exit_: BaseException) -> None:
    """A tool that tries to end the process ends as an error result, and the turn and the service go on."""
    provider = ScriptedProvider(tool_call("t"), text("ok"))
    async with open_checked_service(scripted(provider, tools=(ScriptedTool("t", run=exit_),))) as service:
        session_id = await new_session(service)
        assert "completed" == (await say(service, session_id)).status
        result = result_of(service)
        assert ("error", True) == (result.status, type(exit_).__name__ in result.text)


class ExitingProvider:
    """A provider whose every call raises."""

    def __init__(self, exit_: BaseException) -> None:
        self._exit = exit_

    def stream(self, request: ModelRequest) -> None:
        raise self._exit


@pytest.mark.usefixtures("quiet_log")
@pytest.mark.parametrize("exit_", [SystemExit(3), GeneratorExit("enough")], ids=["SystemExit", "GeneratorExit"])
async def test_a_provider_that_exits_fails_its_turn(exit_: BaseException) -> None:
    """A provider that tries to end the process fails its turn, and other models go on."""
    config = scripted(models={"exiting": ExitingProvider(exit_), "fine": ScriptedProvider(text("ok"))})
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        assert ("failed", True) == (outcome.status, type(exit_).__name__ in (outcome.error or ""))
        await service.switch_model(session_id, "fine")
        assert "completed" == (await say(service, session_id)).status


# --- sizes ------------------------------------------------------------------------------------------------------------


async def test_a_huge_report_is_cut() -> None:
    """Of a report of 30 MB the end is kept, as much as live output may have, and every event can be read."""

    async def work(arguments: JsonObject, context: ToolContext) -> str:
        context.report("x" * 30_000_000 + "end")
        return "done"

    provider = ScriptedProvider(tool_call("t"), text("ok"))
    async with open_checked_service(scripted(provider, tools=(ScriptedTool("t", run=work),))) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        (shown,) = of_type(service, session_id, ev.ToolOutputDelta)
        assert "x" * (limits.MAX_LIVE_OUTPUT_CHARS - 3) + "end" == shown.text
        check_readable(service)


@pytest.mark.usefixtures("quiet_log")
@pytest.mark.parametrize(
    ("images", "why"),
    [
        ((ImagePart(media_type="image/png", data="A" * 4_000_004),) * 2, "together"),
        ((ImagePart(media_type="image/png", data="ü"),), "base64"),
    ],
    ids=["too large", "not base64"],
)
async def test_images_of_tools_that_cannot_be_sent(images: tuple[ImagePart, ...], why: str) -> None:
    """A tool whose images are too large together or no base64 has failed, and every event can be read."""

    async def work(arguments: JsonObject, context: ToolContext) -> ToolOutput:
        return ToolOutput(text="look", images=images)

    provider = ScriptedProvider(tool_call("t"), text("ok"))
    async with open_checked_service(scripted(provider, tools=(ScriptedTool("t", run=work),))) as service:
        session_id = await new_session(service)
        assert "completed" == (await say(service, session_id)).status
        result = result_of(service)
        assert ("error", (), True) == (result.status, result.images, why in result.text)
        check_readable(service)


async def test_an_answer_without_an_end() -> None:
    """An answer that does not end fails as malformed, what was said is kept as interrupted, and it can be read."""
    piece = "x" * (limits.MAX_ANSWER_CHARS // 4)
    provider = ScriptedProvider(Forever(piece), text("ok"))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        assert ("failed", "malformed: the model's answer does not end") == (outcome.status, outcome.error)
        last = (await service.load_session(session_id)).transcript[-1]
        assert (piece * 4, InterruptedPart(reason="failed")) == (last.text, last.parts[-1])
        (failed,) = of_type(service, session_id, ev.ModelCallFailed)
        assert ("malformed", None) == (failed.kind, failed.retry_at)
        check_readable(service)
        assert "completed" == (await say(service, session_id)).status


async def test_an_answer_of_very_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer of so many parts that no frame could hold it fails as malformed, however short each part is."""
    monkeypatch.setattr(streamed_answer, "PART_COST", limits.MAX_ANSWER_CHARS // 50)
    provider = ScriptedProvider((TextChunk(text="x"), ThinkingChunk(text="y")) * 60, text("ok"))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        assert "failed" == (await say(service, session_id)).status
        assert 60 > len(of_type(service, session_id, ev.PartStarted))
        check_readable(service)


async def test_the_longest_answer_that_passes() -> None:
    """An answer of exactly the allowed length is an answer like any other."""
    provider = ScriptedProvider(text("x" * limits.MAX_ANSWER_CHARS))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        assert "completed" == (await say(service, session_id)).status
        assert [limits.MAX_ANSWER_CHARS] == [len(event.text) for event in of_type(service, session_id, ev.PartDelta)]
        check_readable(service)
