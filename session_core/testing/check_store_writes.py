"""Checks of writing: order, atomic steps, crashes, deletion."""

from collections.abc import Iterable
from contextlib import suppress

import attrs
import trio

from session_core import limits
from session_core.errors import ProtocolError, StoreInUse
from session_core.ids import ClientId, SessionId
from session_core.storage.base import SessionStore, StoredReply
from session_core.testing.check_store_world import (
    HALF_A_CHARACTER,
    NOWHERE,
    LiveSessions,
    StoreHarness,
    check_journal,
    check_loads,
    check_unknown,
    expect,
    list_ids,
    open_live_sessions,
    read_journal,
    restore_snapshot,
)
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import TRANSIENT_EVENTS, SessionEvent
from session_core.vocabulary.messages import Message
from session_core.vocabulary.replies import Acknowledged, CreateSessionReply

CLIENT = ClientId("cli_check")
CRASHES = 8


async def events_come_back_in_order(harness: StoreHarness) -> None:
    """Events of several sessions come back in order, at once and after reopening."""
    async with open_live_sessions(harness.make_store()) as live:
        sessions = [live.create(f"number {number}") for number in range(3)]
        for number in range(40):
            live.say(sessions[number % 3], f"message {number}")
            if number % 7 == 0:
                await trio.lowlevel.checkpoint()
        await live.wait_durable()
        expect(live.store.durable_seq, live.seq, "what was waited for is durable")
        expect(live.store.backlog, 0, "nothing waits to be written when everything is durable")
        for session_id in sessions:
            await check_journal(live, session_id, "events come back in order")
    async with open_live_sessions(harness.make_store()) as again:
        for session_id in sessions:
            await again.load_session(session_id, live)
            await check_journal(again, session_id, "events come back in order", truth=live)
            again.say(session_id, "after the restart")
        await again.wait_durable()
        for session_id in sessions:
            await check_journal(again, session_id, "later events follow the earlier")


async def events_of_no_session_pass(harness: StoreHarness) -> None:
    """Events without a session count as durable and belong to no session."""
    async with open_live_sessions(harness.make_store()) as live:
        session_id = live.create()
        await live.wait_durable()
        live.record(None, ev.ClientAttached(client_id=CLIENT, role="observer"))
        await live.wait_durable()
        await check_journal(live, session_id, "an event of no session is of no session")
        expect(list_ids(await live.store.list_sessions()), [session_id], "an event of no session makes no session")


async def leaving_writes_the_rest(harness: StoreHarness) -> None:
    """Data handed over right before the end is there after reopening."""
    async with open_live_sessions(harness.make_store()) as live:
        session_id = live.create()
        await live.wait_durable()
        live.say(session_id, "the very last word")
        live.store.remember(_reply("last", session_id))
    async with open_live_sessions(harness.make_store()) as again:
        await check_journal(again, session_id, "leaving writes what is left", truth=live)
        expect(again.opened.replies, (_reply("last", session_id),), "leaving writes what is left")


async def a_store_can_be_opened_again(harness: StoreHarness) -> None:
    """The same store opens a second time, counts from the start, and reports events as durable only when they are."""
    store = harness.make_store()
    async with open_live_sessions(store) as live:
        session_id = live.create()
        live.say(session_id, "before")
        await live.wait_durable()
    async with open_live_sessions(store) as again:
        expect(store.durable_seq, 0, "a new run has its own numbers, and none of them is durable yet")
        await again.load_session(session_id, live)
        again.say(session_id, "after")
        await again.wait_durable()
        expect(store.durable_seq, again.seq, "what was waited for is durable")
        survivor = await again.crash(harness)
    async with open_live_sessions(survivor or store) as last:
        await check_journal(last, session_id, "both runs are kept", truth=again)


