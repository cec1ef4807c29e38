"""A stop ends exactly what it names, at once, keeps what was said, and tells the truth about it."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from session_core.errors import NotFound
from session_core.ids import SessionId
from session_core.service.service import SessionService
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import (
    Forever,
    Hang,
    Pause,
    ScriptedProvider,
    ScriptedTool,
    TaskSwitch,
    failure,
    text,
    tool_call,
)
from session_core.tools.base import ToolContext
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import InterruptedPart, TextPart, ToolResultPart
from session_core.vocabulary.sessions import Activity, StoppedWork
from session_core.vocabulary.snapshots import ServiceSnapshot
from tests.session_core.service._helpers import actor_held, new_session, of_type, said, say, scripted, trace

STOPPED = Activity(name="stopped")


async def hang(arguments: JsonObject, context: ToolContext) -> str:
    await trio.sleep_forever()


async def activities(service: SessionService, session_id: SessionId) -> list[str]:
    return [event.activity.name for event in of_type(service, session_id, ev.ActivityChanged)]


async def test_stop_mid_stream_keeps_the_partial_answer() -> None:
    """A stop in the middle of an answer keeps what was said as an interrupted message, and the model sees it next."""
    provider = ScriptedProvider((*text("half")[:1], Pause("here")), text("whole"))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        sent = await service.send_user_message(session_id, "go")
        await provider.wait_for_pause("here")

        outcome = await service.request_stop(session_id)

        snapshot = await service.load_session(session_id)
        assert sent.turn_id is not None
        assert "stopped" == outcome.result
        assert (StoppedWork(kind="turn", session_id=session_id, id=sent.turn_id),) == outcome.ended
        assert () == outcome.survived
        assert (STOPPED, None, None) == (snapshot.activity, snapshot.partial, snapshot.stop)
        partial = snapshot.transcript[-1]
        assert (TextPart(text="half"), InterruptedPart(reason="stopped")) == partial.parts
        assert snapshot.last_outcome is not None
        assert ("stopped", "half") == (snapshot.last_outcome.status, snapshot.last_outcome.final_text)

        assert "completed" == (await say(service, session_id, "go on")).status
        assert partial in provider.requests[1].messages
        assert [("user", "go"), ("assistant", "half"), ("user", "go on")] == said(provider.requests[1].messages)


async def test_stop_before_the_first_word() -> None:
    """A stop while the model has said nothing leaves no empty message behind."""
    provider = ScriptedProvider(Hang())
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await wait_all_tasks_blocked()

        await service.request_stop(session_id)

        assert [("user", "go")] == said((await service.load_session(session_id)).transcript)


async def test_stop_mid_tool_gives_every_call_a_result() -> None:
    """A stop while a tool runs cancels it, and its call still gets a result that says so."""
    tool = ScriptedTool("slow", run=hang)
    provider = ScriptedProvider(tool_call("slow"), text("ok"))
    async with open_checked_service(scripted(provider, tools=(tool,))) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await wait_all_tasks_blocked()
        (live,) = (await service.load_session(session_id)).tools

        outcome = await service.request_stop(session_id)

        assert [("turn"), ("tool_call")] == [work.kind for work in outcome.ended]
        assert live.call_id == outcome.ended[1].id
        (result,) = (await service.load_session(session_id)).transcript[-1].parts
        assert isinstance(result, ToolResultPart)
        assert ("slow", "cancelled", live.call_id) == (result.name, result.status, result.call_id)
        assert "completed" == (await say(service, session_id)).status
        assert result in provider.requests[1].messages[-2].parts


async def test_stop_during_a_retry_wait(autojump_clock: MockClock) -> None:
    """A stop while waiting to try a failed call again ends at once as stopped, not as an error."""
    provider = ScriptedProvider(failure("rate_limited", retry_after_ms=50_000), text("late"))
    async with open_checked_service(scripted(provider)) as service:
        created = await service.create_session()
        session_id = created.session_id
        await service.send_user_message(session_id, "go")
        async with service.subscribe(session_id, after=created.cursor) as events:
            async for event in events:
                if isinstance(event.event, ev.ModelCallFailed):
                    break
        began = trio.current_time()

        outcome = await service.request_stop(session_id)

        assert ("stopped", began) == (outcome.result, trio.current_time())
        assert STOPPED == (await service.load_session(session_id)).activity
        assert 1 == len(provider.requests)


async def test_stop_in_the_background_touches_nobody_else() -> None:
    """Stopping one session leaves the event trace of another, which is being watched, exactly as it was."""
    one, other = ScriptedProvider(Forever("a")), ScriptedProvider((*text("b")[:1], Pause("p"), *text("c")))
    async with open_checked_service(scripted(models={"one": one, "other": other})) as service:
        background = await new_session(service, model="one")
        viewed = await new_session(service, model="other")
        created = trace(service, viewed)
        async with service.follow(viewed) as feed:
            shown = [await anext(feed)]
            await service.send_user_message(viewed, "go")
            await service.send_user_message(background, "go")
            await other.wait_for_pause("p")
            before = trace(service, viewed)

            assert "stopped" == (await service.request_stop(background)).result

            assert before == trace(service, viewed)
            other.release("p")
            assert "completed" == (await service.wait_for_turn(viewed)).outcome.status
            shown += [await anext(feed) for _ in trace(service, viewed)[len(created) :]]
        assert {viewed} == {item.session_id for item in shown if not isinstance(item, ServiceSnapshot)}
        assert "stopped" == (await service.wait_for_turn(background)).outcome.status
        assert [("user", "go"), ("assistant", "bc")] == said((await service.load_session(viewed)).transcript)


async def test_stop_right_after_the_prompt() -> None:
    """A stop before the turn's task has begun to run runs no tool and ends the turn once."""
    tool = ScriptedTool("t")
    provider = ScriptedProvider((TaskSwitch(), *tool_call("t")))
    async with open_checked_service(scripted(provider, tools=(tool,))) as service:
        session_id = await new_session(service)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(service.send_user_message, session_id, "go")
            while not of_type(service, session_id, ev.TurnStarted):
                await trio.lowlevel.cancel_shielded_checkpoint()
            outcome = await service.request_stop(session_id)

        assert "stopped" == outcome.result
        assert [] == tool.calls
        assert STOPPED == (await service.load_session(session_id)).activity
        assert 1 == len(of_type(service, session_id, ev.TurnEnded))


