"""Waking whoever waits for something to change."""

import anyio


class Pulse:
    """Those who wait look again at each beat; a beat that nobody waits for is forgotten."""

    def __init__(self) -> None:
        self._next: anyio.Event | None = None

    def beat(self) -> None:
        """Wake all who wait."""
        if self._next is not None:
            waking, self._next = self._next, None
            waking.set()

    async def wait(self) -> None:
        """Wait for the next beat."""
        if self._next is None:
            self._next = anyio.Event()
        await self._next.wait()