async def many_wait_and_one_gives_up(harness: StoreHarness) -> None:
    """Any number of tasks wait for what they handed over; cancelling one does not affect the others."""
    async with open_live_sessions(harness.make_store()) as live:
        sessions: list[SessionId] = []
        returned: list[int] = []

        async def hand_over(number: int) -> None:
            sessions.append(live.create(f"number {number}"))
            seq = live.seq
            with trio.CancelScope() as scope:
                if number % 5 == 0:
                    scope.cancel(reason="the check gives up")
                await live.store.wait_durable(seq)
                assert live.store.durable_seq >= seq, f"wait_durable({seq}) came back at {live.store.durable_seq}"
                returned.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(hand_over, number)
        assert {number for number in range(50) if number % 5} <= set(returned), "a task waited in vain"
        await live.wait_durable()
        expect(
            set(list_ids(await live.store.list_sessions())), set(sessions), "giving up the wait gives up nothing else"
        )


# --- crashes ----------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class _WriteStep:
    """The data handed over between two checkpoints, which must be kept completely or not at all."""

    created: dict[SessionId, tuple[SessionEvent, ...]]
    deleted: SessionId
    reply: StoredReply


async def a_crash_never_finds_half_a_step(harness: StoreHarness) -> None:
    """After a crash at any moment, acknowledged steps are there, and others are there completely or not at all."""
    store = harness.make_store()
    sure: list[_WriteStep] = []
    unsure: list[_WriteStep] = []
    for pauses in range(CRASHES):
        async with open_live_sessions(store) as live:
            await _check_whole_steps(live, sure, unsure)
            doomed = [live.create("to be deleted") for _ in range(pauses + 2)]
            await live.wait_durable()
            acknowledged = _take_a_step(live, doomed.pop())
            await live.wait_durable()
            for _ in range(pauses):
                unsure.append(_take_a_step(live, doomed.pop()))
                await trio.lowlevel.checkpoint()
            unsure.append(_take_a_step(live, doomed.pop()))
            sure.append(acknowledged)
            survivor = await live.crash(harness)
        store = survivor or harness.make_store()
    async with open_live_sessions(store) as live:
        await _check_whole_steps(live, sure, unsure)


def _take_a_step(live: LiveSessions, doomed: SessionId) -> _WriteStep:
    live.delete(doomed)
    created = [live.create("parent"), live.create("child")]
    for session_id in created:
        live.say(session_id, "the first message")
    reply = _reply(str(created[0]), created[0])
    live.store.remember(reply)
    return _WriteStep(created={each: live.expected_journal(each) for each in created}, deleted=doomed, reply=reply)


async def _check_whole_steps(live: LiveSessions, sure: Iterable[_WriteStep], unsure: Iterable[_WriteStep]) -> None:
    listed = set(list_ids(await live.store.list_sessions()))
    for step in sure:
        assert set(step.created) <= listed, "a crash lost what was acknowledged"
    for step in (*sure, *unsure):
        there = [session_id in listed for session_id in step.created]
        there += [step.reply in live.opened.replies, step.deleted not in listed]
        assert len(set(there)) == 1, f"a crash found half a step (sessions, reply, deletion: {there})"
        for session_id, events in step.created.items():
            found = await read_journal(live.store, session_id)
            expect(found, events if session_id in listed else (), "a step is there wholly or not at all")


# --- text of unfinished answers ---------------------------------------------------------------------------------------


async def text_of_an_unfinished_answer_is_kept(harness: StoreHarness) -> None:
    """After a moment, the text of an unfinished answer survives a crash; before that, a prefix of it does."""
    async with open_live_sessions(harness.make_store()) as live:
        session_id = live.create()
        message_id = live.start_answer(session_id)
        for word in ("It ", "is ", "still ", "being ", "written"):
            live.record(session_id, ev.PartDelta(message_id=message_id, text=word))
            await trio.lowlevel.checkpoint()
        await _wait_for_stored_text(harness, live, session_id)
        live.record(session_id, ev.PartDelta(message_id=message_id, text=", and nobody waited for this"))
        survivor = await live.crash(harness)
    async with open_live_sessions(survivor or harness.make_store()) as again:
        state = await again.load_session(session_id, live)
        partial = state.build_partial()
        text = "".join(str(part.text) for part in partial.parts) if partial is not None else ""
        whole = "It is still being written, and nobody waited for this"
        assert whole.startswith(text), f"the kept text is no beginning of what was said: {text!r}"
        assert text.startswith("It is still being written"), f"text that had been kept is gone: {text!r}"


