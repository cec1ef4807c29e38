"""What is expensive to handle does not take all the time there is."""

import pytest
import trio
from trio.testing import MockClock

from session_core import limits
from session_core.rpc.memory import memory_connection_pair
from session_core.rpc.messages import Notification


@pytest.mark.parametrize(("cost", "every"), [(0.1, 0.2), (0.001, 0.001)])
async def test_as_much_time_is_left_to_others_as_was_taken(
    autojump_clock: MockClock, cost: float, every: float
) -> None:
    """After a message that took long to handle comes a pause of the same length; cheap ones follow at once."""
    handled: list[float] = []
    enough = trio.Event()

    def handle(_: Notification) -> None:
        handled.append(trio.current_time() - begin)
        autojump_clock.jump(cost)
        if len(handled) == 4:
            enough.set()

    async with memory_connection_pair(right_notifications=handle) as (left, _):
        begin = trio.current_time()
        for _ in range(4):
            await left.notify("work", {"a portion of its own": "x" * limits.RPC_PORTION_BYTES})
        await enough.wait()
    assert handled == pytest.approx([0, every, 2 * every, 3 * every])
