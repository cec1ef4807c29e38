"""The one timer of a connection: each request is told in its own time, and answered ones do not pile up."""

import trio
import trio.testing

from session_core.rpc.deadlines import Deadlines, ExtendableTimeout, Waiter


class NotingWaiter(Waiter):
    """A request that notes when it was told."""

    def __init__(self) -> None:
        super().__init__(give_up=lambda _: None, task=trio.lowlevel.current_task(), asleep=True)
        self.told: tuple[float, str, float] | None = None

    def time_out(self, method: str, seconds: float) -> None:
        self.asleep = False
        self.told = (trio.current_time(), method, seconds)


async def test_each_in_its_own_time(autojump_clock: trio.testing.MockClock) -> None:
    """Whatever the order in which they come, requests are told when their time is over, and answered ones never."""
    deadlines, begin = Deadlines(), trio.current_time()
    late, early, answered, later = NotingWaiter(), NotingWaiter(), NotingWaiter(), NotingWaiter()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.run)
        deadlines.add(1, late, "a", ExtendableTimeout(30), pending=1)
        await trio.testing.wait_all_tasks_blocked()
        deadlines.add(2, early, "b", ExtendableTimeout(10), pending=2)
        deadlines.add(3, answered, "c", ExtendableTimeout(5), pending=3)
        answered.asleep = False
        await trio.sleep(40)
        deadlines.add(4, later, "d", ExtendableTimeout(1), pending=1)
        await trio.sleep(2)
        nursery.cancel_scope.cancel()

    assert [(begin + 30, "a", 30), (begin + 10, "b", 10), None, (begin + 41, "d", 1)] == [
        each.told for each in (late, early, answered, later)
    ]


async def test_answered_requests_do_not_pile_up(autojump_clock: trio.testing.MockClock) -> None:
    """However many requests are answered within their time, few are remembered, and one that waits is still told."""
    deadlines, waiting, begin = Deadlines(), NotingWaiter(), trio.current_time()
    deadlines.add(0, waiting, "x", ExtendableTimeout(60), pending=1)
    for number in range(1, 10_000):
        answered = NotingWaiter()
        deadlines.add(number, answered, "x", ExtendableTimeout(60), pending=2)
        answered.asleep = False
    kept = len(deadlines._heap)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.run)
        await trio.sleep(61)
        nursery.cancel_scope.cancel()

    assert kept < 100
    assert (begin + 60, "x", 60) == waiting.told


async def test_a_time_limit_can_be_put_off(autojump_clock: trio.testing.MockClock) -> None:
    """A request whose limit is put off is told at the later time, whatever its limit was first, and never sooner."""
    deadlines, waiting, other, begin = Deadlines(), NotingWaiter(), NotingWaiter(), trio.current_time()
    patience = ExtendableTimeout(10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.run)
        deadlines.add(1, waiting, "a", patience, pending=1)
        deadlines.add(2, other, "b", ExtendableTimeout(12), pending=2)
        await trio.sleep(9)
        patience.extend_until(begin + 19)
        patience.extend_until(begin + 15)  # sooner than it is already
        await trio.sleep(9)
        assert waiting.told is None
        await trio.sleep(9)
        nursery.cancel_scope.cancel()

    assert [(begin + 19, "a", 10), (begin + 12, "b", 12)] == [waiting.told, other.told]