async def text_of_a_finished_answer_is_dropped(harness: StoreHarness) -> None:
    """Once an answer is finished or withdrawn, none of its pieces come back."""
    for finished in (True, False):
        async with open_live_sessions(harness.make_store()) as live:
            session_id = live.create()
            message_id = live.start_answer(session_id)
            live.record(session_id, ev.PartDelta(message_id=message_id, text="a piece"))
            await _wait_for_stored_text(harness, live, session_id)
            live.record(session_id, ev.PartDelta(message_id=message_id, text=" and another"))
            if finished:
                live.answer(session_id, "a piece and another", message_id=message_id)
            else:
                live.record(session_id, ev.MessageDiscarded(message_id=message_id, reason="tried again"))
            await live.wait_durable()
            survivor = await live.crash(harness)
        async with open_live_sessions(survivor or harness.make_store()) as again:
            await check_loads(again, session_id, live, promise="the end of an answer replaces its pieces")
            stored = await again.store.load(session_id)
            pieces = [event for event in (stored.events if stored else ()) if isinstance(event.event, TRANSIENT_EVENTS)]
            expect(pieces, [], "nothing is left of the pieces of an answer that has ended")


async def _wait_for_stored_text(harness: StoreHarness, live: LiveSessions, session_id: SessionId) -> None:
    wanted = live.snapshot(session_id)
    with trio.move_on_after(harness.patience_s):
        while True:
            if restore_snapshot(session_id, await live.store.load(session_id)).partial == wanted.partial:
                return
            await trio.sleep(0.02)  # a store does not report when it has stored such text
    raise AssertionError(f"text of an unfinished answer was not kept within {harness.patience_s} seconds")


async def what_cannot_be_written_is_refused(harness: StoreHarness) -> None:
    """Events, pieces of text and replies that cannot be encoded are refused without harm, or come back unchanged."""
    async with open_live_sessions(harness.make_store()) as live:
        session_id = live.create()
        message_id = live.start_answer(session_id)
        for event in (
            ev.SessionRenamed(name=f"half {HALF_A_CHARACTER}"),
            ev.PartDelta(message_id=message_id, text=HALF_A_CHARACTER),
        ):
            with suppress(ProtocolError):
                live.record(session_id, event)
            live.record(session_id, ev.PartDelta(message_id=message_id, text="a whole character"))
            await _wait_for_stored_text(harness, live, session_id)
        with suppress(ProtocolError):
            live.store.remember(_reply(HALF_A_CHARACTER, session_id))
        live.say(session_id, "it goes on")
        await live.wait_durable()
        await check_journal(live, session_id, "a refused event leaves no trace")
        assert live.store.failure is None, f"a refused event broke the store: {live.store.failure}"


# --- replies ----------------------------------------------------------------------------------------------------------


async def replies_are_remembered(harness: StoreHarness) -> None:
    """Replies come back oldest first, whatever their kind; a later one with the same client and key replaces it."""
    async with open_live_sessions(harness.make_store()) as live:
        session_id = live.create()
        replies = [_reply(f"key {number}", session_id) for number in range(5)]
        other = attrs.evolve(replies[0], client_id=ClientId("cli_other"), reply=Acknowledged(cursor=NOWHERE))
        for reply in (*replies, other):
            live.store.remember(reply)
        await live.wait_durable()
        newer = attrs.evolve(replies[4], fingerprint=b"\x00\xff", reply=Acknowledged(cursor=NOWHERE))
        live.store.remember(newer)
        live.say(session_id, "its event")
        await live.wait_durable()
    async with open_live_sessions(harness.make_store()) as again:
        found = [reply for reply in again.opened.replies if reply != newer]
        expect(found, [*replies[:4], other], "replies come back oldest first")
        assert newer in again.opened.replies, "the newer reply of a key is gone"


