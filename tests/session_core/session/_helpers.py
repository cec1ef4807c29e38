"""A session without a service: its recorder in memory, its clock in the test's hand."""

from session_core.ids import CallId, MessageId, TurnId, new_session_id
from session_core.session.recorder import EventRecorder
from session_core.session.session import Session, Work
from session_core.session.state import SessionState
from session_core.session.turn_handle import TurnHandle
from session_core.storage.memory import MemoryStore
from session_core.stream.event_stream import EventStream
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import Event
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message, TextPart, ToolCallPart
from session_core.vocabulary.sessions import PermissionMode, Settings

TURN = TurnId("turn_1")


def new_session(mode: PermissionMode = "ask_writes") -> tuple[Session, list[Event]]:
    """Make a session, and the list to which everything it records is added."""
    seen: list[Event] = []

    class Store(MemoryStore):
        def append(self, event: ev.SessionEvent) -> None:
            super().append(event)
            seen.append(event.event)

    session = Session(SessionState(session_id=new_session_id()), EventRecorder(EventStream(), Store(), lambda: 1_000))
    session.record(ev.SessionCreated(name="s", settings=Settings(model="m", cwd="/", permission_mode=mode)))
    seen.clear()
    return session, seen


def started(mode: PermissionMode = "ask_writes") -> tuple[Session, TurnHandle, list[Event]]:
    """Make a session with a turn that has just begun, and the turn's handle."""
    session, seen = new_session(mode)
    session.work = Work(kind="turn", turn_id=TURN)
    session.record(ev.TurnStarted(turn_id=TURN))
    handle = TurnHandle(session, session.work, approval_timeout_ms=1_000)
    seen.clear()
    return session, handle, seen


def call(name: str, number: int = 1) -> ToolCallPart:
    """Make a tool call."""
    return ToolCallPart(call_id=CallId(f"call_{number}"), name=name, arguments=JsonObject({"number": number}))


def answer(*calls: ToolCallPart, text: str = "") -> Message:
    """Make an answer that calls tools."""
    words = (TextPart(text=text),) if text else ()
    return Message(
        message_id=MessageId("msg_answer"),
        parent_id=None,
        role="assistant",
        parts=(*words, *calls),
        created_at=0,
        turn_id=TURN,
    )


def quiet(events: list[Event]) -> list[Event]:
    """Leave out the changes of activity."""
    return [event for event in events if not isinstance(event, ev.ActivityChanged)]
