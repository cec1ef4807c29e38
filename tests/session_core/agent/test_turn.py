"""The turn loop: retries, limits, failures, and what the model gets to see."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from session_core import limits
from session_core.agent.compaction import CompactionPolicy
from session_core.agent.hooks import NO_HOOKS
from session_core.agent.model_call import FIRST_RETRY_MS, LONGEST_RETRY_MS, Models, clean_error, retry_delay_ms
from session_core.agent.turn import Agent
from session_core.protocols.lifecycle import SessionProtocol
from session_core.protocols.options import Materialization
from session_core.protocols.standard import StandardProtocol
from session_core.providers.base import (
    RETRYABLE,
    FailureKind,
    ModelFailed,
    ModelRequest,
    Provider,
    ProviderEvent,
    TextChunk,
)
from session_core.session.turn_handle import TurnHandle
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedProvider, ScriptedTool, failure, text, tool_call
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import InterruptedPart, TextPart, Usage
from session_core.vocabulary.protocols import ProtocolRecord
from session_core.wire.codec import encode_event
from tests.session_core.service._helpers import new_session, of_type, recorded, said, say, scripted, trace
from tests.session_core.session._helpers import started

KINDS: tuple[FailureKind, ...] = (
    "rate_limited",
    "overloaded",
    "auth",
    "context_too_long",
    "network",
    "malformed",
    "refused",
    "internal",
)


async def test_a_retry_never_doubles_text(autojump_clock: MockClock) -> None:
    """What a failed call had streamed is withdrawn before the next try, so that it appears only once."""
    broken = (TextChunk(text="hel"), ModelFailed(kind="network", message="gone"))
    provider = ScriptedProvider(broken, text("hello"))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id, "hi")
        assert ("completed", "hello") == (outcome.status, outcome.final_text)
        assert [("user", "hi"), ("assistant", "hello")] == said((await service.load_session(session_id)).transcript)
        assert provider.requests[0] == provider.requests[1]
        events = [type(event) for event in trace(service, session_id)]
        assert events.index(ev.MessageDiscarded) < events.index(ev.ModelCallFailed)
        (failed,) = of_type(service, session_id, ev.ModelCallFailed)
        assert ("network", "gone", 1) == (failed.kind, failed.message, failed.attempt)


async def test_a_wish_to_wait_is_honoured(autojump_clock: MockClock) -> None:
    """The time a provider asks for is waited and shown, and then the call is made again."""
    provider = ScriptedProvider(failure("rate_limited", retry_after_ms=7_000), text("ok"))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        began = trio.current_time()
        await say(service, session_id)
        assert 7.0 == pytest.approx(trio.current_time() - began)
        (failed,) = of_type(service, session_id, ev.ModelCallFailed)
        waiting = [event.activity for event in of_type(service, session_id, ev.ActivityChanged)]
        assert failed.retry_at in [activity.retry_at for activity in waiting if activity.name == "rate_limited"]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_tried_again_and_what_not(kind: FailureKind, autojump_clock: MockClock) -> None:
    """Passing failures are tried a bounded number of times, others once; then the turn has failed and says why."""
    provider = ScriptedProvider(*[failure(kind, "sorry")] * 20)
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        assert ("failed", f"{kind}: sorry") == (outcome.status, outcome.error)
        assert (limits.MAX_RETRIES + 1 if kind in RETRYABLE else 1) == len(provider.requests)
        assert of_type(service, session_id, ev.ModelCallFailed)[-1].retry_at is None
        activity = (await service.load_session(session_id)).activity
        assert ("errored", outcome.error) == (activity.name, activity.message)


async def test_a_final_failure_keeps_what_was_said() -> None:
    """An answer that broke off for good stays in the conversation, marked as failed."""
    provider = ScriptedProvider((TextChunk(text="half"), ModelFailed(kind="refused", message="no \ud800")))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        last = (await service.load_session(session_id)).transcript[-1]
        assert (TextPart(text="half"), InterruptedPart(reason="failed")) == last.parts
        for event in recorded(service):
            encode_event(event)


def test_waits_grow_and_are_bounded() -> None:
    """Each wait is longer than the one before on average, never longer than the limit, and never negative."""
    overloaded = ModelFailed(kind="overloaded", message="")
    for attempt in range(1, 30):
        longest = min(FIRST_RETRY_MS * 2 ** (attempt - 1), LONGEST_RETRY_MS)
        assert longest / 2 - 1 <= retry_delay_ms(overloaded, attempt) <= longest
    for asked, waited in ((0, 0), (-5, 0), (5, 5), (10**9, limits.MAX_RETRY_WAIT_MS)):
        assert waited == retry_delay_ms(ModelFailed(kind="overloaded", message="", retry_after_ms=asked), 1)


@pytest.mark.parametrize(
    ("items", "said_why"),
    [
        (text(), "malformed: the model gave an empty answer"),
        (text("")[:0], "malformed: the model's answer ended early"),
        (text("half")[:1], "malformed: the model's answer ended early"),
    ],
)
async def test_answers_that_are_none(items: tuple[ProviderEvent, ...], said_why: str) -> None:
    """An empty answer, or one without an end, fails the turn with a clear reason."""
    async with open_checked_service(scripted(items)) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        assert ("failed", said_why) == (outcome.status, outcome.error)


async def test_the_step_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that calls tools forever is ended after so many steps, with every call answered."""
    monkeypatch.setattr(limits, "MAX_STEPS_PER_TURN", 3)
    tool = ScriptedTool("t")
    provider = ScriptedProvider(*[tool_call("t")] * 10)
    async with open_checked_service(scripted(provider, tools=(tool,))) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        assert ("limit_reached", 3, 3) == (outcome.status, outcome.steps, outcome.tool_calls)
        assert "3 model calls" in (outcome.error or "")
        assert "tool" == (await service.load_session(session_id)).transcript[-1].role


