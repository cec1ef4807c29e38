"""Drivers that break their contract: the turn fails and says so, and nothing is left half-done."""

from collections.abc import Callable
from typing import Any

import pytest

from session_core import limits
from session_core.protocols.driver import (
    Actions,
    AskModel,
    Checkpoint,
    CheckpointKind,
    DriverView,
    Finish,
    Remember,
    RunTools,
    Tell,
)
from session_core.protocols.standard import NativeToolDriver
from session_core.providers.base import ModelFailed, TextChunk
from session_core.testing.checked import open_checked_service
from session_core.testing.driver_protocol import driver_settings
from session_core.testing.scripted import ScriptedProvider, ScriptedTool, failure, text, tool_call
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import ToolResultPart
from session_core.vocabulary.sessions import TurnOutcome
from tests.session_core.service._helpers import new_session, of_type, say, scripted, transcript

Decide = Callable[[DriverView], Any]


class Odd(NativeToolDriver):
    """Like the usual driver, but for one place."""

    def __init__(self, place: str, decide: Decide) -> None:
        self._place = place
        self._decide = decide

    def on_start(self, view: DriverView) -> Actions:
        return self._or("on_start", view, super().on_start(view))

    def on_answer(self, view: DriverView) -> Actions:
        return self._or("on_answer", view, super().on_answer(view))

    def on_failure(self, view: DriverView, failure: ModelFailed) -> Actions:
        return self._or("on_failure", view, super().on_failure(view, failure))

    def on_results(self, view: DriverView) -> Actions:
        return self._or("on_results", view, super().on_results(view))

    def on_checkpoint(self, view: DriverView, kind: CheckpointKind, *, more: bool) -> Actions:
        return self._or("on_checkpoint", view, super().on_checkpoint(view, kind, more=more))

    def _or(self, place: str, view: DriverView, otherwise: Actions) -> Actions:
        actions: Actions = self._decide(view) if place == self._place else otherwise
        return actions


async def play(place: str, decide: Decide, *answers: Any) -> TurnOutcome:
    """Run a turn that calls a tool with such a driver; the conversation can be gone on with afterwards."""
    provider = ScriptedProvider(*(answers or (tool_call("t"), text("done"))), text("fine"))
    tool = ScriptedTool("t")
    async with open_checked_service(
        scripted(provider, tools=(tool,), **driver_settings(Odd(place, decide)))
    ) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        messages = (await service.load_session(session_id)).transcript
        calls = [call.call_id for message in messages for call in message.tool_calls]
        results = [part.call_id for message in messages for part in message.parts if isinstance(part, ToolResultPart)]
        assert calls == results
        return outcome


def fail(view: DriverView) -> Actions:
    """A driver with a bug."""
    raise ZeroDivisionError(f"step {view.step}")


PLACES = ("on_start", "on_answer", "on_results", "on_checkpoint")


@pytest.mark.usefixtures("quiet_log")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("decide", "why"),
    [
        (fail, "ZeroDivisionError: step"),
        (lambda _: None, "did not say how the turn continues"),
        (lambda _: (), "did not say how the turn continues"),
        (lambda _: (AskModel(), AskModel()), "two things at once"),
        (lambda _: (Finish(output=float("inf")),), "a result that cannot be sent"),
    ],
)
async def test_a_driver_that_fails(place: str, decide: Decide, why: str) -> None:
    """Whatever a driver raises or returns instead of actions, at any place, fails the turn with its reason."""
    outcome = await play(place, decide)
    assert "failed" == outcome.status
    assert (outcome.error or "").startswith("the protocol tried failed in driver: ")
    assert why in (outcome.error or "")


