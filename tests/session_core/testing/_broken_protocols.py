"""Protocols with one fault each."""

import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import attrs
import trio

from session_core.protocols.api import ProtocolBundle, ProtocolFactory, ProtocolSession
from session_core.protocols.contexts import BeforeCall, BeforeCallContext, BuildContext, ReplaceRequest, SessionContext
from session_core.protocols.driver import (
    Actions,
    AskModel,
    Checkpoint,
    CheckpointKind,
    DriverView,
    ExecuteCode,
    Finish,
    Tell,
)
from session_core.protocols.execution import Cell, CellResult, CodeExecutor, Execution, KeptState, StateCapture
from session_core.protocols.options import option
from session_core.protocols.prose import ProseProjector, Span
from session_core.protocols.standard import NativeToolDriver
from session_core.providers.base import ModelFailed, ModelRequest
from session_core.vocabulary.messages import Message
from session_core.vocabulary.protocols import ExecutorState
from tests.session_core.testing._notebook import NoteDriver, NoteExecutor, NoteProse, NoteProtocol, NoteStream


class Whole(ProtocolFactory):
    """What all but those with code are made of; without a fault, and it tells the model how much it knows."""

    id = "whole"

    def build(self, context: BuildContext) -> ProtocolBundle:
        return ProtocolBundle(driver=NativeToolDriver(), session=self.session())

    def session(self) -> ProtocolSession:
        return Counting()


class Counting(ProtocolSession):
    """Tells the model how many messages of people it was restored with."""

    def __init__(self) -> None:
        self.count = 0

    async def restore(self, context: SessionContext, messages: Sequence[Message]) -> None:
        self.count = 0

    async def before_model_call(self, context: BeforeCallContext, request: ModelRequest) -> BeforeCall:
        said = sum(message.role == "user" for message in request.messages)
        return ReplaceRequest(request=attrs.evolve(request, system=f"{self.count + said} messages"))


# --- building and options ---------------------------------------------------------------------------------------------


class ReadsAFile(Whole):
    def build(self, context: BuildContext) -> ProtocolBundle:
        Path(__file__).read_bytes()
        return super().build(context)


class BuildsByChance(Whole):
    _numbers = itertools.count()

    def build(self, context: BuildContext) -> ProtocolBundle:
        number = next(self._numbers)
        return ProtocolBundle(driver=NativeToolDriver(), instructions=lambda _tools: f"You are number {number}.")


class SharesItsExecutor(NoteProtocol):
    _executor = NoteExecutor()

    def build(self, context: BuildContext) -> ProtocolBundle:
        return attrs.evolve(super().build(context), executor=self._executor)


@attrs.frozen(kw_only=True)
class _WrongDefault:
    rounds: int = option(default="one")


class HasAWrongDefault(Whole):
    options = _WrongDefault


@attrs.frozen(kw_only=True)
class _WrongForChildren:
    rounds: int = option(default=1, child_default=None, inherit=False)


class HasAWrongDefaultForChildren(Whole):
    options = _WrongForChildren


@attrs.frozen(kw_only=True)
class _Growing:
    name: str = option(default="x")

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "name", self.name + "!")


class ChangesItsOptions(Whole):
    options = _Growing


class RaisesInBuild(Whole):
    def build(self, context: BuildContext) -> ProtocolBundle:
        raise OSError("no room")


# --- drivers ----------------------------------------------------------------------------------------------------------


class _Driven(ProtocolFactory):
    id = "driven"
    driver: ClassVar[type[NativeToolDriver]]

    def build(self, context: BuildContext) -> ProtocolBundle:
        return ProtocolBundle(driver=self.driver())


class CountsInItsDriver(_Driven):
    class driver(NativeToolDriver):  # noqa: N801 - the driver of this one
        def __init__(self) -> None:
            self._asked = 0

        def on_checkpoint(self, view: DriverView, kind: CheckpointKind, *, more: bool) -> Actions:
            self._asked += 1
            return (AskModel(),) if self._asked % 2 else (Finish(),)


class DecidesByChance(_Driven):
    class driver(NativeToolDriver):  # noqa: N801
        def on_start(self, view: DriverView) -> Actions:
            return (AskModel(with_tools=random.random() < 0.5),)


