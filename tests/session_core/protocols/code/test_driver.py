"""The turn of a model that writes code, as values only: a view goes in, actions come out."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core import limits
from session_core.protocols.code.driver import CellDriver
from session_core.protocols.driver import (
    Actions,
    AskModel,
    Checkpoint,
    CodeDriver,
    DriverView,
    ExecuteCode,
    Finish,
    Remember,
    RunTools,
    Tell,
    check_actions,
)
from session_core.protocols.execution import CellResult
from session_core.providers.base import ModelFailed, StopReason
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import CodePart, Message
from tests.session_core.session._helpers import answer, call
from tests.strategies import values_of

DRIVER = CellDriver()
STRICT = CellDriver(finish_required=True)
ASK = AskModel(with_tools=False)
SCHEMA = JsonObject({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
CELL = "```python\nprint(1)\n```"


def after(text: str, **changes: Any) -> DriverView:
    """A view after an answer, as the projector leaves it: prose, and what only the protocol reads."""
    prose, fence, code = text.partition("```")
    said = answer(text=prose)
    said = attrs.evolve(said, parts=(*said.parts, *((CodePart(text=fence + code),) if fence else ())))
    return attrs.evolve(DriverView(step=1, answer=said), **changes)


def ran(text: str = CELL, /, *, memory: Any = None, schema: JsonObject | None = None, **result: Any) -> DriverView:
    """A view after a cell."""
    return after(text, cell=CellResult(**result), memory=memory, output_schema=schema)


def told(actions: Actions) -> str:
    """What the model is told when it may go on, after people could steer."""
    remember, *tells, last = actions
    assert isinstance(remember, Remember)
    assert Checkpoint(kind="after_work") == last
    return " ".join(tell.text for tell in tells if isinstance(tell, Tell))


def stalled(actions: Actions) -> Any:
    """How many steps without progress are remembered."""
    (remember,) = (action for action in actions if isinstance(action, Remember))
    assert isinstance(remember.memory, JsonObject)
    return remember.memory["stalled"]


def repairs(driver: CellDriver, view: DriverView) -> str:
    """Check that an answer is sent back and counted; returns what the model is told."""
    actions = driver.on_answer(view)
    assert 1 == stalled(actions)
    assert told(actions)
    return told(actions)


def memory_of(actions: Actions) -> Any:
    """What the next view would hold."""
    return next(action.memory for action in actions if isinstance(action, Remember))


def test_it_is_a_driver_of_code() -> None:
    """The interpreter runs cells for such a driver."""
    assert isinstance(DRIVER, CodeDriver)


def test_the_way_through_a_turn() -> None:
    """Ask; run the cell; let people steer; ask; see whether that was all; end."""
    assert (ASK,) == DRIVER.on_start(DriverView())
    assert (ExecuteCode(language="python", code="print(1)\n"),) == DRIVER.on_answer(after(f"I look.\n{CELL}"))
    actions = DRIVER.on_code(ran(output="1"))
    assert "" == told(actions)
    assert ASK == DRIVER.on_checkpoint(ran(memory=memory_of(actions)), "after_work", more=False)[-1]
    assert (Checkpoint(kind="before_completion"),) == DRIVER.on_answer(after("done"))
    assert (Finish(),) == DRIVER.on_checkpoint(after("done"), "before_completion", more=False)


def test_more_to_answer() -> None:
    """Messages that have come meanwhile are answered before the turn ends, and after steps."""
    for kind in ("after_work", "before_completion"):
        assert ASK == DRIVER.on_checkpoint(after("done"), kind, more=True)[-1]


# --- answers without a cell to run ------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["done", "```bash\nls\n```\n", "```\nx\n```\n", "~~~python\nx\n~~~"])
def test_prose_finishes(text: str) -> None:
    """Prose ends a turn, whatever blocks of other languages it shows."""
    assert (Checkpoint(kind="before_completion"),) == DRIVER.on_answer(after(text))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("done", "no cell"),
        ("```bash\nls\n```\n", "a block of bash"),
        ("```\nls\n```\n", "a block without a language"),
    ],
)
@pytest.mark.parametrize("by_schema", [True, False])
def test_prose_is_asked_about_again_where_finish_is_required(text: str, why: str, by_schema: bool) -> None:  # noqa: FBT001
    """Where only `finish(value)` ends a turn, by an option or as JSON is asked for, prose is told so."""
    said = repairs(DRIVER if by_schema else STRICT, after(text, output_schema=SCHEMA if by_schema else None))
    assert why in said
    assert "finish(value)" in said


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("```python\nx = 1", "no closing fence"),
        ("```", "no closing fence"),
        ("```python\n\n```", "no code"),
        ("```python x = 1\n```", "on the line of the opening fence"),
        ("```python\nx\n```python\ny\n```", "second Python fence"),
        ("```sh\nls\n```python\ny\n```", "inside another block"),
        ("So: ```python\nx\n```\n", "line of its own"),
    ],
)
def test_broken_cells_are_tried_again(text: str, why: str) -> None:
    """A cell that is unclosed, empty or malformed is not run, and the model is told what is wrong with it."""
    for driver in (DRIVER, STRICT):
        assert why in repairs(driver, after(text))


def test_an_answer_cut_off_in_a_cell_is_tried_again() -> None:
    """A cell that the output limit has cut is told as that, and so is prose where finish is required."""
    for driver, text in ((DRIVER, "```python\nx = "), (DRIVER, "```pyth"), (STRICT, "well, ")):
        assert "cut off" in repairs(driver, after(text, stop_reason="max_tokens"))


def test_a_whole_cell_before_the_cut_is_run() -> None:
    """What an output limit cuts after the cell would have been dropped anyway."""
    view = after(f"{CELL}\nand th", stop_reason="max_tokens")
    assert (ExecuteCode(language="python", code="print(1)\n"),) == DRIVER.on_answer(view)


def test_prose_that_is_cut_off_ends_the_turn() -> None:
    """Prose that has reached the longest allowed ends the turn as with every protocol."""
    (finish,) = DRIVER.on_answer(after("well, ", stop_reason="max_tokens"))
    assert isinstance(finish, Finish)
    assert "limit_reached" == finish.status


def test_refusals_and_failures_end_the_turn() -> None:
    """A model that declines, or cannot be asked, fails the turn with the reason; its cell is not run."""
    (finish,) = DRIVER.on_answer(after(CELL, stop_reason="refused"))
    assert isinstance(finish, Finish)
    assert ("failed", "refused: the model declined to answer") == (finish.status, finish.error)
    failure = ModelFailed(kind="auth", message="no key")
    assert (Finish(status="failed", error="auth: no key"),) == DRIVER.on_failure(DriverView(), failure)


def test_native_calls_are_answered_and_told() -> None:
    """A model that calls tools by the means of its interface gets results, and is told how it is done here."""
    view = DriverView(answer=answer(call("t"), text="so"))
    assert (RunTools(),) == DRIVER.on_answer(view)
    actions = DRIVER.on_results(view)
    assert 1 == stalled(actions)
    assert "Python functions" in told(actions)


# --- what became of a cell --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [None, "ZeroDivisionError"])
def test_only_the_first_of_two_cells(error: str | None) -> None:
    """The first of two cells runs, well or not, and the model is told that the other did not."""
    two = f"{CELL}\nand\n```python\nprint(2)\n```"
    assert (ExecuteCode(language="python", code="print(1)\n"),) == DRIVER.on_answer(after(two))
    assert "Only the first cell" in told(DRIVER.on_code(ran(two, error=error)))


def test_finish_ends_the_turn() -> None:
    """The value given to `finish` is the turn's output, also where no shape is asked for, and also if it is None."""
    for value in (None, 3, "text", (1, JsonObject({"a": 1}))):
        actions = DRIVER.on_code(ran(finished=True, value=value))
        assert Checkpoint(kind="before_completion") == actions[-1]
        view = ran(finished=True, value=value, memory=memory_of(actions))
        assert (Finish(output=value),) == DRIVER.on_checkpoint(view, "before_completion", more=False)
        assert (Finish(output=value),) == STRICT.on_checkpoint(view, "before_completion", more=False)


