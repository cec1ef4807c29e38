"""A service whose disk has failed: nothing false is said, and everything can still be looked at."""

from contextlib import suppress

import pytest
import trio

from session_core import limits
from session_core.errors import Overloaded, ReadOnly, StorageFailed
from session_core.ids import MessageId, SessionId
from session_core.service.service import open_session_service
from session_core.storage.memory import MemoryStore
from session_core.testing.scripted import Forever, Hang, ScriptedTool, text, tool_call
from session_core.vocabulary import events as ev
from session_core.vocabulary.commands import Command, EditMessage, ForkSession, SwitchBranch
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.messages import Message
from tests.session_core.service._helpers import new_session, say, scripted


class FailingStore(MemoryStore):
    """A memory store that can be told to fail, as one on a disk would: what was handed over before is not durable."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[SessionEvent] = []

    def append(self, event: SessionEvent) -> None:
        if self.failure is None:
            super().append(event)
            self.taken.append(event)

    async def wait_durable(self, seq: int) -> None:
        await trio.lowlevel.checkpoint()
        if self.failure is not None and seq > self.durable_seq:
            raise StorageFailed(self.failure.message)

    def fail(self) -> None:
        self.failure = StorageFailed("the disk is full")
        assert self._live is not None
        self._live.storage_failed(self.failure)


async def test_everybody_is_told_and_nothing_is_accepted() -> None:
    """After a failure one event says so, commands that change anything are refused, and reading goes on."""
    store = FailingStore()
    async with open_session_service(scripted(text("one"), store=store)) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        before = await service.load_session(session_id)
        async with service.subscribe() as events:
            store.fail()
            told = [event.event for event in await events.receive_batch()]
        assert [ev.StorageStopped(reason="the disk is full")] == told
        with pytest.raises(ReadOnly, match="the disk is full"):
            await service.rename_session(session_id, "no")
        with pytest.raises(ReadOnly):
            await service.create_session()
        assert before.messages == (await service.load_session(session_id)).messages
        assert "the disk is full" == (await service.load_service()).read_only == service.statistics().read_only
        async with service.follow(session_id) as feed:
            assert before.sseq == getattr(await anext(feed), "sseq", None)


async def test_running_work_is_interrupted() -> None:
    """A turn that runs when the disk fails is interrupted, its tool cancelled, and its waiters are told."""
    store = FailingStore()
    running = trio.Event()

    async def endless(*_: object) -> str:
        running.set()
        await trio.sleep_forever()
        raise AssertionError

    config = scripted(tool_call("look"), tools=(ScriptedTool("look", run=endless),), store=store)
    async with open_session_service(config) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await running.wait()
        store.fail()
        assert "interrupted" == (await service.wait_for_turn(session_id)).outcome.status
        assert "interrupted" == (await service.load_session(session_id)).activity.name


async def test_a_tool_whose_start_cannot_be_saved_never_runs() -> None:
    """When the start of a tool call does not become durable, the tool does not run and the turn is interrupted."""
    ran: list[object] = []

    async def run(*arguments: object) -> str:
        ran.append(arguments)
        await trio.lowlevel.checkpoint()
        return "done"

    class Starting(FailingStore):
        last_good = 10**6

        def append(self, event: SessionEvent) -> None:
            super().append(event)
            if isinstance(event.event, ev.ToolCallStarted):
                self.last_good = event.seq - 1
            self.durable_seq = min(self.durable_seq, self.last_good)

        async def wait_durable(self, seq: int) -> None:
            if seq > self.durable_seq:
                self.fail()
            await super().wait_durable(seq)

    store = Starting()
    config = scripted(tool_call("look"), tools=(ScriptedTool("look", run=run),), store=store)
    async with open_session_service(config) as service:
        session_id = await new_session(service)
        with suppress(StorageFailed):  # its reply may come before the failure or after it
            await service.send_user_message(session_id, "go")
        outcome = (await service.wait_for_turn(session_id)).outcome
        assert ("interrupted", None) == (outcome.status, outcome.error)
        assert [] == ran


async def test_a_stop_acts_but_is_not_called_saved() -> None:
    """A stop still works on a failed disk; its caller learns that it could not be saved."""
    store = FailingStore()
    async with open_session_service(scripted(Forever("x"), store=store)) as service:
        session_id = await new_session(service)
        store.fail()
        with pytest.raises(StorageFailed):
            await service.request_stop(session_id)


async def test_a_retry_of_what_was_done_before_gets_its_reply() -> None:
    """A command acknowledged before the failure and sent again with its key gets the first reply, not a refusal."""
    store = FailingStore()
    async with open_session_service(scripted(store=store)) as service:
        first = await service.create_session(idempotency_key="k")
        store.fail()
        store.durable_seq = 10**6
        assert first == await service.create_session(idempotency_key="k")


async def test_wakeups_wait_for_a_sound_disk(autojump_clock: trio.abc.Clock) -> None:
    """A wake-up that is due after the disk has failed starts nothing."""
    store = FailingStore()
    config = scripted(text("one"), store=store)
    async with open_session_service(config) as service:
        session_id = await new_session(service)
        await service.schedule_wakeup(session_id, 1_000, "up")
        store.fail()
        await trio.sleep(60)
        state = await service.load_session(session_id)
        assert ("idle", 0, 1) == (state.activity.name, len(state.messages), len(state.wakeups))


async def test_the_end_of_a_turn_is_told_when_it_is_durable() -> None:
    """Whoever waits for a turn is not told of its success before that would survive a crash."""
    store = SlowStore()
    told: list[object] = []
    async with open_session_service(scripted(text("one"), store=store)) as service, trio.open_nursery() as nursery:

        async def talk() -> None:
            session_id = await new_session(service)
            await service.send_user_message(session_id, "go")

        async def wait() -> None:
            told.append((await service.wait_for_turn((await service.list_sessions()).sessions[0].session_id)).outcome)

        nursery.start_soon(talk)
        await trio.testing.wait_all_tasks_blocked()
        store.decided.set()
        await trio.testing.wait_all_tasks_blocked()
        store.decided = trio.Event()
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert [] == told
        store.decided.set()
    assert 1 == len(told)


async def test_commands_are_refused_while_the_disk_is_far_behind() -> None:
    """When too much waits for a slow disk, commands that change something are refused, but a stop never is."""
    store = FailingStore()
    async with open_session_service(scripted(Hang(), store=store)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        store.backlog = 10**9
        assert "stopped" == (await service.request_stop(session_id)).result
        with pytest.raises(Overloaded, match="disk"):
            await service.rename_session(session_id, "no")
        assert "new session" == (await service.load_session(session_id)).name
        store.backlog = 0
        await service.rename_session(session_id, "yes")


class SlowStore(FailingStore):
    """Nothing is durable until the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.decided = trio.Event()

    def append(self, event: SessionEvent) -> None:
        super().append(event)
        self.durable_seq = 0

    async def wait_durable(self, seq: int) -> None:
        await self.decided.wait()
        await super().wait_durable(seq)


