"""One reader's position in a ring.

Rules:
1. Reading does not affect other readers: a subscription is an index into a shared ring.
2. `receive_batch` returns everything that is pending, in order, with one checkpoint per batch.
3. Conservation: events delivered (a merged one counts `merged` times) + events reported as `Lagged` = events published
   since the subscription began. Example: 90 delivered + `Lagged(10)` = 100 published.
4. A subscription never slows a publisher down; a reader that stops reading costs nothing but its own index.
"""

from typing import TYPE_CHECKING, Self

import trio

from session_core.errors import Lagged, ServiceClosed
from session_core.ids import Cursor
from session_core.stream.coalesce import coalesce
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.snapshots import Bookmark

if TYPE_CHECKING:
    from session_core.stream.event_stream import EventStream
    from session_core.stream.ring import Ring


class Subscription:
    """A reader of one session's events, or of all. Made by `EventStream.subscribe`; use it with `async with`.

    It is also an async iterator over single events; that raises `Lagged` too, and iteration may continue afterwards.
    """

    __slots__ = (
        "_buffer",
        "_closed",
        "_coalesce_from",
        "_max_bytes",
        "_position",
        "_ring",
        "_seen_seq",
        "_stream",
        "_task",
    )

    def __init__(
        self,
        stream: "EventStream",
        ring: "Ring",
        position: int,
        *,
        seen_seq: int,
        coalesce_from: int | None,
        max_bytes: int | None,
    ) -> None:
        self._stream = stream
        self._ring = ring
        self._position = position
        self._coalesce_from = coalesce_from
        self._max_bytes = max_bytes
        self._task: trio.lowlevel.Task | None = None
        self._closed = False
        self._seen_seq = seen_seq  # everything up to here was delivered, or reported as missed
        self._buffer: list[SessionEvent] = []  # what the single-event iterator has not delivered yet, newest first

    @property
    def cursor(self) -> Cursor:
        """The cursor to resume after.

        A reader that is up to date is at the end of the whole stream, so the cursor of a quiet session's reader
        advances with the events of other sessions and does not expire.
        """
        has_everything = not self._buffer and self._position >= self._ring.head
        return Cursor(epoch=self._stream.epoch, seq=self._stream.seq if has_everything else self._seen_seq)

    def bookmark(self) -> Bookmark:
        """Return the position of this reader, for a remote peer that must not fall out of the window."""
        return Bookmark(cursor=self.cursor)

    async def receive_batch(self) -> list[SessionEvent]:
        """Wait for events, then return all that are pending, oldest first.

        Raises:
            Lagged: The reader fell behind; the next call continues with the oldest event still held.
            trio.EndOfChannel: The session or the stream is closed and everything was received.
            ServiceClosed: This subscription was closed.

        Cancellation: atomic; a cancelled call has taken nothing.
        """
        await self._wait()
        return self._take_buffered() if self._buffer else self._take()

    async def receive_shared(self) -> tuple[SessionEvent, ...]:
        """Do the same as `receive_batch`; all readers at the same position get the same tuple, made once."""
        await self._wait()
        return tuple(self._take_buffered()) if self._buffer else self._take_shared()

    async def _wait(self) -> None:
        """Wait until something is pending; always a checkpoint."""
        if self._buffer:
            await trio.lowlevel.checkpoint()
            if self._buffer and not self._closed:
                return
        ring = self._ring
        if self._task is not None:
            raise trio.BusyResourceError("another task is already receiving from this subscription")
        if self._position < ring.head or self._closed:
            await trio.lowlevel.checkpoint()
        while self._position >= ring.head and not self._closed:
            if ring.closed:
                await trio.lowlevel.checkpoint()
                raise trio.EndOfChannel
            self._task = trio.lowlevel.current_task()
            ring.waiting[self] = None
            await trio.lowlevel.wait_task_rescheduled(self._abort)
            if ring.waiting:
                ring.waiting.pop(self, None)  # still there after a wake-up by a pump that had an older list
        if self._closed:
            raise ServiceClosed("this subscription is closed")

    def _take_buffered(self) -> list[SessionEvent]:
        """Take the events that the iterator has fetched but not delivered."""
        batch, self._buffer = self._buffer[::-1], []
        self._seen_seq = batch[-1].seq
        return batch

    def _take_shared(self) -> tuple[SessionEvent, ...]:
        ring = self._ring
        place = (self._position, ring.head, self._coalesce_from, self._max_bytes)
        if ring.shared_batch is not None and ring.shared_batch[0] == place and self._position >= ring.oldest:
            batch = ring.shared_batch[1]
            self._position, self._seen_seq = ring.head, batch[-1].seq
            return batch
        batch = tuple(self._take())
        if ring.readers > 1:
            ring.shared_batch = (place, batch)
        return batch

    def _take(self) -> list[SessionEvent]:
        ring = self._ring
        if self._position < ring.base or self._position < ring.head - ring.capacity:  # `oldest`, without a call
            self._skip_to(ring.oldest)
        batch = ring.events_from(self._position)
        if self._max_bytes is not None:
            fitting_count = _newest_within(batch, self._max_bytes)
            self._skip_to(ring.head - fitting_count)
        self._position = ring.head
        self._seen_seq = batch[-1].seq
        if self._coalesce_from is not None and len(batch) >= self._coalesce_from:
            return coalesce(batch)
        return batch

    def _skip_to(self, index: int) -> None:
        if self._position < index:
            missed, self._position = index - self._position, index
            self._seen_seq = self._ring.items[index - self._ring.base].seq - 1
            self._stream.lagged += missed
            raise Lagged(missed)

    def jump_to_now(self) -> None:
        """Skip all pending events: the caller has just taken a snapshot that contains them."""
        self._buffer.clear()
        self._position = self._ring.head
        self._seen_seq = self._stream.seq

    def _abort(self, _: object) -> trio.lowlevel.Abort:
        self._task = None
        self._ring.waiting.pop(self, None)
        return trio.lowlevel.Abort.SUCCEEDED

    def wake(self) -> None:
        """Wake the waiting task; harmless if it no longer waits."""
        if self._task is not None:
            task, self._task = self._task, None
            trio.lowlevel.reschedule(task)

    def close(self) -> None:
        """End the subscription; a task waiting in it gets `ServiceClosed`."""
        if not self._closed:
            self._closed = True
            self._ring.waiting.pop(self, None)
            self.wake()
            self._stream.forget_reader(self._ring)

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> SessionEvent:
        if not self._buffer:
            try:
                self._buffer = (await self.receive_batch())[::-1]
            except trio.EndOfChannel:
                raise StopAsyncIteration from None
        event = self._buffer.pop()
        self._seen_seq = event.seq
        return event

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def _newest_within(batch: list[SessionEvent], max_bytes: int) -> int:
    """Return how many of the newest events fit into the bound together; the newest always does."""
    from session_core.wire.codec import encode_event

    room = max_bytes
    for fitting_count, event in enumerate(reversed(batch)):
        room -= len(encode_event(event))
        if room < 0:
            return max(fitting_count, 1)
    return len(batch)
