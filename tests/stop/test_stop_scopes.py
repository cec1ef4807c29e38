"""What a stop ends and what it leaves alone: scopes, the queue, approvals, dialogs, compaction, stubborn work."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from session_core.errors import Conflict, Overloaded
from session_core.ids import SessionId
from session_core.service.service import SessionService, open_session_service
from session_core.stream.subscription import Subscription
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import (
    Forever,
    Hang,
    Pause,
    ScriptedProvider,
    ScriptedTool,
    text,
    tool_call,
    tool_calls,
)
from session_core.tools.base import ToolContext
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message, TextPart
from session_core.vocabulary.replies import DialogReply
from session_core.vocabulary.sessions import Activity, StoppedWork, StopScope
from tests.session_core.service._helpers import actor_held, new_session, of_type, say, scripted, trace, transcript


async def family(service: SessionService) -> list[SessionId]:
    """A parent, its child, its grandchild and a stranger, all with a turn running."""
    parent = await new_session(service, name="parent")
    child = await new_session(service, name="child", parent_id=parent)
    grandchild = await new_session(service, name="grandchild", parent_id=child)
    stranger = await new_session(service, name="stranger")
    for session_id in (parent, child, grandchild, stranger):
        await service.send_user_message(session_id, "go")
    return [parent, child, grandchild, stranger]


async def running(service: SessionService) -> list[str]:
    return [each.name for each in (await service.list_sessions(running=True)).sessions][::-1]


@pytest.mark.parametrize(
    ("scope", "left"),
    [
        ("turn", ["child", "grandchild", "stranger"]),
        ("subtree", ["stranger"]),
        ("session", ["stranger"]),
    ],
)
async def test_scopes_decide_who_is_stopped(scope: StopScope, left: list[str]) -> None:
    """`turn` stops one session, `subtree` and `session` also its descendants, and none stops anybody else."""
    answers = [Forever("x")] * 4
    async with open_checked_service(scripted(*answers)) as service:
        ids = await family(service)
        await service.schedule_wakeup(ids[0], 60_000, "later")
        others = trace(service, ids[3])

        outcome = await service.request_stop(ids[0], scope=scope)

        assert left == await running(service)
        stopped = {each.session_id for each in outcome.ended}
        assert {
            ids[place] for place, name in enumerate(("parent", "child", "grandchild")) if name not in left
        } == stopped
        survivors = {each.session_id for each in outcome.survived if each.kind == "turn"}
        assert {ids[place] for place in (1, 2) if scope == "turn"} == survivors
        wakeups = (await service.load_session(ids[0])).wakeups
        assert (0 if scope == "session" else 1) == len(wakeups)
        assert [each.wakeup_id for each in wakeups] == [each.id for each in outcome.survived if each.kind == "wakeup"]
        assert not [event for event in trace(service, ids[3])[len(others) :] if isinstance(event, ev.StopRequested)]


async def test_wakeups_of_children_are_cancelled_with_the_session() -> None:
    """Scope `session` leaves nothing armed, neither in the session nor in its children."""
    async with open_checked_service(scripted()) as service:
        parent = await new_session(service)
        child = await new_session(service, parent_id=parent)
        await service.schedule_wakeup(child, 60_000, "later")

        await service.request_stop(parent, scope="session")

        assert () == (await service.load_session(child)).wakeups
        assert 1 == len(of_type(service, child, ev.WakeupCancelled))


async def test_stop_keeps_the_queue() -> None:
    """By default waiting messages go on waiting, and are delivered at the start of the next turn."""
    provider = ScriptedProvider(Forever("x"), text("ok"))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await service.send_user_message(session_id, "waiting")

        outcome = await service.request_stop(session_id)

        assert [(TextPart(text="waiting"),)] == [item.parts for item in outcome.kept]
        assert () == outcome.returned
        await say(service, session_id, "next")
        assert ["go", "waiting", "next"] == [m.text for m in provider.requests[1].messages if m.role == "user"]


async def test_stop_returns_the_queue() -> None:
    """With `queue="return"` waiting messages leave the session and come back to the caller."""
    provider = ScriptedProvider(Forever("x"))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        queued = await service.send_user_message(session_id, "waiting")

        outcome = await service.request_stop(session_id, queue="return")

        assert [(TextPart(text="waiting"),)] == [item.parts for item in outcome.returned]
        assert () == outcome.kept
        assert () == (await service.load_session(session_id)).queue
        (removed,) = of_type(service, session_id, ev.QueueItemRemoved)
        assert (queued.queue_item_id, "returned") == (removed.item_id, "returned")


async def test_still_stopping_is_said_truthfully(autojump_clock: MockClock) -> None:
    """Work that does not let go in time is reported as still stopping, and ends as stopped later."""

    inside = trio.Event()

    async def stubborn(arguments: JsonObject, context: ToolContext) -> str:
        with trio.CancelScope(shield=True):
            inside.set()
            await trio.sleep(60)
        return "done after all"

    provider = ScriptedProvider(tool_call("stubborn"))
    config = scripted(provider, tools=(ScriptedTool("stubborn", run=stubborn),), stop_patience_ms=2_000)
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await inside.wait()
        began = trio.current_time()

        outcome = await service.request_stop(session_id)

        assert 2.0 == pytest.approx(trio.current_time() - began)
        assert "still_stopping" == outcome.result
        assert ["turn", "tool_call"] == [work.kind for work in outcome.survived]
        assert () == outcome.ended
        snapshot = await service.load_session(session_id)
        assert Activity(name="stopping") == snapshot.activity
        assert snapshot.stop is not None
        assert "stopped" == (await service.wait_for_turn(session_id)).outcome.status
        assert 60.0 == pytest.approx(trio.current_time() - began)


async def test_stop_denies_an_open_approval() -> None:
    """A stop while a person is being asked denies the call, and the session can be used afterwards."""
    tool = ScriptedTool("write", effects=("write",))
    provider = ScriptedProvider(tool_calls(("write", "{}"), ("write", "{}")), text("ok"))
    async with open_checked_service(scripted(provider, tools=(tool,))) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await wait_all_tasks_blocked()
        (approval,) = (await service.load_session(session_id)).approvals

        outcome = await service.request_stop(session_id)

        assert ["turn", "approval"] == [work.kind for work in outcome.ended]
        (resolved,) = of_type(service, session_id, ev.ApprovalResolved)
        assert (approval.request_id, "deny", "stopped") == (resolved.request_id, resolved.decision, resolved.because)
        late = await service.answer_approval(session_id, approval.request_id, "allow_once")
        assert (False, "deny") == (late.accepted, late.decision)
        assert [] == tool.calls
        results = (await service.load_session(session_id)).transcript[-1].parts
        assert ["cancelled", "cancelled"] == [getattr(part, "status", None) for part in results]
        assert "completed" == (await say(service, session_id)).status


async def test_stop_closes_dialogs_even_when_nothing_runs() -> None:
    """A stop answers open dialogs with nothing, so that whoever asked does not wait on."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        replies: list[DialogReply] = []

        async def ask() -> None:
            replies.append(await service.open_dialog(session_id, "input", "Name?"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            (dialog,) = (await service.load_session(session_id)).dialogs
            outcome = await service.request_stop(session_id)

        assert (StoppedWork(kind="dialog", session_id=session_id, id=dialog.request_id),) == outcome.ended
        assert [(False, None)] == [(reply.answered, reply.value) for reply in replies]


async def test_stop_of_a_compaction() -> None:
    """A stop ends a compaction without a summary, and the conversation stays as it was."""

    async def endless(messages: tuple[Message, ...]) -> str:
        await trio.sleep_forever()

    async with open_checked_service(scripted(text("a"), text("b"), compactor=endless)) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        before = await transcript(service, session_id)
        await service.compact_context(session_id)
        await wait_all_tasks_blocked()

        outcome = await service.request_stop(session_id)

        assert ("stopped", ["compaction"]) == (outcome.result, [work.kind for work in outcome.ended])
        assert before == await transcript(service, session_id)
        snapshot = await service.load_session(session_id)
        assert ("stopped", None) == (snapshot.activity.name, snapshot.stop)
        assert "completed" == (await say(service, session_id)).status


async def test_compaction_still_in_the_mailbox_does_not_start() -> None:
    """A compaction that was asked for before the stop but not begun is refused instead of started."""

    async def endless(messages: tuple[Message, ...]) -> str:
        await trio.sleep_forever()

    async with open_checked_service(scripted(text("a"), compactor=endless)) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        refused: list[Conflict] = []

        async def compact() -> None:
            with pytest.raises(Conflict) as caught:
                await service.compact_context(session_id)
            refused.append(caught.value)

        async with trio.open_nursery() as nursery:
            await wait_all_tasks_blocked()
            with actor_held(service):
                nursery.start_soon(compact)
                await wait_all_tasks_blocked()
                await service.request_stop(session_id)

        assert ["session_id"] == [error.field for error in refused]
        assert "idle" == (await service.load_session(session_id)).activity.name


async def test_stop_overtakes_a_full_mailbox() -> None:
    """A stop acts in the step in which it is called although the mailbox is full."""
    async with open_checked_service(scripted(Hang(), mailbox_capacity=2)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await wait_all_tasks_blocked()

        async with trio.open_nursery() as nursery:
            with actor_held(service):
                for _ in range(2):
                    nursery.start_soon(service.load_session, session_id)
                await wait_all_tasks_blocked()
                with pytest.raises(Overloaded):
                    await service.load_session(session_id)
                outcome = await service.request_stop(session_id)
                assert ("stopped", 2) == (outcome.result, service.statistics().mailbox.waiting)

        assert "stopped" == (await service.wait_for_turn(session_id)).outcome.status


@pytest.mark.slow
async def test_stop_among_a_thousand_streaming_sessions() -> None:
    """With a thousand others streaming and a full mailbox, a stop ends its session before that says another word."""
    many = 1_000
    provider = ScriptedProvider(*[(Pause("together"), Forever("x"))] * (many + 1))
    config = scripted(provider, session_stream_capacity=64, mailbox_capacity=2)
    async with open_session_service(config) as service:
        ids = [await new_session(service) for _ in range(many + 1)]
        for session_id in ids:
            await service.send_user_message(session_id, "go")
        chosen = ids[many // 2]
        async with service.subscribe(chosen) as events:
            provider.release("together")
            while not await service_is_streaming(events):
                pass

            async with trio.open_nursery() as nursery:
                with actor_held(service):
                    for _ in range(2):
                        nursery.start_soon(service.load_session, chosen)
                    for _ in range(3):  # a tick is as long as a thousand sessions make it; two of them are enough
                        await trio.lowlevel.checkpoint()
                    with pytest.raises(Overloaded):
                        await service.list_queue(chosen)
                    cursor = service._core.stream.cursor

                    outcome = await service.request_stop(chosen)

                    assert ("stopped", 2) == (outcome.result, service.statistics().mailbox.waiting)
            assert many == service.statistics().running
            seen = [event for event in await events.receive_batch() if event.seq > cursor.seq]
            assert (cursor.seq + 1, ev.StopRequested(scope="turn")) == (seen[0].seq, seen[0].event)
            assert not [event for event in seen if isinstance(event.event, ev.PartDelta)]
            assert isinstance(seen[-2].event, ev.TurnEnded)
    assert 1_000 == sum(1 for each in ids if interrupted(service, each))


async def service_is_streaming(events: Subscription) -> bool:
    return any(isinstance(event.event, ev.PartDelta) for event in await events.receive_batch())


def interrupted(service: SessionService, session_id: SessionId) -> bool:
    outcome = service._core.sessions[session_id].state.last_outcome
    return outcome is not None and outcome.status == "interrupted"