class PassesCallsOver(_Driven):
    class driver(NativeToolDriver):  # noqa: N801
        def on_answer(self, view: DriverView) -> Actions:
            return (Checkpoint(kind="before_completion"),)


class TellsBeforeResults(_Driven):
    class driver(NativeToolDriver):  # noqa: N801
        def on_answer(self, view: DriverView) -> Actions:
            return (Tell(text="well"), *super().on_answer(view))


class ChokesOnFailures(_Driven):
    class driver(NativeToolDriver):  # noqa: N801
        def on_failure(self, view: DriverView, failure: ModelFailed) -> Actions:
            raise KeyError(failure.kind)


class SaysNothing(_Driven):
    class driver(NativeToolDriver):  # noqa: N801
        def on_results(self, view: DriverView) -> Actions:
            return ()


class RunsCodeNowhere(_Driven):
    class driver(NoteDriver):  # noqa: N801
        def on_answer(self, view: DriverView) -> Actions:
            has_calls = view.answer is not None and view.answer.tool_calls
            return super().on_answer(view) if has_calls else (ExecuteCode(language="notes", code="wait"),)


class NeverEnds(_Driven):
    class driver(NativeToolDriver):  # noqa: N801
        def on_checkpoint(self, view: DriverView, kind: CheckpointKind, *, more: bool) -> Actions:
            return (Tell(text="Go on."), AskModel())


class EndsByFailing(_Driven):
    class driver(NativeToolDriver):  # noqa: N801
        def on_checkpoint(self, view: DriverView, kind: CheckpointKind, *, more: bool) -> Actions:
            return (Finish(status="failed", error="never good enough"),)


# --- sessions ---------------------------------------------------------------------------------------------------------


class CountsTurns(Whole):
    class _Session(Counting):
        async def before_model_call(self, context: BeforeCallContext, request: ModelRequest) -> BeforeCall:
            self.count += 1
            return await super().before_model_call(context, request)

        async def restore(self, context: SessionContext, messages: Sequence[Message]) -> None:
            if not messages:
                self.count = 0

    def session(self) -> ProtocolSession:
        return self._Session()


class AddsWhenRestored(Whole):
    class _Session(Counting):
        async def restore(self, context: SessionContext, messages: Sequence[Message]) -> None:
            self.count += sum(message.role == "user" for message in messages)

    def session(self) -> ProtocolSession:
        return self._Session()


class SharesItsSession(Whole):
    _session = CountsTurns._Session()

    def session(self) -> ProtocolSession:
        return self._session


class FailsWhenTold(Whole):
    class _Session(Counting):
        async def appended(self, context: SessionContext, operation_id: str, messages: Sequence[Message]) -> None:
            raise KeyError(operation_id)

    def session(self) -> ProtocolSession:
        return self._Session()


class HidesWhatWasAppended(Whole):
    class _Session(ProtocolSession):
        async def before_model_call(self, context: BeforeCallContext, request: ModelRequest) -> BeforeCall:
            own = tuple(message for message in request.messages if message.turn_id is not None)
            return ReplaceRequest(request=attrs.evolve(request, messages=own))

    def session(self) -> ProtocolSession:
        return self._Session()


class StaysBusyAfterAStop(Whole):
    class _Session(Counting):
        busy = False

        async def before_model_call(self, context: BeforeCallContext, request: ModelRequest) -> BeforeCall:
            if self.busy:
                raise RuntimeError("somebody is at work already")
            self.busy = request.messages[-1].role == "user" and len(request.messages) == 1
            return None

        async def restore(self, context: SessionContext, messages: Sequence[Message]) -> None:
            pass

    def session(self) -> ProtocolSession:
        return self._Session()


class RefusesHalfTurns(Whole):
    class _Session(Counting):
        async def restore(self, context: SessionContext, messages: Sequence[Message]) -> None:
            if any(message.is_interrupted for message in messages):
                raise ValueError("this conversation has a hole")

    def session(self) -> ProtocolSession:
        return self._Session()


class WantsNoChildren(Whole):
    def build(self, context: BuildContext) -> ProtocolBundle:
        if not context.is_root:
            raise ValueError("no children")
        return super().build(context)


