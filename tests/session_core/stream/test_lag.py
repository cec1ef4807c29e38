"""Loss is exact: a table of the cases at the edge, each with a small ring."""

import pytest
import trio

from session_core.errors import CursorRefused, InvalidInput, Lagged
from session_core.stream.event_stream import EventStream
from session_core.wire.codec import encode_event
from tests.session_core.stream._events import A, B, at, delta, numbers, publish, read_all, stream_of


async def test_capacity_one() -> None:
    """With room for one event, a reader that slept through three is told of two and gets the last."""
    stream = stream_of(session_capacity=1)
    reader = stream.subscribe(A)
    publish(stream, 3)
    stream.close()

    assert await read_all(reader) == ["lagged 2", 3]


async def test_capacity_one_kept_up() -> None:
    """With room for one event, a reader that reads after each one misses nothing."""
    stream = stream_of(session_capacity=1)
    reader = stream.subscribe(A)
    for seq in range(1, 6):
        publish(stream, 1)
        assert numbers(await reader.receive_batch()) == [seq]


async def test_exactly_full_is_no_lag() -> None:
    """As many pending events as there is room for are all delivered."""
    stream = stream_of(session_capacity=3)
    reader = stream.subscribe(A)
    publish(stream, 3)
    stream.close()

    assert await read_all(reader) == [1, 2, 3]


async def test_one_over_is_a_lag_of_one() -> None:
    """One pending event more than there is room for is a lag of exactly one."""
    stream = stream_of(session_capacity=3)
    reader = stream.subscribe(A)
    publish(stream, 4)
    stream.close()

    assert await read_all(reader) == ["lagged 1", 2, 3, 4]


@pytest.mark.parametrize("count", range(13))
async def test_lag_does_not_depend_on_when_the_list_is_trimmed(count: int) -> None:
    """Whatever the inner list happens to hold, a reader sees the last three events and a count of the rest."""
    stream = stream_of(session_capacity=3)
    reader = stream.subscribe(A)
    publish(stream, count)
    stream.close()

    told: list[int | str] = [f"lagged {count - 3}"] if count > 3 else []
    assert await read_all(reader) == told + list(range(max(1, count - 2), count + 1))


async def test_lag_twice_without_reading() -> None:
    """A reader that is told of a loss and then sleeps again is told of the second loss alone."""
    stream = stream_of(session_capacity=2)
    reader = stream.subscribe(A)
    publish(stream, 5)
    with pytest.raises(Lagged) as first:
        await reader.receive_batch()
    publish(stream, 4)
    with pytest.raises(Lagged) as second:
        await reader.receive_batch()

    assert (first.value.missed, second.value.missed) == (3, 4)
    assert numbers(await reader.receive_batch()) == [8, 9]
    assert stream.statistics().lagged == 7


async def test_lag_before_reading_starts() -> None:
    """What was published before the subscription does not count; what came before the first read does."""
    stream = stream_of(session_capacity=2)
    publish(stream, 10)
    reader = stream.subscribe(A)
    publish(stream, 3)
    stream.close()

    assert await read_all(reader) == ["lagged 1", 12, 13]


async def test_lag_then_close() -> None:
    """Closing the stream takes neither the telling of the loss nor the events that are left."""
    stream = stream_of(session_capacity=2)
    reader = stream.subscribe(A)
    publish(stream, 3)
    stream.close()

    with pytest.raises(Lagged) as lag:
        await reader.receive_batch()
    assert lag.value.missed == 1
    assert numbers(await reader.receive_batch()) == [2, 3]
    for _ in range(2):
        with pytest.raises(trio.EndOfChannel):
            await reader.receive_batch()


async def test_lag_then_the_session_closes() -> None:
    """Closing a session forgets its ring for newcomers, while its readers still get what is left."""
    stream = stream_of(session_capacity=2)
    reader = stream.subscribe(A)
    publish(stream, 3)
    stream.close_session(A)

    assert await read_all(reader) == ["lagged 1", 2, 3]
    assert stream.statistics().sessions == 0
    with pytest.raises(CursorRefused) as refused:
        stream.subscribe(A, after=at(2))
    assert refused.value.problem == "expired"


async def test_resubscribe_after_a_cursor() -> None:
    """A reader that comes back with its cursor gets every later event once, and no other."""
    stream = stream_of(session_capacity=4)
    reader = stream.subscribe(A)
    publish(stream, 2)
    await reader.receive_batch()
    cursor = reader.cursor
    reader.close()
    publish(stream, 3)
    stream.subscribe(A)
    again = stream.subscribe(A, after=cursor)
    stream.close()

    assert await read_all(again) == [3, 4, 5]


@pytest.mark.parametrize("missed", [0, 1, 2, 5])
async def test_the_cursor_of_a_reader_that_lags_is_refused(missed: int) -> None:
    """A reader that fell behind and left before it was told cannot resume as if nothing were lost."""
    stream = stream_of(session_capacity=2)
    reader = stream.subscribe(A)
    publish(stream, 2 + missed)
    cursor = reader.cursor

    if missed:
        with pytest.raises(CursorRefused) as refused:
            stream.subscribe(A, after=cursor)
        assert refused.value.problem == "expired"
    else:
        assert numbers(await stream.subscribe(A, after=cursor).receive_batch()) == [1, 2]


