"""Waits a moment for a home that another process is using: most processes finish soon."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

import trio

import session_core as sc

T = TypeVar("T")

MAX_WAIT_S = 2.0
RETRY_AFTER_S = 0.1


async def pause() -> None:
    """Pause before the next attempt."""
    await trio.sleep(RETRY_AFTER_S)


class WaitingStore(sc.SqliteStore):
    """A home's store that waits on opening until another process has released it."""

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Any]:
        """Acquire the right to write.

        Raises:
            StoreInUse: Another process has held it for longer than a person would wait.
        """
        opening, give_up_at = super().open, trio.current_time() + MAX_WAIT_S
        async with AsyncExitStack() as stack:
            opened = None
            while opened is None:
                try:
                    opened = await stack.enter_async_context(opening())
                except sc.StoreInUse:
                    if trio.current_time() >= give_up_at:
                        raise
                    await pause()
            yield opened


def retry_while_home_is_busy(work: Callable[[], T]) -> T:
    """Run blocking work in this thread, where Ctrl-C reaches it, as soon as no other process uses the home.

    Raises:
        StoreInUse: Another process does not release it.
    """
    for _ in range(round(MAX_WAIT_S / RETRY_AFTER_S)):
        try:
            return work()
        except sc.StoreInUse:
            trio.run(pause)
    return work()
