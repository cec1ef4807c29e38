"""Cancel an operation at each of its steps, one run per step, and check after each run that nothing is torn.

A step is what a task does between two checkpoints. Cancellation can only strike at checkpoints, so the steps of an
operation are all the places where it can be torn. Each step is tried twice. A cancellation right before step k meets a
task that was just woken: it strikes at the checkpoint the task is about to leave if that one checks again, else at the
next. A cancellation right after step k meets a task asleep at its checkpoint. The sweep ends with the first run that is
over before its step k: that run was not cancelled.

    @asynccontextmanager
    async def prepare():                        # the world of one run: fresh each time, still alive for the check
        async with open_checked_service() as service:
            yield service

    async def operation(service):               # what is cancelled
        await service.create_session(name="new")

    async def check(service, run):              # what must hold, whatever step was hit
        listed = await service.list_sessions()
        assert len(listed.sessions) == 1 or (run.cancelled and not listed.sessions)

    await cancel_sweep(prepare, operation, check)

To do something other than cancel at a step, or to count the steps of a task that somebody else starts, use `at_step`.
"""

from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from itertools import product
from typing import Literal, TypeVar

import attrs
import trio

from session_core.error_capture import ErrorCapture

W = TypeVar("W")
Moment = Literal["before", "after"]
MOMENTS: tuple[Moment, ...] = ("before", "after")
MAX_STEPS = 1_000


@attrs.frozen(kw_only=True)
class SweepRun:
    """One run of the operation.

    Attributes:
        step: The step at which this run was to be cancelled, from 1.
        moment: Whether it was to be cancelled before or after that step.
        reached: Whether the operation got that far; the last run of a sweep does not.
        cancelled: Whether the cancellation ended the operation. An operation that is hit after its last checkpoint
            returns normally.
    """

    step: int
    moment: Moment
    reached: bool
    cancelled: bool


class EndlessOperation(Exception):
    """The operation still had steps left at the largest step that the sweep may try."""


async def cancel_sweep(
    prepare: Callable[[], AbstractAsyncContextManager[W]],
    operation: Callable[[W], Awaitable[object]],
    check: Callable[[W, SweepRun], Awaitable[object]],
    *,
    max_steps: int = MAX_STEPS,
) -> int:
    """Run `operation` again and again, cancelled at its first step, its second, and so on until it completes.

    Args:
        prepare: Sets up one run; its context is left only after the check.
        operation: Gets what `prepare` yields. It runs in its own task; only the steps of this task are counted.
        check: Gets the same value and what happened to the operation; raises if something is torn.
        max_steps: Raise `EndlessOperation` rather than try a larger step.

    Returns:
        The number of steps that were hit.

    An error raised by the operation or by the check ends the sweep, with a note that names the step.

    Cancellation: cancelling the sweep itself ends the current run like any other task.
    """
    for step, moment in product(range(1, max_steps + 1), MOMENTS):
        try:
            run = await _run_once(prepare, operation, check, step, moment)
        except Exception as error:
            error.add_note(f"when cancelled {moment} step {step}")
            raise
        if not run.reached:
            return step - 1
    raise EndlessOperation(f"after {max_steps} steps the operation was still not done")


async def _run_once(
    prepare: Callable[[], AbstractAsyncContextManager[W]],
    operation: Callable[[W], Awaitable[object]],
    check: Callable[[W, SweepRun], Awaitable[object]],
    step: int,
    moment: Moment,
) -> SweepRun:
    async with prepare() as world:
        scope = trio.CancelScope()
        ours: set[trio.lowlevel.Task] = set()
        own = ErrorCapture()

        async def body() -> None:
            with own.capture(), scope:
                await operation(world)

        def cancel() -> None:
            scope.cancel(reason=f"cancel sweep, {moment} step {step}")

        with own.reraise(), at_step(ours.__contains__, step, cancel, moment=moment) as counter:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(body)
                ours |= nursery.child_tasks  # known before its first step
        run = SweepRun(step=step, moment=moment, reached=counter.steps >= step, cancelled=scope.cancelled_caught)
        await check(world, run)
    return run


class StepCounter(trio.abc.Instrument):
    """Counts the steps of some tasks and acts once, right before or after a chosen one."""

    def __init__(
        self, is_counted: Callable[[trio.lowlevel.Task], bool], step: int, act: Callable[[], object], moment: Moment
    ) -> None:
        self.steps = 0
        self._is_counted = is_counted
        self._step = step
        self._act = act
        self._moment = moment

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count the step, and act if it is the chosen one."""
        if self._is_counted(task):
            self.steps += 1
            if self.steps == self._step and self._moment == "before":
                self._act()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Act if this was the chosen step."""
        if self.steps == self._step and self._moment == "after" and self._is_counted(task):
            self._act()


@contextmanager
def at_step(
    is_counted: Callable[[trio.lowlevel.Task], bool],
    step: int,
    act: Callable[[], object],
    *,
    moment: Moment = "before",
) -> Generator[StepCounter]:
    """Call the synchronous `act` right before or after step number `step` of the counted tasks, taken together.

    `act` runs between two tasks, in neither of them; it may cancel scopes, set events and call synchronous code.
    """
    counter = StepCounter(is_counted, step, act, moment)
    trio.lowlevel.add_instrument(counter)
    try:
        yield counter
    finally:
        trio.lowlevel.remove_instrument(counter)
