"""A value that will be there later, for any number of tasks that wait for it."""

from typing import Generic, TypeVar

import outcome
import trio

T = TypeVar("T")


class Deferred(Generic[T]):
    """Set once, waited for by anyone; setting it a second time changes nothing."""

    __slots__ = ("_outcome", "_ready")

    def __init__(self) -> None:
        self._ready = trio.Event()
        self._outcome: outcome.Value[T] | None = None

    def set(self, value: T) -> None:
        """Give the value to all who wait."""
        if self._outcome is None:
            self._outcome = outcome.Value(value)
            self._ready.set()

    async def wait(self) -> T:
        """Wait for the value. Cancellation: nothing is lost, the value still comes for others."""
        await self._ready.wait()
        assert self._outcome is not None
        return self._outcome.value
