"""The one broadcast stream: every event of every session, in one order, to any number of readers.

Rules:
1. `publish` is synchronous, never waits, and costs the same for one reader as for ten thousand: it appends to two
   rings and, when more than a few readers wait, leaves waking them to one pump task.
2. One ring holds the newest events of all sessions, and each session has its own ring, so a chatty session cannot push
   out the reader of a quiet one. Both hold the same event objects.
3. `seq` numbers all events of this run from 1, `sseq` those of a session; both without holes.
4. The pump wakes a few readers at a time and lets other tasks run in between, so ten thousand readers do not stall the
   loop. Without a running pump, the publisher wakes the readers, which is fine for tests and small programs.
"""

from collections import deque
from typing import NoReturn

import attrs
import trio

from session_core import limits
from session_core.errors import CursorRefused, InvalidInput, ServiceClosed
from session_core.ids import ClientId, Cursor, Epoch, SessionId, new_epoch, now_ms
from session_core.stream.ring import Ring
from session_core.stream.subscription import Subscription
from session_core.vocabulary.events import Event, SessionEvent

WAKE_INLINE = 4  # up to this many waiting readers are woken by the publisher: cheaper than the pump
WAKE_PER_TICK = 100  # readers the pump wakes before it yields: bounds the stall of the loop


@attrs.frozen(kw_only=True)
class StreamStatistics:
    """Counts of the events and readers of a stream, for people and tests."""

    epoch: Epoch
    published: int
    lagged: int
    subscribers: int
    waiting: int
    sessions: int
    held_events: int


