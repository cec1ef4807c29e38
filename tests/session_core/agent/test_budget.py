"""What a turn and its helpers use together stays within what the turn may use."""

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from session_core.agent.budget import FEWEST_OUTPUT_TOKENS, estimate_needs
from session_core.ids import MessageId
from session_core.providers.base import ModelFinished, ModelRequest
from session_core.providers.catalogue import Prices
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Hang, Pause, ScriptedProvider, ScriptedTool, ScriptItem, text, tool_call
from session_core.vocabulary.messages import Message, TextPart, Usage
from session_core.vocabulary.sessions import TurnLimits
from tests.session_core.agent._models import calling, info, used
from tests.session_core.service._family import PromptedProvider, Scripts, by_name, hand_over, helped
from tests.session_core.service._helpers import new_session, say, scripted

NAMES = [f"part {number}" for number in range(8)]
PRICES = Prices(input=1_000_000, output=2_000_000, cache_read=100_000, cache_write=1_000_000)


def greedy(request: ModelRequest) -> ModelFinished:
    """The end of an answer that is as long as it may be."""
    return ModelFinished(usage=Usage(input_tokens=10, output_tokens=request.max_output_tokens or 8_192))


def going_on(name: str = "t") -> tuple[ScriptItem, ...]:
    """An answer that calls a tool, and is as long as it may be."""
    return (*tool_call(name)[:-1], greedy)


def sharing(**limits: int) -> tuple[Scripts, TurnLimits]:
    """Eight helpers that would go on for ever, and what they may use together."""
    first = (*hand_over(*NAMES)[:-1], ModelFinished(usage=used(10)))
    scripts: Scripts = {"go": [first, text("all", usage=used(1))], **{name: [going_on()] * 40 for name in NAMES}}
    return scripts, TurnLimits(**limits)


@pytest.mark.parametrize("bounds", [{"tokens": 30_000}, {"tokens": 3_000}, {"cost_micros": 40_000}], ids=str)
@given(schedule=st.random_module())
@settings(max_examples=3, deadline=None)
async def test_eight_helpers_share_what_is_left(bounds: dict[str, int], schedule: object) -> None:
    """However greedy they are, and in whatever order they ask, all calls together stay within the turn's limits."""
    scripts, limits = sharing(**bounds)
    config = helped(scripts, tools=(ScriptedTool("t"),), model_infos=info(prices=PRICES, max_output_tokens=8_192))
    async with open_checked_service(config) as service:
        parent = await new_session(service, limits=limits)
        with trio.fail_after(300):
            outcome = await say(service, parent, "go")
        assert outcome.usage.tokens <= (limits.tokens or 10**9) + FEWEST_OUTPUT_TOKENS
        assert outcome.usage.cost_micros <= (limits.cost_micros or 10**9) + 2 * FEWEST_OUTPUT_TOKENS
        for name in NAMES:
            end = (await service.load_session(by_name(service)[name])).last_outcome
            assert end is not None
            assert "limit_reached" == end.status
            assert end.error is not None
            assert "the limit is" in end.error


async def test_helpers_wait_for_a_share_and_then_go_on() -> None:
    """Who finds nothing left but what others may still use waits for their end, and uses what they did not."""
    modest = (Pause("here"), *text("done", usage=used(100)))
    first = (*hand_over("a", "b")[:-1], ModelFinished(usage=used(100)))
    scripts: Scripts = {"go": [first, text("all", usage=used(1))], "a": [modest], "b": [modest]}
    config = helped(scripts)
    provider = config.models["m"]
    assert isinstance(provider, PromptedProvider)
    async with open_checked_service(config) as service:
        parent = await new_session(service, limits=TurnLimits(tokens=1_000))
        await service.send_user_message(parent, "go")
        await wait_all_tasks_blocked()
        assert 2 == len(provider.asked), "the other one waits"
        provider.release("here")
        outcome = (await service.wait_for_turn(parent)).outcome
        assert ["a", "b", "go", "go"] == sorted(provider.asked)
        assert ("completed", 301) == (outcome.status, outcome.usage.tokens)


