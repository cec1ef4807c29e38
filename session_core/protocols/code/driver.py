"""The turn of a model that acts by writing code: a cell, its result, the next cell, until it is done.

A turn ends in one of two ways. With `finish(value)` in a cell, which gives the turn its output; that is the only way
when the turn must return JSON of a given shape, and in sessions whose options require it. Or with an answer that has
no cell: its text is for people.

Whatever prevents code from running, or fails in it, is reported to the model, and counts as a step without progress.
Too many of them in a row end the turn; a cell that runs without an error resets the count.
"""

import json
from typing import Final, assert_never

from session_core import limits
from session_core.protocols.code.cells import (
    LANGUAGE,
    EmptyCell,
    ForeignBlock,
    FoundCell,
    MalformedCell,
    NoCell,
    UnclosedCell,
    find_cell,
)
from session_core.protocols.driver import (
    Actions,
    AskModel,
    Checkpoint,
    CheckpointKind,
    DriverView,
    ExecuteCode,
    Finish,
    Remember,
    RunTools,
    Tell,
)
from session_core.protocols.execution import CellResult
from session_core.providers.base import ModelFailed
from session_core.vocabulary.frozen import JsonObject, JsonValue, thaw_json
from session_core.wire.json_schema import find_value_fault, shorten_text
from session_core.wire.strict_json import find_fault

NO_PROGRESS: Final = 5
"""Steps in a row without a successful cell after which a turn has failed."""

_CELL: Final = "Write one cell: a line ```python, the code, and a line ``` that closes it."
_UNCLOSED: Final = f"Your cell was not run: it has no closing fence. {_CELL}"
_CUT_OFF: Final = (
    "Your answer was cut off, as it reached the longest allowed, and nothing of it was run. Write a shorter cell; "
    "do the work in several steps."
)
_EMPTY: Final = f"Your cell was not run: there is no code in it. {_CELL}"
_NATIVE: Final = (
    "Nothing was run: tools cannot be called that way here. They are Python functions; call them in a cell. " + _CELL
)
_ONLY_FIRST: Final = (
    "Only the first cell of your answer was run; what came after it was dropped. Write one cell per answer and wait "
    "for its output."
)
_FINISH: Final = "The turn ends when a cell calls finish(value)."


class CellDriver:
    """Asks, runs the cell, asks again.

    Args:
        finish_required: Whether only `finish(value)` ends a turn.
        no_progress: Steps in a row without a successful cell after which a turn has failed.
    """

    def __init__(self, *, finish_required: bool = False, no_progress: int = NO_PROGRESS) -> None:
        self._finish_required = finish_required
        self._no_progress = no_progress

    def on_start(self, view: DriverView) -> Actions:
        """Ask; if the result must have a shape, tell the model first."""
        ask = AskModel(with_tools=False)
        if view.output_schema is None:
            return (ask,)
        return (Tell(text=_describe_schema(view.output_schema)), ask)

    def on_answer(self, view: DriverView) -> Actions:
        """Run its cell, repair what is wrong with it, or check whether the turn is done."""
        if view.stop_reason == "refused":
            return (Finish(status="failed", error="refused: the model declined to answer"),)
        if view.answer is not None and view.answer.tool_calls:
            return (RunTools(),)  # every call needs a result; the model is told afterwards
        found = find_cell(view.answer.written_text if view.answer is not None else "")
        if isinstance(found, FoundCell):
            return (ExecuteCode(language=LANGUAGE, code=found.code),)
        prose = isinstance(found, NoCell | ForeignBlock)
        if view.stop_reason == "max_tokens":
            if prose and not self._must_finish(view):
                error = "the answer was cut off: it reached the longest allowed"
                return (Finish(status="limit_reached", error=error),)
            return self._repair(view, _CUT_OFF)
        if prose and not self._must_finish(view):
            return (Checkpoint(kind="before_completion"),)
        return self._repair(view, _describe_problem(found))

    def on_failure(self, view: DriverView, failure: ModelFailed) -> Actions:
        """Give up."""
        return (Finish(status="failed", error=f"{failure.kind}: {failure.message}"),)

    def on_results(self, view: DriverView) -> Actions:
        """Tell a model that made native tool calls how tools are called here."""
        return self._repair(view, _NATIVE)

    def on_code(self, view: DriverView) -> Actions:
        """Check whether the cell made progress, and whether it has ended the turn."""
        cell = view.cell
        if cell is None or cell.error is not None:
            return self._repair(view, *self._describe_dropped(view), why=_last_line(cell))
        if cell.finished:
            if (fault := _fault_in_value(view.output_schema, cell.value)) is not None:
                return self._repair(view, f"The value given to finish is not right. {fault} Call finish again.")
            return (_remember(finished=True), Checkpoint(kind="before_completion"))
        tells = (Tell(text=text) for text in self._describe_dropped(view))
        return (_remember(), *tells, Checkpoint(kind="after_work"))

    def on_checkpoint(self, view: DriverView, kind: CheckpointKind, *, more: bool) -> Actions:
        """Continue after work, or when there is more to answer; otherwise end the turn."""
        stalled, finished = _recall(view)
        if kind == "after_work" or more:
            return (_remember(stalled), AskModel(with_tools=False))
        if finished and view.cell is not None:
            return (Finish(output=view.cell.value),)
        return self._repair(view, _FINISH) if self._must_finish(view) else (Finish(),)

    def _must_finish(self, view: DriverView) -> bool:
        return self._finish_required or view.output_schema is not None

    def _repair(self, view: DriverView, *tells: str, why: str = "") -> Actions:
        """Count a step without progress; tell the model and continue, or give up."""
        stalled = _recall(view)[0] + 1
        if stalled >= self._no_progress:
            error = f"no progress: {stalled} steps in a row without a cell that ran well. The last problem: "
            given_up = Finish(status="failed", error=error + (why or " ".join(tells)))
            return (Remember(memory=None), given_up)  # a turn that resumes it may try again
        messages = (Tell(text=text) for text in tells)
        return (_remember(stalled), *messages, Checkpoint(kind="after_work"))

    @staticmethod
    def _describe_dropped(view: DriverView) -> tuple[str, ...]:
        """Return the message for a model whose answer had more cells than the one that was run."""
        found = find_cell(view.answer.written_text if view.answer is not None else "")
        return (_ONLY_FIRST,) if isinstance(found, FoundCell) and found.more else ()


