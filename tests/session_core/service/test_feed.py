"""A feed read in both ways at once: item by item and in batches."""

import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from session_core.ids import SessionId
from session_core.service.feed import Feed
from session_core.session.recorder import EventRecorder
from session_core.session.state import SessionState
from session_core.storage.memory import MemoryStore
from session_core.stream.event_stream import EventStream
from session_core.stream.follower import FeedItem
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.sessions import Settings

MINE, OTHER = SessionId("ses_mine"), SessionId("ses_other")
Act = st.sampled_from(["rename", "rename", "rename the other", "one", "one", "batch", "reconnect"])


class World:
    """Two sessions on a small stream, and a feed of one of them."""

    def __init__(self, capacity: int) -> None:
        stream = EventStream(capacity=capacity, session_capacity=capacity)
        self.recorder = EventRecorder(stream, MemoryStore(), lambda: 1)
        self.states = {name: SessionState(session_id=name) for name in (MINE, OTHER)}
        for name, state in self.states.items():
            self.recorder.record_event(state, ev.SessionCreated(name=name, settings=Settings(model="m", cwd="/")))
        self.feed = self._follow(None)
        self.known = 0  # the session's own number of the newest thing that was received

    def _follow(self, feed: Feed | None) -> Feed:
        stream = self.recorder.stream
        return Feed(
            stream,
            MINE,
            lambda: self.states[MINE].snapshot(stream.cursor),
            trio.lowlevel.checkpoint,
            after=feed.cursor if feed is not None else None,
            max_bytes=None,
        )

    def rename(self, name: SessionId) -> None:
        self.recorder.record_event(self.states[name], ev.SessionRenamed(name="n"))

    def reconnect(self) -> None:
        """Leave, and come back with nothing but the cursor."""
        if self.feed.cursor is None:
            self.known = 0
        before, self.feed = self.feed, self._follow(self.feed)
        before.close()

    @property
    def something_is_due(self) -> bool:
        return self.known < self.states[MINE].sseq

    def take(self, items: list[FeedItem]) -> None:
        for item in items:
            if isinstance(item, SessionEvent):
                assert self.known + 1 == item.sseq, "neither lost nor doubled"
                self.known = item.sseq
            else:
                assert item.sseq >= self.known, "never back"  # type: ignore[union-attr]
                self.known = item.sseq  # type: ignore[union-attr]


@given(acts=st.lists(Act, max_size=30), capacity=st.sampled_from([2, 100]), rnd=st.random_module())
async def test_mixed_reading_loses_and_doubles_nothing(acts: list[str], capacity: int, rnd: object) -> None:
    """However reading is mixed, and wherever a reader comes back with its cursor, each event is received once."""
    world = World(capacity)
    for act in acts:
        match act:
            case "rename":
                world.rename(MINE)
            case "rename the other":
                world.rename(OTHER)
            case "reconnect":
                world.reconnect()
            case "one" if world.something_is_due:
                world.take([await anext(world.feed)])
            case "batch" if world.something_is_due:
                world.take(await world.feed.receive_batch())
            case _:
                pass
    while world.something_is_due:
        world.take(await world.feed.receive_batch())
    assert world.states[MINE].sseq == world.known


async def test_a_batch_after_single_items_is_the_rest() -> None:
    """What the iterator had taken and not handed out comes with the next batch, in order."""
    world = World(100)
    await anext(world.feed)
    for _ in range(3):
        world.rename(MINE)
    first = await anext(world.feed)
    rest = await world.feed.receive_batch()
    assert [2, 3, 4] == [item.sseq for item in (first, *rest) if isinstance(item, SessionEvent)]


async def test_two_tasks_ask_for_the_rest() -> None:
    """Of two tasks that ask at once one gets the rest, and the other what comes next instead of nothing."""
    world = World(100)
    await anext(world.feed)
    for _ in range(3):
        world.rename(MINE)
    await anext(world.feed)
    received: list[list[int]] = []

    async def receive() -> None:
        batch = await world.feed.receive_batch()
        received.append([item.sseq for item in batch if isinstance(item, SessionEvent)])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        nursery.start_soon(receive)
        await wait_all_tasks_blocked()
        assert [[3, 4]] == received
        world.rename(MINE)
    assert [[3, 4], [5]] == received
