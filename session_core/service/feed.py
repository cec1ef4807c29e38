"""The feed for frontends in this process: a snapshot first, then events, and a new snapshot after a lag."""

from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

import trio

from session_core.errors import CursorRefused, Lagged, NotFound
from session_core.ids import Cursor, SessionId
from session_core.stream.coalesce import COALESCE_FROM
from session_core.stream.event_stream import EventStream
from session_core.stream.follower import FeedItem, Follower, Resync, Snapshot
from session_core.vocabulary.events import SessionEvent


class Feed:
    """A `Follower` joined to a subscription; an async iterator of snapshots and events.

    Taking a snapshot and skipping the events it contains is one synchronous step, so nothing is lost or seen twice.
    """

    def __init__(
        self,
        stream: EventStream,
        session_id: SessionId | None,
        take_snapshot: Callable[[], Snapshot],
        prepare: Callable[[], Awaitable[None]],
        *,
        after: Cursor | None,
        max_bytes: int | None,
    ) -> None:
        self._take_snapshot = take_snapshot
        self._prepare = prepare
        self._follower = Follower(session_id, after=after)
        merge_from = COALESCE_FROM if session_id is not None else None
        try:
            self._subscription = stream.subscribe(
                session_id, after=after, coalesce_from=merge_from, max_bytes=max_bytes
            )
        except CursorRefused as refused:
            self._follower.on_refused(refused.problem)
            self._subscription = stream.subscribe(session_id, coalesce_from=merge_from, max_bytes=max_bytes)
        self._epoch = stream.epoch
        self._buffer: list[FeedItem] = []  # items that the iterator has not returned yet, newest first
        self._handed_out: Cursor | None = after

    @property
    def cursor(self) -> Cursor | None:
        """Where to resume: everything up to here was received. None while a snapshot is due."""
        if self._buffer:
            return self._handed_out
        return None if self._follower.needed_resync else self._subscription.cursor

    @property
    def resyncs(self) -> int:
        """How many snapshots were delivered, including the first."""
        return self._follower.resyncs

    @property
    def last_resync(self) -> Resync | None:
        """Why the newest snapshot was delivered."""
        return self._follower.last_resync

    @property
    def needed_resync(self) -> Resync | None:
        """Why the next item is a snapshot; None if it is not."""
        return None if self._buffer else self._follower.needed_resync

    async def receive_batch(self) -> list[FeedItem]:
        """Wait for at least one item, then return all available ones, in order.

        Raises:
            trio.EndOfChannel: The session was deleted or the service has closed, and everything was received.

        Cancellation: atomic; a cancelled call has taken nothing.
        """
        return [*await self.receive_shared()]

    async def receive_shared(self) -> Sequence[FeedItem]:
        """Do the same as `receive_batch`; feeds at the same position share one sequence, so do not modify it."""
        if self._buffer:
            await trio.lowlevel.checkpoint()
        if self._buffer:  # the iterator took these and has not returned them
            items, self._buffer = self._buffer[::-1], []
            return items
        if self._follower.needed_resync is not None:
            await trio.lowlevel.checkpoint()
            return await self._resync()
        try:
            batch = await self._subscription.receive_shared()
        except Lagged as lag:
            self._follower.on_lagged(lag.missed)
            return await self._resync()
        return self._follower.on_run(batch, self._epoch)

    async def _resync(self) -> list[FeedItem]:
        await self._prepare()  # without a checkpoint, unless the session has to be read from the store first
        try:
            snapshot = self._take_snapshot()
        except NotFound:
            raise trio.EndOfChannel from None
        self._subscription.jump_to_now()
        return self._follower.on_snapshot(snapshot)

    def close(self) -> None:
        """Stop following."""
        self._subscription.close()

    def __aiter__(self) -> "Feed":
        return self

    async def __anext__(self) -> FeedItem:
        while not self._buffer:
            try:
                self._buffer = (await self.receive_batch())[::-1]
            except trio.EndOfChannel:
                raise StopAsyncIteration from None
        item = self._buffer.pop()
        if isinstance(item, SessionEvent):
            self._handed_out = Cursor(epoch=self._epoch, seq=item.seq)
        else:
            self._handed_out = item.cursor
        return item

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
