"""What a turn may use: each limit ends it with an outcome that names the limit."""

import pytest
import trio
from trio.testing import MockClock

from session_core.agent.budget import format_dollars
from session_core.providers.base import TextChunk
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Hang, Pause, ScriptedProvider, ScriptedTool, failure, text, tool_call
from session_core.tools.base import ToolContext
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import InterruptedPart, TextPart, ToolResultPart
from session_core.vocabulary.sessions import TurnLimits
from tests.session_core.agent._models import PRICES, calling, info
from tests.session_core.service._helpers import new_session, of_type, say, scripted


@pytest.mark.parametrize(
    ("bounds", "asked", "why"),
    [
        (TurnLimits(steps=1), 1, "stopped after 1 model call"),
        (TurnLimits(steps=3), 3, "stopped after 3 model calls"),
        (
            TurnLimits(tokens=150),
            1,
            "stopped after 100 tokens: the next model call would use 100 or more, and the limit is 150",
        ),
        (TurnLimits(tokens=200), 2, "stopped after 200 tokens; the limit is 200"),
        (TurnLimits(cost_micros=201), 3, "stopped after $0.000300; the limit is $0.000201"),
        (TurnLimits(steps=2, tokens=1), 1, "stopped after 100 tokens; the limit is 1"),
    ],
)
async def test_steps_tokens_and_money(bounds: TurnLimits, asked: int, why: str) -> None:
    """A model that goes on and on is not asked once more than the limit allows; its last calls are answered."""
    provider = ScriptedProvider(*[calling("t", 100)] * 10)
    config = scripted(provider, tools=(ScriptedTool("t"),), turn_limits=bounds, model_infos=info(prices=PRICES))
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        assert ("limit_reached", why, asked) == (outcome.status, outcome.error, len(provider.requests))
        snapshot = await service.load_session(session_id)
        assert ("tool", "errored", why) == (
            snapshot.transcript[-1].role,
            snapshot.activity.name,
            snapshot.activity.message,
        )


async def test_each_turn_has_its_own() -> None:
    """What one turn has used is not held against the next."""
    provider = ScriptedProvider(text("a"), text("b"), text("c"))
    async with open_checked_service(scripted(provider, turn_limits=TurnLimits(steps=1))) as service:
        session_id = await new_session(service)
        assert ["completed"] * 3 == [(await say(service, session_id)).status for _ in range(3)]


async def test_nothing_is_summarised_beyond_the_limit() -> None:
    """A turn that may not go on spends nothing on a summary."""
    provider = ScriptedProvider(calling("t", 900), text("never"))
    config = scripted(
        provider,
        tools=(ScriptedTool("t"),),
        turn_limits=TurnLimits(tokens=800),
        model_infos=info(context_tokens=1_000),
    )
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        assert "limit_reached" == (await say(service, session_id)).status
        assert [] == of_type(service, session_id, ev.CompactionStarted)


# --- time -------------------------------------------------------------------------------------------------------------

TIME = TurnLimits(time_ms=90_000)
WHY = "stopped after 90 seconds, the time it had"


async def hang(arguments: JsonObject, context: ToolContext) -> str:
    """A tool that never ends."""
    context.report("so far")
    await trio.sleep_forever()
    raise AssertionError


async def test_time_ends_a_hanging_model(autojump_clock: MockClock) -> None:
    """A model that says no more is given up when the time is over, and what it has said stays."""
    provider = ScriptedProvider((TextChunk(text="half"), Hang()), text("fine"))
    async with open_checked_service(scripted(provider, turn_limits=TIME)) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        assert ("limit_reached", WHY, 90_000) == (outcome.status, outcome.error, outcome.duration_ms)
        last = (await service.load_session(session_id)).transcript[-1]
        assert (TextPart(text="half"), InterruptedPart(reason="interrupted")) == last.parts
        assert "completed" == (await say(service, session_id)).status


async def test_time_ends_a_hanging_tool(autojump_clock: MockClock) -> None:
    """A tool that never ends is cancelled when the time is over, and its call is answered."""
    provider = ScriptedProvider(tool_call("t"))
    tools = (ScriptedTool("t", run=hang),)
    async with open_checked_service(scripted(provider, tools=tools, turn_limits=TIME)) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        assert ("limit_reached", WHY, 1) == (outcome.status, outcome.error, outcome.tool_calls)
        (part,) = (await service.load_session(session_id)).transcript[-1].parts
        assert isinstance(part, ToolResultPart)
        assert "cancelled" == part.status


async def test_time_ends_a_wait(autojump_clock: MockClock) -> None:
    """Waiting for a model that is busy, or for a person, counts too."""
    provider = ScriptedProvider(failure("overloaded"), failure("overloaded"))
    async with open_checked_service(scripted(provider, turn_limits=TurnLimits(time_ms=100))) as service:
        outcome = await say(service, await new_session(service))
        assert ("limit_reached", 100) == (outcome.status, outcome.duration_ms)
    tool = ScriptedTool("t", effects=("write",))
    async with open_checked_service(scripted(tool_call("t"), tools=(tool,), turn_limits=TIME)) as service:
        session_id = await new_session(service)
        assert ("limit_reached", WHY) == ((outcome := await say(service, session_id)).status, outcome.error)
        assert () == (await service.load_session(session_id)).approvals
    assert [] == tool.calls


async def test_a_stop_is_a_stop(autojump_clock: MockClock) -> None:
    """A turn that a person stops before its time is over was stopped, whatever its limits."""
    async with open_checked_service(scripted(Hang(), turn_limits=TIME)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await trio.sleep(5)
        await service.request_stop(session_id)
        outcome = (await service.wait_for_turn(session_id)).outcome
        assert ("stopped", None) == (outcome.status, outcome.error)


async def test_time_can_be_changed_while_a_turn_runs(autojump_clock: MockClock) -> None:
    """More time lets a running turn go on, less ends it at once, and none at all is no limit."""
    provider = ScriptedProvider((Pause("a"), *text("one")), Hang(), (Pause("b"), *text("three")))
    async with open_checked_service(scripted(provider, turn_limits=TIME)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await trio.sleep(80)
        await service.change_turn_limits(session_id, TurnLimits(time_ms=200_000))
        await trio.sleep(80)
        provider.release("a")
        assert "completed" == (await service.wait_for_turn(session_id)).outcome.status

        await service.send_user_message(session_id, "go")
        await trio.sleep(80)
        await service.change_turn_limits(session_id, TurnLimits(time_ms=50_000))
        outcome = (await service.wait_for_turn(session_id)).outcome
        assert ("limit_reached", 80_000) == (outcome.status, outcome.duration_ms)
        assert "stopped after 50 seconds, the time it had" == outcome.error

        await service.send_user_message(session_id, "go")
        await service.change_turn_limits(session_id, TurnLimits())
        await trio.sleep(500)
        provider.release("b")
        assert "completed" == (await service.wait_for_turn(session_id)).outcome.status


@pytest.mark.parametrize(("micros", "shown"), [(0, "$0.000000"), (9_999, "$0.009999"), (1_234_567_890, "$1,234.57")])
def test_dollars(micros: int, shown: str) -> None:
    """Money has as many digits as it takes to see it."""
    assert shown == format_dollars(micros)
