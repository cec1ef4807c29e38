"""Bringing unfinished work to a truthful end: every kind of open work, for every way to end."""

from typing import get_args

import pytest

from session_core.ids import CallId, MessageId, RequestId
from session_core.session.session import Session
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import (
    InterruptedPart,
    PartKind,
    TextPart,
    ThinkingPart,
    ToolResultPart,
)
from session_core.vocabulary.sessions import Approval, Dialog, TurnStatus
from tests.session_core.session._helpers import TURN, answer, call, new_session, quiet, started

MESSAGE = MessageId("msg_partial")
STATUSES: tuple[TurnStatus, ...] = get_args(TurnStatus)
DIALOG = Dialog(request_id=RequestId("req_d"), kind="confirm", title="t", opened_at=0, expires_at=1)
APPROVAL = Approval(
    request_id=RequestId("req_a"),
    call_id=CallId("call_1"),
    tool_name="t",
    summary="t",
    arguments=JsonObject(),
    requested_at=0,
    expires_at=1,
)


def begin_answer(session: Session, *parts: tuple[PartKind, str]) -> None:
    session.record(ev.MessageStarted(message_id=MESSAGE, parent_id=None, turn_id=TURN, model="m"))
    for kind, text in parts:
        session.record(ev.PartStarted(message_id=MESSAGE, kind=kind))
        session.record(ev.PartDelta(message_id=MESSAGE, text=text))


@pytest.mark.parametrize("status", STATUSES)
def test_a_half_finished_answer_is_kept(status: TurnStatus) -> None:
    """What was said stays, marked with the reason, and an unfinished tool call never happened."""
    session, _, seen = started()
    begin_answer(session, ("thinking", "hm"), ("text", "half"), ("tool_call", '{"a'))
    session.close_work(status)
    (message,) = session.state.transcript
    reason = {"stopped": "stopped", "failed": "failed"}.get(status, "interrupted")
    assert (ThinkingPart(text="hm"), TextPart(text="half")) == message.parts[:2]
    assert (InterruptedPart(reason=reason),) == message.parts[2:]  # type: ignore[arg-type]
    assert session.state.partial is None
    assert 1 == sum(isinstance(event, ev.TurnEnded) for event in seen)


def test_an_answer_without_a_word_is_withdrawn() -> None:
    """An answer that had not said anything leaves no message."""
    session, _, seen = started()
    begin_answer(session, ("tool_call", "{"))
    session.close_work("stopped")
    assert () == session.state.transcript
    assert [MESSAGE] == [event.message_id for event in seen if isinstance(event, ev.MessageDiscarded)]


@pytest.mark.parametrize(
    ("status", "result"),
    [
        ("stopped", "cancelled"),
        ("interrupted", "interrupted"),
        ("failed", "cancelled"),
        ("completed", "cancelled"),
        ("limit_reached", "cancelled"),
    ],
)
def test_every_call_gets_a_result(status: TurnStatus, result: str) -> None:
    """Calls that ran, were running or never began all have exactly one result, in the order of the calls."""
    session, _, seen = started()
    calls = [call("a", 1), call("b", 2), call("c", 3)]
    session.record(ev.MessageCompleted(message=answer(*calls)))
    for each in calls[:2]:
        session.record(ev.ToolCallStarted(call_id=each.call_id, name=each.name, arguments=each.arguments))
    done = ToolResultPart(call_id=calls[1].call_id, name="b", status="success", text="done")
    session.record(ev.ToolCallFinished(result=done))
    session.close_work(status)
    parts = [part for part in session.state.transcript[-1].parts if isinstance(part, ToolResultPart)]
    assert [each.call_id for each in calls] == [part.call_id for part in parts]
    assert [result, "success", result] == [part.status for part in parts]
    assert done == parts[1]
    assert () == session.state.tools
    assert isinstance(quiet(seen)[-1], ev.TurnEnded)


@pytest.mark.parametrize(
    ("status", "because"),
    [
        ("stopped", "stopped"),
        ("interrupted", "restarted"),
        ("failed", "turn_ended"),
        ("completed", "turn_ended"),
        ("limit_reached", "turn_ended"),
    ],
)
def test_open_requests(status: TurnStatus, because: str) -> None:
    """Approvals are denied at the end of any turn; dialogs outlive a turn that simply ended, but no stop or crash."""
    session, _, seen = started()
    session.record(ev.ApprovalRequested(approval=APPROVAL))
    session.record(ev.DialogOpened(dialog=DIALOG))
    session.close_work(status)
    resolved = [event for event in seen if isinstance(event, ev.ApprovalResolved)]
    assert [("deny", because)] == [(event.decision, event.because) for event in resolved]
    assert ((DIALOG,) if because == "turn_ended" else ()) == session.state.dialogs


def test_the_outcome_sums_the_turn_up() -> None:
    """The outcome counts steps and tools, names the last answer and carries the error."""
    session, _, _ = started()
    begin_answer(session, ("text", "half"))
    session.close_work("failed", error="x" * 5_000)
    outcome = session.state.last_outcome
    assert outcome is not None
    assert (TURN, "failed", MESSAGE, "half", 1, 0) == (
        outcome.turn_id,
        outcome.status,
        outcome.final_message_id,
        outcome.final_text,
        outcome.steps,
        outcome.tool_calls,
    )
    assert 2_000 == len(outcome.error or "")


def test_nothing_open_means_nothing_to_do() -> None:
    """Closing a session at rest records nothing, and closing twice records nothing more."""
    session, seen = new_session()
    session.close_work("stopped")
    assert [] == seen
    busy, _, events = started()
    busy.close_work("stopped")
    count = len(events)
    busy.close_work("stopped")
    assert count == len(events)
