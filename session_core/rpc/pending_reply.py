"""Somebody who has asked and waits for the reply."""

from collections.abc import Callable
from typing import Any

import attrs
import trio

from session_core.rpc.failures import RpcFailed, RpcTimedOut


@attrs.define(eq=False)
class Waiter:
    """A caller on its way to sleep, asleep, or woken; what it wakes up with is this too, in place of an `Outcome`.

    Attributes:
        give_up: Tells the other side that nobody waits any more for the reply of this id.
        task: Who waits.
        id: That of the request.
        asleep: Whether it sleeps until it is resolved.
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
        """Take the result, or the error in its place, and wake up."""
        self._result, self._error = result, error
        self.resolved = True
        if self.asleep:
            self.asleep = False
            # All that trio does with it is to unwrap it, and an outcome for each reply costs a tenth of a request.
            trio.lowlevel.reschedule(self.task, self)  # type: ignore[arg-type]

    def unwrap(self) -> Any:
        """Return the result or raise the error, once."""
        error, self._error = self._error, None
        if error is None:
            return self._result
        try:
            raise error
        finally:
            del error, self  # or the traceback would lead back to the error

    def abort(self, _: object) -> trio.lowlevel.Abort:
        """Stop waiting, as the caller is cancelled."""
        self.asleep = False
        self.give_up(self.id)
        return trio.lowlevel.Abort.SUCCEEDED

    def time_out(self, method: str, seconds: float) -> None:
        """Stop waiting, as it took too long."""
        self.give_up(self.id)
        self.resolve(None, RpcTimedOut(method, seconds))
