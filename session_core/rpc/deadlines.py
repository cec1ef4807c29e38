"""When requests time out: one timer for all of a connection, as a cancel scope for each would cost more than the rest.

Those that got their answer stay in the heap until their time comes or they are the most of it, so an answer costs
nothing here.
"""

from heapq import heapify, heappop, heappush
from typing import NoReturn, Protocol

import trio

_SLACK = 64  # answered requests that may always stay


class ExtendableTimeout:
    """How long a request may take, which can be put off while it is under way.

    Attributes:
        seconds: How long that was in the beginning.
        until: When its time is over.
    """

    __slots__ = ("seconds", "until")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.until = trio.current_time() + seconds

    def extend_until(self, until: float) -> None:
        """Let it take until then, if that is later than before."""
        self.until = max(self.until, until)


class TimedRequest(Protocol):
    """A request with a time limit."""

    @property
    def asleep(self) -> bool:
        """Whether it still waits for its answer."""
        ...

    def time_out(self, method: str, seconds: float) -> None:
        """Hear that it took too long."""
        ...


class Deadlines:
    """The requests of a connection that must not wait for ever; `run` it as long as there can be any."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, TimedRequest, str, ExtendableTimeout]] = []
        self._timer = trio.CancelScope()

    def add(self, id: int, waiting: TimedRequest, method: str, patience: ExtendableTimeout, *, pending: int) -> None:
        """Let a request wait for so long; `pending` is how many requests wait at all."""
        heap = self._heap
        if len(heap) > _SLACK + 4 * pending:
            heap[:] = [each for each in heap if each[2].asleep]
            heapify(heap)
        when = patience.until
        heappush(heap, (when, id, waiting, method, patience))
        if when < self._timer.deadline:  # noqa: PLR1730 - setting it to what it is costs more than asking
            self._timer.deadline = when

    async def run(self) -> NoReturn:
        """Tell those whose time is over."""
        heap = self._heap
        while True:
            self._timer = trio.CancelScope(deadline=heap[0][0] if heap else float("inf"))
            with self._timer:
                await trio.sleep_forever()
            now = trio.current_time()
            while heap and (heap[0][0] <= now or not heap[0][2].asleep):
                _, number, waiting, method, patience = heappop(heap)
                if not waiting.asleep:
                    continue
                if patience.until > now:  # it was put off since
                    heappush(heap, (patience.until, number, waiting, method, patience))
                else:
                    waiting.time_out(method, patience.seconds)
