"""Law 9 for turns: a stop at any step of a turn leaves everything answered, nothing half done, and tells the truth."""

from collections import Counter
from collections.abc import Callable

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from session_core.ids import SessionId
from session_core.service.service import SessionService
from session_core.session.state import SessionState
from session_core.testing.cancel_sweep import MOMENTS, Moment, at_step
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Pause, ScriptedProvider, ScriptItem, TaskSwitch, failure, text, tool_calls
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.messages import ToolResultPart
from session_core.vocabulary.sessions import DeliverAs
from session_core.vocabulary.snapshots import SessionSnapshot
from tests.properties._world import world_config
from tests.session_core.service._helpers import stop_in_this_step

MOST_STEPS = 200


def slowly(*items: ScriptItem) -> tuple[ScriptItem, ...]:
    return tuple(each for item in items for each in (TaskSwitch(), item))


def scripted_turn() -> ScriptedProvider:
    """A turn with everything in it: a retry, thinking, text, two tool calls, one of them asked for, and a follow-up."""
    return ScriptedProvider(
        (Pause("go"), *slowly(*text("a false ")[:1], *failure("rate_limited", retry_after_ms=100))),
        slowly(*text("I will ", "look.", thinking="let me see")[:-1], *tool_calls(("look", {}), ("change", {}))),
        slowly(*text("That is done.")),
        slowly(*text("And that too.")),
    )


def of_the_turn(task: trio.lowlevel.Task | None) -> bool:
    """Whether this is the turn's own task, or one below it, such as that of a tool."""
    while task is not None:
        if task.name.startswith("turn "):
            return True
        task = task.parent_nursery.parent_task if task.parent_nursery is not None else None
    return False


async def say_yes(service: SessionService, session_id: SessionId) -> None:
    async with service.subscribe(session_id) as events:
        async for each in events:
            if isinstance(each.event, ev.ApprovalRequested):
                await trio.sleep(0.05)  # people need a while, and a stop may come first
                await service.answer_approval(session_id, each.event.approval.request_id, "allow_once")


@attrs.frozen(kw_only=True)
class Aftermath:
    """What one run left behind."""

    hit: bool
    events: list[SessionEvent]
    final: SessionSnapshot
    later: SessionSnapshot
    sent: list[str]
    running: int


async def run_with(step: int, moment: Moment, act: Callable[[SessionService, SessionId], object]) -> Aftermath:
    """Run the scripted turn, act right before one of its steps, and use the session once more afterwards."""
    provider = scripted_turn()
    async with open_checked_service(world_config(provider=provider)) as service, trio.open_nursery() as nursery:
        session_id = (await service.create_session()).session_id
        nursery.start_soon(say_yes, service, session_id)
        await wait_all_tasks_blocked()
        async with service.subscribe(session_id) as events:
            with at_step(of_the_turn, step, lambda: act(service, session_id), moment=moment) as counter:
                sent = await start(service, session_id, provider, with_queue=step > 1)
                await trio.sleep(60)
            final = await service.load_session(session_id)
            seen = await events.receive_batch()
        hit = counter.steps >= step
        await still_usable(service, session_id)
        later = await service.load_session(session_id)
        running = service.statistics().running
        nursery.cancel_scope.cancel()
    return Aftermath(hit=hit, events=seen, final=final, later=later, sent=sent, running=running)


async def start(
    service: SessionService, session_id: SessionId, provider: ScriptedProvider, *, with_queue: bool
) -> list[str]:
    """Start the turn and, while it waits for its model, let messages wait; returns what was said."""
    sent: dict[str, DeliverAs] = {"first": "follow_up"}
    if with_queue:  # else the turn may be over at once, and these would start another
        sent |= {"next time": "next_turn", "and then": "follow_up"}
    for words, deliver_as in sent.items():
        await service.send_user_message(session_id, words, deliver_as=deliver_as)
    provider.release("go")
    return list(sent)


async def still_usable(service: SessionService, session_id: SessionId) -> None:
    await service.send_user_message(session_id, "once more")
    outcome = (await service.wait_for_turn(session_id)).outcome
    assert outcome.status == "completed"


def stop_session(service: SessionService, session_id: SessionId) -> None:
    """Stop as `request_stop` does, in the very step; only nobody waits for the outcome."""
    stop_in_this_step(service, c.RequestStop(session_id=session_id))