async def test_a_wait_for_a_share_can_be_stopped() -> None:
    """A helper that waits for its share is stopped like any other, and the one that had it too."""
    first = (*hand_over("a", "b")[:-1], ModelFinished(usage=used(100)))
    config = helped({"go": [first], "a": [Hang()], "b": [Hang()]})
    provider = config.models["m"]
    assert isinstance(provider, PromptedProvider)
    async with open_checked_service(config) as service:
        parent = await new_session(service, limits=TurnLimits(tokens=1_000))
        await service.send_user_message(parent, "go")
        await wait_all_tasks_blocked()
        assert 2 == len(provider.asked), "the other one waits"
        assert "stopped" == (await service.request_stop(parent)).result
        assert 0 == service.statistics().running


async def test_raised_limits_help_those_who_wait() -> None:
    """When a person raises the limits of the session it all began with, whoever waits for a share goes on at once."""
    first = (*hand_over("a", "b")[:-1], ModelFinished(usage=used(100)))
    waiting = (Pause("here"), *text("done", usage=used(100)))
    scripts: Scripts = {"go": [first, text("all", usage=used(1))], "a": [waiting], "b": [waiting]}
    config = helped(scripts)
    provider = config.models["m"]
    assert isinstance(provider, PromptedProvider)
    async with open_checked_service(config) as service:
        parent = await new_session(service, limits=TurnLimits(tokens=1_000))
        await service.send_user_message(parent, "go")
        await wait_all_tasks_blocked()
        assert 2 == len(provider.asked), "the other one waits"
        await service.change_turn_limits(parent, TurnLimits(tokens=1_000_000))
        await wait_all_tasks_blocked()
        assert ["a", "b", "go"] == sorted(provider.asked)
        provider.release("here")
        assert "completed" == (await service.wait_for_turn(parent)).outcome.status


async def test_lowered_limits_end_a_running_turn() -> None:
    """A limit that is lowered below what a turn has used ends it at its next call; taken away, it holds no more."""
    provider = ScriptedProvider(calling("t", 50), (Pause("a"), *calling("t", 60)), text("never"), text("fine"))
    async with open_checked_service(scripted(provider, tools=(ScriptedTool("t"),))) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await provider.wait_for_pause("a")
        await service.change_turn_limits(session_id, TurnLimits(tokens=80))
        provider.release("a")
        outcome = (await service.wait_for_turn(session_id)).outcome
        assert ("limit_reached", "stopped after 110 tokens; the limit is 80") == (outcome.status, outcome.error)
        await service.change_turn_limits(session_id, TurnLimits())
        assert "completed" == (await say(service, session_id)).status


async def test_the_last_answer_is_no_longer_than_what_is_left() -> None:
    """A model is told how long its answer may be: never longer than the turn has left, nor than it can be anyway."""
    provider = ScriptedProvider(calling("t", 1_000), calling("t", 2_000), text("done"))
    infos = info(max_output_tokens=8_000, prices=PRICES)
    config = scripted(provider, tools=(ScriptedTool("t", run="xxx"),), model_infos=infos)
    async with open_checked_service(config) as service:
        session_id = await new_session(service, limits=TurnLimits(tokens=10_000))
        await say(service, session_id)
    # Of 10,000 tokens, what the last answer had read and written is read again, and a little more of the tool.
    assert [None, 10_000 - 1_000 - 1_001, 10_000 - 3_000 - 2_001] == [
        each.max_output_tokens for each in provider.requests
    ]


def test_what_a_call_needs() -> None:
    """What the last answer used is known; what came after it, or a conversation that was shortened, is guessed."""

    def message(words: str, usage: Usage | None = None) -> Message:
        parts = (TextPart(text=words),)
        return Message(message_id=MessageId("m"), parent_id=None, role="user", parts=parts, created_at=0, usage=usage)

    talk = (message("a" * 300), message("b" * 3_000, used(500)), message("c" * 30))
    request = ModelRequest(model="m", messages=talk, system="s" * 60)
    assert (510, 500) == ((found := estimate_needs(request, None, whole=True)).input_tokens, found.certain_tokens)
    assert (1_130, 0) == ((found := estimate_needs(request, None, whole=False)).input_tokens, found.certain_tokens)