class EventStream:
    """A broadcast stream with bounded memory and exact loss.

    Args:
        capacity: Events kept for readers of all sessions.
        session_capacity: Events kept for readers of one session.
        epoch: Name of this run; a fresh one by default.
    """

    def __init__(
        self,
        *,
        capacity: int = limits.STREAM_CAPACITY,
        session_capacity: int = limits.SESSION_STREAM_CAPACITY,
        epoch: Epoch | None = None,
    ) -> None:
        if capacity < 1 or session_capacity < 1:
            field = "capacity" if capacity < 1 else "session_capacity"
            raise InvalidInput("the capacities of a stream must be at least 1", field=field)
        self.epoch = epoch or new_epoch()
        self.seq = 0
        self.lagged = 0
        self._session_capacity = session_capacity
        self._all = Ring(capacity)
        self._by_session: dict[SessionId, Ring] = {}
        self._subscribers = 0
        self._dirty: deque[Ring] = deque()
        self._pump: trio.lowlevel.Task | None = None
        self._pump_parked = False
        self.closed = False

    # --- publishing ---------------------------------------------------------------------------------------------------

    def publish(
        self, session_id: SessionId | None, event: Event, *, by: ClientId | None = None, recorded_at: int | None = None
    ) -> SessionEvent:
        """Number the event and hand it to all readers; never waits."""
        return self.push(self.stamp(session_id, event, by=by, recorded_at=recorded_at))

    def stamp(
        self, session_id: SessionId | None, event: Event, *, by: ClientId | None = None, recorded_at: int | None = None
    ) -> SessionEvent:
        """Make the envelope that the next `push` will publish, without publishing it."""
        if self.closed:
            raise ServiceClosed("the event stream is closed")
        sseq = 0
        if session_id is not None:
            ring = self._by_session.get(session_id) or self.open_session(session_id)
            sseq = ring.numbered_from + ring.head + 1
        return SessionEvent(self.seq + 1, sseq, session_id, now_ms() if recorded_at is None else recorded_at, event, by)

    def push(self, stamped: SessionEvent) -> SessionEvent:
        """Publish an envelope made by `stamp` in the same synchronous step."""
        if self.closed:
            raise ServiceClosed("the event stream is closed")
        if stamped.seq != self.seq + 1:
            raise ValueError(f"event {stamped.seq} is out of order; the next is {self.seq + 1}")
        self.seq = stamped.seq
        self._all.append(stamped)
        if self._all.waiting:
            self._announce(self._all)
        if stamped.session_id is not None:
            ring = self._by_session[stamped.session_id]
            ring.append(stamped)
            if ring.waiting:
                self._announce(ring)
        return stamped

    def open_session(self, session_id: SessionId, *, sseq: int = 0) -> Ring:
        """Create a session's ring after its event number `sseq`; publishing does this automatically for new sessions.

        If readers came before, their ring becomes the session's.
        """
        ring = self._by_session.get(session_id)
        if ring is None:
            ring = self._by_session[session_id] = Ring(self._session_capacity, session_id=session_id)
            ring.trimmed_seq = self.seq if sseq else 0
        if not ring.head:
            ring.numbered_from = sseq
        return ring

    def close_session(self, session_id: SessionId) -> None:
        """Forget a session's ring; its readers get the remaining events and then the end."""
        ring = self._by_session.pop(session_id, None)
        if ring is not None:
            ring.closed = True
            self._announce(ring)

    def close(self) -> None:
        """End the stream for all readers, after the events already published."""
        self.closed = True
        for ring in (self._all, *self._by_session.values()):
            ring.closed = True
            self._announce(ring)

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def cursor(self) -> Cursor:
        """The end of the stream right now."""
        return Cursor(epoch=self.epoch, seq=self.seq)

    def subscribe(
        self,
        session_id: SessionId | None = None,
        *,
        after: Cursor | None = None,
        coalesce_from: int | None = None,
        max_bytes: int | None = None,
    ) -> Subscription:
        """Start reading now, or right after a cursor.

        Args:
            session_id: One session, or None for all of them and app-wide events.
            after: Resume after this cursor; by default only later events are read.
            coalesce_from: Merge adjacent deltas when at least this many events are pending.
            max_bytes: For network readers: how far behind one may be in encoded bytes before it is `Lagged`.

        Raises:
            CursorRefused: The cursor is `expired`, of another run (`foreign_epoch`) or ahead (`future`).
        """
        if after is None:
            ring = self._ring_of(session_id)
            position = ring.head
        else:
            if after.epoch != self.epoch:
                raise CursorRefused("foreign_epoch", after)
            if after.seq > self.seq:
                raise CursorRefused("future", after)
            ring = self._ring_of(session_id)
            found = ring.find_index_after(after.seq)
            if found is None:
                raise CursorRefused("expired", after)
            position = found
        self._subscribers += 1
        ring.readers += 1
        seen_seq = self.seq if after is None else after.seq
        return Subscription(self, ring, position, seen_seq=seen_seq, coalesce_from=coalesce_from, max_bytes=max_bytes)

    def _ring_of(self, session_id: SessionId | None) -> Ring:
        if self.closed:
            raise ServiceClosed("the event stream is closed")
        if session_id is None:
            return self._all
        ring = self._by_session.get(session_id)
        if ring is None:
            ring = self.open_session(session_id)
            ring.trimmed_seq = self.seq  # the session may have been closed: earlier cursors cannot be trusted
        return ring

    def has_readers(self, session_id: SessionId) -> bool:
        """Return whether this session has readers."""
        ring = self._by_session.get(session_id)
        return ring is not None and ring.readers > 0

    def forget_reader(self, ring: Ring) -> None:
        """Unregister a reader; a ring that was made only for readers and never used goes with the last of them."""
        self._subscribers -= 1
        ring.readers -= 1
        if not ring.readers:
            ring.shared_batch = None
        if ring.session_id is not None and not ring.readers and not ring.head and not ring.numbered_from:
            if self._by_session.get(ring.session_id) is ring:  # it may have been closed and replaced
                del self._by_session[ring.session_id]

    def statistics(self) -> StreamStatistics:
        """Return the current counts."""
        rings = (self._all, *self._by_session.values())
        return StreamStatistics(
            epoch=self.epoch,
            published=self.seq,
            lagged=self.lagged,
            subscribers=self._subscribers,
            waiting=sum(len(ring.waiting) for ring in rings),
            sessions=len(self._by_session),
            held_events=sum(len(ring.items) for ring in rings),
        )

    # --- waking -------------------------------------------------------------------------------------------------------

    def _announce(self, ring: Ring) -> None:
        if ring.dirty:
            return
        if len(ring.waiting) <= WAKE_INLINE or self._pump is None:
            waiting, ring.waiting = ring.waiting, {}
            for subscription in waiting:
                subscription.wake()
            return
        ring.dirty = True
        self._dirty.append(ring)
        if self._pump_parked:
            self._pump_parked = False
            trio.lowlevel.reschedule(self._pump)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> NoReturn:
        """Wake waiting readers, some per tick; start it with `nursery.start`. Runs until cancelled."""
        self._pump = trio.lowlevel.current_task()
        task_status.started()
        try:
            while True:
                if not self._dirty:
                    self._pump_parked = True
                    await trio.lowlevel.wait_task_rescheduled(self._abort_pump)
                while self._dirty:
                    await self._wake_all(self._dirty.popleft())
                await trio.lowlevel.checkpoint()
        finally:
            self._pump = None
            for ring in self._dirty:
                ring.dirty = False
                self._announce(ring)
            self._dirty.clear()

    async def _wake_all(self, ring: Ring) -> None:
        ring.dirty = False
        waiting, ring.waiting = iter(ring.waiting), {}
        # A reader may be cancelled while this loop yields; `wake` then finds no task and does nothing. A reader that
        # was woken, read, and waits again is in the new dict: waking it once more for nothing is harmless.
        try:
            for count, subscription in enumerate(waiting, start=1):
                subscription.wake()
                if count % WAKE_PER_TICK == 0:
                    await trio.lowlevel.checkpoint()
        finally:
            for subscription in waiting:  # the pump was cancelled: no reader may be left asleep
                subscription.wake()

    def _abort_pump(self, _: object) -> trio.lowlevel.Abort:
        self._pump_parked = False
        return trio.lowlevel.Abort.SUCCEEDED
