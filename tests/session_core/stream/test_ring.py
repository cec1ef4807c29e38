"""The ring: a bounded run of events whose indexes never change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.stream.ring import Ring
from session_core.vocabulary.events import SessionEvent
from tests.session_core.stream._events import A, numbers, renamed


def filled(capacity: int, count: int, *, step: int = 1) -> Ring:
    """A ring that got `count` events with the global numbers step, 2 * step, ..."""
    ring = Ring(capacity, session_id=A)
    for number in range(1, count + 1):
        ring.append(SessionEvent(number * step, number, A, 0, renamed()))
    return ring


def test_an_empty_ring_holds_nothing() -> None:
    """In a new ring the oldest index is the next to come, and any place is up to date."""
    ring = Ring(3)

    assert (ring.oldest, ring.head, ring.events_from(0), ring.find_index_after(0), ring.find_index_after(9)) == (
        0,
        0,
        [],
        0,
        0,
    )


@pytest.mark.parametrize(
    ("capacity", "count", "oldest"),
    [(1, 1, 0), (1, 2, 1), (3, 2, 0), (3, 3, 0), (3, 4, 1), (3, 5, 2), (3, 6, 3), (3, 7, 4), (3, 600, 597)],
)
def test_only_the_newest_are_there(capacity: int, count: int, oldest: int) -> None:
    """Readers see the last `capacity` events, whatever the list happens to hold."""
    ring = filled(capacity, count)

    assert (ring.oldest, ring.head) == (oldest, count)
    assert numbers(ring.events_from(oldest)) == list(range(oldest + 1, count + 1))
    assert len(ring.items) < 2 * capacity or capacity == len(ring.items) == 1


@given(capacity=st.integers(1, 5), count=st.integers(0, 20), step=st.integers(1, 3), seq=st.integers(0, 70))
def test_a_place_is_found_exactly_while_all_after_it_is_held(capacity: int, count: int, step: int, seq: int) -> None:
    """A place is found if and only if every later event is still there, and then none is skipped or repeated."""
    ring = filled(capacity, count, step=step)
    later = [number * step for number in range(1, count + 1) if number * step > seq]

    index = ring.find_index_after(seq)

    if len(later) <= min(capacity, count):
        assert index is not None
        assert numbers(ring.events_from(index)) == later
    else:
        assert index is None


def test_a_ring_can_begin_later() -> None:
    """A ring that begins after an event refuses places before it."""
    ring = Ring(3, session_id=A)
    ring.trimmed_seq = 20
    ring.append(SessionEvent(25, 8, A, 0, renamed()))

    assert (ring.head, ring.find_index_after(19), ring.find_index_after(20), ring.find_index_after(25)) == (
        1,
        None,
        0,
        1,
    )
