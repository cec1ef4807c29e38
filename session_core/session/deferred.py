"""A value that arrives later, for any number of waiting tasks."""

from typing import Generic, TypeVar

import outcome
import trio

T = TypeVar("T")


class Deferred(Generic[T]):
    """A value that is set once and that any task can wait for; setting it again changes nothing."""

    __slots__ = ("_outcome", "_ready")

    def __init__(self) -> None:
        self._ready = trio.Event()
        self._outcome: outcome.Value[T] | None = None

    def set(self, value: T) -> None:
        """Set the value and wake all waiting tasks."""
        if self._outcome is None:
            self._outcome = outcome.Value(value)
            self._ready.set()

    async def wait(self) -> T:
        """Wait for the value. Cancellation: nothing is lost, others still get the value."""
        await self._ready.wait()
        assert self._outcome is not None
        return self._outcome.value
