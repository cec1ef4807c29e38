"""Publishing and subscribing: numbers without holes, no checkpoint, and cursors that do not expire for nothing."""

import pytest
import trio
from trio.testing import assert_checkpoints, assert_no_checkpoints, wait_all_tasks_blocked

from session_core.errors import CursorRefused, ServiceClosed
from session_core.ids import ClientId, Epoch, SessionId
from session_core.stream.event_stream import EventStream, StreamStatistics
from session_core.stream.subscription import Subscription
from session_core.vocabulary.events import SessionEvent
from tests.session_core.stream._events import RUN, A, B, at, delta, numbers, publish, read_all, renamed, stream_of


def test_numbers_have_no_holes() -> None:
    """All events count on together, those of a session by themselves, and app-wide ones have no place there."""
    stream = stream_of()

    published = [stream.publish(session_id, renamed(), recorded_at=0) for session_id in (A, B, None, A, B)]

    assert [(e.seq, e.sseq, e.session_id) for e in published] == [
        (1, 1, A),
        (2, 1, B),
        (3, 0, None),
        (4, 2, A),
        (5, 2, B),
    ]
    assert stream.cursor == at(5)


def test_the_envelope_says_who_and_when() -> None:
    """An envelope holds the time and the client it was given, and the event itself."""
    assert stream_of().publish(A, renamed("n"), by=ClientId("me"), recorded_at=7) == SessionEvent(
        1, 1, A, 7, renamed("n"), ClientId("me")
    )


async def test_publish_has_no_checkpoint() -> None:
    """Publishing never lets another task in, with readers asleep, lagging, or none at all."""
    stream = stream_of(capacity=1, session_capacity=1)
    with assert_no_checkpoints():
        publish(stream, 3)
    lagging = stream.subscribe(A)
    async with trio.open_nursery() as nursery:
        await nursery.start(stream.run)
        for reader in [stream.subscribe(A) for _ in range(10)]:
            nursery.start_soon(read_all, reader)
        await wait_all_tasks_blocked()
        with assert_no_checkpoints():
            publish(stream, 3)
            stream.close_session(A)
            stream.close()
        await wait_all_tasks_blocked()
        assert await read_all(lagging) == ["lagged 2", 6]
        nursery.cancel_scope.cancel()


async def test_reading_has_a_checkpoint() -> None:
    """Each batch, each loss and each end lets other tasks in, so that no reader can hold up the rest."""
    stream = stream_of(session_capacity=1)
    reader = stream.subscribe(A)
    publish(stream, 2)
    with assert_checkpoints(), pytest.raises(Exception, match="missed 1"):
        await reader.receive_batch()
    with assert_checkpoints():
        await reader.receive_batch()
    stream.close()
    with assert_checkpoints(), pytest.raises(trio.EndOfChannel):
        await reader.receive_batch()
    reader.close()
    with assert_checkpoints(), pytest.raises(ServiceClosed):
        await reader.receive_batch()


def test_stamping_publishes_nothing() -> None:
    """An envelope that was stamped but not pushed leaves no trace, and a stale one is refused."""
    stream = stream_of()
    stale = stream.stamp(A, renamed(), recorded_at=0)
    publish(stream, 1)

    with pytest.raises(ValueError, match="event 1 is out of order; the next is 2"):
        stream.push(stale)
    assert stream.cursor == at(1)


async def test_a_quiet_readers_cursor_does_not_expire() -> None:
    """A quiet session's reader among a hundred busy ones can resume after ten ring lengths of foreign events."""
    stream = stream_of(capacity=20, session_capacity=10)
    quiet = stream.subscribe(A)
    publish(stream, 1)
    await quiet.receive_batch()
    for number in range(10 * 20):
        publish(stream, 1, SessionId(f"busy {number % 100}"))

    assert quiet.cursor == stream.cursor
    again = stream.subscribe(A, after=quiet.cursor)
    stale = stream.subscribe(A, after=at(1))
    publish(stream, 1)
    assert numbers(await again.receive_batch()) == numbers(await stale.receive_batch()) == [202]
    with pytest.raises(CursorRefused):
        stream.subscribe(after=at(1))


async def test_the_cursor_after_a_jump_is_now() -> None:
    """A reader that jumped over pending events resumes after the jump, also when more has come since."""
    stream = stream_of()
    reader = stream.subscribe(A)
    publish(stream, 3)
    reader.jump_to_now()
    publish(stream, 2)

    assert reader.cursor == at(3)


async def test_the_cursor_moves_event_by_event() -> None:
    """An iterating reader's cursor stands after the event it got last, not after the batch."""
    stream = stream_of()
    reader = stream.subscribe(A)
    publish(stream, 3)
    cursors = [reader.cursor]
    for _ in range(3):
        await anext(reader)
        cursors.append(reader.cursor)

    assert cursors == [at(0), at(1), at(2), at(3)]


