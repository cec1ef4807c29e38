"""An executor that does what a test says, and the protocol `code` around it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import trio

from session_core.protocols.code.protocol import CodeProtocol
from session_core.protocols.execution import Cell, CellResult, CodeExecutor, Execution, KeptState, StateCapture
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.protocols import ExecutorState

Run = CellResult | Callable[[Execution], Awaitable[CellResult]]

CELLS: Mapping[str, Run] = {
    "look()": CellResult(output="4 files"),
    "fail()": CellResult(output="begun", error="Traceback\nZeroDivisionError: no"),
    "finish(3)": CellResult(finished=True, value=3),
    "finish({})": CellResult(finished=True, value=JsonObject({"n": 3})),
}


def cell(code: str, before: str = "", after: str = "") -> str:
    """Write an answer with a cell."""
    return f"{before}```python\n{code}\n```{after}"


class FakeExecutor(CodeExecutor):
    """Looks up what a cell does by its code; it keeps the number of cells that it has run."""

    engine = "fake"
    language = "python"

    def __init__(self, cells: Mapping[str, Run]) -> None:
        self._cells = cells
        self._kept = 0
        self.ran: list[str] = []

    async def execute(self, cell: Cell, execution: Execution) -> CellResult:
        await trio.lowlevel.checkpoint()
        self.ran.append(cell.code.strip())
        run = self._cells[cell.code.strip()]
        return run if isinstance(run, CellResult) else await run(execution)

    @property
    def dirty(self) -> bool:
        return len(self.ran) != self._kept

    async def probe(self) -> None:
        await trio.lowlevel.checkpoint()

    async def capture(self) -> StateCapture:
        await trio.lowlevel.checkpoint()
        return StateCapture(state=ExecutorState(engine="fake", version=1, root=JsonObject({"ran": len(self.ran)})))

    def acknowledge(self, capture: StateCapture) -> None:
        ran = capture.state.root["ran"]
        assert isinstance(ran, int)
        self._kept = ran

    def abort(self, capture: StateCapture) -> None:
        pass

    async def restore(self, saved: KeptState | None) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


class FakeCode(CodeProtocol):
    """The protocol `code`, but for what runs the cells."""

    id = "fake_code"

    def __init__(self, executor: CodeExecutor) -> None:
        super().__init__(lambda _options: executor)


def coding(executor: CodeExecutor) -> dict[str, Any]:
    """Return the settings of a service whose sessions write code that this executor runs."""
    return {"protocols": (FakeCode(executor),), "protocol": FakeCode.id}
