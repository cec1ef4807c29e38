"""One model call: what is sent, what is tried again, and what it costs."""

import pytest
import trio
from trio.testing import MockClock

from session_core.providers.base import ModelFailed, ModelFinished, ModelRequest, TextChunk
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import (
    Pause,
    ScriptedProvider,
    ScriptedTool,
    ScriptItem,
    failure,
    text,
    tool_call,
)
from session_core.tools.base import ToolContext, ToolOutput
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart, ToolResultPart, Usage
from session_core.vocabulary.sessions import TurnLimits, UsageLine
from tests.session_core.agent._models import PRICES, info
from tests.session_core.service._helpers import new_session, of_type, recorded, said, say, scripted, trace, transcript

LONG = ScriptedTool("t", run="x" * 50_000)
TOO_LONG = failure("context_too_long", "too many tokens")


def results_in(request: ModelRequest) -> list[ToolResultPart]:
    """The tool results that a model was sent."""
    return [part for message in request.messages for part in message.parts if isinstance(part, ToolResultPart)]


async def test_a_conversation_that_is_too_long_is_shortened() -> None:
    """A conversation that a model finds too long is asked about again with its tool results cut, in that call only."""
    provider = ScriptedProvider(tool_call("t"), (TextChunk(text="ha"), *TOO_LONG), text("done"))
    async with open_checked_service(scripted(provider, tools=(LONG,))) as service:
        session_id = await new_session(service)
        assert "completed" == (await say(service, session_id)).status
        kept = (await service.load_session(session_id)).transcript
        assert [("user", "hello"), ("assistant", ""), ("tool", ""), ("assistant", "done")] == said(kept)
        assert 50_000 == len(next(part for part in kept[2].parts if isinstance(part, ToolResultPart)).text)
        assert [] == of_type(service, session_id, ev.ModelCallFailed)
    (before,), (after,) = map(results_in, provider.requests[1:])
    assert len(after.text) < len(before.text) / 2
    assert before.call_id == after.call_id


async def test_shorten_then_summarise_then_give_up() -> None:
    """What cannot be cut further is summarised once; if that does not help either, the turn has failed and says why."""
    provider = ScriptedProvider(tool_call("t"), *[TOO_LONG] * 3, text("in short"), *[TOO_LONG] * 5)
    async with open_checked_service(scripted(provider, tools=(LONG,))) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        assert ("failed", "context_too_long: too many tokens") == (outcome.status, outcome.error)
        compactions = of_type(service, session_id, ev.CompactionFinished)
        assert ["completed"] == [event.status for event in compactions]
        assert ("summary", provider.requests[-1].messages[0].text) == (await transcript(service, session_id))[-1]
        assert 1 == len(provider.requests[-1].messages)
        assert 2 == len(of_type(service, session_id, ev.ModelCallFailed))


async def test_known_models_get_what_fits() -> None:
    """What is known not to fit is not sent in the first place."""
    provider = ScriptedProvider(tool_call("t"), text("done"))
    infos = info(context_tokens=4_000, max_output_tokens=1_000)
    async with open_checked_service(scripted(provider, tools=(LONG,), model_infos=infos)) as service:
        await say(service, await new_session(service))
    (result,) = results_in(provider.requests[1])
    assert len(result.text) < 3_000


async def test_text_is_never_doubled(autojump_clock: MockClock) -> None:
    """However often a call breaks off, readers have seen each word of the final answer once."""
    broken: tuple[ScriptItem, ...] = (TextChunk(text="one "), *failure("network", retry_after_ms=2_000))
    provider = ScriptedProvider(broken, (TextChunk(text="one two "), *failure("overloaded")), text("one two three"))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        assert "one two three" == outcome.final_text
        shown = ""
        for event in trace(service, session_id):
            match event:
                case ev.PartDelta(text=delta):
                    shown += delta
                case ev.MessageDiscarded():
                    shown = ""
                case _:
                    pass
        assert "one two three" == shown
        first, second = of_type(service, session_id, ev.ModelCallFailed)
        (recorded_at,) = [each.at for each in recorded(service) if each.event is first]
        assert ([1, 2], recorded_at + 2_000) == ([first.attempt, second.attempt], first.retry_at)