@pytest.mark.parametrize("epoch", [Epoch("other"), Epoch("")])
@pytest.mark.parametrize("seq", [0, 1, 99])
def test_a_cursor_of_another_run_is_refused(epoch: Epoch, seq: int) -> None:
    """Numbers of another run mean nothing here, whatever they are."""
    stream = stream_of()
    publish(stream, 1)

    with pytest.raises(CursorRefused) as refused:
        stream.subscribe(A, after=at(seq, epoch))
    assert refused.value.problem == "foreign_epoch"


def test_each_stream_has_an_epoch_of_its_own() -> None:
    """Two streams made without a name are two runs."""
    assert EventStream().epoch != EventStream().epoch


async def test_a_reader_of_all_sees_every_session_in_order() -> None:
    """A reader of everything gets the events of all sessions and app-wide ones in the one order."""
    stream = stream_of()
    everything, only_b = stream.subscribe(), stream.subscribe(B)
    published = [stream.publish(session_id, renamed(), recorded_at=0) for session_id in (A, None, B, A)]

    assert await everything.receive_batch() == published
    assert await only_b.receive_batch() == [published[2]]


async def test_a_session_can_continue_its_numbers() -> None:
    """A session opened after event 7 goes on with 8, and cursors from before that are refused."""
    stream = stream_of()
    publish(stream, 2, B)
    stream.open_session(A, sseq=7)

    assert stream.publish(A, renamed()).sseq == 8
    assert numbers(await stream.subscribe(A, after=at(2)).receive_batch()) == [3]
    with pytest.raises(CursorRefused):
        stream.subscribe(A, after=at(1))


async def test_a_ring_made_for_a_reader_goes_with_it() -> None:
    """Waiting for a session that never says anything leaves nothing behind."""
    stream = stream_of()
    one, two = stream.subscribe(A), stream.subscribe(A)
    one.close()
    one.close()
    assert stream.statistics().sessions == 1
    two.close()
    assert stream.statistics().sessions == stream.statistics().subscribers == 0


async def test_a_late_reader_of_a_closed_ring_leaves_its_successor_alone() -> None:
    """Closing a reader of a forgotten ring does not forget the ring that came after it."""
    stream = stream_of()
    late = stream.subscribe(A)
    stream.close_session(A)
    publish(stream, 1)
    late.close()

    assert stream.publish(A, renamed()).sseq == 2


async def test_nothing_goes_on_after_the_end() -> None:
    """A closed stream takes no events and no readers, and ends the waiting ones."""
    stream = stream_of()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read_all, stream.subscribe(A))
        nursery.start_soon(read_all, stream.subscribe())
        await wait_all_tasks_blocked()
        stream.close()
    for attempt in (lambda: stream.publish(A, renamed()), lambda: stream.subscribe(A), stream.subscribe):
        with pytest.raises(ServiceClosed):
            attempt()


async def test_a_reader_closed_while_it_waits_is_told() -> None:
    """A task that waits in a subscription somebody closes gets `ServiceClosed`."""
    stream = stream_of()
    reader = stream.subscribe(A)

    async def wait_for_the_end() -> None:
        with pytest.raises(ServiceClosed):
            await reader.receive_batch()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_for_the_end)
        await wait_all_tasks_blocked()
        reader.close()


async def test_two_tasks_cannot_share_a_reader() -> None:
    """A second task that receives from a subscription in use is refused, and the first is not disturbed."""
    stream = stream_of()
    got: list[list[int]] = []

    async def read(reader: Subscription) -> None:
        got.append(numbers(await reader.receive_batch()))

    async with stream.subscribe(A) as reader, trio.open_nursery() as nursery:
        nursery.start_soon(read, reader)
        await wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await reader.receive_batch()
        publish(stream, 1)
    assert got == [[1]]
    assert stream.statistics().subscribers == 0


async def test_a_cancelled_read_has_taken_nothing() -> None:
    """A read that was cancelled, asleep or with events pending, leaves everything for the next one."""
    stream = stream_of()
    reader = stream.subscribe(A)
    with trio.CancelScope() as scope:
        scope.cancel()
        await reader.receive_batch()
    assert stream.statistics().waiting == 0
    publish(stream, 2)
    with trio.CancelScope() as scope:
        scope.cancel()
        await reader.receive_batch()

    assert numbers(await reader.receive_batch()) == [1, 2]


async def test_statistics_count() -> None:
    """The statistics tell what was published, lost, kept, and who reads."""
    stream = stream_of(capacity=10, session_capacity=2)
    reader = stream.subscribe(A)
    publish(stream, 3)
    stream.publish(B, delta("x"))
    with pytest.raises(Exception, match="missed 1"):
        await reader.receive_batch()

    assert stream.statistics() == StreamStatistics(
        epoch=RUN, published=4, lagged=1, subscribers=1, waiting=0, sessions=2, held_events=8
    )
