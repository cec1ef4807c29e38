"""Callers that wait for their replies, and their timeouts.

There is one timer per connection, because a cancel scope per request would cost more than all the rest.
Answered requests stay in the heap until their deadline comes or they are the majority, so an answer costs nothing
here.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any, NoReturn

import attrs
import trio

from session_core.rpc.failures import RpcFailed, RpcTimedOut

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


@attrs.define(eq=False)
class Waiter:
    """A caller that waits for its reply; its task wakes up with this object in place of an `Outcome`.

    Attributes:
        give_up: Tells the other side that the reply to this id is no longer wanted.
        task: The waiting task.
        id: The id of the request.
        asleep: Whether the task sleeps until this is resolved.
        resolved: Whether there is a result or an error.
    """

    give_up: Callable[[int], None]
    task: trio.lowlevel.Task
    id: int = 0
    asleep: bool = False
    resolved: bool = False
    _result: Any = attrs.field(init=False, default=None)
    _error: RpcFailed | None = attrs.field(init=False, default=None)

    def resolve(self, result: Any, error: RpcFailed | None = None) -> None:
        """Store the result or the error, and wake the task."""
        self._result, self._error = result, error
        self.resolved = True
        if self.asleep:
            self.asleep = False
            # Trio only unwraps it, and a separate outcome object per reply would cost a tenth of a request.
            trio.lowlevel.reschedule(self.task, self)  # type: ignore[arg-type]

    def unwrap(self) -> Any:
        """Return the result or raise the error, once."""
        error, self._error = self._error, None
        if error is None:
            return self._result
        try:
            raise error
        finally:
            del error, self  # breaks the reference cycle between the traceback and the error

    def abort(self, _: object) -> trio.lowlevel.Abort:
        """Stop waiting because the caller is cancelled."""
        self.asleep = False
        self.give_up(self.id)
        return trio.lowlevel.Abort.SUCCEEDED

    def time_out(self, method: str, seconds: float) -> None:
        """Stop waiting because the time is up."""
        self.give_up(self.id)
        self.resolve(None, RpcTimedOut(method, seconds))


class Deadlines:
    """The requests of a connection that have a deadline; `run` it as long as there can be any."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Waiter, str, ExtendableTimeout]] = []
        self._timer = trio.CancelScope()

    def add(self, id: int, waiting: Waiter, method: str, patience: ExtendableTimeout, *, pending: int) -> None:
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
