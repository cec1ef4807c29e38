"""Native tool calling: the model calls tools through its own interface, until it answers without a call."""

from session_core.protocols.api import ProtocolBundle, ProtocolFactory
from session_core.protocols.contexts import BuildContext
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
from session_core.protocols.structured import finish_wrong_shape, read_answer
from session_core.providers.base import ModelFailed
from session_core.vocabulary.frozen import JsonObject, JsonValue
from session_core.vocabulary.protocols import STANDARD

MOST_REPAIRS = 2
"""How often a model may try again to give JSON of the right shape."""


class NativeToolDriver:
    """Asks, runs the called tools, asks again; a reply without a tool call is the answer."""

    def on_start(self, view: DriverView) -> Actions:
        """Ask at once."""
        return (AskModel(),)

    def on_answer(self, view: DriverView) -> Actions:
        """Run the tools, or check whether the turn is done."""
        if view.stop_reason == "refused":  # a call in it may be incomplete
            return (Finish(status="failed", error="refused: the model declined to answer"),)
        if view.answer is not None and view.answer.tool_calls:
            return (RunTools(),)
        if view.stop_reason == "max_tokens":
            return (Finish(status="limit_reached", error="the answer was cut off: it reached the longest allowed"),)
        if view.output_schema is None:
            return (Checkpoint(kind="before_completion"),)
        return _check_structured(view, view.output_schema)

    def on_failure(self, view: DriverView, failure: ModelFailed) -> Actions:
        """Give up."""
        return (Finish(status="failed", error=f"{failure.kind}: {failure.message}"),)

    def on_results(self, view: DriverView) -> Actions:
        """Let people steer before the model continues."""
        return (Checkpoint(kind="after_work"),)

    def on_checkpoint(self, view: DriverView, kind: CheckpointKind, *, more: bool) -> Actions:
        """Continue after work, or when there is more to answer; otherwise end the turn."""
        if kind == "after_work" or more:
            return (AskModel(),)
        if view.output_schema is None:
            return (Finish(),)
        output, fault = _read(view, view.output_schema)
        return (Finish(output=output),) if fault is None else _repair(view, fault)


class StandardProtocol(ProtocolFactory):
    """The protocol of sessions that name none."""

    id = STANDARD

    def build(self, context: BuildContext) -> ProtocolBundle:
        """Build the bundle, which is only a driver."""
        return ProtocolBundle(driver=NativeToolDriver())


def _check_structured(view: DriverView, schema: JsonObject) -> Actions:
    _, fault = _read(view, schema)
    return (Checkpoint(kind="before_completion"),) if fault is None else _repair(view, fault)


def _repair(view: DriverView, fault: str) -> Actions:
    repairs = view.memory if isinstance(view.memory, int) else 0
    if repairs >= MOST_REPAIRS:
        return (Remember(memory=None), finish_wrong_shape(fault))  # a turn that resumes it may try again
    message = f"Your answer must be JSON of the given shape and nothing else. {fault} Give the whole answer again."
    return (Remember(memory=repairs + 1), Tell(text=message), AskModel())


def _read(view: DriverView, schema: JsonObject) -> tuple[JsonValue, str | None]:
    return read_answer(view.answer.text if view.answer is not None else "", schema)
