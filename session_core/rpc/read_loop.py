"""Reading what the other side says until it says no more, with a turn for everybody else after each portion.

That turn is as long as the portion has taken: a message of few bytes may cost a lot to handle, and however many of them
come, half of the time is left to others.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

import trio

from session_core.rpc.byte_streams import FAILURES, Source
from session_core.rpc.failures import ClosedKind
from session_core.rpc.peer import Incoming, RpcPeer

W = TypeVar("W")

_FREE_SECONDS = 0.002  # a portion that takes no longer is not worth a pause
_LONGEST_PAUSE = 0.5
_LAST_READS = 64  # pieces read after a failed write: what was said before the end still counts


class Reading(Generic[W]):
    """The bytes of a source, on their way through a peer.

    Args:
        source: Where they come from.
        peer: Understands them.
        take: Gets what they mean; never waits.
    """

    def __init__(self, source: Source, peer: RpcPeer[W], take: Callable[[list[Incoming[W]]], None]) -> None:
        self._source = source
        self._peer = peer
        self._take = take
        self._going_on = trio.CancelScope()
        self._write_error: BaseException | None = None

    def end_with(self, write_error: BaseException) -> None:
        """Take what is there already and stop: nothing can be written any more, so nothing can come of the rest."""
        self._write_error = write_error
        self._going_on.cancel(reason="nothing can be written any more")

    async def run(self) -> tuple[ClosedKind, BaseException | None]:
        """Read, and return why there is nothing more to read."""
        with self._going_on:
            return await self._read()
        return await self._read_last_words()

    async def _read(self) -> tuple[ClosedKind, BaseException | None]:
        while True:
            try:
                data = await self._source.read()
            except FAILURES as error:
                return "read_failed", error
            if data:
                self._peer.receive(data)
            else:
                self._peer.finish()
            await self._take_all()
            if self._peer.flooded:
                return "flooded", None
            if not data:
                return "ended", None

    async def _read_last_words(self) -> tuple[ClosedKind, BaseException | None]:
        with suppress(OSError):
            for _ in range(_LAST_READS):
                await self._take_all()
                data = self._source.read_now()
                if not data or self._peer.flooded:
                    break
                self._peer.receive(data)
                await trio.lowlevel.checkpoint()
        return "write_failed", self._write_error

    async def _take_all(self) -> None:
        while True:
            began = trio.current_time()
            self._take(self._peer.portion())
            if (took := trio.current_time() - began) > _FREE_SECONDS:
                await trio.sleep(min(took, _LONGEST_PAUSE))
            if not self._peer.unread or self._peer.flooded:
                return
            await trio.lowlevel.checkpoint()
