"""Waking tasks that wait for a change."""

import anyio


class ChangeSignal:
    """Waiting tasks check again at each notification; one without waiting tasks is lost."""

    def __init__(self) -> None:
        self._next: anyio.Event | None = None

    def notify(self) -> None:
        """Wake all waiting tasks."""
        if self._next is not None:
            waking, self._next = self._next, None
            waking.set()

    async def wait(self) -> None:
        """Wait for the next notification."""
        if self._next is None:
            self._next = anyio.Event()
        await self._next.wait()
