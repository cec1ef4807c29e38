"""Checks of leaves, the large parts of executor states, and of the events that release them."""

from collections.abc import Mapping
from hashlib import sha256

import trio

from session_core import limits
from session_core.errors import ProtocolError
from session_core.ids import MessageId, SessionId
from session_core.storage.base import StoreReader
from session_core.testing.check_store_world import (
    LiveSessions,
    StoreHarness,
    check_loads,
    expect,
    list_ids,
    open_live_sessions,
)
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message, TextPart
from session_core.vocabulary.protocols import ExecutorState, Frame, StateLeaf

CRASHES = 6
Leaves = Mapping[str, bytes]


def build_leaves(*contents: bytes) -> dict[str, bytes]:
    """Return leaves with these contents, by digest."""
    return {sha256(content).hexdigest(): content for content in contents}


def build_state(leaves: Leaves) -> ExecutorState:
    """Return the state of an executor with these leaves."""
    named = tuple(
        StateLeaf(name=f"part {place}", digest=digest, size=len(data))
        for place, (digest, data) in enumerate(leaves.items())
    )
    return ExecutorState(engine="check", version=1, root=JsonObject({"parts": len(named)}), leaves=named)


def save(live: LiveSessions, session_id: SessionId, leaves: Leaves, *, new: Leaves | None = None) -> None:
    """Store an executor's state at the end of a turn, in one step; `new` are the leaves that the store lacks."""
    live.store.keep_leaves(session_id, leaves if new is None else new)
    live.record(session_id, ev.ExecutorStateSaved(state=build_state(leaves)))


ONE, TWO, THREE = (build_leaves(content) for content in (b"", b"\x00\xff" * 400, b"three " * 20_000))
ALL = {**ONE, **TWO, **THREE}


async def _check_leaves(store: StoreReader, session_id: SessionId, wanted: Leaves, promise: str) -> None:
    asked = (*ALL, "", "no digest", "00" * 32, "\ud83d")
    expect(dict(await store.load_leaves(session_id, asked)), dict(wanted), promise)


async def leaves_come_back(harness: StoreHarness) -> None:
    """An executor's state is there at once and after a crash, only for its session, and is not requested twice."""
    async with open_live_sessions(harness.make_store()) as live:
        session_id, other = live.create(), live.create("other")
        save(live, session_id, ALL)
        save(live, other, TWO)
        await _check_leaves(live.store, session_id, ALL, "leaves come back as they were")
        await _check_leaves(live.store, other, TWO, "a session has no leaves of another")
        await live.wait_durable()
        expect(live.store.backlog, 0, "nothing waits to be written when everything is durable")
        save(live, session_id, ALL, new={})
        save(live, session_id, ALL)
        await live.wait_durable()
        survivor = await live.crash(harness)
    async with open_live_sessions(survivor or harness.make_store()) as again:
        await _check_leaves(
            again.store, session_id, ALL, "leaves that the new state names stay without being handed over again"
        )
        await _check_leaves(again.store, other, TWO, "a session has no leaves of another")
        expect(dict(await again.store.load_leaves(session_id, ())), {}, "an empty request returns no leaves")
        await _check_leaves(again.store, SessionId("ses_nobody"), {}, "an unknown session has no leaves")
        await check_loads(again, session_id, live)


async def leaves_go_with_the_state_that_named_them(harness: StoreHarness) -> None:
    """A new state releases the leaves it does not name, as do a new frame and a removed state, and for good."""
    async with open_live_sessions(harness.make_store()) as live:
        session_id, other = live.create(), live.create("other")
        for each in (session_id, other):
            save(live, each, ALL)
        going_back = ev.ExecutorStateSaved(state=build_state({**ONE, **TWO}), earlier=1, earlier_leaves=tuple(THREE))
        live.record(session_id, going_back)
        await _check_leaves(live.store, session_id, ALL, "leaves of retained earlier states are not dropped")
        save(live, session_id, {**ONE, **TWO}, new={})
        await _check_leaves(live.store, session_id, {**ONE, **TWO}, "leaves that a new state does not name are dropped")
        save(live, session_id, {**TWO, **THREE}, new=THREE)
        await live.wait_durable()
        await _check_leaves(live.store, session_id, {**TWO, **THREE}, "new leaves stay and unused leaves go")
        live.say(session_id, "something else")
        await _check_leaves(live.store, session_id, {**TWO, **THREE}, "other events take no leaves away")
        for let_go in (ev.ExecutorStateSaved(state=None), _frame(live, session_id), _old_frame(live, session_id)):
            save(live, session_id, ALL)
            live.record(session_id, let_go)
            await _check_leaves(live.store, session_id, {}, f"{type(let_go).__name__} drops all leaves")
            await live.wait_durable()
        await _check_leaves(live.store, other, ALL, "no session takes leaves from another")
        survivor = await live.crash(harness)
    async with open_live_sessions(survivor or harness.make_store()) as again:
        await _check_leaves(again.store, session_id, {}, "dropped leaves are gone for good")
        await _check_leaves(again.store, other, ALL, "no session takes leaves from another")


