"""Waking tasks that wait for a change."""

import anyio


class Pulse:
    """Waiting tasks check again at each beat; a beat without waiting tasks is lost."""

    def __init__(self) -> None:
        self._next: anyio.Event | None = None

    def beat(self) -> None:
        """Wake all waiting tasks."""
        if self._next is not None:
            waking, self._next = self._next, None
            waking.set()

    async def wait(self) -> None:
        """Wait for the next beat."""
        if self._next is None:
            self._next = anyio.Event()
        await self._next.wait()
