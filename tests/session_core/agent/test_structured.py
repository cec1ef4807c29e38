"""Turns that are asked for JSON of a given shape, from the message to the outcome."""

import pytest

from session_core.errors import InvalidInput
from session_core.protocols.standard import MOST_REPAIRS
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Pause, ScriptedProvider, ScriptedTool, text, tool_call
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import TurnOutcome
from session_core.wire.codec import decode, encode_event
from tests.session_core.service._helpers import new_session, recorded, say, scripted, transcript

SCHEMA = JsonObject(
    {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
)
RIGHT = '{"n": 3}'


async def ask(provider: ScriptedProvider, *tools: ScriptedTool) -> tuple[TurnOutcome, list[tuple[str, str]]]:
    """Ask for a number; returns the outcome and the conversation, all of which every reader can be sent."""
    async with open_checked_service(scripted(provider, tools=tools)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "how many?", output_schema=SCHEMA)
        outcome = (await service.wait_for_turn(session_id)).outcome
        for event in recorded(service):
            assert event == decode(encode_event(event), SessionEvent)
        return outcome, await transcript(service, session_id)


async def test_the_outcome_has_the_answer() -> None:
    """The answer is in the outcome as JSON, after tools have run, and the model was given the shape each time."""
    provider = ScriptedProvider(tool_call("t"), text(RIGHT))
    outcome, _ = await ask(provider, ScriptedTool("t"))
    assert ("completed", JsonObject({"n": 3}), RIGHT) == (outcome.status, outcome.output, outcome.final_text)
    assert [SCHEMA, SCHEMA] == [request.output_schema for request in provider.requests]


@pytest.mark.parametrize(
    "wrong",
    [
        "three",
        '{"n": "3"}',
        "[" * 50_000,
        '{"n": 1e999}',
        '{"n": NaN}',
        '{"n": "\\ud800"}',
        '{"n": 1' + "0" * 500 + "}",
    ],
)
async def test_a_wrong_answer_is_mended(wrong: str) -> None:
    """A model that answers wrongly is told what is wrong, and may try again."""
    outcome, said = await ask(ScriptedProvider(text(wrong), text(RIGHT)))
    assert ("completed", JsonObject({"n": 3})) == (outcome.status, outcome.output)
    assert ["user", "assistant", "user", "assistant"] == [role for role, _ in said]
    assert "Your answer must be JSON of the given shape" in said[2][1]


async def test_a_model_that_cannot() -> None:
    """After a few tries the turn has failed, and its outcome has no output."""
    provider = ScriptedProvider(*[text("three")] * 10)
    outcome, _ = await ask(provider)
    assert ("failed", None, 1 + MOST_REPAIRS) == (outcome.status, outcome.output, len(provider.requests))
    assert "not JSON of the shape that was asked for" in (outcome.error or "")


async def test_a_follow_up_is_answered_in_the_same_shape() -> None:
    """What comes before the end is answered too, and the last answer is the output."""
    provider = ScriptedProvider((Pause("end"), *text(RIGHT)), text('{"n": 4}'))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "how many?", output_schema=SCHEMA)
        await provider.wait_for_pause("end")
        await service.send_user_message(session_id, "and one more?")
        provider.release("end")
        outcome = (await service.wait_for_turn(session_id)).outcome
        assert (JsonObject({"n": 4}), 2) == (outcome.output, outcome.steps)


async def test_the_next_turn_is_free() -> None:
    """The shape is for one turn only."""
    provider = ScriptedProvider(text(RIGHT), text("free"))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "how many?", output_schema=SCHEMA)
        await service.wait_for_turn(session_id)
        outcome = await say(service, session_id)
        assert ("completed", "free", None) == (outcome.status, outcome.final_text, outcome.output)
    assert None is provider.requests[1].output_schema


async def test_a_shape_that_is_none() -> None:
    """A schema that cannot be used is refused before anything has begun."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        with pytest.raises(InvalidInput) as caught:
            await service.send_user_message(session_id, "how many?", output_schema=JsonObject({"type": "nonsense"}))
        assert "output_schema" == caught.value.field
        assert [] == await transcript(service, session_id)