class KeepsItsContext(Whole):
    class _Session(Counting):
        _first: SessionContext | None = None

        async def initialize(self, context: SessionContext) -> None:
            self._first = context

        async def before_model_call(self, context: BeforeCallContext, request: ModelRequest) -> BeforeCall:
            try:
                assert self._first is not None
                self._first.check()
            except Exception:  # noqa: BLE001 - it does not want to know
                pass
            return None

    def session(self) -> ProtocolSession:
        return self._Session()


# --- prose and code ---------------------------------------------------------------------------------------------------


class _Eager(NoteStream):
    def feed(self, text: str) -> tuple[Span, ...]:
        return (("code" if "`" in text else "text", text),)

    def close(self) -> tuple[Span, ...]:
        return ()


class _Forgetful(NoteStream):
    def close(self) -> tuple[Span, ...]:
        return (("text", self._text.strip("`")),)


class _Projector:
    def __init__(self, stream: type[NoteStream]) -> None:
        self._stream = stream

    def open(self) -> NoteStream:
        return self._stream()


class DividesByChunk(NoteProtocol):
    def build(self, context: BuildContext) -> ProtocolBundle:
        return attrs.evolve(super().build(context), prose=_Projector(_Eager))


class LosesText(NoteProtocol):
    def build(self, context: BuildContext) -> ProtocolBundle:
        return attrs.evolve(super().build(context), prose=_Projector(_Forgetful))


class _Executing(NoteProtocol):
    executor: ClassVar[type[NoteExecutor]]

    def build(self, context: BuildContext) -> ProtocolBundle:
        prose: ProseProjector = NoteProse()
        executor: CodeExecutor = self.executor()
        return ProtocolBundle(driver=NoteDriver(), executor=executor, prose=prose)


class IsAlwaysDirty(_Executing):
    class executor(NoteExecutor):  # noqa: N801 - the executor of this one
        @property
        def dirty(self) -> bool:
            return True


class IsNeverDirty(_Executing):
    class executor(NoteExecutor):  # noqa: N801
        @property
        def dirty(self) -> bool:
            return False


class StaysDirty(_Executing):
    class executor(NoteExecutor):  # noqa: N801
        def acknowledge(self, capture: StateCapture) -> None:
            pass


class LosesItsState(_Executing):
    class executor(NoteExecutor):  # noqa: N801
        async def restore(self, saved: KeptState | None) -> None:
            await super().restore(saved)
            self.values = {}


class KeepsWhatWasBefore(_Executing):
    class executor(NoteExecutor):  # noqa: N801
        async def restore(self, saved: KeptState | None) -> None:
            before = self.values
            await super().restore(saved)
            self.values = {**before, **self.values}


class OffersOnce(_Executing):
    class executor(NoteExecutor):  # noqa: N801
        async def capture(self) -> StateCapture:
            capture = await super().capture()
            self.known = frozenset(leaf.digest for leaf in capture.state.leaves)
            return capture


class ForgetsAborts(_Executing):
    class executor(NoteExecutor):  # noqa: N801
        def abort(self, capture: StateCapture) -> None:
            self.acknowledge(capture)


class NamesLeavesFreely(_Executing):
    class executor(NoteExecutor):  # noqa: N801
        async def capture(self) -> StateCapture:
            capture = await super().capture()
            return attrs.evolve(capture, new={digest: data + b"." for digest, data in capture.new.items()})


class TakesAnyState(_Executing):
    class executor(NoteExecutor):  # noqa: N801
        async def restore(self, saved: KeptState | None) -> None:
            mine = ExecutorState(engine=self.engine, version=1, root=saved.state.root) if saved is not None else None
            await super().restore(None if mine is None else KeptState(state=mine, leaves={}))
            self.values |= {} if saved is None else dict(saved.leaves)


class DiesWhenCancelled(_Executing):
    class executor(NoteExecutor):  # noqa: N801
        async def execute(self, cell: Cell, execution: Execution) -> CellResult:
            try:
                return await super().execute(cell, execution)
            except trio.Cancelled:
                self.values = {}
                raise
