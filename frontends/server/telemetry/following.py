"""Reading the events of all sessions for telemetry, as any client does."""

from collections.abc import Callable
from typing import Final

import trio

import session_core as sc
from frontends.server.telemetry.spans import SpanMaker, Step

_AT_A_TIME: Final = 256
"""Events between two moments at which others have their turn."""


class Following:
    """Hands on what the events of a subscription mean."""

    def __init__(self, events: sc.Subscription, maker: SpanMaker, take: Callable[[Step], None]) -> None:
        self._events = events
        self._maker = maker
        self._take = take

    async def run(self) -> None:
        """Go on until there are no more; events that were missed are counted.

        Cancellation: what was received is dealt with, and `catch_up` may go on from there.
        """
        while await self._step():
            pass

    async def catch_up(self, seq: int) -> None:
        """Read what was published up to this event, without waiting for more."""
        while self._events.cursor.seq < seq and await self._step():
            pass

    async def _step(self) -> bool:
        try:
            batch = await self._events.receive_batch()
        except sc.Lagged as lag:
            for step in self._maker.missed(lag.missed):
                self._take(step)
            return True
        except (trio.EndOfChannel, sc.ServiceClosed):
            return False
        for number, event in enumerate(batch, 1):
            for step in self._maker.feed(event):
                self._take(step)
            if number % _AT_A_TIME == 0:
                await trio.lowlevel.cancel_shielded_checkpoint()
        return True