def test_the_shape_is_told_at_the_start() -> None:
    """A model is told at the start of a turn that its value must have a shape, and which."""
    tell, ask = DRIVER.on_start(DriverView(output_schema=SCHEMA))
    assert isinstance(tell, Tell)
    assert '"required": ["n"]' in tell.text
    assert ASK == ask


@pytest.mark.parametrize("value", [None, "3", JsonObject({"n": "3"})])
def test_a_value_of_the_wrong_shape_loops(value: Any) -> None:
    """A value that does not fit is told with what is wrong, and counts as a step without progress."""
    actions = DRIVER.on_code(ran(finished=True, value=value, schema=SCHEMA))
    assert 1 == stalled(actions)
    assert "The value given to finish is not right. At " in told(actions)


@pytest.mark.parametrize(
    ("value", "why"), [("\ud800", "unpaired surrogate"), ("x" * limits.MAX_TEXT_CHARS, "to a file")]
)
def test_a_value_that_nobody_could_be_sent(value: str, why: str) -> None:
    """A value that has no form in JSON, or is too long, is told as well."""
    actions = DRIVER.on_code(ran(finished=True, value=value))
    assert why in told(actions)
    assert len(told(actions)) < 1_000


def test_a_value_of_the_right_shape_ends() -> None:
    """A value that fits ends the turn."""
    value = JsonObject({"n": 3})
    actions = DRIVER.on_code(ran(finished=True, value=value, schema=SCHEMA))
    view = ran(finished=True, value=value, schema=SCHEMA, memory=memory_of(actions))
    assert (Finish(output=value),) == DRIVER.on_checkpoint(view, "before_completion", more=False)


