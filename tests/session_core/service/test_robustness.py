"""A service on a store that fails or is slow, and bugs in what takes time."""

from contextlib import suppress

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from session_core.errors import InternalError
from session_core.service.handler_api import PendingReply
from session_core.service.handlers import HANDLERS
from session_core.session.state import fold
from session_core.testing.checked import WitnessStore, open_checked_service
from session_core.testing.scripted import ScriptedProvider, ScriptedTool, text, tool_call
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.replies import Acknowledged
from session_core.vocabulary.snapshots import SessionSnapshot
from tests.session_core.service._helpers import new_session, of_type, open_with_store, said, say, scripted


class FailingStore(WitnessStore):
    """Refuses one event when it is told to: the next but `after`."""

    def __init__(self) -> None:
        super().__init__()
        self.after: int | None = None
        self.refused = False

    def append(self, event: SessionEvent) -> None:
        if self.after == 0:
            self.after, self.refused = None, True
            raise OSError("the disk is full")
        if self.after is not None:
            self.after -= 1
        super().append(event)


class SlowStore(WitnessStore):
    """While it is slow, an event becomes durable only when the test calls `commit`."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = False
        self._committed = trio.Event()

    def append(self, event: SessionEvent) -> None:
        before = self.durable_seq
        super().append(event)
        if self.slow:
            self.durable_seq = before

    async def wait_durable(self, seq: int) -> None:
        while self.durable_seq < seq:
            await self._committed.wait()

    def commit(self) -> None:
        self.durable_seq = self.seen[-1].seq
        self._committed.set()
        self._committed = trio.Event()


@pytest.mark.usefixtures("quiet_log")
async def test_a_store_that_refuses_the_start_of_a_turn() -> None:
    """A message whose turn cannot be recorded fails as a whole, changes nothing, and can be sent again."""
    store = FailingStore()
    async with open_with_store(store, scripted(text("ok"))) as service:
        session_id = await new_session(service)
        feed = service.follow(session_id)
        (followed,) = await feed.receive_batch()
        assert isinstance(followed, SessionSnapshot)
        before = await service.load_session(session_id)

        store.after = 0
        with pytest.raises(InternalError) as caught:
            await service.send_user_message(session_id, "hello")

        assert "the disk is full" in caught.value.message
        assert (before, 0) == (await service.load_session(session_id), service.statistics().running)
        assert "completed" == (await say(service, session_id, "hello")).status
        events = [item for item in await feed.receive_batch() if isinstance(item, SessionEvent)]
        after = await service.load_session(session_id)
        assert after == fold(followed, events)
        assert [("user", "hello"), ("assistant", "ok")] == said(after.transcript)


@pytest.mark.usefixtures("quiet_log")
async def test_a_store_that_refuses_a_compaction() -> None:
    """A compaction whose start cannot be recorded leaves the session at rest."""

    async def summarise(messages: object) -> str:
        return "summary"

    store = FailingStore()
    async with open_with_store(store, scripted(text("a"), text("b"), compactor=summarise)) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        before = await service.load_session(session_id)
        store.after = 0
        with pytest.raises(InternalError):
            await service.compact_context(session_id)
        assert before == await service.load_session(session_id)
        assert "completed" == (await say(service, session_id)).status


async def test_a_tool_runs_only_when_its_start_is_durable() -> None:
    """A tool waits until the store has its start for good, so that a crash never hides what may have run."""
    store = SlowStore()
    tool = ScriptedTool("t")
    provider = ScriptedProvider(tool_call("t"), text("done"))
    async with open_with_store(store, scripted(provider, tools=(tool,))) as service:
        session_id = await new_session(service)
        async with trio.open_nursery() as nursery:
            store.slow = True
            nursery.start_soon(service.send_user_message, session_id, "go")
            await wait_all_tasks_blocked()
            (begun,) = [event for event in store.seen if isinstance(event.event, ev.ToolCallStarted)]
            assert store.durable_seq < begun.seq
            assert [] == tool.calls

            store.slow = False
            store.commit()
            await wait_all_tasks_blocked()
            assert 1 == len(tool.calls)
        assert "completed" == (await service.wait_for_turn(session_id)).outcome.status


async def test_a_reply_waits_for_its_commit_and_the_actor_does_not() -> None:
    """A command is answered when its events are durable; meanwhile others' reads, stops and commands go on."""
    store = SlowStore()
    async with open_with_store(store, scripted()) as service:
        session_id = await new_session(service)
        order: list[str] = []

        async def rename(name: str) -> None:
            await service.rename_session(session_id, name)
            order.append(name)

        async with trio.open_nursery() as nursery:
            store.slow = True
            nursery.start_soon(rename, "slow")
            await wait_all_tasks_blocked()
            with service.attach("reader", role="observer") as reader:
                assert "slow" == (await reader.load_session(session_id)).name
            nursery.start_soon(rename, "too")
            await wait_all_tasks_blocked()
            assert "too" == (await service.load_session(session_id)).name
            assert [] == order

            store.commit()
            await wait_all_tasks_blocked()
            assert {"slow", "too"} == set(order)
        assert 2 == len(of_type(service, session_id, ev.SessionRenamed))


@pytest.mark.usefixtures("quiet_log")
async def test_a_bug_in_what_takes_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply that takes time and then fails by a bug is an `InternalError` for its caller, and nothing else."""

    async def broken() -> object:
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError("oh no")

    monkeypatch.setitem(HANDLERS, c.RenameSession, lambda *_: PendingReply(broken))
    async with open_checked_service(scripted(text("fine"))) as service:
        session_id = await new_session(service)
        with pytest.raises(InternalError) as caught:
            await service.rename_session(session_id, "n")
        assert "ZeroDivisionError: oh no" in caught.value.message
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert "completed" == (await say(service, session_id)).status
        assert isinstance(await service.dismiss_outcome(session_id), Acknowledged)


@pytest.mark.usefixtures("quiet_log")
@pytest.mark.parametrize("after", range(8))
async def test_a_store_that_refuses_any_event_of_a_turn(after: int, autojump_clock: MockClock) -> None:
    """Whichever event of a turn the store refuses, the next message is answered and the laws of the fold hold."""
    store = FailingStore()
    async with open_with_store(store, scripted(text("one"), text("two"))) as service:
        session_id = await new_session(service)
        store.after = after
        with suppress(InternalError):
            await service.send_user_message(session_id, "first")
        await wait_all_tasks_blocked()
        assert store.refused
        with trio.fail_after(60):
            assert "completed" == (await say(service, session_id, "second")).status
        assert 0 == service.statistics().running
