"""The narrow view of a session that a turn works at."""

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from session_core.ids import CallId, ClientId, QueueItemId, RequestId
from session_core.session.turn_handle import ApprovalPrompt, TurnHandle
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import Refusal, TextPart
from session_core.vocabulary.sessions import Decision, DeliverAs, QueueItem, TurnLimits
from tests.session_core.session._helpers import call, started

ONE_OF_EACH: tuple[DeliverAs, ...] = ("steer", "follow_up", "steer", "next_turn")


def queued(handle: TurnHandle, number: int, deliver_as: DeliverAs) -> None:
    item = QueueItem(
        item_id=QueueItemId(f"item_{number}"),
        parts=(TextPart(text=str(number)),),
        deliver_as=deliver_as,
        queued_at=0,
        client_id=ClientId("ann"),
    )
    handle.record(ev.MessageQueued(item=item))


def test_messages_are_delivered_by_kind_and_in_order() -> None:
    """Only messages of the wanted kinds leave the queue, oldest first, each as a child of the one before."""
    _, handle, _ = started()
    for number, kind in enumerate(ONE_OF_EACH):
        queued(handle, number, kind)
    assert handle.deliver_waiting(("steer",))
    assert not handle.deliver_waiting(("steer",))
    delivered = handle.state.transcript
    assert ["0", "2"] == [message.text for message in delivered]
    assert [None, delivered[0].message_id] == [message.parent_id for message in delivered]
    assert ["item_1", "item_3"] == [item.item_id for item in handle.state.queue]


def test_the_end_waits_for_messages_that_came_meanwhile() -> None:
    """A turn that would complete goes on with a waiting message, ends without one, and never goes on after a stop."""
    session, handle, _ = started()
    queued(handle, 1, "follow_up")
    assert not handle.finish_unless_more("completed")
    assert handle.finish_unless_more("completed")
    assert session.state.last_outcome is not None
    assert "completed" == session.state.last_outcome.status

    stopped, other, _ = started()
    queued(other, 1, "follow_up")
    stopped.request_stop("turn", None)
    assert other.finish_unless_more("completed")
    assert stopped.state.last_outcome is not None
    assert ("stopped", 1) == (stopped.state.last_outcome.status, len(stopped.state.queue))


async def test_nobody_is_asked_after_the_end() -> None:
    """When the turn that people watch has ended, a call that still comes is refused with that very reason."""
    watched, *_ = started()
    helper, _, _ = started()
    assert helper.work is not None
    handle = TurnHandle(helper, helper.work, approval_timeout_ms=1_000, lineage=lambda: (helper, watched))
    asked = ApprovalPrompt(call=call("rm"), summary="", displayed_text="", fingerprint="f", reason="r", grant="rm")
    watched.close_work("completed")
    reason = "Nobody can be asked any more: the turn that this call belongs to has ended."
    assert Refusal(by="nobody", reason=reason) == await handle.ask_approval(asked)


def test_a_turn_handle_knows_those_above() -> None:
    """What is allowed above is allowed here, and no turn may take longer than one that waits for it."""
    top, above, _ = started()
    helper, _, _ = started()
    assert helper.work is not None
    handle = TurnHandle(helper, helper.work, approval_timeout_ms=1_000, lineage=lambda: (helper, top))
    assert (None, frozenset()) == (handle.remaining_ms, handle.grants)
    for session, grant in ((top, "one"), (helper, "two")):
        resolved = ev.ApprovalResolved(
            request_id=RequestId("r"), tool_name="t", decision="allow_session", because="answered", grant=grant
        )
        session.record(resolved)
    assert {"one", "two"} == handle.grants
    assert {"one"} == above.grants
    top.record(ev.TurnLimitsChanged(limits=TurnLimits(time_ms=500)))
    helper.record(ev.TurnLimitsChanged(limits=TurnLimits(time_ms=900)))
    assert (500, top) == (handle.remaining_ms, handle.root_session)


async def test_an_approval_is_asked_for_and_answered() -> None:
    """The handle asks with everything a person needs to decide, and returns the decision."""
    session, handle, _ = started()
    decisions: list[Decision | Refusal] = []

    async def ask() -> None:
        asked = ApprovalPrompt(
            call=call("rm"), summary="rm (write)", displayed_text="rm -r x", fingerprint="f", reason="r", grant="rm"
        )
        decisions.append(await handle.ask_approval(asked))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        (approval,) = session.state.approvals
        assert ("rm -r x", "f", "r") == (approval.shown, approval.fingerprint, approval.reason)
        assert ("rm", "rm (write)", CallId("call_1"), 1_000, 2_000) == (
            approval.tool_name,
            approval.summary,
            approval.call_id,
            approval.requested_at,
            approval.expires_at,
        )
        assert "awaiting_permission" == session.state.activity.name
        session.resolve_approval(approval.request_id, "allow_session", "answered")
    assert ["allow_session"] == decisions
    assert ("rm",) == session.state.grants


async def test_no_answer_is_a_refusal(autojump_clock: MockClock) -> None:
    """An approval that nobody answers in time is refused by nobody, one that a person denies by that person."""
    session, handle, _ = started()
    asked = ApprovalPrompt(call=call("rm"), summary="", displayed_text="", fingerprint="f", reason="r", grant="rm")
    refusals: list[Decision | Refusal] = [await handle.ask_approval(asked)]

    async def deny() -> None:
        await wait_all_tasks_blocked()
        session.resolve_approval(session.state.approvals[0].request_id, "deny", "answered", message="not now")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(deny)
        refusals.append(await handle.ask_approval(asked))

    assert [Refusal(by="nobody"), Refusal(by="person", reason="not now")] == refusals