def test_an_earlier_value_is_not_given_again() -> None:
    """When more came after `finish`, what the model says then ends the turn, without the old value."""
    actions = DRIVER.on_code(ran(finished=True, value=3))
    view = ran(finished=True, value=3, memory=memory_of(actions))
    actions = DRIVER.on_checkpoint(view, "before_completion", more=True)
    assert ASK == actions[-1]
    prose = after("done", cell=view.cell, memory=memory_of(actions))
    assert (Checkpoint(kind="before_completion"),) == DRIVER.on_answer(prose)
    assert (Finish(),) == DRIVER.on_checkpoint(prose, "before_completion", more=False)


# --- progress ---------------------------------------------------------------------------------------------------------


def without_progress(driver: CellDriver, view: DriverView, *, by: str) -> list[Actions]:
    """Meet the same again and again, until the turn has ended."""
    seen: list[Actions] = []
    while not seen or not isinstance(seen[-1][-1], Finish):
        actions = driver.on_code(view) if by == "code" else driver.on_answer(view)
        seen.append(actions)
        if not isinstance(actions[-1], Finish):
            view = attrs.evolve(view, memory=memory_of(actions))
            view = attrs.evolve(view, memory=memory_of(driver.on_checkpoint(view, "after_work", more=True)))
    return seen


@pytest.mark.parametrize("most", [1, 3, 5])
@pytest.mark.parametrize(
    ("view", "by", "why"),
    [
        (ran(error="Traceback\n  File x\nZeroDivisionError: no"), "code", "ZeroDivisionError: no"),
        (ran(error=""), "code", "the code failed"),
        (ran(finished=True, value="x", schema=SCHEMA), "code", "At the whole"),
        (after("```python\nx"), "answer", "no closing fence"),
    ],
)
def test_no_progress_stops(most: int, view: DriverView, by: str, why: str) -> None:
    """So many steps in a row without a cell that ran well fail the turn, whatever people say in between."""
    seen = without_progress(CellDriver(no_progress=most), view, by=by)
    assert most == len(seen)
    forget, finish = seen[-1]
    assert Remember(memory=None) == forget
    assert isinstance(finish, Finish)
    assert "failed" == finish.status
    assert (finish.error or "").startswith(f"no progress: {most} steps in a row")
    assert why in (finish.error or "")


def test_a_cell_that_runs_well_resets() -> None:
    """A cell without an error begins the count of steps without progress anew."""
    actions = DRIVER.on_code(ran(error="no", memory=JsonObject({"stalled": 3, "finished": False})))
    assert 4 == stalled(actions)
    actions = DRIVER.on_code(ran(memory=memory_of(actions)))
    assert 0 == stalled(actions)


# --- any view ---------------------------------------------------------------------------------------------------------

TEXTS = st.sampled_from(
    ["", "words", CELL, f"{CELL}\n{CELL}", "```python", "```js\n```", "```python\n```", "```py x\n"]
)
SCHEMAS = st.sampled_from([None, SCHEMA, JsonObject(), JsonObject({"type": "nonsense"})])
CELLS = st.builds(
    CellResult,
    error=st.none() | st.sampled_from(["", "no", " \n "]),
    finished=st.booleans(),
    value=st.sampled_from([None, 1, JsonObject({"n": 1}), "\ud800", float("inf"), 1 << 70]),
)


@st.composite
def views(draw: st.DrawFn) -> DriverView:
    """Views as no turn would make them, too."""
    calls = draw(st.lists(st.integers(0, 3).map(lambda number: call("t", number)), max_size=2))
    said: Message | None = draw(st.none() | TEXTS.map(lambda text: answer(*calls, text=text)))
    counts = st.none() | st.integers(-1, 9) | st.booleans() | st.text(max_size=1)
    memories = (
        st.none() | st.integers() | st.builds(lambda n, f: JsonObject({"stalled": n, "finished": f}), counts, counts)
    )
    return DriverView(
        answer=said,
        stop_reason=draw(values_of(StopReason)),
        output_schema=draw(SCHEMAS),
        memory=draw(memories),
        cell=draw(st.none() | CELLS),
    )


@given(views(), st.sampled_from([DRIVER, STRICT]), st.booleans(), values_of(ModelFailed))
def test_any_view_leads_on(view: DriverView, driver: CellDriver, more: bool, failure: ModelFailed) -> None:  # noqa: FBT001
    """Whatever it is shown, the driver raises nothing and says how the turn goes on, the same each time."""

    def replies() -> list[Actions]:
        return [
            driver.on_start(view),
            driver.on_answer(view),
            driver.on_results(view),
            driver.on_code(view),
            driver.on_failure(view, failure),
            driver.on_checkpoint(view, "after_work", more=more),
        ]

    assert replies() == replies()
    for actions in replies():
        check_actions(actions)
