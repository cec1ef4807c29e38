"""What comes while a stop is under way and after it: messages, wake-ups, answers, further stops."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from session_core.ids import LOCAL_CLIENT, SessionId
from session_core.service.handler_api import PendingReply
from session_core.service.service import SessionService
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Hang, ScriptedProvider, ScriptedTool, text, tool_call
from session_core.tools.base import ToolContext
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary.commands import Command, CommandRequest
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message
from session_core.vocabulary.replies import AnswerReply
from session_core.vocabulary.sessions import DeliverAs, StopScope
from tests.session_core.service._helpers import actor_held, new_session, of_type, said, scripted, trace


class Stubborn:
    """A tool that lets go only when the test says so, whatever is cancelled; and a model that calls it first."""

    def __init__(self) -> None:
        self.release = trio.Event()
        self.tool = ScriptedTool("stubborn", run=self._run)
        self.provider = ScriptedProvider(tool_call("stubborn"), text("new answer"))
        self.config = scripted(self.provider, tools=(self.tool,))

    async def _run(self, arguments: JsonObject, context: ToolContext) -> str:
        with trio.CancelScope(shield=True):
            await self.release.wait()
        return "done after all"

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[tuple[SessionService, SessionId]]:
        """Open a service with a turn in which the tool runs; at the latest at the end the tool lets go."""
        async with open_checked_service(self.config) as service:
            session_id = await new_session(service)
            await service.send_user_message(session_id, "go")
            await wait_all_tasks_blocked()
            try:
                yield service, session_id
            finally:
                self.release.set()


def now(service: SessionService, command: Command[object]) -> object:
    """Run a command as `execute` does, without the checkpoints around it."""
    return service._perform(CommandRequest(command=command, client_id=LOCAL_CLIENT), service._mailbox.last_number)


@pytest.mark.parametrize("deliver_as", ["steer", "follow_up"])
async def test_a_message_sent_while_stopping_starts_a_turn(deliver_as: DeliverAs) -> None:
    """What is sent after the stop is for what follows: it starts a turn when the stop is through, in its order."""
    stubborn = Stubborn()
    async with stubborn.running() as (service, session_id):
        await service.send_user_message(session_id, "kept")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(service.request_stop, session_id)
            await wait_all_tasks_blocked()
            sent = await service.send_user_message(session_id, "do this instead", deliver_as=deliver_as)
            assert "queued" == sent.disposition
            assert 1 == len(of_type(service, session_id, ev.TurnStarted))
            stubborn.release.set()
        await wait_all_tasks_blocked()

        snapshot = await service.load_session(session_id)
        assert ("idle", ()) == (snapshot.activity.name, snapshot.queue)
        assert ["stopped", "completed"] == [
            ended.outcome.status for ended in of_type(service, session_id, ev.TurnEnded)
        ]
        assert [("user", "kept"), ("user", "do this instead"), ("assistant", "new answer")] == said(
            snapshot.transcript
        )[-3:]
        assert 2 == len(stubborn.provider.requests)


async def test_a_next_turn_message_sent_while_stopping_starts_nothing() -> None:
    """A message for the next turn waits for that turn, also when it comes while the work is being stopped."""
    stubborn = Stubborn()
    async with stubborn.running() as (service, session_id):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(service.request_stop, session_id)
            await wait_all_tasks_blocked()
            await service.send_user_message(session_id, "some time", deliver_as="next_turn")
            stubborn.release.set()
        await wait_all_tasks_blocked()
        snapshot = await service.load_session(session_id)
        assert ("stopped", 1) == (snapshot.activity.name, len(snapshot.queue))


async def test_a_message_sent_before_the_stop_starts_nothing() -> None:
    """A message that the stop overtook in the mailbox waits in the queue, although it is handled while stopping."""
    stubborn = Stubborn()
    async with stubborn.running() as (service, session_id):
        async with trio.open_nursery() as nursery:
            with actor_held(service):
                nursery.start_soon(service.send_user_message, session_id, "too early")
                await wait_all_tasks_blocked()
                nursery.start_soon(service.request_stop, session_id)
                await wait_all_tasks_blocked()
            await wait_all_tasks_blocked()
            assert 1 == len((await service.list_queue(session_id)).items)
            stubborn.release.set()
        await wait_all_tasks_blocked()

        snapshot = await service.load_session(session_id)
        assert ("stopped", 1) == (snapshot.activity.name, len(snapshot.queue))
        assert 1 == len(of_type(service, session_id, ev.TurnStarted))
        assert 1 == len(stubborn.provider.requests)


async def test_a_wakeup_due_while_stopping_starts_a_turn(autojump_clock: MockClock) -> None:
    """A wake-up that survived the stop and falls due before it is through wakes the session when it is."""
    stubborn = Stubborn()
    async with stubborn.running() as (service, session_id):
        await service.schedule_wakeup(session_id, 1_000, "look")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(service.request_stop, session_id)
            await trio.sleep(2)
            assert 1 == len((await service.list_queue(session_id)).items)
            stubborn.release.set()
        await wait_all_tasks_blocked()

        snapshot = await service.load_session(session_id)
        assert ("idle", (), ()) == (snapshot.activity.name, snapshot.queue, snapshot.wakeups)
        assert [("user", "[scheduled wake-up] look"), ("assistant", "new answer")] == said(snapshot.transcript)[-2:]


async def test_a_message_sent_while_a_compaction_is_being_stopped() -> None:
    """A compaction that is slow to let go does not strand what was sent meanwhile either."""
    release = trio.Event()

    async def slow(messages: tuple[Message, ...]) -> str:
        with trio.CancelScope(shield=True):
            await release.wait()
        return "never used"

    provider = ScriptedProvider(text("one"), text("two"))
    async with open_checked_service(scripted(provider, compactor=slow)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "first")
        await service.wait_for_turn(session_id)
        await service.compact_context(session_id)
        await wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(service.request_stop, session_id)
            await wait_all_tasks_blocked()
            await service.send_user_message(session_id, "second")
            release.set()
        await wait_all_tasks_blocked()
        transcript = said((await service.load_session(session_id)).transcript)
        assert [("user", "first"), ("assistant", "one"), ("user", "second"), ("assistant", "two")] == transcript


async def test_an_approval_is_denied_in_the_step_of_the_stop() -> None:
    """Once a stop is requested nobody can allow anything any more: a yes is too late and grants nothing."""
    tool = ScriptedTool("write", effects=("write",))
    provider = ScriptedProvider(tool_call("write"), text("ok"))
    async with open_checked_service(scripted(provider, tools=(tool,))) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await wait_all_tasks_blocked()
        (approval,) = (await service.load_session(session_id)).approvals

        stopping = now(service, c.RequestStop(session_id=session_id))
        state = service._core.sessions[session_id].state
        assert () == state.approvals
        answered = now(
            service,
            c.AnswerApproval(session_id=session_id, request_id=approval.request_id, decision="allow_session"),
        )

        assert isinstance(answered, AnswerReply)
        assert (False, "deny") == (answered.accepted, answered.decision)
        assert isinstance(stopping, PendingReply)
        await stopping.wait()
        assert () == state.grants
        assert [] == tool.calls
        (resolved,) = of_type(service, session_id, ev.ApprovalResolved)
        assert ("deny", "stopped") == (resolved.decision, resolved.because)


async def test_a_wider_stop_is_recorded() -> None:
    """A second stop that reaches further than the first is recorded too, and the same one again is not."""
    stubborn = Stubborn()
    scopes: list[StopScope] = ["turn", "session", "session"]
    async with stubborn.running() as (service, session_id):
        async with trio.open_nursery() as nursery:
            for scope in scopes:
                nursery.start_soon(partial(service.request_stop, session_id, scope=scope))
                await wait_all_tasks_blocked()
            stop = (await service.load_session(session_id)).stop
            assert stop is not None
            assert "session" == stop.scope
            stubborn.release.set()
        requested = [event for event in trace(service, session_id) if isinstance(event, ev.StopRequested)]
        assert [ev.StopRequested(scope="turn"), ev.StopRequested(scope="session")] == requested
        assert 1 == len(of_type(service, session_id, ev.TurnEnded))


async def test_messages_for_the_next_turn_are_not_withheld() -> None:
    """A stop counts as withheld only what would have started something, not what waits for the next turn anyway."""
    async with open_checked_service(scripted(Hang())) as service:
        session_id = await new_session(service)
        async with trio.open_nursery() as nursery:
            await wait_all_tasks_blocked()
            with actor_held(service):
                for deliver_as in ("next_turn", "follow_up", "next_turn"):
                    nursery.start_soon(partial(service.send_user_message, session_id, "x", deliver_as=deliver_as))
                await wait_all_tasks_blocked()
                outcome = await service.request_stop(session_id)
        assert 1 == outcome.withheld
        assert 3 == len((await service.list_queue(session_id)).items)
        assert [] == of_type(service, session_id, ev.TurnStarted)


@pytest.mark.slow
async def test_stop_of_a_long_chain_of_children() -> None:
    """A stop reaches the last of 1,500 generations, and its outcome names it."""
    async with open_checked_service(scripted(Hang())) as service:
        first = last = await new_session(service)
        for _ in range(1_500):
            last = await new_session(service, parent_id=last)
        sent = await service.send_user_message(last, "go")
        await wait_all_tasks_blocked()

        outcome = await service.request_stop(first, scope="subtree")

        assert ("stopped", [(last, sent.turn_id)]) == (
            outcome.result,
            [(work.session_id, work.id) for work in outcome.ended],
        )
        assert "stopped" == (await service.load_session(last)).activity.name