async def test_a_reply_waits_for_the_disk_and_learns_of_its_failure() -> None:
    """Callers whose commands have run wait for the disk; when it fails, each of them gets the error, none a reply."""
    store = SlowStore()
    errors: list[StorageFailed] = []
    async with open_session_service(scripted(store=store)) as service:

        async def create() -> None:
            with pytest.raises(StorageFailed) as failed:
                await service.create_session()
            errors.append(failed.value)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(create)
            await trio.testing.wait_all_tasks_blocked()
            assert [] == errors
            store.fail()
            store.decided.set()
    assert 5 == len(errors) == len(set(map(id, errors)))


async def test_a_caller_that_gives_up_does_not_hurt_the_others() -> None:
    """Cancelling the wait for the disk ends that wait only; what was done stays done, and others get their replies."""
    store = SlowStore()
    impatient = trio.CancelScope()
    replies: list[object] = []
    async with open_session_service(scripted(store=store)) as service:

        async def create() -> None:
            replies.append(await service.create_session())

        async def give_up() -> None:
            with impatient:
                await create()

        async with trio.open_nursery() as nursery:
            for each in (create, give_up, create):
                nursery.start_soon(each)
            await trio.testing.wait_all_tasks_blocked()
            impatient.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert [] == replies
            store.decided.set()
        assert (2, 3) == (len(replies), (await service.list_sessions()).total)


class HeldReads(FailingStore):
    """A store whose reads of old messages wait for the test."""

    def __init__(self) -> None:
        super().__init__()
        self.reading, self.go_on = trio.Event(), trio.Event()

    async def load_path(self, session_id: SessionId, message_id: MessageId, *, max_chars: int) -> tuple[Message, ...]:
        self.reading.set()
        await self.go_on.wait()
        return await super().load_path(session_id, message_id, max_chars=max_chars)


@pytest.mark.parametrize("what", ["edit_message", "switch_branch", "fork_session"])
async def test_what_waits_for_an_old_message_is_refused_too(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command let in before the disk failed, which then read an old message, is refused and changes nothing."""
    monkeypatch.setattr(limits, "WINDOW_MESSAGES", 4)
    store = HeldReads()
    async with open_session_service(scripted(*(text("one") for _ in range(4)), store=store)) as service:
        session_id = await new_session(service)
        for _ in range(4):
            await say(service, session_id)
        oldest = (await service.load_messages(session_id, before=1)).messages[0].message_id
        before = await service.load_session(session_id)
        commands: dict[str, Command[object]] = {
            "edit_message": EditMessage(session_id=session_id, message_id=oldest, text="other"),
            "switch_branch": SwitchBranch(session_id=session_id, message_id=oldest),
            "fork_session": ForkSession(session_id=session_id, at_message_id=oldest),
        }
        assert before.earlier

        async def attempt() -> None:
            with pytest.raises(ReadOnly, match="the disk is full"):
                await service.execute(commands[what])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(attempt)
            await store.reading.wait()
            store.fail()
            store.go_on.set()
        after = await service.load_session(session_id)
        assert (before.messages, before.head, before.sseq) == (after.messages, after.head, after.sseq)
        assert (1, 0) == (service.statistics().sessions, service.statistics().running)


async def test_replies_due_when_the_service_closes_are_given() -> None:
    """A caller that waits for the disk while the service closes gets its reply when the store has written the rest."""
    store = SlowStore()
    replies: list[object] = []
    async with trio.open_nursery() as nursery:
        async with open_session_service(scripted(store=store)) as service:

            async def create() -> None:
                replies.append(await service.create_session())

            for _ in range(3):
                nursery.start_soon(create)
            await trio.testing.wait_all_tasks_blocked()
        store.decided.set()
    assert 3 == len(replies)
