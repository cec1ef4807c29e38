"""The driver of a turn: view in, actions out.

Rules:
1. Pure and synchronous: the same view gives the same actions. A driver keeps nothing between two calls; it puts what it
   must remember about a turn into `Remember`, and finds it in every later view of that turn as `memory`.
2. The last action of a reply, and only the last, is a leading one: `AskModel`, `RunTools`, `ExecuteCode`,
   `SwitchFrame`, `Checkpoint` or `Finish`. The interpreter performs the actions in order and calls the driver again
   with the outcome of the last one. Example: `(Tell(...), AskModel())` comes back as `on_answer` or `on_failure`.
3. Tool calls are answered before anything else is said: while the newest answer has calls without results, a driver
   runs them or gives up the turn.
4. The interpreter handles limits, stops, retries and storage: a driver cannot bypass them.
"""

from collections.abc import Mapping
from inspect import iscoroutine
from typing import Final, Literal, Protocol, get_args, runtime_checkable

import attrs

from session_core import limits
from session_core.ids import CallId
from session_core.protocols.execution import CellResult
from session_core.protocols.frames import INITIAL, is_label
from session_core.protocols.options import OptionScope
from session_core.providers.base import ModelFailed, StopReason
from session_core.vocabulary.frozen import JsonObject, JsonValue, freeze_json
from session_core.vocabulary.messages import Message
from session_core.wire.codec import encode
from session_core.wire.strict_json import find_fault

DriverCallback = Literal["on_start", "on_answer", "on_failure", "on_results", "on_checkpoint", "on_code"]
CheckpointKind = Literal["after_work", "before_completion"]
"""Between two steps, steering messages are read; before the end of the turn, follow-ups too."""
NOTHING_SET: Final = JsonObject()
FinishStatus = Literal["completed", "failed", "limit_reached"]


# --- what a driver sees -----------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class DriverView:
    """A turn as its driver sees it.

    Attributes:
        step: How many model calls the turn has had.
        answer: The model's newest answer in this turn.
        stop_reason: Why that answer ended.
        unreadable: Tool calls in it whose arguments were not a JSON object.
        results: The newest message of tool results.
        output_schema: The shape that the turn's answer must have, if any.
        memory: What the driver has asked to remember, in this turn or in the one that it resumes.
        cell: The result of the newest cell of code in this turn.
        frame: The key of the frame that the turn is in.
        prompt: The newest message of people that the turn answers; it may have arrived during the turn.
        options: The options of the protocol as they hold in the current frame; read them with `read_options`.
    """

    step: int = 0
    answer: Message | None = None
    stop_reason: StopReason = "end"
    unreadable: frozenset[CallId] = frozenset()
    results: Message | None = None
    output_schema: JsonObject | None = None
    memory: JsonValue = None
    cell: CellResult | None = None
    frame: str = INITIAL
    prompt: Message | None = None
    options: JsonObject = NOTHING_SET


# --- what a driver can ask for ----------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class AskModel:
    """Ask the model; comes back as `on_answer` or `on_failure`."""

    with_tools: bool = True


@attrs.frozen(kw_only=True)
class RunTools:
    """Run the tool calls of the newest answer; comes back as `on_results`."""


@attrs.frozen(kw_only=True)
class ExecuteCode:
    """Run a cell in the executor of the protocol; comes back as `on_code`."""

    language: str
    code: str


@attrs.frozen(kw_only=True)
class SwitchFrame:
    """Continue in another frame, which begins with a task; comes back as `on_start`.

    The same key is the same frame: see `frames`.
    """

    key: str
    task: str
    reason: str = "switch"


@attrs.frozen(kw_only=True)
class Checkpoint:
    """Let people and extensions intervene; comes back as `on_checkpoint`."""

    kind: CheckpointKind


@attrs.frozen(kw_only=True)
class Finish:
    """End the turn; `output` is its result when it was asked for JSON."""

    status: FinishStatus = "completed"
    error: str | None = None
    output: JsonValue = None


@attrs.frozen(kw_only=True)
class Tell:
    """Add a message for the model in the user's role, such as what was wrong with its answer.

    People see that it comes from the protocol (`Message.source`); an undo goes back to their own messages.
    """

    text: str


@attrs.frozen(kw_only=True)
class Remember:
    """Keep some JSON for later views of this turn, in any frame; replaces what was kept before.

    It is kept durably: a turn that ended early finds it again when it is resumed.
    """

    memory: JsonValue


@attrs.frozen(kw_only=True)
class SetOptions:
    """Set options of the kind `own` durably: for all frames of the session, or for the current one.

    In all frames they also replace what single frames had. Later views have them in `options`.
    """

    options: Mapping[str, JsonValue]
    scope: OptionScope = "all_frames"


LeadingAction = AskModel | RunTools | ExecuteCode | SwitchFrame | Checkpoint | Finish
ImmediateAction = Tell | Remember | SetOptions
Action = LeadingAction | ImmediateAction
Actions = tuple[Action, ...]
CheckedActions = tuple[tuple[ImmediateAction, ...], LeadingAction]
"""Actions that obey rule 2: the immediate ones, and the leading one."""