async def test_what_a_provider_asks_is_waited_for(autojump_clock: MockClock) -> None:
    """A wait of minutes is sat out to its end, and readers see until when."""
    provider = ScriptedProvider(failure("rate_limited", "busy", retry_after_ms=14 * 60_000), text("done"))
    async with open_checked_service(scripted(provider, turn_limits=TurnLimits(time_ms=15 * 60_000))) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await trio.sleep(60)
        began = (await service.load_session(session_id)).turn
        assert began is not None
        activity = (await service.load_session(session_id)).activity
        assert ("rate_limited", began.started_at + 14 * 60_000) == (activity.name, activity.retry_at)
        outcome = (await service.wait_for_turn(session_id)).outcome
        assert ("completed", 14 * 60_000) == (outcome.status, outcome.duration_ms)


@pytest.mark.parametrize(
    ("asked_ms", "bounds", "wait", "again"),
    [
        (16 * 60_000, TurnLimits(), "16 minutes", "00:16"),
        (5 * 3_600_000, TurnLimits(), "5 hours", "05:00"),
        (100_000, TurnLimits(time_ms=90_000), "2 minutes", "00:01"),
        (45_000, TurnLimits(time_ms=40_000), "45 seconds", "00:00"),
    ],
)
async def test_what_nobody_waits_for_fails_at_once(
    autojump_clock: MockClock, asked_ms: int, bounds: TurnLimits, wait: str, again: str
) -> None:
    """A wait that is longer than the turn may take, or than anybody sits out, fails and says when to try again."""
    provider = ScriptedProvider(failure("rate_limited", "Too many requests.", retry_after_ms=asked_ms), text("never"))
    began = trio.current_time()
    config = scripted(provider, turn_limits=bounds, now=lambda: int((trio.current_time() - began) * 1000))
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        assert ("failed", 0, 1) == (outcome.status, outcome.duration_ms, len(provider.requests))
        assert outcome.error == (
            f"rate_limited: Too many requests. It asks to wait {wait}, which is too long for this turn; "
            f"try again at 1970-01-01 {again} UTC."
        )


async def test_what_is_not_there_is_not_asked_for_long(autojump_clock: MockClock) -> None:
    """A failure that is worth one more try gets just that."""
    provider = ScriptedProvider(*[(ModelFailed(kind="network", message="gone", most_retries=1),)] * 5)
    async with open_checked_service(scripted(provider)) as service:
        outcome = await say(service, await new_session(service))
        assert ("failed", "network: gone", 2) == (outcome.status, outcome.error, len(provider.requests))
        assert outcome.duration_ms <= 500


@pytest.mark.parametrize(
    "nothing",
    [
        (ModelFinished(usage=Usage(input_tokens=10, output_tokens=5)),),
        (ModelFailed(kind="refused", message="no", usage=Usage(input_tokens=10, output_tokens=5)),),
    ],
    ids=["empty", "failed"],
)
async def test_what_said_nothing_is_counted_too(nothing: tuple[ScriptItem, ...]) -> None:
    """A call that ended without an answer has cost what it has cost: in the turn, the session, and by model."""
    async with open_checked_service(scripted(nothing, model_infos=info(prices=PRICES))) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        used = Usage(input_tokens=10, output_tokens=5, cost_micros=20)
        snapshot = await service.load_session(session_id)
        assert ("failed", used, used) == (outcome.status, outcome.usage, snapshot.usage)
        assert [UsageLine(model="m", source="turn", calls=1, usage=used)] == list(snapshot.usage_by)
        assert 0 == snapshot.context_tokens


async def test_usage_that_nobody_told_is_guessed() -> None:
    """Without figures of the provider tokens are guessed from the texts, marked as guessed, and so is their price."""
    config = scripted(text("x" * 300), text("y"), model_infos=info(prices=PRICES), system_prompt="s" * 600)
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id, "q" * 900)
        guess = Usage(input_tokens=500, output_tokens=100, cost_micros=700, estimated=True)
        snapshot = await service.load_session(session_id)
        assert (guess, guess, 600) == (outcome.usage, snapshot.usage, snapshot.context_tokens)
        exact = Usage(input_tokens=1)
        assert snapshot.usage.plus(exact).estimated
        assert not exact.plus(exact).estimated


