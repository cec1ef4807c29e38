"""Law 7: for every reader, delivered + missed = published since it began."""

import attrs
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from session_core.errors import CursorRefused, Lagged
from session_core.ids import MessageId, SessionId
from session_core.stream.event_stream import EventStream
from session_core.stream.subscription import Subscription
from session_core.vocabulary.events import Event, PartDelta, SessionEvent, SessionRenamed
from tests.properties._world import checkpoints

SESSIONS = (SessionId("a"), SessionId("b"), None)


@attrs.frozen
class ReaderPlan:
    """How one reader behaves."""

    session: SessionId | None
    starts_after: int
    rests: tuple[int, ...]
    coalesce_from: int | None
    max_bytes: int | None
    patience: int | None
    """Cancel each read after this many checkpoints, and try again."""
    single: bool
    """Read event by event instead of in batches."""
    reconnect_every: int | None
    """Leave after this many reads and come back with the cursor."""


reader_plans = st.builds(
    ReaderPlan,
    st.sampled_from(SESSIONS),
    st.integers(0, 10),
    st.lists(st.integers(0, 8), max_size=4).map(tuple),
    st.none() | st.integers(1, 4),
    st.none() | st.sampled_from([1, 150, 300, 1_000]),
    st.none() | st.integers(0, 3),
    st.booleans(),
    st.none() | st.integers(1, 3),
)
publication = st.tuples(st.sampled_from(SESSIONS), st.sampled_from(["delta", "other delta", "name"]), st.integers(0, 2))
publications = st.lists(publication, max_size=40) | st.lists(publication, min_size=20, max_size=40)


def event_of(kind: str) -> Event:
    return SessionRenamed(name="n") if kind == "name" else PartDelta(message_id=MessageId(kind), text="t")


class Reader:
    """Reads as planned and keeps the books."""

    def __init__(self, stream: EventStream, plan: ReaderPlan) -> None:
        self.stream = stream
        self.plan = plan
        self.began_at = 0
        self.accounted = 0
        self.last_seq = 0

    async def run(self) -> None:
        await checkpoints(self.plan.starts_after)
        subscription = self._begin()
        reads = 0
        rests = self.plan.rests or (0,)
        while True:
            try:
                await self._read(subscription)
            except Lagged as lag:
                self.accounted += lag.missed
            except (trio.EndOfChannel, StopAsyncIteration):
                return
            reads += 1
            await checkpoints(rests[reads % len(rests)])
            if self.plan.reconnect_every and reads % self.plan.reconnect_every == 0 and not self.stream.closed:
                subscription = self._reconnect(subscription)

    def _begin(self) -> Subscription:
        self.began_at, self.accounted, self.last_seq = self._published(), 0, self.stream.seq
        return self._subscribe()

    def _subscribe(self, **options: object) -> Subscription:
        plan = self.plan
        return self.stream.subscribe(
            plan.session,
            coalesce_from=plan.coalesce_from,
            max_bytes=plan.max_bytes,
            **options,  # type: ignore[arg-type]
        )

    def _reconnect(self, subscription: Subscription) -> Subscription:
        cursor = subscription.cursor
        subscription.close()
        try:
            return self._subscribe(after=cursor)
        except CursorRefused:
            assert self._published() - self.began_at - self.accounted > self._capacity(), "refused without a loss"
            return self._begin()

    def _capacity(self) -> int:
        return self.stream._session_capacity if self.plan.session else self.stream._all.capacity

    def _published(self) -> int:
        """How many events its ring has seen."""
        if self.plan.session is None:
            return self.stream.seq
        ring = self.stream._by_session.get(self.plan.session)
        return ring.head if ring is not None else 0

    async def _read(self, subscription: Subscription) -> None:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                if self.plan.patience is not None:
                    nursery.start_soon(self._give_up, scope, self.plan.patience)
                try:
                    batch = [await anext(subscription)] if self.plan.single else await subscription.receive_batch()
                except (Lagged, trio.EndOfChannel, StopAsyncIteration) as told:
                    outcome: BaseException | None = told
                else:
                    outcome = None
                    self._take(batch)
                nursery.cancel_scope.cancel()
            if outcome is not None:
                raise outcome

    async def _give_up(self, scope: trio.CancelScope, patience: int) -> None:
        await checkpoints(patience)
        scope.cancel()

    def _take(self, batch: list[SessionEvent]) -> None:
        assert batch, "an empty batch wakes a reader for nothing"
        for event in batch:
            assert self.plan.session in (None, event.session_id), "an event of another session"
            assert event.seq > self.last_seq, "an event twice, or out of order"
            assert self.plan.coalesce_from is not None or event.merged == 1
            self.last_seq = event.seq
            self.accounted += event.merged


@given(
    plans=st.lists(reader_plans, min_size=1, max_size=7),
    published=publications,
    capacity=st.integers(1, 4),
    session_capacity=st.integers(1, 4),
    with_pump=st.booleans(),
    rnd=st.random_module(),
)
async def test_delivered_and_missed_add_up(
    *,
    plans: list[ReaderPlan],
    published: list[tuple[SessionId | None, str, int]],
    capacity: int,
    session_capacity: int,
    with_pump: bool,
    rnd: object,
    autojump_clock: MockClock,
) -> None:
    """Tiny rings, slow and cancelled readers, byte bounds, merging, reconnecting: each event is delivered or told."""
    stream = EventStream(capacity=capacity, session_capacity=session_capacity)
    stream.open_session(SessionId("a"))
    stream.open_session(SessionId("b"))
    readers = [Reader(stream, plan) for plan in plans]
    async with trio.open_nursery() as background:
        if with_pump:
            await background.start(stream.run)
        async with trio.open_nursery() as nursery:
            for reader in readers:
                nursery.start_soon(reader.run)
            await checkpoints(1)
            for session_id, kind, rest in published:
                stream.publish(session_id, event_of(kind), recorded_at=0)
                await checkpoints(rest)
            await checkpoints(12)  # the last reader has begun
            stream.close()
        background.cancel_scope.cancel()

    for reader in readers:
        assert reader.accounted == reader._published() - reader.began_at