@runtime_checkable
class Driver(Protocol):
    """Decides what happens next in a turn."""

    def on_start(self, view: DriverView) -> Actions:
        """Begin the turn; the user's message is in the conversation."""
        ...

    def on_answer(self, view: DriverView) -> Actions:
        """Handle the model's answer: `view.answer`."""
        ...

    def on_failure(self, view: DriverView, failure: ModelFailed) -> Actions:
        """Handle a failed model call that retries did not fix."""
        ...

    def on_results(self, view: DriverView) -> Actions:
        """Handle the results of all tool calls: `view.results`."""
        ...

    def on_checkpoint(self, view: DriverView, kind: CheckpointKind, *, more: bool) -> Actions:
        """Continue after a checkpoint; `more` means that messages to answer have arrived meanwhile."""
        ...


@runtime_checkable
class CodeDriver(Driver, Protocol):
    """A driver that runs code."""

    def on_code(self, view: DriverView) -> Actions:
        """Handle the result of the cell: `view.cell`."""
        ...


class DriverFault(Exception):
    """A driver broke its contract; the turn fails and says so."""


def check_actions(actions: object) -> CheckedActions:
    """Split a driver's reply into immediate actions and the leading one; raises `DriverFault` if it is invalid."""
    if not isinstance(actions, tuple) or not actions or not isinstance(actions[-1], LeadingAction):
        raise DriverFault(f"the driver did not say how the turn continues: it returned {_describe_reply(actions)}")
    if len(actions) > limits.MAX_DRIVER_ACTIONS:
        raise DriverFault(f"the driver returned {len(actions)} actions; the limit is {limits.MAX_DRIVER_ACTIONS}")
    *first, last = actions
    for action in first:
        if not isinstance(action, ImmediateAction):
            raise DriverFault(
                "the driver asked for two things at once: before the last action there can be Tell, Remember and "
                f"SetOptions, not {_describe_type(action)}"
            )
        if isinstance(action, Tell) and not _is_text(action.text):
            raise DriverFault("the driver returned a Tell without text")
        fault = find_fault(action.memory, limits.MAX_OPEN_JSON_DEPTH) if isinstance(action, Remember) else None
        if fault is not None:
            where = f"memory{fault.path}"
            raise DriverFault(f"the driver returned a Remember that is not JSON: {where}: {fault.reason}")
        if isinstance(action, Remember) and (size := len(encode(action.memory))) > limits.MAX_DRIVER_MEMORY_BYTES:
            most = f"{limits.MAX_DRIVER_MEMORY_BYTES:,}"
            raise DriverFault(f"the driver returned a Remember of {size:,} bytes, and {most} are allowed")
    if isinstance(last, Checkpoint) and last.kind not in get_args(CheckpointKind):
        raise DriverFault(f"the driver named an unknown kind of checkpoint: {last.kind!r}")
    if isinstance(last, Finish):
        last = _check_finish(last)
    if isinstance(last, ExecuteCode) and not (_is_text(last.code) and _is_text(last.language)):
        raise DriverFault("the driver asked to run code, but gave none")
    if isinstance(last, ExecuteCode) and len(last.code) > limits.MAX_TEXT_CHARS:
        raise DriverFault(f"the driver gave code of more than {limits.MAX_TEXT_CHARS:,} characters")
    if isinstance(last, SwitchFrame) and not (_is_text(last.key) and _is_text(last.task)):
        raise DriverFault("the driver asked for another frame without naming its key or task")
    if isinstance(last, SwitchFrame) and not is_label(last.reason):
        raise DriverFault("the driver asked for another frame without a short reason")
    return tuple(first), last


def _describe_reply(actions: object) -> str:
    """Describe an invalid reply, and how to correct it."""
    if iscoroutine(actions):
        actions.close()  # avoids the warning that it was never awaited
        return "a coroutine; the callbacks of a driver are plain functions, without async"
    if isinstance(actions, tuple):
        ends = f"a tuple that ends with {_describe_type(actions[-1])}" if actions else "an empty tuple"
        return f"{ends}; the last action says what comes next, such as AskModel() or Finish()"
    if isinstance(actions, Action):
        return f"{_describe_type(actions)} by itself; write it as a tuple: ({_describe_type(actions)}(...),)"
    if isinstance(actions, list):
        return "a list; actions are a tuple"
    return f"{_describe_type(actions)}; it must be a tuple of actions, such as (AskModel(),)"


def _describe_type(given: object) -> str:
    if given is None:
        return "None"
    return f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__


def _is_text(given: object) -> bool:
    return isinstance(given, str) and not given.isspace() and given != ""


def _check_finish(finish: Finish) -> Finish:
    """Return it with its result frozen, as it is recorded."""
    if finish.status not in get_args(FinishStatus):
        raise DriverFault(f"the driver named an unknown status of a turn: {finish.status!r}")
    if finish.error is not None and not _is_text(finish.error):
        raise DriverFault("the driver gave an empty error")
    if (fault := find_fault(finish.output, limits.MAX_OPEN_JSON_DEPTH)) is not None:
        raise DriverFault(f"the driver gave a result that cannot be sent: {fault.reason}")
    if finish.output is None:
        return finish
    output = freeze_json(finish.output)
    if (size := len(encode(output))) > limits.MAX_OUTPUT_BYTES:
        raise DriverFault(f"the driver gave a result of {size:,} bytes, and {limits.MAX_OUTPUT_BYTES:,} are allowed")
    return attrs.evolve(finish, output=output)