async def replies_are_bounded(harness: StoreHarness) -> None:
    """The newest replies come back, and not many more than a service remembers."""
    count = limits.IDEMPOTENCY_CAPACITY + 10
    async with open_live_sessions(harness.make_store()) as live:
        session_id = live.create()
        for number in range(count):
            live.store.remember(_reply(f"key {number}", session_id))
        live.say(session_id, "their event")
        await live.wait_durable()
    async with open_live_sessions(harness.make_store()) as again:
        stored_keys = [reply.key for reply in again.opened.replies]
        newest = [f"key {number}" for number in range(10, count)]
        expect(stored_keys, newest, f"the newest {limits.IDEMPOTENCY_CAPACITY} replies come back and no others")


def _reply(key: str, session_id: SessionId) -> StoredReply:
    return StoredReply(
        client_id=CLIENT,
        key=key,
        fingerprint=key.encode("utf-8", "surrogatepass"),
        reply=CreateSessionReply(session_id=session_id, cursor=NOWHERE),
    )


# --- deleting and sharing ---------------------------------------------------------------------------------------------


async def nothing_is_left_of_a_deleted_session(harness: StoreHarness) -> None:
    """A deleted session is gone from every query, at once and after a crash; the others stay."""
    async with open_live_sessions(harness.make_store()) as live:
        gone, stays = live.create("gone"), live.create("stays")
        last = live.say(gone, "xylophonic secret " + "long " * 20_000)
        live.say(stays, "xylophonic neighbour " + "long " * 20_000)
        message_id = live.start_answer(gone)
        live.record(gone, ev.PartDelta(message_id=message_id, text="unfinished"))
        await live.wait_durable()
        live.delete(gone)
        live.store.forget(gone)  # a second time, or for an unknown session, does no harm
        live.store.forget(SessionId("ses_unknown"))
        await live.wait_durable()
        await _check_gone(live.store, gone, last, stays)
        survivor = await live.crash(harness)
    async with open_live_sessions(survivor or harness.make_store()) as again:
        expect(list_ids(again.opened.summaries), [stays], "a deleted session is not in the list")
        await _check_gone(again.store, gone, last, stays)
        await check_journal(again, stays, "other sessions keep everything", truth=live)


async def _check_gone(store: SessionStore, gone: SessionId, last: Message, stays: SessionId) -> None:
    await check_unknown(store, gone, last.message_id, "a deleted session")
    hits = await store.search("xylophonic", limit=9)
    expect([hit.session_id for hit in hits], [stays], "a deleted session is not found by searching")


async def the_id_of_a_deleted_session_may_come_back(harness: StoreHarness) -> None:
    """A session with the id of a deleted one starts from nothing, in the same step or later."""
    async with open_live_sessions(harness.make_store()) as live:
        session_id = live.create("first")
        live.say(session_id, "of the first")
        await live.wait_durable()
        for name in ("second", "third"):
            live.delete(session_id)
            if name == "third":
                await live.wait_durable()
            live.create(name, session_id)
            live.say(session_id, f"of the {name}")
            await live.wait_durable()
            await check_journal(live, session_id, "it starts from nothing")
    async with open_live_sessions(harness.make_store()) as again:
        await check_loads(again, session_id, live, promise="only the last is left")
        page = await again.store.load_messages(session_id, before=9, limit=9)
        expect(page.messages, tuple(live.messages[session_id]), "only the messages of the last are left")


async def one_at_a_time_may_write(harness: StoreHarness) -> None:
    """A second opener learns who holds the store, the first is not disturbed, and the next one can open it later."""
    if not harness.exclusive:
        return
    async with open_live_sessions(harness.make_store()) as live:
        session_id = live.create()
        refused = ""
        try:
            async with harness.make_store().open():
                pass
        except StoreInUse as refusal:
            refused = refusal.message
        assert refused, (
            "two stores were open for writing at the same location, or the second did not learn who holds it"
        )
        live.say(session_id, "not disturbed")
        await live.wait_durable()
    async with open_live_sessions(harness.make_store()) as again:
        await check_journal(again, session_id, "the first was not disturbed", truth=live)
