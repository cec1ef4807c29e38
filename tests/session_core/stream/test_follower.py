"""The follower: exactly one resync with its reason, then replace; nothing twice, nothing left out."""

from itertools import combinations_with_replacement, product

import attrs
import pytest

from session_core.errors import CursorProblem, CursorRefused, ProtocolError
from session_core.ids import Epoch
from session_core.stream import follower as follower_module
from session_core.stream.coalesce import coalesce
from session_core.stream.follower import FeedItem, Follower, Resync
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.snapshots import Bookmark, ServiceSnapshot, SessionSnapshot
from tests.session_core.stream._events import RUN, A, B, at, delta, publish, renamed, snapshot_at, stream_of

OLD_RUN = Epoch("old run")
EVENTS = 6
RING = 3


def event(number: int, *, seq: int | None = None) -> SessionEvent:
    return SessionEvent(number if seq is None else seq, number, A, 0, renamed(str(number)))


def session_list_at(seq: int, epoch: Epoch = RUN) -> ServiceSnapshot:
    return ServiceSnapshot(cursor=at(seq, epoch), sessions=())


def assert_seamless(items: list[FeedItem], *, place: int | None = None) -> int | None:
    """Prove that nothing is repeated or left out after each snapshot; returns the place reached."""
    for item in items:
        if isinstance(item, SessionSnapshot):
            place = item.sseq
        else:
            assert isinstance(item, SessionEvent)
            assert place is None or item.sseq - item.merged == place, "an event twice, or a hole"
            place = item.sseq
    return place


# --- the exhaustive small model ---------------------------------------------------------------------------------------


def expected_problem(seq: int, epoch: Epoch) -> CursorProblem | None:
    if epoch != RUN:
        return "foreign_epoch"
    if seq > EVENTS:
        return "future"
    return "expired" if seq < EVENTS - RING else None


@pytest.mark.parametrize("whole_service", [False, True])
@pytest.mark.parametrize("seq", range(-2, 9))
@pytest.mark.parametrize("epoch", [RUN, OLD_RUN])
async def test_every_cursor_of_a_small_stream(seq: int, epoch: Epoch, *, whole_service: bool) -> None:
    """With room for 3 of 6 events, each cursor of this run and another resumes, or costs one resync for its reason."""
    stream = stream_of(capacity=RING, session_capacity=RING)
    published = publish(stream, EVENTS)
    session_id = None if whole_service else A
    follower = Follower(session_id, after=at(seq, epoch))
    got: list[FeedItem] = []
    snapshot = session_list_at(EVENTS) if whole_service else snapshot_at(EVENTS, EVENTS)

    try:
        reader = stream.subscribe(session_id, after=at(seq, epoch))
    except CursorRefused as refused:
        follower.on_refused(refused.problem)
        reader = stream.subscribe(session_id)
        got += follower.on_snapshot(snapshot)
    else:
        got += follower.on_events(await reader.receive_batch(), RUN) if seq < EVENTS else []
    later = publish(stream, 2)
    got += follower.on_events(await reader.receive_batch(), RUN)

    problem = expected_problem(seq, epoch)
    if problem is None:
        assert got == [*published[seq:], *later]
        assert (follower.resyncs, follower.last_resync) == (0, None)
    else:
        assert got == [snapshot, *later]
        assert (follower.resyncs, follower.last_resync) == (1, Resync(reason=problem))
    assert (follower.needed_resync, follower.cursor) == (None, at(EVENTS + 2))


@pytest.mark.parametrize("start", range(EVENTS + 1))
@pytest.mark.parametrize("delivered", list(product([True, False], repeat=EVENTS)))
def test_every_way_to_lose_events(start: int, delivered: tuple[bool, ...]) -> None:
    """Whichever of 6 events get lost, the follower passes on a seamless run, asks once, and ends complete."""
    arriving = [event(number) for number in range(1, EVENTS + 1) if delivered[number - 1]]
    follower = Follower(A)
    got = follower.on_snapshot(snapshot_at(start, start))
    for each in arriving:
        got += follower.on_events([each], RUN)
    later = [each.seq for each in arriving if each.seq > start]
    seamless = later == list(range(start + 1, start + 1 + len(later)))

    assert (follower.needed_resync is None) == seamless
    if not seamless:
        assert follower.needed_resync is not None
        hole = next(number for number in range(start + 1, EVENTS + 1) if number not in later)
        assert follower.needed_resync == Resync(reason="gap", missed=min(n for n in later if n > hole) - hole)
        got += follower.on_snapshot(snapshot_at(EVENTS, EVENTS))
    got += follower.on_events([event(number) for number in range(max([start, *later]) + 1, EVENTS + 2)], RUN)

    assert assert_seamless(got) == EVENTS + 1
    assert follower.resyncs == (1 if seamless else 2)