async def test_what_broke_off_is_guessed_too(autojump_clock: MockClock) -> None:
    """A call that fails, ends early or is stopped in its answer counts as guessed; one that said nothing does not."""
    said_some: tuple[ScriptItem, ...] = (TextChunk(text="x" * 300),)
    provider = ScriptedProvider(
        failure("network"), (*said_some, *failure("network")), said_some, (*said_some, Pause("here"))
    )
    async with open_checked_service(scripted(provider, system_prompt="s" * 600)) as service:
        session_id = await new_session(service)
        assert "failed" == (await say(service, session_id, "q" * 900)).status
        guess = Usage(input_tokens=500, output_tokens=100, estimated=True)
        snapshot = await service.load_session(session_id)
        assert [UsageLine(model="m", source="turn", calls=2, usage=guess.plus(guess))] == list(snapshot.usage_by)

        await service.send_user_message(session_id, "more")
        await provider.wait_for_pause("here")
        await service.request_stop(session_id)
        outcome = (await service.wait_for_turn(session_id)).outcome
        assert ("stopped", 100, True) == (outcome.status, outcome.usage.output_tokens, outcome.usage.estimated)
        assert 3 == (await service.load_session(session_id)).usage_by[0].calls


async def test_what_a_model_cannot_do() -> None:
    """Pictures and tools are left out for a model that can use neither; another one gets both."""
    image = ImagePart(media_type="image/png", data="iVBORw0KGgo=")

    async def look(arguments: JsonObject, context: ToolContext) -> ToolOutput:
        return ToolOutput(text="see", images=(image,))

    seen: list[tuple[bool, int]] = []
    for facts in ({"images": False, "tools": False}, {}):
        provider = ScriptedProvider(tool_call("t"), text("done"))
        tool = ScriptedTool("t", run=look)
        async with open_checked_service(scripted(provider, tools=(tool,), model_infos=info(**facts))) as service:
            session_id = await new_session(service)
            await service.send_user_message(session_id, "look", images=(image,))
            await service.wait_for_turn(session_id)
        last = provider.requests[1]
        parts = [part for message in last.messages for part in message.parts]
        images = [part for part in parts if isinstance(part, ImagePart)]
        images += [each for part in parts if isinstance(part, ToolResultPart) for each in part.images]
        seen.append((bool(last.tools), len(images)))
    assert [(False, 0), (True, 2)] == seen


async def test_costs() -> None:
    """A call costs what the price list says, in the message, the turn and the session; a provider's own figure wins."""
    usage = Usage(input_tokens=10, output_tokens=5)
    own = Usage(input_tokens=10, cost_micros=99)
    provider = ScriptedProvider(text("one", usage=usage), text("two", usage=own))
    async with open_checked_service(scripted(provider, model_infos=info(prices=PRICES))) as service:
        session_id = await new_session(service)
        assert 20 == (await say(service, session_id)).usage.cost_micros
        assert 99 == (await say(service, session_id)).usage.cost_micros
        snapshot = await service.load_session(session_id)
        assert (119, 20) == (snapshot.usage.cost_micros, (snapshot.transcript[1].usage or Usage()).cost_micros)
        assert [("m", "turn", 2, 119)] == [
            (line.model, line.source, line.calls, line.usage.cost_micros) for line in snapshot.usage_by
        ]


@pytest.mark.parametrize(
    ("sent", "runs"), [((), False), (('{"a": 1}',), True), (('{"a": ',), False)], ids=["nothing", "whole", "half"]
)
async def test_a_call_that_was_cut(sent: tuple[str, ...], runs: bool) -> None:  # noqa: FBT001
    """A tool call that was cut before its arguments were whole does not run with those that came, nor with none."""
    tool = ScriptedTool("t")
    cut = (*tool_call("t", sent[0] if sent else "")[:-1], ModelFinished(stop_reason="max_tokens"))
    provider = ScriptedProvider(cut, text("done"))
    async with open_checked_service(scripted(provider, tools=(tool,))) as service:
        assert "completed" == (await say(service, await new_session(service))).status
    (result,) = results_in(provider.requests[1])
    assert (runs, "success" if runs else "error") == (bool(tool.calls), result.status)


async def test_settings_reach_the_model() -> None:
    """A model is sent the session's name for its cache, the system prompt, and how much to think."""
    provider = ScriptedProvider(text("done"))
    async with open_checked_service(scripted(provider, system_prompt="be kind", thinking="high")) as service:
        session_id = await new_session(service)
        await say(service, session_id)
    request = provider.requests[0]
    assert (session_id, "be kind", "high", "m") == (request.cache_key, request.system, request.thinking, request.model)
