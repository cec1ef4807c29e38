"""Checks of the states and the list that a store returns, and of reading while another process writes."""

import attrs
import trio

from session_core import limits
from session_core.ids import CallId, MessageId, QueueItemId, RequestId, SessionId, TurnId, WakeupId
from session_core.testing.check_store_world import (
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
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message, TextPart
from session_core.vocabulary.sessions import Activity, Approval, Dialog, QueueItem, TurnOutcome, Wakeup
from session_core.vocabulary.snapshots import SessionSnapshot


async def a_new_store_is_empty(harness: StoreHarness) -> None:
    """A new place has no sessions and no replies, and asking for something that does not exist is not an error."""
    nobody, nothing = SessionId("ses_nobody"), MessageId("msg_nothing")
    async with open_live_sessions(harness.make_store()) as live:
        store = live.store
        expect((live.opened.summaries, live.opened.replies), ((), ()), "a new store is empty")
        expect(await store.list_sessions(), (), "a new store has no sessions")
        await check_unknown(store, nobody, nothing, "an unknown session")
        expect(await store.search("anything", limit=5), (), "nothing is found")
        expect((store.durable_seq, store.failure, store.backlog), (0, None, 0), "nothing has happened yet")


# --- states -----------------------------------------------------------------------------------------------------------


async def a_loaded_session_is_the_one_that_was_left(harness: StoreHarness) -> None:
    """Through several hundred events of every kind, loading always gives the state that a full replay gives."""
    async with open_live_sessions(harness.make_store()) as live:
        session_id, neighbour = live.create("long"), live.create("short")
        for number in range(limits.STATE_EVERY_EVENTS // 5):
            _record_round(live, session_id, number)
            if number % 9 == 0:
                live.say(neighbour, f"between {number}")
            if number % 5 == 0:
                await live.wait_durable()
                await check_loads(live, session_id)
        await live.wait_durable()
        await check_loads(live, neighbour)
        survivor = await live.crash(harness)
    async with open_live_sessions(survivor or harness.make_store()) as again:
        await check_loads(again, session_id, live)
        await again.load_session(session_id, live)
        for number in range(20):
            _record_round(again, session_id, 1_000 + number)
        await again.wait_durable()
        await check_loads(again, session_id)
        await check_journal(again, session_id, "the journal is whole")


def _record_round(live: LiveSessions, session_id: SessionId, number: int) -> None:
    """Record most kinds of events, some of which stay open until the next round."""
    live.say(session_id, f"question {number}")
    message_id = live.start_answer(session_id)
    live.record(session_id, ev.PartDelta(message_id=message_id, text="in pieces"))
    live.answer(session_id, f"answer {number}", calls=(f"a{number}", f"b{number}"), message_id=message_id)
    started = ev.ToolCallStarted(call_id=CallId(f"a{number}"), name="look", arguments=JsonObject({"n": number}))
    live.record(session_id, started)
    live.record(session_id, ev.ToolOutputDelta(call_id=started.call_id, text="live output"))
    results = [live.finish_call(session_id, f"{call}{number}", f"{call} saw {number}") for call in "ba"]
    live.commit_results(session_id, reversed(results))
    outcome = TurnOutcome(turn_id=TurnId(f"turn_{number}"), status="completed", final_text="done", steps=1)
    live.record(session_id, ev.TurnEnded(outcome=outcome))
    item = QueueItem(item_id=QueueItemId(f"q{number}"), parts=(), deliver_as="follow_up", queued_at=live.now)
    live.record(session_id, ev.MessageQueued(item=item))
    removed = ev.QueueItemRemoved(item_id=QueueItemId(f"q{number - 1}"), because="removed")
    live.record(session_id, removed)
    live.record(session_id, ev.SessionRenamed(name=f"name {number}"))


async def a_session_in_the_middle_of_work_is_loaded(harness: StoreHarness) -> None:
    """A session left in the middle of an answer or of tool calls comes back there, except for text not yet stored."""
    async with open_live_sessions(harness.make_store()) as live:
        session_id = live.create()
        for number in range(limits.STATE_EVERY_EVENTS // 6):
            live.say(session_id, f"question {number}")
            message_id = live.start_answer(session_id)
            for word in "a few words":
                live.record(session_id, ev.PartDelta(message_id=message_id, text=word))
            if number % 4 == 0:
                await _loads_but_for_text(live, session_id)
            live.answer(session_id, "look", calls=(f"c{number}",), message_id=message_id)
            call = ev.ToolCallStarted(call_id=CallId(f"c{number}"), name="look", arguments=JsonObject())
            live.record(session_id, call)
            live.record(session_id, ev.ToolOutputDelta(call_id=call.call_id, text="so far"))
            if number % 4 == 0:
                await _loads_but_for_text(live, session_id)
            live.commit_results(session_id, [live.finish_call(session_id, f"c{number}", "seen")])
            live.record(session_id, ev.TurnEnded(outcome=TurnOutcome(turn_id=TurnId("turn"), status="completed")))


async def _loads_but_for_text(live: LiveSessions, session_id: SessionId) -> None:
    await live.wait_durable()
    wanted = live.snapshot(session_id)
    found = restore_snapshot(session_id, await live.store.load(session_id))
    if wanted.partial is not None:
        assert found.partial is not None, "an answer that had begun is forgotten"
        said = "".join(str(part.text) for part in wanted.partial.parts)
        stored_text = "".join(str(part.text) for part in found.partial.parts)
        assert said.startswith(stored_text), f"kept text {stored_text!r} is no beginning of what was said, {said!r}"
    promise = "a session in the middle of work is loaded as it was, but for text"
    expect(_without_passing_text(found), _without_passing_text(wanted), promise)


def _without_passing_text(snapshot: SessionSnapshot) -> SessionSnapshot:
    partial = attrs.evolve(snapshot.partial, parts=()) if snapshot.partial is not None else None
    tools = tuple(attrs.evolve(tool, output="") for tool in snapshot.tools)
    return attrs.evolve(snapshot, partial=partial, tools=tools, sseq=0)


async def older_messages_are_in_the_store_alone(harness: StoreHarness) -> None:
    """The state of a long conversation holds the newest messages, and pages return the others."""
    async with open_live_sessions(harness.make_store()) as live:
        session_id = live.create()
        for _ in range(5):
            chunk = [live.say(session_id, "first of many")]
            for _ in range(limits.WINDOW_MESSAGES // 4):
                parent = chunk[-1].message_id
                name = MessageId(f"{parent}.")
                chunk.append(Message(message_id=name, parent_id=parent, role="user", parts=(), created_at=1))
            live.bring_back(session_id, tuple(chunk[1:]))
        await live.wait_durable()
        assert live.states[session_id].earlier > 0, "the check should fill more than a window"
        await check_loads(live, session_id)
    async with open_live_sessions(harness.make_store()) as again:
        state = await again.load_session(session_id, live)
        expect(state.snapshot(live.snapshot(session_id).cursor), live.snapshot(session_id), "the window is the same")
        everything = live.messages[session_id]
        found: tuple[Message, ...] = ()
        while len(found) < len(everything):
            page = await again.store.load_messages(session_id, before=len(everything) - len(found), limit=300)
            expect(page.first + len(page.messages) + len(found), len(everything), "a page ends where the next begins")
            assert page.messages, "a page before the beginning is not empty"
            found = page.messages + found
        expect(found, tuple(everything), "all pages together are the conversation")


async def the_list_is_right(harness: StoreHarness) -> None:
    """The list shows every session as it is, oldest first, at once and after reopening."""
    async with open_live_sessions(harness.make_store()) as live:
        plain, busy, child = live.create("plain"), live.create("busy"), live.create("child")
        live.record(child, ev.SessionCreated(name="child", settings=live.states[child].settings, parent_id=plain))
        await live.wait_durable()
        item = QueueItem(item_id=QueueItemId("q"), parts=(TextPart(text="x"),), deliver_as="steer", queued_at=1)
        dialog = Dialog(request_id=RequestId("d"), kind="confirm", title="?", opened_at=1, expires_at=2)
        approval = Approval(
            request_id=RequestId("a"),
            call_id=CallId("c"),
            tool_name="look",
            summary="look",
            arguments=JsonObject(),
            requested_at=1,
            expires_at=2,
        )
        wakeup = Wakeup(wakeup_id=WakeupId("w"), text="later", due_at=9)
        for event in (
            ev.SessionRenamed(name="busier"),
            ev.ModelSwitched(model="another"),
            ev.WorkingDirectoryChanged(cwd="/elsewhere"),
            ev.SessionArchived(),
            ev.MessageQueued(item=item),
            ev.DialogOpened(dialog=dialog),
            ev.ApprovalRequested(approval=approval),
            ev.WakeupScheduled(wakeup=wakeup),
            ev.ActivityChanged(activity=Activity(name="rate_limited", retry_at=77, message="wait a bit")),
        ):
            live.record(busy, event)
        await live.wait_durable()
        wanted = tuple(live.session_list.sessions.values())
        expect(list_ids(wanted), [plain, busy, child], "the check's own list is oldest first")
        expect(await live.store.list_sessions(), wanted, "the list shows every session as it is, oldest first")
        survivor = await live.crash(harness)
    async with open_live_sessions(survivor or harness.make_store()) as again:
        expect(again.opened.summaries, wanted, "the list is the same at the next opening")
        await again.load_session(plain)
        again.record(plain, ev.SessionRenamed(name="plainer"))
        await again.wait_durable()
        expect(
            await again.store.list_sessions(),
            tuple(again.session_list.sessions.values()),
            "one line changes, others stay",
        )


async def a_reader_sees_whole_steps_of_a_writer(harness: StoreHarness) -> None:
    """A reader sees each step of a concurrent writer completely or not at all, and always sees what is durable."""
    async with open_live_sessions(harness.make_store()) as live:
        session_id = live.create()
        await live.wait_durable()
        opening = harness.make_reader()
        if opening is None:
            return
        async with opening as reader, trio.open_nursery() as nursery:
            done = trio.Event()

            async def write() -> None:
                for number in range(60):
                    child = live.create(f"step {number}")
                    live.say(child, "first")
                    live.say(session_id, child)
                    if number % 4 == 0:
                        await live.wait_durable()
                    await trio.lowlevel.checkpoint()
                await live.wait_durable()
                done.set()

            nursery.start_soon(write)
            last = False
            named: list[str] = []
            while not last:
                last = done.is_set()
                before = live.store.durable_seq
                events = await read_journal(reader, session_id)
                expect(
                    events, live.expected_journal(session_id)[: len(events)], "a reader sees a beginning of the journal"
                )
                named = [event.event.message.text for event in events if isinstance(event.event, ev.MessageAdded)]
                listed = list_ids(await reader.list_sessions())
                assert set(named) <= set(listed), "a reader saw half a step"
                durable = [event for event in live.expected_journal(session_id) if event.seq <= before]
                assert len(events) >= len(durable), "a reader did not see what was durable"
                for child in named[-1:]:
                    found = restore_snapshot(SessionId(child), await reader.load(SessionId(child)))
                    expect([message.text for message in found.messages], ["first"], "a reader saw half a step")
            expect(len(named), 60, "a reader sees everything in the end")