def _frame(live: LiveSessions, session_id: SessionId) -> ev.FrameOpened:
    frame = Frame(frame_id="frm_2", key="second", reason="continue_as", opened_at=live.now)
    return ev.FrameOpened(frame=frame, message=_task(live, session_id, "first"), left=_first_frame(live))


def _old_frame(live: LiveSessions, session_id: SessionId) -> ev.FrameEntered:
    message = _task(live, session_id, "second")
    return ev.FrameEntered(frame_id="frm_1", message=message, left=_first_frame(live))


def _first_frame(live: LiveSessions) -> Frame:
    return Frame(frame_id="frm_1", key="first", reason="initial", opened_at=live.now)


def _task(live: LiveSessions, session_id: SessionId, name: str) -> Message:
    return Message(
        message_id=MessageId(f"msg_{name}"),
        parent_id=live.states[session_id].head,
        role="user",
        parts=(TextPart(text="go on there"),),
        created_at=live.now,
    )


async def leaves_of_a_deleted_session_are_gone(harness: StoreHarness) -> None:
    """Deleting a session deletes its leaves, and leaves that come too late do not bring a session back."""
    async with open_live_sessions(harness.make_store()) as live:
        session_id, stays = live.create(), live.create("stays")
        for each in (session_id, stays):
            save(live, each, ALL)
        await live.wait_durable()
        live.delete(session_id)
        live.store.keep_leaves(session_id, ONE)
        await live.wait_durable()
        await _check_leaves(live.store, session_id, {}, "a deleted session has no leaves")
        live.create("again", session_id)
        await live.wait_durable()
        await _check_leaves(live.store, session_id, {}, "a session of the same id begins without leaves")
        live.delete(session_id)
        await live.wait_durable()
        survivor = await live.crash(harness)
    async with open_live_sessions(survivor or harness.make_store()) as again:
        expect(list_ids(again.opened.summaries), [stays], "leaves alone are no session")
        await _check_leaves(again.store, stays, ALL, "other sessions keep everything")


async def leaves_that_are_none_are_refused(harness: StoreHarness) -> None:
    """Bytes under a wrong digest are refused, with everything that was handed over with them."""
    async with open_live_sessions(harness.make_store()) as live:
        session_id = live.create()
        save(live, session_id, ONE)
        digest = next(iter(TWO))
        too_large = build_leaves(bytes(limits.MAX_LEAF_BYTES + 1))
        for wrong in ({**TWO, digest: b"something else"}, {digest.upper(): TWO[digest]}, {**TWO, **too_large}):
            try:
                live.store.keep_leaves(session_id, {**THREE, **wrong})
            except ProtocolError:
                continue
            raise AssertionError("bytes under a digest that is not theirs, or too many of them, are refused")
        await live.wait_durable()
        await _check_leaves(live.store, session_id, ONE, "a refused request changes nothing")


async def a_crash_never_finds_half_a_state(harness: StoreHarness) -> None:
    """After a crash at any moment, a session has exactly the leaves that its newest state names."""
    store = harness.make_store()
    session_id: SessionId | None = None
    before: LiveSessions | None = None
    for pauses in range(CRASHES):
        async with open_live_sessions(store) as live:
            if session_id is None:
                session_id = live.create()
            else:
                await _check_whole(live, session_id, before)
            for step in range(pauses + 1):
                save(live, session_id, build_leaves(b"stays " * 200, f"run {pauses}, step {step} ".encode() * 100))
                if step == 0:
                    await live.wait_durable()
                await trio.lowlevel.checkpoint()
            survivor = await live.crash(harness)
            before = live
        store = survivor or harness.make_store()
    assert session_id is not None
    async with open_live_sessions(store) as live:
        await _check_whole(live, session_id, before)


async def _check_whole(live: LiveSessions, session_id: SessionId, before: LiveSessions | None) -> None:
    state = (await live.load_session(session_id, before)).executor
    assert state is not None, "a crash lost a state that was acknowledged"
    named = {leaf.digest: leaf.size for leaf in state.leaves}
    found = await live.store.load_leaves(session_id, named)
    expect({digest: len(data) for digest, data in found.items()}, named, "a state comes with its leaves")
    earlier = {each for run in range(CRASHES) for step in range(run + 1) for each in _leaves_of_step(run, step)}
    others = await live.store.load_leaves(session_id, earlier - named.keys())
    expect(dict(others), {}, "leaves of earlier and of lost states are not there")


def _leaves_of_step(run: int, step: int) -> Leaves:
    return build_leaves(f"run {run}, step {step} ".encode() * 100)
