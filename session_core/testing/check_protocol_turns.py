"""Checks of a protocol at work: turns, stops, messages between turns, children, forks, crashes and restarts."""

import attrs
import trio

from session_core.ids import SessionId
from session_core.protocols.frames import first_frame
from session_core.protocols.lifecycle import SessionProtocol
from session_core.providers.base import TextChunk
from session_core.testing.check_protocol_world import (
    MOST_STEPS,
    ProtocolSubject,
    ProtocolWorld,
    RequestContent,
    copy_store,
    extract_content,
    open_world,
    record_late_uses,
)
from session_core.testing.scripted import Hang, Pause, ScriptedAnswer
from session_core.vocabulary import commands as c
from session_core.vocabulary.messages import Message
from session_core.vocabulary.protocols import NewMessage
from session_core.vocabulary.sessions import TurnOutcome

_HALF: ScriptedAnswer = (TextChunk(text="I beg"), Pause("here"), Hang())
"""An answer that begins and never ends."""
_NOTE = NewMessage(role="user", text="A note between two turns.")


# --- turns ------------------------------------------------------------------------------------------------------------


async def plain_text_ends_a_turn(subject: ProtocolSubject) -> None:
    """A turn ends even if the model only ever says plain text, and the model gets nothing that costs without limit."""
    async with open_world(subject) as world:
        outcome = await world.play_turn(await world.new_session())
    _check_ended(outcome, "a model that answers with plain text")


async def its_own_script_ends_a_turn(subject: ProtocolSubject) -> None:
    """A model that does what the protocol expects completes its turn, and does so again in the next turn."""
    async with open_world(subject, *subject.script, *subject.script) as world:
        session_id = await world.new_session()
        for number in ("first", "second"):
            outcome = await world.play_turn(session_id)
            description = f"{outcome.status}: {outcome.error}" if outcome.error else outcome.status
            assert outcome.status == "completed", f"the {number} turn of the script is completed, not {description}"


def _check_ended(outcome: TurnOutcome, who: str) -> None:
    assert outcome.steps < MOST_STEPS, f"{who} comes to an end, and is not asked again and again"
    assert outcome.status in {"completed", "failed"}, f"{who} comes to an end of its own: {outcome.error}"


async def sessions_know_nothing_of_each_other(subject: ProtocolSubject) -> None:
    """Requests to the model in one session do not depend on what happened in another."""
    async with open_world(subject, *subject.script) as world:
        await world.play_turn(await world.new_session(), "Something else.")
        second = await _next_request(world, await world.new_session())
    async with open_world(subject) as world:
        alone = await _next_request(world, await world.new_session())
    _check_same(second, alone, "a session is not changed by another one")


# --- stops ------------------------------------------------------------------------------------------------------------


async def a_stopped_session_goes_on(subject: ProtocolSubject) -> None:
    """Wherever in a turn a stop comes, the session completes its next turn."""
    for place in range(len(subject.script) + 1):
        async with open_world(subject, *subject.script[:place], _HALF) as world:
            session_id = await world.new_session()
            if not await _reaches_half(world, session_id):
                return  # the turn ended earlier: there is no such place
            await world.service.request_stop(session_id)
            outcome = (await world.service.wait_for_turn(session_id)).outcome
            world.check_faultless(session_id, outcome)
            assert outcome.status == "stopped", f"a turn that is stopped ends as that, not as {outcome.status}"
            _check_ended(await world.play_turn(session_id), "the turn after a stop")


async def _reaches_half(world: ProtocolWorld, session_id: SessionId) -> bool:
    """Start a turn; returns whether it reaches the endless answer, rather than ending before."""
    sent = await world.service.send_user_message(session_id, "Go.")
    reached = False
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            nonlocal reached
            await world.model.wait_for_pause("here")
            reached = True
            nursery.cancel_scope.cancel(reason="the answer has begun")

        nursery.start_soon(wait)
        await world.service.wait_for_turn(session_id, sent.turn_id)
        nursery.cancel_scope.cancel(reason="the turn has ended")
    return reached


# --- messages between turns -------------------------------------------------------------------------------------------


async def appended_messages_are_survived(subject: ProtocolSubject) -> None:
    """Messages appended to the conversation reach the model, with or without a restart."""
    async with open_world(subject, *subject.script) as world:
        session_id = await world.new_session()
        await world.play_turn(session_id)
        await _append(world, session_id, "first")
        await _append(world, session_id, "first")  # a repetition does not count
        store_copy = copy_store(world.store)
        live = await _next_request(world, session_id)
    said = [part for _, parts in live.messages for part in parts if getattr(part, "text", "") == _NOTE.text]
    assert len(said) == 1, "a message between two turns is seen by the model, once"
    async with open_world(subject, store=store_copy) as world:
        _check_same(await _next_request(world, session_id), live, "a session that was told of a message is restored")


async def _append(world: ProtocolWorld, session_id: SessionId, operation_id: str) -> None:
    await world.service.execute(c.AppendMessages(session_id=session_id, operation_id=operation_id, messages=(_NOTE,)))


# --- children and forks -----------------------------------------------------------------------------------------------


