"""Native tool calling, as values only: a view goes in, actions come out."""

import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.ids import CallId
from session_core.protocols.driver import (
    AskModel,
    Checkpoint,
    DriverView,
    Finish,
    Remember,
    RunTools,
    Tell,
    check_actions,
)
from session_core.protocols.standard import MOST_REPAIRS, NativeToolDriver
from session_core.providers.base import ModelFailed, StopReason
from session_core.vocabulary.frozen import JsonObject, freeze_json
from session_core.vocabulary.messages import Message, ToolCallPart
from tests.session_core.session._helpers import answer, call
from tests.strategies import values_of

DRIVER = NativeToolDriver()
SCHEMA = JsonObject(
    {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
)


def after(text: str, *calls: ToolCallPart, **changes: Any) -> DriverView:
    """A view after an answer."""
    return attrs.evolve(DriverView(step=1, answer=answer(*calls, text=text)), **changes)


def test_the_way_through_a_turn() -> None:
    """Ask; run what was called; let people steer; ask; see whether that was all; end."""
    assert (AskModel(),) == DRIVER.on_start(DriverView())
    assert (RunTools(),) == DRIVER.on_answer(after("let me see", call("t")))
    assert (Checkpoint(kind="after_work"),) == DRIVER.on_results(after("let me see", call("t")))
    assert (AskModel(),) == DRIVER.on_checkpoint(after(""), "after_work", more=False)
    assert (Checkpoint(kind="before_completion"),) == DRIVER.on_answer(after("done"))
    assert (Finish(),) == DRIVER.on_checkpoint(after("done"), "before_completion", more=False)


def test_more_to_answer() -> None:
    """Messages that have come meanwhile are answered before the turn ends."""
    assert (AskModel(),) == DRIVER.on_checkpoint(after("done"), "before_completion", more=True)
    assert (AskModel(),) == DRIVER.on_checkpoint(after("done"), "after_work", more=True)


def test_calls_that_cannot_be_read_are_run_too() -> None:
    """A call with unreadable arguments goes to the tools, where it gets its result like every call."""
    view = after("", call("t"), unreadable=frozenset({call("t").call_id}))
    assert (RunTools(),) == DRIVER.on_answer(view)


@pytest.mark.parametrize(
    ("reason", "calls", "expected"),
    [
        ("max_tokens", (), ("limit_reached", "cut off")),
        ("refused", (), ("failed", "declined")),
        ("refused", (call("t"),), ("failed", "declined")),
    ],
)
def test_answers_that_end_badly(reason: StopReason, calls: tuple[ToolCallPart, ...], expected: tuple[str, str]) -> None:
    """A cut answer and a refused one end the turn, each with its own reason; what a refused one calls is not run."""
    (finish,) = DRIVER.on_answer(after("so", *calls, stop_reason=reason))
    assert isinstance(finish, Finish)
    assert expected[0] == finish.status
    assert expected[1] in (finish.error or "")


def test_a_cut_answer_with_calls_goes_on() -> None:
    """Calls of a cut answer get results, from which the model learns what was missing."""
    assert (RunTools(),) == DRIVER.on_answer(after("so", call("t"), stop_reason="max_tokens"))


def test_a_failure_ends_the_turn() -> None:
    """A model that cannot be asked fails the turn with its kind and its words."""
    failure = ModelFailed(kind="auth", message="no key")
    assert (Finish(status="failed", error="auth: no key"),) == DRIVER.on_failure(DriverView(), failure)


# --- JSON of a given shape --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ['{"n": 1}', '  {"n": 1}\n', '```json\n{"n": 1}\n```', '```\n{"n": 1}\n```'])
def test_an_answer_of_the_right_shape(text: str) -> None:
    """JSON that fits is the turn's result, also out of a fenced block."""
    view = after(text, output_schema=SCHEMA)
    assert (Checkpoint(kind="before_completion"),) == DRIVER.on_answer(view)
    assert (Finish(output=JsonObject({"n": 1})),) == DRIVER.on_checkpoint(view, "before_completion", more=False)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sorry", "not JSON"),
        ("", "not JSON"),
        ("```json", "not JSON"),
        ('{"n": "x"}', "At n"),
        ('{"n": 1, "m": 2}', "m"),
        ("{}", "n"),
        ('{"n": NaN}', "NaN"),
        ('{"n": 1, "n": 2}', "twice"),
        ('{"n": "\\ud800"}', "unpaired surrogate"),
        ("[" * 100_000, "nested too deeply"),
        ("1" * 5_000, "whole numbers"),
    ],
)
def test_the_wrong_shape_is_told_and_tried_again(text: str, why: str) -> None:
    """What does not fit is sent back with what is wrong with it, so many times; then the turn has failed."""
    view = after(text, output_schema=SCHEMA)
    for repair in range(1, MOST_REPAIRS + 1):
        remember, tell, ask = DRIVER.on_answer(view)
        assert Remember(memory=repair) == remember
        assert isinstance(tell, Tell)
        assert why in tell.text
        assert len(tell.text) < 1_000
        assert AskModel() == ask
        view = attrs.evolve(view, memory=repair)
    forget, finish = DRIVER.on_answer(view)
    assert Remember(memory=None) == forget
    assert isinstance(finish, Finish)
    assert "failed" == finish.status
    assert why in (finish.error or "")


@given(st.recursive(st.none() | st.booleans() | st.integers(-99, 99) | st.text(), st.lists))
def test_whatever_fits_comes_out(output: Any) -> None:
    """Any JSON that a schema allows is the result as it was said."""
    view = after(
        json.dumps(output), output_schema=JsonObject({"type": ["null", "boolean", "integer", "string", "array"]})
    )
    assert (Finish(output=freeze_json(output)),) == DRIVER.on_checkpoint(view, "before_completion", more=False)


# --- any view ---------------------------------------------------------------------------------------------------------

TEXTS = st.sampled_from(["", "words", '{"n": 1}', '{"n": ', "```json\n{}\n```", "```", "[" * 3_000, '"\\ud800"'])
SCHEMAS = st.sampled_from(
    [None, SCHEMA, JsonObject(), JsonObject({"type": "nonsense"}), JsonObject({"$ref": "#/nowhere"})]
)


@st.composite
def views(draw: st.DrawFn) -> DriverView:
    """Views as no turn would make them, too."""
    calls = draw(st.lists(st.integers(0, 3).map(lambda number: call("t", number)), max_size=2))
    said: Message | None = draw(st.none() | TEXTS.map(lambda text: answer(*calls, text=text)))
    return DriverView(
        step=draw(st.integers(0, 5)),
        answer=said,
        stop_reason=draw(values_of(StopReason)),
        unreadable=draw(st.frozensets(st.just(CallId("call_1")))),
        results=draw(st.none() | st.just(answer(text="?"))),
        output_schema=draw(SCHEMAS),
        memory=draw(st.none() | st.integers(-1, 3) | st.text(max_size=2) | st.booleans()),
    )


@given(st.lists(views(), min_size=1, max_size=8), st.booleans(), values_of(ModelFailed))
def test_any_views_lead_on(turn: list[DriverView], more: bool, failure: ModelFailed) -> None:  # noqa: FBT001
    """Whatever it is shown, in whatever order, the driver raises nothing and always says how the turn goes on."""
    for view in turn:
        for actions in (
            DRIVER.on_start(view),
            DRIVER.on_answer(view),
            DRIVER.on_results(view),
            DRIVER.on_failure(view, failure),
            DRIVER.on_checkpoint(view, "after_work", more=more),
            DRIVER.on_checkpoint(view, "before_completion", more=more),
        ):
            check_actions(actions)
