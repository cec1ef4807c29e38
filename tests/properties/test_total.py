"""`apply` is total, and a session leaves rest only as the table of activities says."""

from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st

from session_core.ids import CallId, Cursor, Epoch, MessageId, QueueItemId, RequestId, SessionId, TurnId, WakeupId
from session_core.session.activity import AFTER_TURN, RULES
from session_core.session.recorder import EventRecorder
from session_core.session.session import Session
from session_core.session.session_list import SessionListState
from session_core.session.state import SessionState, fold
from session_core.storage.memory import MemoryStore
from session_core.stream.event_stream import EventStream
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import Event, SessionEvent
from session_core.vocabulary.sessions import AT_REST
from session_core.vocabulary.snapshots import ServiceSnapshot, SessionSnapshot
from tests.strategies import values_of

A, B = SessionId("a"), SessionId("b")
START = Cursor(epoch=Epoch("run"), seq=0)

any_event: st.SearchStrategy[Event] = values_of(Event)
a_few_ids = st.sampled_from(["1", "2"])


@st.composite
def fitting_events(draw: st.DrawFn) -> Event:
    """Any event, with its ids out of a few, so that events speak of the same things again and again."""
    event: Event = _with_few_ids(draw(any_event), draw)
    return event


def _with_few_ids(event: Any, draw: st.DrawFn) -> Any:
    changes: dict[str, object] = {}
    for field in attrs.fields(type(event)):
        if field.type in (MessageId, TurnId, CallId, QueueItemId, RequestId, WakeupId):
            changes[field.name] = draw(a_few_ids)
        elif field.name in ("message", "item", "approval", "dialog", "wakeup", "outcome", "result", "answer"):
            inner = getattr(event, field.name)
            if attrs.has(type(inner)):
                changes[field.name] = _with_few_ids(inner, draw)
    return attrs.evolve(event, **changes)


envelopes = st.lists(st.tuples(fitting_events() | any_event, st.sampled_from([A, B, None])), max_size=25)


def numbered(events: list[tuple[Event, SessionId | None]]) -> list[SessionEvent]:
    return [SessionEvent(seq, seq, session_id, seq, event) for seq, (event, session_id) in enumerate(events, start=1)]


@given(events=envelopes, cut=st.integers(0, 25))
def test_any_events_can_be_folded(events: list[tuple[Event, SessionId | None]], cut: int) -> None:
    """Any events in any order fold without an error, and folding in two parts gives the same as in one."""
    run = numbered(events)
    session, session_list = SessionState(session_id=A).snapshot(START), SessionListState().snapshot(START)

    assert isinstance(fold(session, run), SessionSnapshot)
    assert isinstance(fold(session_list, run), ServiceSnapshot)
    assert fold(fold(session, run[:cut]), run[cut:]) == fold(session, run)
    assert fold(fold(session_list, run[:cut]), run[cut:]) == fold(session_list, run)


@given(events=envelopes)
def test_a_snapshot_is_not_touched_by_what_follows(events: list[tuple[Event, SessionId | None]]) -> None:
    """Going on from a snapshot leaves the snapshot, and any other that goes on from it, as it was."""
    run = numbered(events)
    half = len(run) // 2
    snapshot = fold(SessionState(session_id=A).snapshot(START), run[:half])
    copy = fold(SessionState(session_id=A).snapshot(START), run[:half])

    one, other = fold(snapshot, run[half:]), fold(snapshot, run[half:])

    assert (snapshot, one) == (copy, other)


@given(events=st.lists(fitting_events(), max_size=25))
def test_rest_is_left_only_through_the_table(events: list[Event]) -> None:
    """Recording any event moves the activity only where the table points, and each change is an event itself."""
    stream = EventStream()
    session = Session(SessionState(session_id=A), EventRecorder(stream, MemoryStore(), lambda: 0))
    for event in events:
        if isinstance(event, ev.ActivityChanged):
            continue  # written by the session itself, never by anybody else
        before = session.state.activity
        seq = stream.seq
        session.record(event)
        after = session.state.activity
        assert stream.seq == seq + 1 + (after is not before)
        if after is not before:
            assert after.name in allowed(event, before.name)
            assert after.is_at_rest or not before.is_at_rest or isinstance(event, ev.TurnStarted | ev.CompactionStarted)


def allowed(event: Event, before: str) -> set[str]:
    match event:
        case ev.TurnEnded(outcome=outcome):
            return {AFTER_TURN[outcome.status]}
        case ev.CompactionFinished():
            return {*AFTER_TURN.values()} if before in AT_REST else {*AFTER_TURN.values(), "starting"}
        case _:
            return {target for name, target in RULES.get(type(event), {}).items() if name == before}


def test_only_two_events_wake_a_session() -> None:
    """In the table of activities nothing but the start of a turn or of a compaction leads out of rest."""
    wakes = {event for event, rule in RULES.items() for name in AT_REST if rule.get(name, "idle") not in AT_REST}

    assert wakes == {ev.TurnStarted, ev.CompactionStarted}
    assert set(AFTER_TURN.values()) <= set(AT_REST)
