"""The cancel sweep: it hits every step once, finds what is torn, and passes what is not."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count

import attrs
import pytest
import trio

from session_core.testing.cancel_sweep import EndlessOperation, SweepRun, at_step, cancel_sweep


@attrs.define
class Account:
    """Two numbers whose sum must stay 10."""

    left: int = 10
    right: int = 0
    left_again: bool = False


@asynccontextmanager
async def account() -> AsyncGenerator[Account]:
    fresh = Account()
    yield fresh
    fresh.left_again = True


async def tearing_transfer(account: Account) -> None:
    await trio.lowlevel.checkpoint()
    account.left -= 1
    await trio.lowlevel.checkpoint()
    account.right += 1


async def compensated_transfer(account: Account) -> None:
    await trio.lowlevel.checkpoint()
    account.left -= 1
    try:
        await trio.lowlevel.checkpoint()
        account.right += 1
    except trio.Cancelled:
        account.left += 1
        raise


async def shielded_transfer(account: Account) -> None:
    await trio.lowlevel.checkpoint()
    account.left -= 1
    with trio.CancelScope(shield=True):
        await trio.lowlevel.checkpoint()
    account.right += 1


async def sum_is_kept(account: Account, run: SweepRun) -> None:
    assert account.left + account.right == 10


async def test_a_torn_operation_is_found() -> None:
    """An operation torn between its two writes fails the sweep, and the error names the step that showed it."""
    with pytest.raises(AssertionError) as caught:
        await cancel_sweep(account, tearing_transfer, sum_is_kept)

    assert ["when cancelled after step 2"] == caught.value.__notes__


async def test_a_compensated_operation_passes() -> None:
    """An operation that undoes its first write when it is cancelled passes at each of its steps."""
    runs: list[SweepRun] = []

    async def check(world: Account, run: SweepRun) -> None:
        runs.append(run)
        assert (world.left, world.right) == ((10, 0) if run.cancelled else (9, 1))

    steps = await cancel_sweep(account, compensated_transfer, check)

    assert steps == 3
    assert [(run.step, run.moment, run.reached, run.cancelled) for run in runs] == [
        (1, "before", True, True),
        (1, "after", True, True),
        (2, "before", True, True),
        (2, "after", True, True),
        (3, "before", True, True),
        (3, "after", True, False),
        (4, "before", False, False),
    ]


async def test_a_shield_lets_the_operation_finish() -> None:
    """A run hit inside a shield, with no checkpoint after it, counts as reached but not cancelled."""
    runs: list[SweepRun] = []

    async def check(world: Account, run: SweepRun) -> None:
        await sum_is_kept(world, run)
        runs.append(run)

    await cancel_sweep(account, shielded_transfer, check)

    assert [(run.reached, run.cancelled) for run in runs] == [*[(True, True)] * 3, *[(True, False)] * 3, (False, False)]


async def test_an_operation_is_met_awake_and_asleep() -> None:
    """A task that has just got what it slept for, and one that still sleeps for it, are both cancelled."""
    met: list[tuple[str, bool]] = []

    @asynccontextmanager
    async def with_event() -> AsyncGenerator[trio.Event]:
        event = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(set_soon, event)
            yield event

    async def set_soon(event: trio.Event) -> None:
        await trio.lowlevel.checkpoint()
        event.set()

    async def check(event: trio.Event, run: SweepRun) -> None:
        met.append((f"{run.moment} {run.step}", run.cancelled))

    steps = await cancel_sweep(with_event, trio.Event.wait, check)

    assert steps == 2
    assert met == [("before 1", True), ("after 1", True), ("before 2", False), ("after 2", False), ("before 3", False)]


async def test_each_run_has_a_fresh_world_that_outlives_the_check() -> None:
    """Every run gets a world of its own, which is left after its check and not before."""
    worlds: list[Account] = []

    async def check(world: Account, run: SweepRun) -> None:
        assert not world.left_again
        assert all(earlier is not world and earlier.left_again for earlier in worlds)
        worlds.append(world)

    await cancel_sweep(account, compensated_transfer, check)

    assert len(worlds) == 7


async def test_only_the_operation_is_cancelled() -> None:
    """A task that the world started goes on when the operation beside it is cancelled."""
    finished: list[int] = []

    @asynccontextmanager
    async def with_neighbour() -> AsyncGenerator[int]:
        async def neighbour() -> None:
            for _ in range(5):
                await trio.lowlevel.checkpoint()
            finished.append(1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(neighbour)
            yield 0

    async def operation(_: int) -> None:
        await trio.lowlevel.checkpoint()

    async def check(_: int, run: SweepRun) -> None:
        pass

    steps = await cancel_sweep(with_neighbour, operation, check)

    assert (len(finished), steps) == (5, 2)


async def test_an_endless_operation_is_given_up() -> None:
    """The sweep ends with an error of its own when the operation has more steps than allowed."""

    async def endless(_: Account) -> None:
        for _step in count():
            await trio.lowlevel.checkpoint()

    with pytest.raises(EndlessOperation, match="after 7 steps"):
        await cancel_sweep(account, endless, sum_is_kept, max_steps=7)


async def test_an_operation_of_exactly_the_allowed_steps_passes() -> None:
    """The bound counts runs: one more than the operation has steps, for the untouched one."""
    assert await cancel_sweep(account, compensated_transfer, sum_is_kept, max_steps=4) == 3
    with pytest.raises(EndlessOperation):
        await cancel_sweep(account, compensated_transfer, sum_is_kept, max_steps=3)


async def test_an_error_of_the_operation_comes_out_as_it_is() -> None:
    """What the operation raises leaves the sweep unwrapped, with a note that names the step."""

    async def failing(_: Account) -> None:
        await trio.lowlevel.checkpoint()
        raise LookupError("tripped")

    with pytest.raises(LookupError, match="tripped") as caught:
        await cancel_sweep(account, failing, sum_is_kept)

    assert ["when cancelled after step 2"] == caught.value.__notes__


async def test_a_group_from_the_operation_gets_no_other_around_it() -> None:
    """An operation whose own nursery fails ends the sweep with the group of that nursery."""

    async def fail(_account: Account) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.lowlevel.checkpoint)
            raise ValueError("mine")

    with pytest.RaisesGroup(ValueError):
        await cancel_sweep(account, fail, sum_is_kept)


async def test_acting_at_a_step_of_several_tasks() -> None:
    """`at_step` counts the chosen tasks together, acts once, and stops counting at its end."""
    acted: list[int] = []

    async def walk(name: str) -> None:
        await trio.lowlevel.checkpoint()

    def is_walker(task: trio.lowlevel.Task) -> bool:
        return task.name.startswith("walker")

    async def walk_both() -> None:
        async with trio.open_nursery() as nursery:
            for name in ("walker one", "walker two"):
                nursery.start_soon(walk, name, name=name)

    with at_step(is_walker, 3, lambda: acted.append(counter.steps)) as counter:
        await walk_both()
    await walk_both()

    assert (acted, counter.steps) == ([3], 4)
