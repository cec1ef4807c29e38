"""The first answer wins: a request is resolved exactly once, and everybody is told the same."""

from typing import Literal

import attrs
import trio
from hypothesis import example, given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from session_core.ids import ClientId, RequestId, SessionId
from session_core.service.service import SessionService
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedProvider, text, tool_call
from session_core.vocabulary import events as ev
from session_core.vocabulary.replies import AnswerReply
from session_core.vocabulary.sessions import Decision
from tests.properties._world import checkpoints, world_config

TIMEOUT_MS = 10


@attrs.frozen
class Rival:
    """Somebody who acts on the request: after some milliseconds and then some checkpoints, with a choice."""

    kind: Literal["answer", "stop"]
    delay_ms: int
    checkpoints: int
    decision: Decision


rivals = st.lists(
    st.builds(
        Rival,
        st.sampled_from(["answer", "answer", "answer", "stop"]),
        st.sampled_from([0, 0, 0, TIMEOUT_MS - 1, TIMEOUT_MS, TIMEOUT_MS + 1]),
        st.integers(0, 5),
        st.sampled_from(["allow_once", "allow_session", "deny"]),
    ),
    max_size=6,
)


class Contest:
    """Rivals around one open request of one session."""

    def __init__(self, service: SessionService, session_id: SessionId, *, dialog: bool) -> None:
        self.service = service
        self.session_id = session_id
        self.dialog = dialog
        self.replies: dict[ClientId, AnswerReply] = {}

    async def compete(self, request_id: RequestId, rivals: list[Rival]) -> None:
        async with trio.open_nursery() as nursery:
            for number, rival in enumerate(rivals):
                nursery.start_soon(self._act, request_id, number, rival)

    async def _act(self, request_id: RequestId, number: int, rival: Rival) -> None:
        with self.service.attach(f"rival {number}") as client:
            await trio.sleep(rival.delay_ms / 1000)
            await checkpoints(rival.checkpoints)
            if rival.kind == "stop":
                await client.request_stop(self.session_id)
            elif self.dialog:
                reply = await client.answer_dialog(self.session_id, request_id, rival.decision)
                self.replies[client.client_id] = reply
            else:
                reply = await client.answer_approval(self.session_id, request_id, rival.decision)
                self.replies[client.client_id] = reply


def check_replies(replies: dict[ClientId, AnswerReply], *, because: str, said: object, by: ClientId | None) -> None:
    """Everybody is told the same winner, and only the winner is told that it won."""
    winners = [client for client, reply in replies.items() if reply.accepted]
    assert winners == ([by] if because == "answered" else [])
    for reply in replies.values():
        assert (reply.decision or reply.value, reply.by) == (said, by)


@given(plan=rivals, rnd=st.random_module())
async def test_the_first_answer_to_an_approval_wins(plan: list[Rival], rnd: object, autojump_clock: MockClock) -> None:
    """Answers, stops and the clock race for an approval: one of them resolves it, and all rivals learn which."""
    provider = ScriptedProvider(tool_call("change"), text("done"))
    async with open_checked_service(world_config(provider=provider, approval_timeout_ms=TIMEOUT_MS)) as service:
        session_id = (await service.create_session()).session_id
        async with service.subscribe(session_id) as events:
            await service.send_user_message(session_id, "change it")
            await wait_all_tasks_blocked()
            (approval,) = (await service.load_session(session_id)).approvals
            contest = Contest(service, session_id, dialog=False)
            await contest.compete(approval.request_id, plan)
            outcome = (await service.wait_for_turn(session_id)).outcome
            seen = await events.receive_batch()
        final = await service.load_session(session_id)

    (resolved,) = [each for each in seen if isinstance(each.event, ev.ApprovalResolved)]
    event = resolved.event
    assert isinstance(event, ev.ApprovalResolved)
    assert event.request_id == approval.request_id
    assert event.because in ("answered", "timed_out", "stopped")
    check_replies(contest.replies, because=event.because, said=event.decision, by=resolved.by)
    if not plan:
        assert (event.because, outcome.status) == ("timed_out", "completed")
    started = any(isinstance(each.event, ev.ToolCallStarted) for each in seen)
    assert not started or event.decision != "deny", "a denied call never starts"
    assert final.approvals == ()
    assert final.grants == (("change",) if event.decision == "allow_session" else ())


@given(plan=rivals, patience=st.none() | st.integers(0, 8), rnd=st.random_module())
@example(plan=[Rival("answer", TIMEOUT_MS, 0, "allow_once")], patience=None, rnd=None).via("an answer as time is up")
async def test_the_first_answer_to_a_dialog_wins(
    *, plan: list[Rival], patience: int | None, rnd: object, autojump_clock: MockClock
) -> None:
    """Answers, stops and the clock race for a dialog, whose asker may have left: one wins, and all learn which."""
    asked: list[object] = []
    asker = trio.CancelScope()
    async with open_checked_service(world_config()) as service:
        session_id = (await service.create_session()).session_id

        async def ask() -> None:
            with asker:
                await ask_and_note()

        async def ask_and_note() -> None:
            reply = await service.open_dialog(session_id, "input", "which?", timeout_ms=TIMEOUT_MS)
            asked.append((reply.answered, reply.value, reply.by))

        async with service.subscribe(session_id) as events, trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            (dialog,) = (await service.load_session(session_id)).dialogs
            contest = Contest(service, session_id, dialog=True)
            nursery.start_soon(contest.compete, dialog.request_id, plan)
            if patience is not None:
                await checkpoints(patience)
                asker.cancel()
            await trio.sleep(1)
            seen = await events.receive_batch()
        final = await service.load_session(session_id)

    (closed,) = [each for each in seen if isinstance(each.event, ev.DialogClosed)]
    assert isinstance(closed.event, ev.DialogClosed)
    answer = closed.event.answer
    assert (answer.request_id, final.dialogs) == (dialog.request_id, ())
    check_replies(contest.replies, because=answer.because, said=answer.value, by=closed.by)
    assert asker.cancelled_caught or asked == [(answer.because == "answered", answer.value, closed.by)]