async def test_prompt_still_in_the_mailbox_is_withheld() -> None:
    """A message that was sent but not handled before the stop waits in the queue instead of starting a turn."""
    provider = ScriptedProvider(text("never"))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)

        async with trio.open_nursery() as nursery:
            await wait_all_tasks_blocked()
            with actor_held(service):
                nursery.start_soon(service.send_user_message, session_id, "go")
                await wait_all_tasks_blocked()
                outcome = await service.request_stop(session_id)

        assert ("nothing_running", 1) == (outcome.result, outcome.withheld)
        snapshot = await service.load_session(session_id)
        assert [(TextPart(text="go"),)] == [item.parts for item in snapshot.queue]
        assert [] == provider.requests
        assert "completed" == (await say(service, session_id, "now")).status
        assert [("user", "go"), ("user", "now")] == said(provider.requests[0].messages)


async def test_stop_twice_at_once() -> None:
    """Two stops at the same time are one stop, and both callers learn that it worked."""
    provider = ScriptedProvider(Forever("x"))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        results = []

        async def stop() -> None:
            results.append((await service.request_stop(session_id)).result)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop)
            nursery.start_soon(stop)

        assert ["stopped", "stopped"] == results
        assert 1 == len(of_type(service, session_id, ev.StopRequested))
        assert 1 == len(of_type(service, session_id, ev.TurnEnded))
        assert "nothing_running" == (await service.request_stop(session_id)).result


@pytest.mark.parametrize("steps", range(14))
async def test_stop_against_completion(steps: int) -> None:
    """Whenever a stop comes, the turn has either completed before it or is stopped by it, and ends exactly once."""
    answer = (TaskSwitch(), *text("a", "b", "c")[:2], TaskSwitch(), TaskSwitch(), *text("c"))
    tool = ScriptedTool("t")
    provider = ScriptedProvider(tool_call("t"), answer)
    async with open_checked_service(scripted(provider, tools=(tool,))) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        completed_before = bool(of_type(service, session_id, ev.TurnEnded))

        outcome = await service.request_stop(session_id)

        (ended,) = of_type(service, session_id, ev.TurnEnded)
        assert ("completed" if completed_before else "stopped") == ended.outcome.status
        assert ("nothing_running" if completed_before else "stopped") == outcome.result
        shown = (await service.load_session(session_id)).activity.name
        assert ("idle" if completed_before else "stopped") == shown


async def test_completion_race_covers_both_sides() -> None:
    """The race above is a race: without steps in between the stop wins, and after fourteen the turn has completed."""
    provider = ScriptedProvider(tool_call("t"), (TaskSwitch(), *text("a"), TaskSwitch(), TaskSwitch()))
    async with open_checked_service(scripted(provider, tools=(ScriptedTool("t"),))) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        ended = []
        for _ in range(14):
            ended.append(bool(of_type(service, session_id, ev.TurnEnded)))
            await trio.lowlevel.checkpoint()
        assert (False, True) == (ended[0], ended[-1])


async def test_a_stop_never_looks_like_success() -> None:
    """After a stop neither the activity nor the outcome nor the list of sessions says anything else."""
    provider = ScriptedProvider(Forever("x"))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await service.request_stop(session_id)

        names = await activities(service, session_id)
        assert ["stopping", "stopped"] == names[-2:]
        assert "idle" not in names
        (summary,) = (await service.list_sessions()).sessions
        assert STOPPED == summary.activity
        await service.dismiss_outcome(session_id)
        assert "idle" == (await service.load_session(session_id)).activity.name


async def test_resume_after_a_stop() -> None:
    """A stopped session can be resumed without a new message, and the model sees what it had said."""
    provider = ScriptedProvider((*text("half")[:1], Hang()), text("rest"))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await wait_all_tasks_blocked()
        await service.request_stop(session_id)

        resumed = await service.resume_session(session_id)

        outcome = (await service.wait_for_turn(session_id, resumed.turn_id)).outcome
        assert ("completed", "rest") == (outcome.status, outcome.final_text)
        assert [("user", "go"), ("assistant", "half")] == said(provider.requests[1].messages)


async def test_stop_with_nothing_running() -> None:
    """A stop of a session at rest changes nothing and says so."""
    async with open_checked_service(scripted(text("a"))) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        before = trace(service, session_id)

        outcome = await service.request_stop(session_id)

        assert ("nothing_running", (), (), 0) == (
            outcome.result,
            outcome.ended,
            outcome.survived,
            outcome.withheld,
        )
        assert before == trace(service, session_id)


async def test_stop_of_an_unknown_session() -> None:
    """A stop that names no session is refused and touches nothing."""
    async with open_checked_service(scripted()) as service:
        with pytest.raises(NotFound) as caught:
            await service.request_stop(SessionId("ses_x"))
        assert "session_id" == caught.value.field