def check_nothing_torn(run: Aftermath) -> None:
    """What must hold however the turn ended."""
    final = run.final
    calls = [call.call_id for message in final.messages for call in message.tool_calls]
    results = [part.call_id for m in final.messages for part in m.parts if isinstance(part, ToolResultPart)]
    assert Counter(results) == Counter(calls), "every call has exactly one result"
    assert (final.partial, final.tools, final.turn, final.stop) == (None, (), None, None)
    assert final.approvals == ()
    asked = [each.event.approval.request_id for each in run.events if isinstance(each.event, ev.ApprovalRequested)]
    resolved = [each.event.request_id for each in run.events if isinstance(each.event, ev.ApprovalResolved)]
    assert asked == resolved, "every approval is closed, once"
    kinds = [type(each.event) for each in run.events]
    assert ev.ApprovalResolved not in kinds[kinds.index(ev.TurnEnded) :], "approvals are closed before the turn is"
    assert sum(isinstance(each.event, ev.TurnStarted) for each in run.events) == 1
    assert sum(isinstance(each.event, ev.TurnEnded) for each in run.events) == 1
    assert_pairs(run.events)
    said = [message.text for message in run.later.messages if message.role == "user"]
    assert sorted(said) == sorted([*run.sent, "once more"]), "each message is delivered once in the end"
    assert (run.later.queue, run.later.activity.name, run.running) == ((), "idle", 0)


def assert_pairs(events: list[SessionEvent]) -> None:
    """Answers that started were completed or withdrawn; calls that started were finished."""
    started = [each.event.message_id for each in events if isinstance(each.event, ev.MessageStarted)]
    completed = [each.event.message.message_id for each in events if isinstance(each.event, ev.MessageCompleted)]
    withdrawn = [each.event.message_id for each in events if isinstance(each.event, ev.MessageDiscarded)]
    assert sorted(started) == sorted([*completed, *withdrawn])
    begun = [each.event.call_id for each in events if isinstance(each.event, ev.ToolCallStarted)]
    finished = [each.event.result.call_id for each in events if isinstance(each.event, ev.ToolCallFinished)]
    assert len(set(finished)) == len(finished)
    assert set(begun) <= set(finished)


def assert_nothing_goes_on(after: list[ev.Event]) -> None:
    """After a stop no model is asked, nobody is asked for a yes, and no tool is started."""
    started = ev.MessageStarted | ev.ApprovalRequested | ev.ToolCallStarted
    assert [] == [event for event in after if isinstance(event, started)]


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_stop_at_every_step(moment: Moment, autojump_clock: MockClock) -> None:
    """Stopped at each step in turn, the turn ends as stopped, or as completed when it was over, and nothing is torn."""
    statuses: list[str] = []
    for step in range(1, MOST_STEPS):
        run = await run_with(step, moment, stop_session)
        if not run.hit:
            break
        try:
            check_nothing_torn(run)
            assert run.final.last_outcome is not None
            stops = [place for place, each in enumerate(run.events) if isinstance(each.event, ev.StopRequested)]
            shown = (run.final.last_outcome.status, run.final.activity.name)
            assert (len(stops), *shown) in ((1, "stopped", "stopped"), (0, "completed", "idle"))
            if stops:
                assert_nothing_goes_on([each.event for each in run.events[stops[0] :]])
        except AssertionError as torn:
            torn.add_note(f"when stopped {moment} step {step}")
            raise
        statuses.append(run.final.last_outcome.status)
    else:
        pytest.fail("the turn has more steps than expected")
    untouched = run.final.last_outcome
    assert len(statuses) > 20
    assert set(statuses[:-1]) == {"stopped"}, "only a stop after the last step finds the turn over"
    assert statuses[-1] == ("stopped" if moment == "before" else "completed")
    check_nothing_torn(run)
    assert untouched is not None
    assert (untouched.status, untouched.steps, untouched.tool_calls) == ("completed", 4, 2)


async def close_at(step: int, moment: Moment) -> tuple[bool, SessionState]:
    """Close the whole service right before a step of its turn; tells whether it came to that, and what is left."""
    provider, scope = scripted_turn(), trio.CancelScope()
    left: list[SessionState] = []
    with scope, at_step(of_the_turn, step, scope.cancel, moment=moment) as counter:
        async with open_checked_service(world_config(provider=provider)) as service:
            session_id = (await service.create_session(permission_mode="full")).session_id
            left.append(service._core.sessions[session_id].state)
            await start(service, session_id, provider, with_queue=step > 1)
            await trio.sleep(60)
    return counter.steps >= step, left[0]


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_service_that_ends_at_any_step(moment: Moment, autojump_clock: MockClock) -> None:
    """A service closed at any step of a turn says so in the turn's outcome and leaves nothing open."""
    steps = 0
    statuses: list[str] = []
    while True:
        hit, state = await close_at(steps + 1, moment)
        if not hit:
            break
        steps += 1
        assert state.last_outcome is not None
        statuses.append(state.last_outcome.status)
        assert (state.partial, state.tools, state.approvals) == (None, (), ())
    assert 20 < steps < MOST_STEPS
    assert set(statuses[:-1]) == {"interrupted"}
    assert statuses[-1] == ("interrupted" if moment == "before" else "completed")
