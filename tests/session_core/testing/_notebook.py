"""A protocol that runs code in a tiny language, whole and right; those with faults are made of it."""

import base64

import trio

from session_core.protocols.api import ProtocolBundle, ProtocolFactory
from session_core.protocols.contexts import BuildContext
from session_core.protocols.driver import Actions, AskModel, Checkpoint, CheckpointKind, DriverView, ExecuteCode, Finish
from session_core.protocols.execution import (
    Cell,
    CellResult,
    CodeExecutor,
    Execution,
    KeptState,
    StateCapture,
    split_state,
)
from session_core.protocols.faults import StateRejected
from session_core.protocols.prose import Span
from session_core.protocols.standard import NativeToolDriver
from session_core.testing.check_protocol import CellSamples
from session_core.vocabulary.frozen import JsonObject, thaw_json
from session_core.vocabulary.protocols import ExecutorState

MARK = "run: "
SAMPLES = CellSamples(defines="set x 700", shows="show x", endless="wait")


class NoteExecutor(CodeExecutor):
    """Knows `set NAME LENGTH`, `show NAME` and `wait`."""

    engine = "notes"
    language = "notes"

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.known: frozenset[str] = frozenset()
        self.changed = False
        self._turn = trio.Lock()

    async def execute(self, cell: Cell, execution: Execution) -> CellResult:
        async with self._turn:
            match cell.code.split():
                case ["set", name, length]:
                    self.values = {**self.values, name: b"v" * int(length)}
                    self.changed = True
                    return CellResult()
                case ["show", name] if name in self.values:
                    return CellResult(output=str(len(self.values[name])))
                case ["wait"]:
                    await trio.sleep_forever()
                case _:
                    pass
            return CellResult(error="there is no such thing")

    @property
    def dirty(self) -> bool:
        return self.changed

    async def probe(self) -> None:
        await trio.lowlevel.checkpoint()

    async def capture(self) -> StateCapture:
        await trio.lowlevel.checkpoint()
        small, leaves, new = split_state(self.values, self.known)
        root = JsonObject({name: base64.b64encode(data).decode() for name, data in small.items()})
        return StateCapture(state=ExecutorState(engine=self.engine, version=1, root=root, leaves=leaves), new=new)

    def acknowledge(self, capture: StateCapture) -> None:
        self.changed = False
        self.known = frozenset(leaf.digest for leaf in capture.state.leaves)

    def abort(self, capture: StateCapture) -> None:
        self.changed = True

    async def restore(self, saved: KeptState | None) -> None:
        await trio.lowlevel.checkpoint()
        if saved is not None:
            state = saved.state
            names = {leaf.name for leaf in state.leaves}
            if (state.engine, state.version) != (self.engine, 1) or names != set(saved.leaves):
                raise StateRejected("this is not a state of mine")
        self.values = {} if saved is None else {**_small(saved), **saved.leaves}
        self.known = frozenset() if saved is None else frozenset(leaf.digest for leaf in saved.state.leaves)
        self.changed = False

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


def _small(kept: KeptState) -> dict[str, bytes]:
    return {name: base64.b64decode(data) for name, data in thaw_json(kept.state.root).items()}


class NoteDriver(NativeToolDriver):
    """Runs the line of an answer that has one."""

    def on_answer(self, view: DriverView) -> Actions:
        written = view.answer.written_text if view.answer is not None else ""
        calls = view.answer is not None and view.answer.tool_calls
        if written.startswith(MARK) and written[len(MARK) :].strip() and not calls and view.stop_reason == "end":
            return (ExecuteCode(language="notes", code=written[len(MARK) :]),)
        return super().on_answer(view)

    def on_code(self, view: DriverView) -> Actions:
        return (Checkpoint(kind="after_work"),)

    def on_checkpoint(self, view: DriverView, kind: CheckpointKind, *, more: bool) -> Actions:
        return (AskModel(),) if more or kind == "after_work" else (Finish(),)


class NoteStream:
    """Holds everything back until it is clear what it is; then it is all of one kind."""

    def __init__(self) -> None:
        self._text = ""

    def feed(self, text: str) -> tuple[Span, ...]:
        self._text += text
        return ()

    def close(self) -> tuple[Span, ...]:
        return (("code" if self._text.startswith(MARK) else "text", self._text),)


class NoteProse:
    def open(self) -> NoteStream:
        return NoteStream()


class NoteProtocol(ProtocolFactory):
    """Without a fault."""

    id = "notes"

    def build(self, context: BuildContext) -> ProtocolBundle:
        return ProtocolBundle(driver=NoteDriver(), executor=NoteExecutor(), prose=NoteProse())
