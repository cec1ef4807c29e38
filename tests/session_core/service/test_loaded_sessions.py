"""Which sessions are in memory, and how they leave and come back."""

import attrs
import pytest
import trio

from session_core.errors import Forbidden, NotFound, StoreDamaged
from session_core.ids import Cursor, SessionId
from session_core.service.service import SessionService, open_session_service
from session_core.storage.base import StoredSession
from session_core.storage.memory import MemoryStore
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Hang, text
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.snapshots import SessionSnapshot
from tests.session_core.service._helpers import new_session, say, scripted

STAY_MS = 1_000


class Damaged(MemoryStore):
    """Whatever has left memory cannot be read any more."""

    async def load(self, session_id: SessionId) -> StoredSession | None:
        await trio.lowlevel.checkpoint()
        raise StoreDamaged("record 3 is damaged", field="session_id")


def in_memory(service: SessionService) -> set[SessionId]:
    return set(service._core.sessions)


async def pass_by() -> None:
    """Let more time pass than a session stays."""
    await trio.sleep(3 * STAY_MS / 1000)


async def test_an_idle_session_leaves_and_comes_back_the_same(autojump_clock: trio.abc.Clock) -> None:
    """A session nobody uses leaves memory, stays in the list, and is the same when somebody asks for it."""
    async with open_checked_service(scripted(text("one"), session_stay_ms=STAY_MS)) as service:
        session_id = await new_session(service, name="kept")
        await say(service, session_id)
        before = await service.load_session(session_id)
        listed = (await service.list_sessions()).sessions
        await pass_by()
        assert set() == in_memory(service)
        assert listed == (await service.list_sessions()).sessions
        assert before == await service.load_session(session_id)
        assert {session_id} == in_memory(service)
        assert (1, 1) == (service.statistics().sessions, service.statistics().in_memory)


async def test_numbers_go_on_after_a_return(autojump_clock: trio.abc.Clock) -> None:
    """Events of a session that came back are numbered on, and its last turn can still be asked for."""
    async with open_checked_service(scripted(text("one"), session_stay_ms=STAY_MS)) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        sseq = (await service.load_session(session_id)).sseq
        await pass_by()
        assert outcome == (await service.wait_for_turn(session_id, outcome.turn_id)).outcome
        await service.rename_session(session_id, "again")
        assert sseq + 1 == (await service.load_session(session_id)).sseq


@pytest.mark.parametrize("why", ["turn", "queue", "dialog", "wakeup", "reader", "use"])
async def test_what_is_needed_stays(why: str, autojump_clock: trio.abc.Clock) -> None:
    """A session that works, has something waiting, or is read or used by somebody stays in memory."""
    async with open_checked_service(scripted(Hang(), session_stay_ms=STAY_MS)) as service:
        session_id = await new_session(service)
        if why == "turn":
            await service.send_user_message(session_id, "go")
        elif why == "queue":
            await service.send_user_message(session_id, "later", deliver_as="next_turn")
        elif why == "wakeup":
            await service.schedule_wakeup(session_id, 1_000_000, "up")
        async with trio.open_nursery() as nursery:
            if why == "dialog":
                nursery.start_soon(service.open_dialog, session_id, "confirm", "sure?")
            if why == "reader":
                async with service.subscribe(session_id):
                    await pass_by()
                    assert {session_id} == in_memory(service)
            elif why == "use":
                for _ in range(10):
                    await trio.sleep(STAY_MS / 2000)
                    await service.list_queue(session_id)
                    assert {session_id} == in_memory(service)
            else:
                await pass_by()
                assert {session_id} == in_memory(service)
            nursery.cancel_scope.cancel()


async def test_a_follower_of_a_session_that_has_left(autojump_clock: trio.abc.Clock) -> None:
    """Following and subscribing work for a session that is not in memory, and nothing is missed from then on."""
    async with open_checked_service(scripted(text("one"), session_stay_ms=STAY_MS)) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        before = await service.load_session(session_id)
        await pass_by()
        async with service.subscribe(session_id) as events, service.follow(session_id) as feed:
            assert set() == in_memory(service)
            first = await anext(feed)
            await service.rename_session(session_id, "seen")
            second = await anext(feed)
            assert [second] == await events.receive_batch()
        assert before == first
        assert isinstance(second, SessionEvent)
        assert before.sseq + 1 == second.sseq