async def children_and_forks_work(subject: ProtocolSubject) -> None:
    """A child session and a fork have the protocol and its options."""
    async with open_world(subject, *subject.script) as world:
        parent = await world.new_session()
        await world.play_turn(parent)
        child = await world.new_session(parent_id=parent)
        fork = (await world.service.fork_session(parent)).session_id
        for session_id, what in ((child, "a child"), (fork, "a fork")):
            record = (await world.service.load_session(session_id)).protocol
            assert record.name == world.protocol, f"{what} has the protocol of the session that it comes from"
            _check_ended(await world.play_turn(session_id), f"the model of {what}")
        store_copy = copy_store(world.store)
        live = [await _next_request(world, session_id) for session_id in (child, fork)]
    async with open_world(subject, store=store_copy) as world:
        for session_id, asked in zip((child, fork), live, strict=True):
            _check_same(await _next_request(world, session_id), asked, "children and forks come back as they were")


# --- restarts ---------------------------------------------------------------------------------------------------------


async def reopening_changes_nothing(subject: ProtocolSubject) -> None:
    """After each turn, a restarted program sends the model the same request as one that keeps running."""
    async with open_world(subject, *subject.script, *subject.script) as world:
        session_id = await world.new_session()
        for number in range(3):
            store_copy = copy_store(world.store)
            live = await _next_request(world, session_id, f"Turn {number}.")
            async with open_world(subject, store=store_copy) as again:
                fresh = await _next_request(again, session_id, f"Turn {number}.")
            _check_same(fresh, live, f"a session comes back as it was after {number} turns")


async def a_crash_in_a_turn_is_survived(subject: ProtocolSubject) -> None:
    """A program that dies in the middle of a turn leaves a session that can continue, or get another message."""
    for place in range(len(subject.script) + 1):
        async with open_world(subject, *subject.script[:place], _HALF) as world:
            session_id = await world.new_session()
            if not await _reaches_half(world, session_id):
                return  # the turn ended earlier: there is no such place
            store_copies = copy_store(world.store), copy_store(world.store)
        async with open_world(subject, store=store_copies[0]) as world:
            _check_ended(await world.play_turn(session_id), "the turn after a crash")
        async with open_world(subject, store=store_copies[1]) as world:
            await world.service.resume_session(session_id)
            outcome = (await world.service.wait_for_turn(session_id)).outcome
            world.check_faultless(session_id, outcome)
            _check_ended(outcome, "a turn that goes on after a crash")


async def restoring_is_a_reset(subject: ProtocolSubject) -> None:
    """The effect of `restore` depends on the messages alone: repeated, or after others, it is the same."""
    async with open_world(subject, *subject.script) as world:
        session_id = await world.new_session()
        await world.play_turn(session_id)
        store_copies = [copy_store(world.store) for _ in range(2)]
        live = await _next_request(world, session_id)
    for store, times in zip(store_copies, (1, 3), strict=True):
        async with open_world(subject, store=store) as world:
            await _disturb(world, session_id, times)
            asked = await _next_request(world, session_id)
        _check_same(asked, live, "restoring makes a protocol what follows from the messages, whatever was before")


async def _disturb(world: ProtocolWorld, session_id: SessionId, times: int) -> None:
    """Restore a protocol to something else so many times, and mark it to be restored before its next use."""
    protocol, messages = await _load_protocol(world, session_id)
    frame = first_frame(session_id, 0)

    async def none() -> tuple[Message, ...]:
        return ()

    async def doubled() -> tuple[Message, ...]:
        return tuple(attrs.evolve(each, role="user") for each in (*messages, *messages))

    for _ in range(times):
        for said in (none, doubled):
            await protocol.prepare(frame, said)
            protocol.invalidate()


async def _load_protocol(world: ProtocolWorld, session_id: SessionId) -> tuple[SessionProtocol, tuple[Message, ...]]:
    messages = (await world.service.load_session(session_id)).transcript
    core = world.service.core
    return core.protocols.get_protocol(core.session(session_id)), messages


async def contexts_are_given_back(subject: ProtocolSubject) -> None:
    """Nothing that a callback was given is used after the callback."""
    with record_late_uses() as late:
        async with open_world(subject, *subject.script, *subject.script) as world:
            session_id = await world.new_session()
            await world.play_turn(session_id)
            await _append(world, session_id, "note")
            await world.play_turn(session_id)
            store_copy = copy_store(world.store)
        async with open_world(subject, store=store_copy) as world:
            await world.play_turn(session_id)
    assert not late, f"a context is not used after its callback; it was, in {', '.join(late)}"


# --- comparing --------------------------------------------------------------------------------------------------------


async def _next_request(world: ProtocolWorld, session_id: SessionId, said: str = "Next.") -> RequestContent:
    """Run a turn and return its first request to the model; a turn without one gives an empty request."""
    before = len(world.model.requests)
    await world.play_turn(session_id, said)
    asked = world.model.requests[before:]
    return extract_content(asked[0]) if asked else RequestContent("", (), None, ())


def _check_same(asked: RequestContent, expected: RequestContent, promise: str) -> None:
    for field in attrs.fields(RequestContent):
        there, wanted = getattr(asked, field.name), getattr(expected, field.name)
        assert there == wanted, f"{promise}; the model's {field.name} differ: {there!r} instead of {wanted!r}"