@pytest.mark.parametrize(
    "actions",
    [
        (AskModel(),),
        (Checkpoint(kind="before_completion"),),
        (Checkpoint(kind="after_work"),),
        (Finish(),),
        (Tell(text="hurry"), RunTools()),
        (Tell(text="hurry"), Finish(status="failed", error="no")),
    ],
)
async def test_calls_are_not_passed_over(actions: Actions) -> None:
    """Nothing is said after tool calls before they have results: a model could never be asked again."""
    outcome = await play("on_answer", lambda _: actions)
    assert ("failed", "the protocol tried failed in driver: the driver left tool calls without results") == (
        outcome.status,
        outcome.error,
    )


async def test_giving_up_answers_the_calls() -> None:
    """A driver may give up instead of running tools; their calls are answered all the same."""
    outcome = await play("on_answer", lambda _: (Finish(status="limit_reached", error="enough"),))
    assert ("limit_reached", "enough", 0) == (outcome.status, outcome.error, outcome.tool_calls)


@pytest.mark.parametrize("place", ["on_start", "on_results"])
async def test_tools_that_nobody_called(place: str) -> None:
    """Tools run once, and only when they were called."""
    outcome = await play(place, lambda _: (RunTools(),))
    reason = "the driver asked to run tools, but the model has called none"
    assert f"the protocol tried failed in driver: {reason}" == outcome.error


async def test_circles() -> None:
    """A driver that asks for checkpoints without end does not hold up the service."""
    outcome = await play("on_checkpoint", lambda _: (Checkpoint(kind="after_work"),))
    assert "the protocol tried failed in driver: the driver keeps returning checkpoints" == outcome.error


async def test_asking_a_model_that_always_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that asks again after each failure reaches the step limit; half an answer never stays in the way."""
    monkeypatch.setattr(limits, "MAX_STEPS_PER_TURN", 4)
    broken = (TextChunk(text="half"), *failure("refused"))
    provider = ScriptedProvider(*[broken] * 10)
    driver = Odd("on_failure", lambda _: (AskModel(),))
    async with open_checked_service(scripted(provider, **driver_settings(driver))) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        assert ("limit_reached", 4) == (outcome.status, len(provider.requests))
        assert [("user", "hello")] == await transcript(service, session_id)
        assert 4 == len(of_type(service, session_id, ev.MessageDiscarded))


async def test_a_model_that_is_not_there_is_not_asked_forever() -> None:
    """Calls that cannot even begin are counted too."""
    driver = Odd("on_failure", lambda _: (AskModel(),))
    models = {"m": ScriptedProvider(text("one")), "gone": ScriptedProvider()}
    async with open_checked_service(scripted(models=models, **driver_settings(driver))) as service:
        session_id = await new_session(service, model="gone")
        del models["gone"]
        outcome = await say(service, session_id)
        assert "the protocol tried failed in driver: the driver keeps asking the model" == outcome.error


async def test_what_a_driver_remembers_and_tells() -> None:
    """Memory is in the next view, and what the model is told stands in the conversation, cleaned."""
    seen: list[object] = []

    def decide(view: DriverView) -> Actions:
        seen.append(view.memory)
        if view.memory is not None:
            return (Finish(),)
        return (Remember(memory=1), Remember(memory="two"), Tell(text="again \ud800"), AskModel())

    provider = ScriptedProvider(text("one"), text("two"))
    async with open_checked_service(scripted(provider, **driver_settings(Odd("on_answer", decide)))) as service:
        session_id = await new_session(service)
        assert "completed" == (await say(service, session_id)).status
        expected = [("user", "hello"), ("assistant", "one"), ("user", "again ?"), ("assistant", "two")]
        assert expected == await transcript(service, session_id)
    assert [None, "two"] == seen


async def test_without_tools() -> None:
    """A driver can ask a model without offering it tools."""
    provider = ScriptedProvider(text("done"))
    driver = Odd("on_start", lambda _: (AskModel(with_tools=False),))
    async with open_checked_service(
        scripted(provider, tools=(ScriptedTool("t"),), **driver_settings(driver))
    ) as service:
        await say(service, await new_session(service))
    assert () == provider.requests[0].tools
