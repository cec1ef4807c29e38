"""Checks of a protocol's executor: what survives between cells, and how it is captured and restored."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import attrs
import trio

from session_core.ids import TurnId, new_session_id
from session_core.protocols.adapters import StatelessExecutor
from session_core.protocols.execution import (
    Cell,
    CellResult,
    CodeExecutor,
    Execution,
    KeptState,
    StateCapture,
    compute_digest,
)
from session_core.protocols.faults import StateRejected
from session_core.protocols.result_checks import find_result_problem
from session_core.testing.check_protocol_world import PYTHON_CELLS, TOOL, CellSamples, ProtocolSubject
from session_core.tools.base import ToolFailed
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ToolResultPart
from session_core.vocabulary.sessions import SandboxPolicy

NO_EXECUTOR = "it has no executor"
NO_STATE = "its executor keeps no state"
NO_SAMPLES = "there are no samples of the code that its executor runs"
_CELL_SECONDS = 30.0
_LET_IT_RUN_SECONDS = 0.3


class ExecutorRunner:
    """An executor, and a way to run code in it."""

    def __init__(self, executor: CodeExecutor, cwd: str) -> None:
        self.executor = executor
        self._cwd = cwd
        self._number = 0

    def is_dirty(self) -> bool:
        """Return whether there is anything to keep."""
        return self.executor.dirty

    async def run(self, code: str) -> CellResult:
        """Run a cell."""
        self._number += 1
        execution = Execution(
            session_id=new_session_id(),
            turn_id=TurnId("turn_check"),
            cwd=self._cwd,
            sandbox=SandboxPolicy(),
            tools=(TOOL.spec,),
            call_tool=_no_tools,
            report=lambda _text: None,
        )
        cell = Cell(language=self.executor.language, code=code, number=self._number)
        with trio.move_on_after(_CELL_SECONDS):
            result = await self.executor.execute(cell, execution)
            problem = find_result_problem(result)
            assert problem is None, f"what becomes of a cell can be recorded: {problem}"
            return result
        raise AssertionError(f"a cell comes to an end: {code!r}")

    async def run_well(self, code: str) -> CellResult:
        """Run a cell that must succeed."""
        result = await self.run(code)
        assert result.error is None, f"a cell of the samples runs without an error: {code!r} led to {result.error}"
        return result

    async def capture_state(self) -> KeptState:
        """Capture the state and store it."""
        executor = self.executor
        await executor.probe()
        capture = await executor.capture()
        saved = store_capture(capture, {})
        executor.acknowledge(capture)
        return saved


async def _no_tools(name: str, _arguments: JsonObject) -> ToolResultPart:
    raise ToolFailed(f"{name} cannot be called here")


def store_capture(capture: StateCapture, known: dict[str, bytes]) -> KeptState:
    """Store a capture as a store that already has these leaves does."""
    for digest, data in capture.new.items():
        assert compute_digest(data) == digest, "a leaf is named by the SHA-256 of what it holds"
    stored = {**known, **capture.new}
    missing = [leaf.name for leaf in capture.state.leaves if leaf.digest not in stored]
    assert not missing, f"every leaf that the store does not have is offered; missing are {', '.join(missing)}"
    return KeptState(state=capture.state, leaves={leaf.name: stored[leaf.digest] for leaf in capture.state.leaves})


@asynccontextmanager
async def _open_runners(subject: ProtocolSubject, count: int = 1) -> AsyncGenerator[tuple[ExecutorRunner, ...]]:
    """Open executors of so many sessions, each empty."""
    executors = [subject.build().executor for _ in range(count)]
    runners = tuple(ExecutorRunner(each, subject.cwd) for each in executors if each is not None)
    try:
        for runner in runners:
            await runner.executor.restore(None)
        yield runners
    finally:
        with trio.CancelScope(shield=True):
            for runner in runners:
                await runner.executor.aclose()


def _samples(subject: ProtocolSubject) -> CellSamples | str:
    """Return the code to try, or why there is none."""
    executor = subject.build().executor
    if executor is None:
        return NO_EXECUTOR
    if subject.cells is not None:
        return subject.cells
    return PYTHON_CELLS if executor.language == "python" else NO_SAMPLES


def _state_samples(subject: ProtocolSubject) -> CellSamples | str:
    """Return the code to try what stays behind with, or why there is none."""
    return NO_STATE if isinstance(subject.build().executor, StatelessExecutor) else _samples(subject)


async def what_code_leaves_behind_is_kept(subject: ProtocolSubject) -> str | None:
    """What a cell leaves behind is there for the next one, and in an executor restored from the captured state."""
    if isinstance(samples := _state_samples(subject), str):
        return samples
    async with _open_runners(subject, 2) as (first, second):
        assert not first.is_dirty(), "an executor that has run nothing has nothing to keep"
        nothing = await second.run(samples.shows)
        await first.run_well(samples.defines)
        output = (await first.run_well(samples.shows)).output
        assert nothing.error is not None or output not in nothing.output, "executors of two sessions share nothing"
        assert first.is_dirty(), "an executor is dirty when a cell has left something behind"
        saved = await first.capture_state()
        assert not first.is_dirty(), "an executor is clean when the store has what it offered"
        for _ in range(2):
            await second.executor.restore(saved)
            assert not second.is_dirty(), "what was restored is in the store already"
            assert output in (await second.run_well(samples.shows)).output, "a restored executor has what was kept"
        await second.executor.restore(None)
        after = await second.run(samples.shows)
        assert after.error is not None or output not in after.output, "an executor that is restored to nothing is empty"
    return None


async def an_aborted_capture_is_offered_again(subject: ProtocolSubject) -> str | None:
    """What the store did not take is offered again, complete; what it has taken is not."""
    if isinstance(samples := _state_samples(subject), str):
        return samples
    async with _open_runners(subject) as (runner,):
        executor = runner.executor
        await runner.run_well(samples.defines)
        capture = await executor.capture()
        executor.abort(capture)
        assert runner.is_dirty(), "an executor is dirty when the store did not take what it offered"
        again = await executor.capture()
        saved = store_capture(again, {})
        assert again.state == capture.state, "what is offered again is the same state"
        executor.acknowledge(again)
        await runner.run_well(samples.shows)
        if runner.is_dirty():
            known = {leaf.digest: saved.leaves[leaf.name] for leaf in again.state.leaves}
            third = await executor.capture()
            store_capture(third, known)
            executor.acknowledge(third)
            twice = set(third.new) & set(known)
            assert not twice, "leaves that the store has are not offered again"
        assert not runner.is_dirty(), "an executor is clean when the store has what it offered"
    return None


async def a_wrong_state_is_rejected(subject: ProtocolSubject) -> str | None:
    """A state of another engine, or with a missing or an extra part, is refused, and the executor stays usable."""
    if isinstance(samples := _state_samples(subject), str):
        return samples
    async with _open_runners(subject) as (runner,):
        await runner.run_well(samples.defines)
        output = (await runner.run_well(samples.shows)).output
        saved = await runner.capture_state()
        foreign = attrs.evolve(saved, state=attrs.evolve(saved.state, engine="another engine"))
        later = attrs.evolve(saved, state=attrs.evolve(saved.state, version=saved.state.version + 1_000))
        extra = attrs.evolve(saved, leaves={**saved.leaves, "nobody knows this": b"x" * 600})
        wrong = {"of another engine": foreign, "of a later version": later, "with a part too many": extra}
        if saved.leaves:
            wrong["without its leaves"] = attrs.evolve(saved, leaves={})
        for what, state in wrong.items():
            try:
                await runner.executor.restore(state)
            except StateRejected:
                continue
            raise AssertionError(f"a state {what} is rejected")
        await runner.executor.restore(saved)
        assert output in (await runner.run_well(samples.shows)).output, "after a rejected state a good one is restored"
    return None


async def a_cancelled_cell_leaves_the_executor_usable(subject: ProtocolSubject) -> str | None:
    """A cancelled cell is ended, and what was there before it still is."""
    if isinstance(samples := _samples(subject), str):
        return samples
    if samples.endless is None:
        return "there is no sample of code that does not end"
    async with _open_runners(subject) as (runner,):
        await runner.run_well(samples.defines)
        output = (await runner.run_well(samples.shows)).output
        with trio.move_on_after(_LET_IT_RUN_SECONDS) as scope:
            await runner.run(samples.endless)
        assert scope.cancelled_caught, "a cell that does not end by itself ends when it is cancelled, and not before"
        assert output in (await runner.run_well(samples.shows)).output, "a cancelled cell takes nothing away"
        if runner.is_dirty():
            await runner.capture_state()
    return None
