"""Request timeouts: one timer per connection, because a cancel scope per request would cost more than all the rest.

Answered requests stay in the heap until their deadline comes or they are the majority, so an answer costs nothing
here.
"""

from heapq import heapify, heappop, heappush
from typing import NoReturn, Protocol

import trio

_SLACK = 64  # answered requests that may always stay


class ExtendableTimeout:
    """The timeout of a request, which can be extended while the request is pending.

    Attributes:
        seconds: The initial timeout.
        until: The current deadline.
    """

    __slots__ = ("seconds", "until")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.until = trio.current_time() + seconds

    def extend_until(self, until: float) -> None:
        """Move the deadline to `until`, if that is later."""
        self.until = max(self.until, until)


class TimedRequest(Protocol):
    """A request with a time limit."""

    @property
    def asleep(self) -> bool:
        """Whether it is still waiting for its answer."""
        ...

    def time_out(self, method: str, seconds: float) -> None:
        """End the request because its time is up."""
        ...


class Deadlines:
    """The requests of a connection that have a deadline; `run` it as long as there can be any."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, TimedRequest, str, ExtendableTimeout]] = []
        self._timer = trio.CancelScope()

    def add(self, id: int, waiting: TimedRequest, method: str, patience: ExtendableTimeout, *, pending: int) -> None:
        """Add a request with its timeout; `pending` is the total number of pending requests."""
        heap = self._heap
        if len(heap) > _SLACK + 4 * pending:
            heap[:] = [each for each in heap if each[2].asleep]
            heapify(heap)
        when = patience.until
        heappush(heap, (when, id, waiting, method, patience))
        if when < self._timer.deadline:  # noqa: PLR1730 - setting it to the same value costs more than comparing
            self._timer.deadline = when

    async def run(self) -> NoReturn:
        """Time out requests whose deadline has passed."""
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
                if patience.until > now:  # extended meanwhile
                    heappush(heap, (patience.until, number, waiting, method, patience))
                else:
                    waiting.time_out(method, patience.seconds)
