"""Readers that stand at the same place get the very same batch, and each gets what it would get alone."""

from collections.abc import Sequence

import attrs
from hypothesis import given
from hypothesis import strategies as st

from session_core.errors import Lagged
from session_core.stream.coalesce import coalesce
from session_core.stream.follower import Follower
from session_core.stream.subscription import Subscription
from session_core.vocabulary.events import SessionEvent
from session_core.wire.codec import encode_event
from tests.session_core.stream._events import RUN, A, B, delta, numbers, publish, snapshot_at, stream_of


async def test_readers_at_one_place_get_one_batch() -> None:
    """What is merged for one is the same object for all who share; whoever takes lists has its own."""
    stream = stream_of()
    first, second = (stream.subscribe(A, coalesce_from=2) for _ in range(2))
    late = stream.subscribe(A, coalesce_from=2)
    stream.publish(A, delta("a"), recorded_at=0)
    assert [1] == numbers(await late.receive_shared())
    stream.publish(A, delta("b"), recorded_at=0)
    batch = await first.receive_shared()
    assert [(2, 2)] == [(event.seq, event.merged) for event in batch]
    assert batch is await second.receive_shared()
    assert [2] == numbers(await late.receive_shared())
    assert first.cursor == second.cursor == late.cursor


async def test_nothing_is_kept_when_all_have_left() -> None:
    """The batch that readers have shared is let go with the last of them, and a lone reader leaves none."""
    stream = stream_of()
    readers = [stream.subscribe(A) for _ in range(2)]
    publish(stream, 3)
    await readers[0].receive_shared()
    assert keeps(readers[0])
    for reader in readers:
        reader.close()
    assert not keeps(readers[0])
    alone = stream.subscribe(A)
    publish(stream, 3)
    await alone.receive_shared()
    assert not keeps(alone)


def keeps(reader: Subscription) -> bool:
    """Whether a batch is kept for others who read the same."""
    return reader._ring.shared_batch is not None


Act = st.sampled_from(["a word", "a word", "a name", "elsewhere", "many", 0, 1, 2, 3])


@given(acts=st.lists(Act, max_size=40), rnd=st.random_module())
async def test_sharing_changes_nothing(acts: list[str | int], rnd: object) -> None:
    """Merging, losses and places are those of a reader that is alone, however others read beside it."""
    stream, twin = stream_of(capacity=30, session_capacity=12), stream_of(capacity=30, session_capacity=12)
    size = len(encode_event(stream_of().publish(A, delta("x"), recorded_at=0)))
    ways = [(None, None), (2, 6 * size), (2, 6 * size), (None, 6 * size)]
    together = [stream.subscribe(A, coalesce_from=merge, max_bytes=most) for merge, most in ways]
    alone = [twin.subscribe(A, coalesce_from=merge, max_bytes=most) for merge, most in ways]
    for act in acts:
        if isinstance(act, int):
            if together[act]._position < together[act]._ring.head:
                assert await taken(alone[act]) == await taken(together[act], shared=True)
        else:
            for each in (stream, twin):
                if act == "a word":
                    each.publish(A, delta("x"), recorded_at=0)
                else:
                    publish(each, 9 if act == "many" else 1, B if act == "elsewhere" else A)
        assert [reader.cursor for reader in alone] == [reader.cursor for reader in together]
    assert twin.lagged == stream.lagged


async def taken(reader: Subscription, *, shared: bool = False) -> list[SessionEvent] | str:
    """Take what there is; a loss is told."""
    try:
        return list(await (reader.receive_shared() if shared else reader.receive_batch()))
    except Lagged as lag:
        return f"lagged {lag.missed}"


@given(sizes=st.lists(st.integers(1, 5), max_size=6), merging=st.booleans(), data=st.data())
def test_a_run_is_taken_like_its_events(*, sizes: list[int], merging: bool, data: st.DataObject) -> None:
    """A follower that looks at both ends of a run ends up where one that looks at every event does."""
    stream = stream_of()
    one_by_one, by_ends = Follower(A), Follower(A)
    begun = data.draw(st.integers(0, 3))
    for each in (one_by_one, by_ends):
        each.on_snapshot(snapshot_at(begun, begun))
    for size in sizes:
        run: Sequence[SessionEvent] = [stream.publish(A, delta("x"), recorded_at=0) for _ in range(size)]
        if merging:
            run = coalesce(list(run))
        if data.draw(st.integers(0, 3)) == 0:
            continue  # it is lost
        assert list(one_by_one.on_events(run, RUN)) == list(by_ends.on_run(run, RUN))
        assert attrs.astuple(_Place.of(one_by_one)) == attrs.astuple(_Place.of(by_ends))


@attrs.frozen
class _Place:
    cursor: object
    needs: object
    number: object

    @classmethod
    def of(cls, follower: Follower) -> "_Place":
        """Where a follower stands."""
        return cls(follower.cursor, follower.needed_resync, follower._place)
