"""Small events and readers for tests of the stream."""

from collections.abc import Iterable

import trio

from session_core.errors import Lagged
from session_core.ids import Cursor, Epoch, MessageId, SessionId
from session_core.session.state import SessionState
from session_core.stream.event_stream import EventStream
from session_core.stream.subscription import Subscription
from session_core.vocabulary.events import PartDelta, SessionEvent, SessionRenamed
from session_core.vocabulary.snapshots import SessionSnapshot

A = SessionId("a")
B = SessionId("b")
RUN = Epoch("run")


def renamed(name: str = "x") -> SessionRenamed:
    return SessionRenamed(name=name)


def delta(text: str, message: str = "m") -> PartDelta:
    return PartDelta(message_id=MessageId(message), text=text)


def publish(stream: EventStream, count: int, session_id: SessionId | None = A) -> list[SessionEvent]:
    return [stream.publish(session_id, renamed(), recorded_at=0) for _ in range(count)]


def stream_of(capacity: int = 100, session_capacity: int = 100) -> EventStream:
    return EventStream(capacity=capacity, session_capacity=session_capacity, epoch=RUN)


def at(seq: int, epoch: Epoch = RUN) -> Cursor:
    return Cursor(epoch=epoch, seq=seq)


def snapshot_at(seq: int, sseq: int, session_id: SessionId = A, epoch: Epoch = RUN) -> SessionSnapshot:
    return SessionState(session_id=session_id, sseq=sseq).snapshot(at(seq, epoch))


def numbers(events: Iterable[SessionEvent]) -> list[int]:
    return [event.seq for event in events]


async def read_all(reader: Subscription) -> list[int | str]:
    """What a reader gets until the end: the numbers of events, and `lagged n` where it is told of a loss."""
    seen: list[int | str] = []
    while True:
        try:
            seen.extend(numbers(await reader.receive_batch()))
        except Lagged as lag:
            seen.append(f"lagged {lag.missed}")
        except trio.EndOfChannel:
            return seen