@pytest.mark.parametrize("place", range(EVENTS + 1))
@pytest.mark.parametrize(("first", "last"), list(combinations_with_replacement(range(1, EVENTS + 1), 2)))
def test_every_batch_around_a_snapshot(place: int, first: int, last: int) -> None:
    """Events held while a snapshot was due are passed on from the snapshot's place on, and never twice."""
    follower = Follower(A)
    held = [event(number) for number in range(first, last + 1)]

    assert follower.on_events(held, RUN) == []
    got = follower.on_snapshot(snapshot_at(place, place))

    if first > place + 1:
        assert got == [snapshot_at(place, place)]
        assert follower.needed_resync == Resync(reason="gap", missed=first - place - 1)
    else:
        assert got == [snapshot_at(place, place), *(each for each in held if each.seq > place)]
        assert (follower.needed_resync, follower.cursor) == (None, at(max(place, last)))


# --- problems ---------------------------------------------------------------------------------------------------------


def test_the_first_snapshot_has_its_reason() -> None:
    """A follower without a place needs its first snapshot, and gives nothing before it."""
    follower = Follower(A)

    assert (follower.needed_resync, follower.cursor) == (Resync(reason="initial"), None)
    assert follower.on_snapshot(snapshot_at(5, 2)) == [snapshot_at(5, 2)]
    assert (follower.needed_resync, follower.last_resync, follower.cursor) == (None, Resync(reason="initial"), at(5))


def test_however_many_problems_one_resync() -> None:
    """Problems that follow before the snapshot comes change neither the reason nor the count."""
    follower = Follower(A)
    follower.on_snapshot(snapshot_at(1, 1))
    follower.on_lagged(4)
    follower.on_lagged(2)
    follower.on_refused("expired")
    follower.on_events([event(99)], OLD_RUN)

    assert (follower.needed_resync, follower.cursor) == (Resync(reason="lagged", missed=4), None)
    assert follower.on_snapshot(snapshot_at(8, 8)) == [snapshot_at(8, 8)]
    assert (follower.needed_resync, follower.resyncs) == (None, 2)


def test_events_of_an_old_run_are_noticed() -> None:
    """An event of another run means one resync, and the old event is not passed on, before or after it."""
    follower = Follower(A)
    follower.on_snapshot(snapshot_at(3, 3))

    assert follower.on_events([event(4)], OLD_RUN) == []
    assert follower.needed_resync == Resync(reason="foreign_epoch")
    assert follower.on_events([event(4), event(5)], RUN) == []
    assert follower.on_snapshot(snapshot_at(3, 3)) == [snapshot_at(3, 3), event(4), event(5)]


@pytest.mark.parametrize("injected", range(6))
def test_old_events_injected_anywhere_do_no_harm(injected: int) -> None:
    """Wherever an event of an old run slips in, everything of this run arrives once and in order."""
    follower = Follower(A)
    got = follower.on_snapshot(snapshot_at(0, 0))
    for number in range(1, 7):
        if number == injected + 1:
            got += follower.on_events([event(number)], OLD_RUN)
            assert follower.needed_resync == Resync(reason="foreign_epoch")
            got += follower.on_snapshot(snapshot_at(injected, injected))
        got += follower.on_events([event(number)], RUN)

    assert [item.sseq for item in got if isinstance(item, SessionEvent)] == [1, 2, 3, 4, 5, 6]
    assert assert_seamless(got) == 6


def test_a_new_run_is_followed_from_its_snapshot() -> None:
    """After a restart the snapshot of the new run replaces everything, though its numbers are smaller."""
    follower = Follower(A)
    follower.on_snapshot(snapshot_at(900, 90, epoch=OLD_RUN))

    follower.on_events([event(2)], RUN)
    got = follower.on_snapshot(snapshot_at(1, 1))

    assert (got, follower.cursor) == ([snapshot_at(1, 1), event(2)], at(2))


def test_a_merged_event_that_follows_on_passes() -> None:
    """A merged event whose first part is the next event passes whole."""
    follower = Follower(A)
    follower.on_snapshot(snapshot_at(2, 2))
    merged = attrs.evolve(event(5), merged=3)

    assert follower.on_events([merged], RUN) == [merged]