async def test_an_old_cursor_gets_a_snapshot(autojump_clock: trio.abc.Clock) -> None:
    """A reader that comes back after the session has left and returned gets one snapshot instead of a hole."""
    async with open_checked_service(scripted(text("one"), session_stay_ms=STAY_MS)) as service:
        session_id = await new_session(service)
        old = (await service.load_session(session_id)).cursor
        await say(service, session_id)
        await pass_by()
        async with service.follow(session_id, after=Cursor(epoch=old.epoch, seq=old.seq)) as feed:
            assert isinstance(await anext(feed), SessionSnapshot)
            assert "expired" == getattr(feed.last_resync, "reason", None)


async def test_many_ask_at_once(autojump_clock: trio.abc.Clock) -> None:
    """However many ask for a session that is not in memory, it is read once and all get the same."""
    loads: list[SessionId] = []

    class Counting(MemoryStore):
        async def load(self, session_id: SessionId) -> StoredSession | None:
            loads.append(session_id)
            await trio.sleep(0.1)
            return await super().load(session_id)

    async with open_session_service(scripted(session_stay_ms=STAY_MS, store=Counting())) as service:
        session_id = await new_session(service)
        await pass_by()
        seen: list[SessionSnapshot] = []

        async def ask() -> None:
            seen.append(await service.load_session(session_id))

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(ask)
        assert [session_id] == loads
        assert [seen[0]] * 10 == seen


async def test_a_damaged_session_can_only_be_deleted(autojump_clock: trio.abc.Clock) -> None:
    """A session that cannot be read says so to everybody who asks, others work, and it can still be deleted."""

    async with open_session_service(scripted(session_stay_ms=STAY_MS, store=Damaged())) as service:
        damaged = await new_session(service)
        await pass_by()
        fine = await new_session(service)
        for _ in range(2):
            with pytest.raises(StoreDamaged):
                await service.load_session(damaged)
        async with service.follow(damaged) as feed:
            with pytest.raises(StoreDamaged):
                await anext(feed)
        await service.rename_session(fine, "works")
        await service.delete_session(damaged)
        with pytest.raises(NotFound):
            await service.load_session(damaged)
        assert [fine] == [each.session_id for each in (await service.list_sessions()).sessions]


async def test_a_refused_deletion_of_a_damaged_session_leaves_nothing(autojump_clock: trio.abc.Clock) -> None:
    """When the deletion of a session that cannot be read is refused, the session stays as unreadable as it was."""

    async with open_session_service(scripted(session_stay_ms=STAY_MS, store=Damaged())) as service:
        damaged = await new_session(service)
        await pass_by()
        with service.attach("watcher", role="observer") as observer, pytest.raises(Forbidden):
            await observer.delete_session(damaged)
        assert set() == in_memory(service)
        with pytest.raises(StoreDamaged):
            await service.rename_session(damaged, "no")


async def test_a_stop_of_a_family_finds_members_through_absent_ones(autojump_clock: trio.abc.Clock) -> None:
    """A stop of the subtree reaches a working grandchild although its parent has left memory."""
    async with open_checked_service(scripted(Hang(), session_stay_ms=STAY_MS)) as service:
        top = await new_session(service)
        middle = await new_session(service, parent_id=top)
        leaf = await new_session(service, parent_id=middle)
        await service.send_user_message(leaf, "go")
        await pass_by()
        assert {leaf} == in_memory(service)
        outcome = await service.request_stop(top, scope="subtree")
        assert ("stopped", [leaf]) == (outcome.result, [work.session_id for work in outcome.ended])


async def test_a_child_of_a_parent_that_has_left(autojump_clock: trio.abc.Clock) -> None:
    """A session that is not in memory can become a parent."""
    async with open_checked_service(scripted(session_stay_ms=STAY_MS)) as service:
        parent = await new_session(service)
        await pass_by()
        child = await new_session(service, parent_id=parent)
        assert parent == (await service.load_session(child)).parent_id


async def test_a_second_service_goes_on(autojump_clock: trio.abc.Clock) -> None:
    """A service opened on the store of an earlier one has its sessions, with everything in them."""
    store = MemoryStore()
    async with open_session_service(scripted(text("one"), store=store)) as first:
        session_id = await new_session(first, name="kept")
        await say(first, session_id)
        before = await first.load_session(session_id)
    async with open_session_service(scripted(text("two"), store=store)) as second:
        assert ["kept"] == [each.name for each in (await second.list_sessions()).sessions]
        after = await second.load_session(session_id)
        assert before == attrs.evolve(after, cursor=before.cursor)
        assert before.cursor.epoch != after.cursor.epoch
        await say(second, session_id, "more")
        said = [message.text for message in (await second.load_session(session_id)).transcript]
        assert ["hello", "one", "more", "two"] == said
