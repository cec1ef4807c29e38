"""What waits to be written: control loses nothing, events are shed and counted, and neither starves the other."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core import limits
from session_core.errors import InvalidInput
from session_core.rpc.outbox import Outbox, OutboxOverflow, OutboxStatistics


def control(number: int) -> bytes:
    """A control frame that shows its number."""
    return b'{"method":"control","params":{"seq":%d}}\n' % number


def written(data: bytes) -> list[tuple[str, Any]]:
    """What was written: the name of each frame, with its seq or with the number of lost events."""
    found: list[tuple[str, Any]] = []
    for line in data.splitlines():
        message = json.loads(line)
        params = message["params"]
        if params.get("event") == "events_lost":
            assert "seq" not in params
            found.append(("events_lost", params["payload"]["lost"]))
        else:
            found.append((message["method"], params["seq"]))
    return found


def drained(outbox: Outbox) -> bytes:
    """All that is in it, written without a hitch."""
    data = b""
    while not outbox.empty:
        chunk = bytes(outbox.next_round(many_events=True))
        outbox.confirm_sent(len(chunk))
        data += chunk
    return data


def test_the_oldest_events_are_shed() -> None:
    """Of 1027 events 1024 survive: a marker says that 3 were lost, and the first survivor has seq 3."""
    outbox = Outbox()
    for number in range(1_027):
        assert number == outbox.push_event("e", {"n": number}, {"token": number})

    assert OutboxStatistics(control=0, control_bytes=0, events=1_024, pushed=1_027, shed=3) == outbox.statistics()
    data = drained(outbox)

    assert [("events_lost", 3), *(("event", number) for number in range(3, 1_027))] == written(data)
    assert {
        "jsonrpc": "2.0",
        "method": "event",
        "params": {"event": "events_lost", "context": {"token": 1_026}, "payload": {"lost": 3}},
    } == json.loads(data.splitlines()[0])
    assert 1_027 == outbox.push_event("e", None, None)
    assert [("event", 1_027)] == written(drained(outbox))


def test_large_events_are_shed_by_size() -> None:
    """The lane of events is bounded in bytes too, and the newest always stays."""
    outbox = Outbox()
    text = "x" * (limits.MAX_RPC_EVENT_BYTES // 4)
    for _ in range(5):
        outbox.push_event("e", {"text": text}, None)

    assert (3, 2) == (outbox.statistics().events, outbox.statistics().shed)


def test_a_bad_event_takes_no_number() -> None:
    """An event that cannot be written is refused, and the numbers go on without a hole."""
    outbox = Outbox()
    with pytest.raises(InvalidInput):
        outbox.push_event("e", {"x": object()}, None)

    assert 0 == outbox.push_event("e", None, None)


def test_control_overtakes_events() -> None:
    """Control that comes while many events wait goes out in the next round, with a single event behind it."""
    outbox = Outbox()
    for _ in range(10):
        outbox.push_event("e", None, None)
    clear_before = outbox.clear
    outbox.add(control(0))
    outbox.add(control(1))
    assert (True, False) == (clear_before, outbox.clear)

    first = bytes(outbox.next_round(many_events=True))
    outbox.confirm_sent(len(first))

    assert [("control", 0), ("control", 1), ("event", 0)] == written(first)
    assert [("event", number) for number in range(1, 10)] == written(drained(outbox))


def test_one_event_at_a_time_where_a_write_cannot_be_taken_back() -> None:
    """Where a write ends only when all is written, each event is a round of its own."""
    outbox = Outbox()
    for _ in range(3):
        outbox.push_event("e", None, None)

    assert [("event", 0)] == written(bytes(outbox.next_round(many_events=False)))


def test_what_cannot_wait_has_a_bound() -> None:
    """Control is crowded long before it overflows, and overflows by count and by size."""
    by_count, by_size = Outbox(), Outbox()
    for number in range(limits.MAX_RPC_FRAMES):
        assert by_count.crowded == (number >= limits.RPC_WAIT_FRAMES)
        by_count.add(b"x\n")
    with pytest.raises(OutboxOverflow):
        by_count.add(b"x\n")
    large = b"x" * limits.RPC_WAIT_BYTES
    for number in range(limits.MAX_RPC_BYTES // limits.RPC_WAIT_BYTES):
        assert by_size.crowded == (number >= 1)
        by_size.add(large)
    with pytest.raises(OutboxOverflow):
        by_size.add(b"x")


def test_a_snapshot_has_room_and_so_has_what_follows() -> None:
    """A frame that is longer than all that may wait is accepted, and replies behind it, but not any number of such."""
    outbox, snapshot = Outbox(), bytes(limits.MAX_SNAPSHOT_LINE)
    outbox.add(b"x" * limits.RPC_WAIT_BYTES)
    outbox.add(snapshot)
    outbox.add(b"x")
    outbox.add(snapshot)
    with pytest.raises(OutboxOverflow):
        outbox.add(snapshot)

    outbox.add(b"x")
    while not outbox.empty:
        outbox.confirm_sent(len(outbox.next_round(many_events=False)))
    outbox.add(snapshot)


@given(
    steps=st.lists(
        st.tuples(st.just("control"), st.integers(1, 4))
        | st.tuples(st.just("event"), st.integers(1, 700))
        | st.tuples(st.just("write"), st.integers(0, 9_000)),
        max_size=30,
    ),
    many_events=st.booleans(),
)
def test_nothing_is_torn_or_unaccounted_for(steps: list[tuple[str, int]], many_events: bool) -> None:  # noqa: FBT001
    """However writes end short, frames come out whole, control in order, and written + lost events = pushed."""
    outbox, data, controls, pushed = Outbox(), bytearray(), 0, 0
    for what, amount in steps:
        if what == "control":
            for _ in range(amount):
                outbox.add(control(controls))
                controls += 1
        elif what == "event":
            for _ in range(amount):
                assert pushed == outbox.push_event("e", None, None)
                pushed += 1
        elif not outbox.empty:
            chunk = bytes(outbox.next_round(many_events=many_events))[:amount]
            outbox.confirm_sent(len(chunk))
            data += chunk
    data += drained(outbox)
    found = written(bytes(data))

    assert [("control", number) for number in range(controls)] == [each for each in found if each[0] == "control"]
    events = [each for each in found if each[0] != "control"]
    place = 0
    for name, number in events:
        if name == "events_lost":
            assert number > 0
            place += number
        else:
            assert place == number
            place += 1
    assert pushed == place
    assert outbox.statistics() == OutboxStatistics(
        control=0, control_bytes=0, events=0, pushed=pushed, shed=sum(n for name, n in events if name == "events_lost")
    )