def test_a_merged_event_that_straddles_the_place_is_a_gap() -> None:
    """A merged event that is half in the snapshot cannot be taken apart, so it costs a resync instead of a double."""
    follower = Follower(A)
    follower.on_snapshot(snapshot_at(3, 3))
    (merged,) = coalesce([SessionEvent(n, n, A, 0, delta(str(n))) for n in (2, 3, 4, 5)])

    assert follower.on_events([merged], RUN) == []
    assert follower.needed_resync == Resync(reason="gap")
    assert follower.on_snapshot(snapshot_at(5, 5)) == [snapshot_at(5, 5)]
    assert follower.needed_resync is None


def test_a_merged_event_within_the_snapshot_is_dropped() -> None:
    """A merged event that ends at or before the place is old news."""
    follower = Follower(A)
    follower.on_snapshot(snapshot_at(5, 5))

    assert follower.on_events([attrs.evolve(event(5), merged=3)], RUN) == []
    assert follower.needed_resync is None


def test_too_many_held_events_cost_one_more_resync(monkeypatch: pytest.MonkeyPatch) -> None:
    """What did not fit while waiting shows as a gap later, and the second snapshot sets everything right."""
    monkeypatch.setattr(follower_module, "MAX_HELD", 2)
    follower = Follower(A)
    follower.on_events([event(1), event(2), event(3)], RUN)
    got = follower.on_snapshot(snapshot_at(0, 0))
    assert got == [snapshot_at(0, 0), event(1), event(2)]

    assert follower.on_events([event(4)], RUN) == []
    assert follower.needed_resync == Resync(reason="gap", missed=1)
    got += follower.on_snapshot(snapshot_at(3, 3))
    assert (got[-2:], follower.resyncs) == ([snapshot_at(3, 3), event(4)], 2)


# --- bookmarks and strangers ------------------------------------------------------------------------------------------


def test_a_bookmark_moves_the_place() -> None:
    """A bookmark moves the cursor on, never back, and the next event still follows on."""
    follower = Follower(A)
    follower.on_snapshot(snapshot_at(3, 1))
    follower.on_bookmark(Bookmark(cursor=at(50)))
    follower.on_bookmark(Bookmark(cursor=at(40)))

    assert follower.cursor == at(50)
    assert follower.on_events([event(2, seq=51)], RUN) == [event(2, seq=51)]


def test_a_bookmark_of_another_run_is_ignored() -> None:
    """A bookmark means nothing across runs, nor while a snapshot is due."""
    follower = Follower(A)
    follower.on_bookmark(Bookmark(cursor=at(50)))
    assert follower.cursor is None
    follower.on_snapshot(snapshot_at(3, 1))
    follower.on_bookmark(Bookmark(cursor=at(50, OLD_RUN)))

    assert follower.cursor == at(3)


def test_an_event_of_another_session_is_an_error() -> None:
    """A session's follower refuses the event of another session loudly, whatever it is waiting for."""
    for follower in (Follower(A), Follower(A, after=at(0))):
        with pytest.raises(ProtocolError, match="an event of session b in the feed of a"):
            follower.on_events([attrs.evolve(event(1), session_id=B)], RUN)


@pytest.mark.parametrize(
    ("session_id", "snapshot"), [(A, snapshot_at(1, 1, B)), (A, session_list_at(1)), (None, snapshot_at(1, 1))]
)
def test_a_snapshot_of_something_else_is_an_error(
    session_id: None, snapshot: SessionSnapshot | ServiceSnapshot
) -> None:
    """A snapshot of another session, or of the wrong kind, is refused and changes nothing."""
    follower = Follower(session_id)

    with pytest.raises(ProtocolError):
        follower.on_snapshot(snapshot)
    assert (follower.needed_resync, follower.resyncs) == (Resync(reason="initial"), 0)


def test_the_whole_service_is_followed_by_the_global_number() -> None:
    """A follower of everything finds gaps by the numbers that all sessions share."""
    follower = Follower(None)
    follower.on_snapshot(session_list_at(4))
    mine, other = event(9, seq=5), attrs.evolve(event(1, seq=6), session_id=B)
    app_wide = SessionEvent(7, 0, None, 0, renamed())

    assert follower.on_events([mine, other, app_wide], RUN) == [mine, other, app_wide]
    assert follower.on_events([event(10, seq=9)], RUN) == []
    assert follower.needed_resync == Resync(reason="gap", missed=1)