@pytest.mark.parametrize(
    ("seq", "expected"), [(0, "expired"), (1, "expired"), (2, [3, 4]), (3, [4]), (4, []), (5, "future")]
)
async def test_the_edges_of_a_cursor(seq: int, expected: list[int] | str) -> None:
    """A cursor is taken from the oldest held event up to the end, and refused on either side."""
    stream = stream_of(session_capacity=2)
    publish(stream, 4)

    if isinstance(expected, str):
        with pytest.raises(CursorRefused) as refused:
            stream.subscribe(A, after=at(seq))
        assert (refused.value.problem, refused.value.cursor) == (expected, at(seq))
    else:
        reader = stream.subscribe(A, after=at(seq))
        stream.close()
        assert await read_all(reader) == expected


async def test_two_readers_lag_apart() -> None:
    """One reader's lag is its own: another one, and later reads of the first, lose nothing by it."""
    stream = stream_of(session_capacity=2)
    slow, quick = stream.subscribe(A), stream.subscribe(A)
    seen: list[int] = []
    for _ in range(5):
        publish(stream, 1)
        seen += numbers(await quick.receive_batch())
    stream.close()

    assert seen == [1, 2, 3, 4, 5]
    assert await read_all(slow) == ["lagged 3", 4, 5]


async def test_a_neighbour_cannot_push_out() -> None:
    """A session's reader keeps its events whatever others publish, while a reader of all loses them."""
    stream = stream_of(capacity=2, session_capacity=2)
    mine, everything = stream.subscribe(A), stream.subscribe()
    publish(stream, 2, A)
    publish(stream, 50, B)
    publish(stream, 1, None)
    stream.close()

    assert await read_all(mine) == [1, 2]
    assert await read_all(everything) == ["lagged 51", 52, 53]


async def test_bytes_bound_exact() -> None:
    """A bound in bytes keeps the newest events that fit together, to the byte."""
    stream = stream_of()
    events = publish(stream, 3)
    two = len(encode_event(events[1])) + len(encode_event(events[2]))
    fits = stream.subscribe(A, after=at(0), max_bytes=two)
    tight = stream.subscribe(A, after=at(0), max_bytes=two - 1)
    stream.close()

    assert await read_all(fits) == ["lagged 1", 2, 3]
    assert await read_all(tight) == ["lagged 2", 3]


async def test_bytes_bound_smaller_than_one_event() -> None:
    """The newest event is delivered even when it alone is over the bound."""
    stream = stream_of()
    publish(stream, 3)
    reader = stream.subscribe(A, after=at(0), max_bytes=1)
    stream.close()

    assert await read_all(reader) == ["lagged 2", 3]


async def test_bytes_bound_after_a_lag_of_the_ring() -> None:
    """A loss by the ring and a further loss by the byte bound are told one after the other and add up."""
    stream = stream_of(session_capacity=3)
    reader = stream.subscribe(A, max_bytes=1)
    publish(stream, 5)
    stream.close()

    assert await read_all(reader) == ["lagged 2", "lagged 2", 5]


async def test_merged_events_count_as_many() -> None:
    """A merged event says how many it stands for, so that delivered and missed still add up."""
    stream = stream_of(session_capacity=3)
    reader = stream.subscribe(A, coalesce_from=2)
    for number in range(5):
        stream.publish(A, delta(str(number)))

    with pytest.raises(Lagged) as lag:
        await reader.receive_batch()
    (merged,) = await reader.receive_batch()
    assert (lag.value.missed, merged.merged, merged.seq, merged.sseq, merged.event) == (2, 3, 5, 5, delta("234"))


async def test_one_by_one_the_loss_is_told_in_its_place() -> None:
    """An iterating reader meets a loss between two events and goes on after it."""
    stream = stream_of(session_capacity=2)
    reader = stream.subscribe(A)
    publish(stream, 1)
    seen = [(await anext(reader)).seq]
    publish(stream, 3)
    with pytest.raises(Lagged) as lag:
        await anext(reader)
    stream.close()

    seen += [event.seq async for event in reader]
    assert (seen, lag.value.missed) == ([1, 3, 4], 1)


async def test_jumping_to_now_is_no_loss() -> None:
    """A reader that has just taken a snapshot skips what is pending without being told of a lag."""
    stream = stream_of(session_capacity=2)
    reader = stream.subscribe(A)
    publish(stream, 5)
    reader.jump_to_now()
    publish(stream, 1)
    stream.close()

    assert await read_all(reader) == [6]
    assert stream.statistics().lagged == 0


@pytest.mark.parametrize(("capacity", "session_capacity", "field"), [(0, 1, "capacity"), (1, 0, "session_capacity")])
def test_a_stream_without_room_is_refused(capacity: int, session_capacity: int, field: str) -> None:
    """A capacity below one is refused by name."""
    with pytest.raises(InvalidInput) as refused:
        EventStream(capacity=capacity, session_capacity=session_capacity)
    assert refused.value.field == field
