"""A real executor in a real folder, with tools that are made up."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import trio
from trio.testing import MockClock

from session_core.ids import CallId, SessionId, TurnId
from session_core.processes.process_table import descendants
from session_core.protocols.code.executor import PythonExecutor
from session_core.protocols.execution import Cell, CellResult, Execution, KeptState, StateCapture
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart, ToolResultPart
from session_core.vocabulary.sessions import SandboxPolicy
from session_core.vocabulary.tools import ToolSpec

Answer = Callable[[str, JsonObject], Awaitable[ToolResultPart]]

CONFINED = SandboxPolicy()
UNCONFINED = SandboxPolicy(mode="full_access")
TOOLS = (
    ToolSpec(
        name="read-file",
        description="Reads a file.",
        parameters=JsonObject(
            {
                "type": "object",
                "properties": {"limit": {"type": "integer"}, "path": {"type": "string"}},
                "required": ["path"],
            }
        ),
    ),
    ToolSpec(name="wait", description="Waits.", parameters=JsonObject({"type": "object"})),
)


def result(
    text: str = "", *, status: Any = "success", details: JsonObject | None = None, images: tuple[ImagePart, ...] = ()
) -> ToolResultPart:
    """What a tool gives back."""
    return ToolResultPart(
        call_id=CallId("call_1"), name="tool", status=status, text=text, details=details, images=images
    )


async def no_tool(name: str, arguments: JsonObject) -> ToolResultPart:
    """Refuse whatever is called."""
    return result(f"{name} is not for you", status="denied")


@attrs.define(kw_only=True)
class Session:
    """An executor, as a session uses it."""

    folder: Path
    executor: PythonExecutor
    sandbox: SandboxPolicy = CONFINED
    answer: Answer = no_tool
    tools: tuple[ToolSpec, ...] = TOOLS
    hidden: tuple[str, ...] = ()
    may_read: bool = True
    unconfined: bool = True
    """Where nothing can be confined, a person has agreed."""
    said: list[str] = attrs.field(factory=list)
    _news: trio.Event = attrs.field(factory=trio.Event)
    cells: Iterator[int] = attrs.field(factory=lambda: iter(range(1, 1_000)))

    def _report(self, text: str) -> None:
        self.said.append(text)
        self._news.set()

    async def until_said(self, text: str) -> None:
        """Wait until the running cell has said this."""
        while text not in "".join(self.said):
            self._news = trio.Event()
            await self._news.wait()

    async def run(self, code: str) -> CellResult:
        """Run a cell."""
        execution = Execution(
            session_id=SessionId("s1"),
            turn_id=TurnId("t1"),
            cwd=str(self.folder),
            sandbox=self.sandbox,
            tools=self.tools,
            call_tool=self.answer,
            report=self._report,
            hidden=self.hidden,
            may_read=self.may_read,
            unconfined=self.unconfined,
        )
        done = await self.executor.execute(Cell(language="python", code=code, number=next(self.cells)), execution)
        return attrs.evolve(done, duration_ms=0)

    async def show(self, code: str) -> str:
        """Run a cell that must not fail, and return what it said."""
        done = await self.run(code)
        assert done.error is None, done
        return done.output

    async def keep(self) -> StateCapture:
        """Write the state down, as at the end of a turn."""
        capture = await self.executor.capture()
        self.executor.acknowledge(capture)
        return capture

    def dirty(self) -> bool:
        """Whether there is anything to keep."""
        return self.executor.dirty

    @property
    def processes(self) -> list[int]:
        """The process, and those below it; the last one is Python itself."""
        pid = self.executor.pid
        return [] if pid is None else [pid, *descendants(pid)]


@asynccontextmanager
async def open_session(
    folder: Path,
    *,
    cell_seconds: float = 20,
    output_chars: int = 2_000,
    sandbox: SandboxPolicy = CONFINED,
    answer: Answer = no_tool,
    hidden: tuple[str, ...] = (),
) -> AsyncGenerator[Session]:
    """Have an executor for the length of the block."""
    executor = PythonExecutor(cell_seconds=cell_seconds, output_chars=output_chars)
    try:
        yield Session(folder=folder, executor=executor, sandbox=sandbox, answer=answer, hidden=hidden)
    finally:
        await executor.aclose()


async def run_out_of_time(session: Session, clock: MockClock, code: str, *, rate: float = 0.01) -> CellResult:
    """Run a cell whose second is over when it has said `on it`; from then on the clock runs at this rate."""
    session.said.clear()

    async def end_time() -> None:
        await session.until_said("on it")
        clock.jump(1)
        clock.rate = rate

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end_time)
        ended = await session.run(code)
    clock.rate = 0.01
    return ended


def alive(pids: Iterable[int]) -> list[int]:
    """Those of these processes that are more than zombies, which in some containers nobody reaps."""
    found: list[int] = []
    for pid in pids:
        with suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def kept(capture: StateCapture, *more: StateCapture) -> KeptState:
    """The state as a store would give it back that has taken these captures, the first of which is the newest."""
    there = {digest: data for each in (capture, *more) for digest, data in each.new.items()}
    return KeptState(state=capture.state, leaves={leaf.name: there[leaf.digest] for leaf in capture.state.leaves})
