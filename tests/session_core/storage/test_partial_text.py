"""Text of unfinished answers is held back a moment, merged, and let go when it is no longer needed."""

import math

from trio.testing import MockClock

from session_core import limits
from session_core.ids import CallId, MessageId, SessionId
from session_core.storage.partial_text import PartialText, ended_message_id, unfinished_message_id
from session_core.storage.writer import UnfinishedText
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.messages import Message
from session_core.wire.codec import encode

A, B = SessionId("ses_a"), SessionId("ses_b")
ONE, TWO = MessageId("msg_1"), MessageId("msg_2")
MOMENT = limits.PARTIAL_TEXT_EVERY_MS / 1000


def delta(sseq: int, text: str, session_id: SessionId = A, message_id: MessageId = ONE) -> SessionEvent:
    return SessionEvent(sseq, sseq, session_id, 0, ev.PartDelta(message_id=message_id, text=text))


def merged(event: SessionEvent, count: int) -> SessionEvent:
    return SessionEvent(event.seq, event.sseq, event.session_id, event.at, event.event, event.by, count)


def kept(event: SessionEvent, about: MessageId = ONE) -> UnfinishedText:
    assert event.session_id is not None
    return UnfinishedText(event.session_id, about, encode(event))


async def test_text_is_due_after_a_moment(mock_clock: MockClock) -> None:
    """The first text sets the alarm, later text does not move it, and taking it before then gives nothing."""
    partial = PartialText()
    assert math.inf == partial.due_at
    assert partial.add(delta(1, "a"))
    mock_clock.jump(MOMENT * 0.9)
    assert not partial.add(delta(2, "b"))
    assert [] == partial.take_due()
    mock_clock.jump(MOMENT * 0.1)
    assert [kept(merged(delta(2, "ab"), 2))] == partial.take_due()
    assert math.inf == partial.due_at
    assert [] == partial.take_due()
    assert partial.add(delta(3, "c")), "the next text sets the alarm again"


async def test_each_answer_is_kept_apart(mock_clock: MockClock) -> None:
    """Text of different sessions, answers and parts is not mixed, and the order within a session stays."""
    partial = PartialText()
    started = SessionEvent(3, 3, A, 0, ev.PartStarted(message_id=ONE, kind="text"))
    for event in (delta(1, "a"), delta(2, "b"), started, delta(4, "c"), delta(1, "z", B, TWO)):
        partial.add(event)
    mock_clock.jump(MOMENT)
    wanted = [kept(merged(delta(2, "ab"), 2)), kept(started), kept(delta(4, "c")), kept(delta(1, "z", B, TWO), TWO)]
    assert wanted == partial.take_due()


async def test_one_session_can_be_taken_early() -> None:
    """Taking the text of one session leaves that of the others, and their alarm."""
    partial = PartialText()
    partial.add(delta(1, "a"))
    partial.add(delta(1, "z", B, TWO))
    due_at = partial.due_at
    assert [kept(delta(1, "a"))] == partial.take(A)
    assert [] == partial.take(A)
    assert due_at == partial.due_at
    assert [kept(delta(1, "z", B, TWO), TWO)] == partial.take(B)


async def test_what_has_ended_is_let_go() -> None:
    """The end of an answer lets its text go and no other, and the end of a session all of it."""
    partial = PartialText()
    partial.add(delta(1, "a"))
    partial.add(delta(2, "b", message_id=TWO))
    partial.drop(A, ONE)
    partial.drop(B, ONE)
    assert [kept(delta(2, "b", message_id=TWO), TWO)] == partial.take(A)
    partial.add(delta(3, "c"))
    partial.forget(A)
    partial.forget(A)
    assert [] == partial.take(A)


async def test_output_of_tools_is_not_held() -> None:
    """The live output of a tool is not kept and sets no alarm."""
    partial = PartialText()
    assert not partial.add(SessionEvent(1, 1, A, 0, ev.ToolOutputDelta(call_id=CallId("c"), text="x")))
    assert math.inf == partial.due_at
    assert [] == partial.take(A)


def test_what_events_are_about() -> None:
    """Pieces of an answer name it, both of its ends name it, and other events name nothing."""
    message = Message(message_id=ONE, parent_id=None, role="assistant", parts=(), created_at=0)
    started = ev.PartStarted(message_id=ONE, kind="text")
    assert [ONE, ONE] == [unfinished_message_id(event) for event in (started, ev.PartDelta(message_id=ONE, text=""))]
    ends = (ev.MessageCompleted(message=message), ev.MessageDiscarded(message_id=ONE, reason=""))
    assert [ONE, ONE] == [ended_message_id(event) for event in ends]
    for other in (ev.SessionArchived(), ev.MessageAdded(message=message), *ends):
        assert unfinished_message_id(other) is None
    others = (ev.SessionArchived(), ev.MessageAdded(message=message), started)
    assert [None, None, None] == [ended_message_id(event) for event in others]
