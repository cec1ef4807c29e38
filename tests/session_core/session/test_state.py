"""Folding events over snapshots where they overlap."""

import pytest

from session_core.errors import ProtocolError
from session_core.ids import MessageId, SessionId, TurnId
from session_core.session.recorder import EventRecorder
from session_core.session.session import Session
from session_core.session.state import SessionState, fold
from session_core.storage.memory import MemoryStore
from session_core.stream.coalesce import coalesce
from session_core.stream.event_stream import EventStream
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.sessions import Settings
from session_core.vocabulary.snapshots import SessionSnapshot

MESSAGE, TURN = MessageId("msg_1"), TurnId("turn_1")


def streaming(name: str, recorder: EventRecorder) -> Session:
    """A session whose model is about to say something."""
    session = Session(SessionState(session_id=SessionId(name)), recorder)
    session.record(ev.SessionCreated(name=name, settings=Settings(model="m", cwd="/")))
    session.record(ev.TurnStarted(turn_id=TURN))
    session.record(ev.MessageStarted(message_id=MESSAGE, parent_id=None, turn_id=TURN, model="m"))
    session.record(ev.PartStarted(message_id=MESSAGE, kind="text"))
    return session


def say(session: Session, words: str) -> tuple[list[SessionEvent], list[SessionSnapshot]]:
    """Say letter by letter; returns the events, and the snapshots before the first and after each."""
    events, snapshots = [], [session.snapshot()]
    for letter in words:
        events.append(session.record(ev.PartDelta(message_id=MESSAGE, text=letter)))
        snapshots.append(session.snapshot())
    return events, snapshots


@pytest.mark.parametrize("place", range(5))
def test_a_merged_event_around_a_snapshot(place: int) -> None:
    """A merged event is folded when all of it is new, ignored when all of it is old, and refused in between."""
    events, snapshots = say(streaming("a", EventRecorder(EventStream(), MemoryStore(), lambda: 1)), "abcd")
    (merged,) = coalesce(events)
    assert 4 == merged.merged
    if place in (0, 4):
        assert snapshots[4] == fold(snapshots[place], [merged])
    else:
        with pytest.raises(ProtocolError) as caught:
            fold(snapshots[place], [merged])
        assert "$.merged" == caught.value.field
    assert snapshots[4] == fold(snapshots[place], events)


def test_merged_events_of_other_sessions_are_ignored() -> None:
    """A merged event of another session does not concern a snapshot, wherever it lies."""
    recorder = EventRecorder(EventStream(), MemoryStore(), lambda: 1)
    other = streaming("other", recorder)
    mine = streaming("mine", recorder)
    _, before = say(mine, "xyz")
    foreign, _ = say(other, "abcd")
    (merged,) = coalesce(foreign)
    assert before[-1] == fold(before[-1], [merged])
