"""Events and sessions for measurements, as a model that streams its answer produces them."""

from session_core.ids import MessageId, SessionId, TurnId, new_session_id, now_ms
from session_core.session.recorder import EventRecorder
from session_core.session.session import Session
from session_core.session.state import SessionState
from session_core.storage.memory import MemoryStore
from session_core.stream.event_stream import EventStream
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import Message, TextPart
from session_core.vocabulary.sessions import Settings

ANSWER = MessageId("msg_being_streamed")
TURN = TurnId("turn_being_measured")
DELTA = ev.PartDelta(message_id=ANSWER, text="token")
"""The most frequent event: a word of an answer."""


def new_recorder(stream: EventStream | None = None) -> EventRecorder:
    """Make a recorder that keeps its events in memory."""
    return EventRecorder(stream or EventStream(), MemoryStore(), now_ms)


def new_session(recorder: EventRecorder, session_id: SessionId | None = None) -> Session:
    """Make a session at rest."""
    session = Session(SessionState(session_id=session_id or new_session_id()), recorder)
    session.record(ev.SessionCreated(name="measured", settings=Settings(model="m", cwd="/")))
    return session


def streaming_session(recorder: EventRecorder, session_id: SessionId | None = None) -> Session:
    """Make a session in the middle of an answer, ready for `DELTA`."""
    session = new_session(recorder, session_id)
    session.record(ev.TurnStarted(turn_id=TURN))
    session.record(ev.MessageStarted(message_id=ANSWER, parent_id=None, turn_id=TURN, model="m"))
    session.record(ev.PartStarted(message_id=ANSWER, kind="text"))
    return session


def session_with_messages(count: int) -> Session:
    """Make a session at rest with a long conversation."""
    session = new_session(new_recorder())
    parent: MessageId | None = None
    for number in range(count):
        message = Message(
            message_id=MessageId(f"msg_{number}"),
            parent_id=parent,
            role="assistant" if number % 2 else "user",
            parts=(TextPart(text="something was said"),),
            created_at=number,
        )
        session.record(ev.MessageAdded(message=message))
        parent = message.message_id
    return session


def session_with_deltas(count: int) -> Session:
    """Make a session with an unfinished answer of many pieces."""
    session = streaming_session(new_recorder())
    for _ in range(count):
        session.record(DELTA)
    return session