class BrokenProvider:
    """A provider with a bug: it raises."""

    def __init__(self, *, late: bool) -> None:
        self._late = late

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ProviderEvent]]:
        if not self._late:
            raise ZeroDivisionError("early \ud800")
        yield self._events()

    async def _events(self) -> AsyncIterator[ProviderEvent]:
        yield TextChunk(text="half")
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError("late \ud800")


@pytest.mark.usefixtures("quiet_log")
@pytest.mark.parametrize("late", [False, True])
async def test_a_bug_in_a_provider(late: bool) -> None:  # noqa: FBT001
    """A provider that raises fails its turn, truthfully, and the service goes on with other models."""
    config = scripted(models={"broken": BrokenProvider(late=late), "fine": ScriptedProvider(text("ok"))})
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        assert "failed" == outcome.status
        assert "ZeroDivisionError" in (outcome.error or "")
        assert ("half" if late else "") == outcome.final_text
        for event in recorded(service):
            encode_event(event)
        await service.switch_model(session_id, "fine")
        assert "completed" == (await say(service, session_id)).status


async def test_usage_is_summed_up() -> None:
    """The tokens of all calls of a turn are in its outcome, those of all turns in the session."""
    used = Usage(input_tokens=1, output_tokens=2)
    answers = [(*tool_call("t")[:-1], *text(usage=used)), text("a", usage=used), text("b", usage=used)]
    async with open_checked_service(scripted(*answers, tools=(ScriptedTool("t"),))) as service:
        session_id = await new_session(service)
        assert used.plus(used) == (await say(service, session_id)).usage
        assert used == (await say(service, session_id)).usage
        assert Usage(input_tokens=3, output_tokens=6) == (await service.load_session(session_id)).usage


def agent_with(providers: Mapping[str, Provider]) -> Agent:
    models = Models(providers=providers)
    return Agent(models=models, tools={}, compaction_policy=CompactionPolicy(models=models, hooks=NO_HOOKS))


def standard(handle: TurnHandle) -> SessionProtocol:
    opening = Materialization(opening="create", session_id=handle.state.session_id)
    return SessionProtocol(StandardProtocol(), ProtocolRecord(), opening)


async def test_a_cancelled_turn_asks_nobody() -> None:
    """A turn that was stopped before it began makes no model call."""
    provider = ScriptedProvider(text("never"))
    agent = agent_with({"m": provider})
    _, handle, seen = started()
    with trio.CancelScope() as scope:
        scope.cancel()
        await agent.run_turn(handle, standard(handle))
    assert scope.cancelled_caught
    assert [] == provider.requests
    assert [] == seen


async def test_a_model_that_is_gone() -> None:
    """A session whose model the service does not have any more fails its turn and says which."""
    agent = agent_with({})
    session, handle, _ = started()
    await agent.run_turn(handle, standard(handle))
    assert session.state.last_outcome is not None
    assert "refused: there is no model called 'm' here" == session.state.last_outcome.error


def test_foreign_messages_are_bounded() -> None:
    """An error message from outside is cleaned and cut."""
    assert "a?" == clean_error("a\ud800")
    assert limits.MAX_ERROR_CHARS == len(clean_error("x" * 10_000))