def _describe_problem(found: NoCell | EmptyCell | UnclosedCell | MalformedCell | ForeignBlock) -> str:
    match found:
        case NoCell():
            return f"Your answer has no cell, and the turn is not done. {_FINISH} {_CELL}"
        case ForeignBlock(language=language):
            what = f"a block of {language}" if language else "a block without a language"
            return f"Your answer has {what}, which is not run: only Python is. {_FINISH} {_CELL}"
        case EmptyCell():
            return _EMPTY
        case UnclosedCell():
            return _UNCLOSED
        case MalformedCell(reason=reason):
            return (
                f"Your cell was not run: {reason}. {_CELL} If the code holds such lines itself, use more backticks "
                "for the cell. To show Python without running it, fence it with ~~~."
            )
        case _:
            assert_never(found)


def _describe_schema(schema: JsonObject) -> str:
    return f"{_FINISH} The value must fit this JSON schema: {json.dumps(thaw_json(schema))}"


def _fault_in_value(schema: JsonObject | None, value: JsonValue) -> str | None:
    if (fault := find_fault(value, limits.MAX_OPEN_JSON_DEPTH)) is not None:
        return f"It cannot be written as JSON: {fault.reason}."
    if (size := len(json.dumps(thaw_json(value)))) > limits.MAX_TEXT_CHARS:
        return f"It has {size} characters as JSON, and {limits.MAX_TEXT_CHARS} are allowed; write it to a file instead."
    return None if schema is None else find_value_fault(schema, value)


def _last_line(cell: CellResult | None) -> str:
    """Return one line on how the code failed: Python puts that at the end."""
    lines = (cell.error or "").strip().splitlines() if cell is not None else []
    return shorten_text(lines[-1]) if lines else "the code failed"


# --- memory -----------------------------------------------------------------------------------------------------------


def _remember(stalled: int = 0, *, finished: bool = False) -> Remember:
    """Remember how many steps in a row made no progress, and whether the newest cell has finished the turn.

    It has if it called `finish` with a valid value, and nothing was said since.
    """
    return Remember(memory=JsonObject({"stalled": stalled, "finished": finished}))


def _recall(view: DriverView) -> tuple[int, bool]:
    """Return what was remembered: the steps without progress, and whether the turn is finished."""
    memory = view.memory if isinstance(view.memory, JsonObject) else JsonObject()
    stalled = memory.get("stalled")
    count = stalled if isinstance(stalled, int) and not isinstance(stalled, bool) else 0
    return count, memory.get("finished") is True
