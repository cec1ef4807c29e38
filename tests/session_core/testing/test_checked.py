"""The service that checks itself: it passes what is sound, and each kind of damage is found."""

from collections.abc import Callable

import attrs
import pytest
import trio
from trio.testing import MockClock

from session_core.ids import SessionId
from session_core.service.config import ServiceConfig
from session_core.service.core import ServiceCore
from session_core.service.service import open_session_service
from session_core.session.session import Session
from session_core.testing import checked
from session_core.testing.checked import WitnessStore, check_laws, open_checked_service
from session_core.testing.scripted import ScriptedProvider, text
from session_core.vocabulary import events as ev

CONFIG = ServiceConfig(models={"m": ScriptedProvider()}, tools=(), cwd="/", now=lambda: int(trio.current_time() * 1000))


async def history() -> WitnessStore:
    """What a witness has seen of a service with two sessions and a turn in one of them."""
    witness = WitnessStore()
    models = {"m": ScriptedProvider(text("an ", "answer", thinking="hm"))}
    async with open_session_service(attrs.evolve(CONFIG, models=models, store=witness)) as service:
        witness.core = service._core
        first = (await service.create_session(name="first")).session_id
        await service.create_session(name="second")
        await service.send_user_message(first, "hello")
        await service.wait_for_turn(first)
        await service.send_user_message(first, "later", deliver_as="next_turn")
        await service.rename_session(first, "renamed")
    return witness


def core_of(witness: WitnessStore) -> ServiceCore:
    assert witness.core is not None
    return witness.core


def first_session(witness: WitnessStore) -> Session:
    return next(iter(core_of(witness).sessions.values()))


async def test_a_sound_history_passes(autojump_clock: MockClock) -> None:
    """A history without damage breaks no law, and snapshots were taken along the way to prove it with."""
    witness = await history()

    check_laws(witness)

    assert len(witness.snapshots) >= 2
    assert len(witness.session_lists) >= 2


def a_hole(witness: WitnessStore) -> None:
    del witness.seen[3]


def an_event_of_another_session(witness: WitnessStore) -> None:
    first, second = core_of(witness).sessions
    place = next(n for n, event in enumerate(witness.seen) if event.session_id == first)
    witness.seen[place] = attrs.evolve(witness.seen[place], session_id=second)


def a_change_without_an_event(witness: WitnessStore) -> None:
    first_session(witness).state.name = "changed behind the back"


def a_changed_snapshot(witness: WitnessStore) -> None:
    witness.snapshots[0] = attrs.evolve(witness.snapshots[0], name="not what it was")


def something_left_running(witness: WitnessStore) -> None:
    session = first_session(witness)
    session.record(ev.TurnStarted(turn_id=ev.TurnStarted.__name__))  # type: ignore[arg-type]


def a_half_finished_message(witness: WitnessStore) -> None:
    session = first_session(witness)
    turn = session.state.messages[0].turn_id
    assert turn is not None
    started = ev.MessageStarted(
        message_id=session.state.messages[0].message_id, parent_id=None, turn_id=turn, model="m"
    )
    session.record(started)


def a_wrong_line_in_the_list(witness: WitnessStore) -> None:
    session_list = core_of(witness).recorder.session_list
    first = next(iter(session_list.sessions))
    session_list.sessions[first] = attrs.evolve(session_list.sessions[first], queued=7)


def an_older_list_that_was_wrong(witness: WitnessStore) -> None:
    wrong = attrs.evolve(witness.session_lists[0].sessions[0], parent_id=SessionId("nobody"))
    witness.session_lists[0] = attrs.evolve(
        witness.session_lists[0], sessions=(wrong, *witness.session_lists[0].sessions[1:])
    )


DAMAGE: dict[Callable[[WitnessStore], None], str] = {
    a_hole: "global numbers have no holes",
    an_event_of_another_session: "a session's numbers have no holes",
    a_change_without_an_event: "replaying all events gives the state",
    a_changed_snapshot: "a snapshot never changes",
    something_left_running: "a closed service leaves nothing running",
    a_half_finished_message: "a closed service leaves no half-finished message",
    a_wrong_line_in_the_list: "the list of sessions is a fold too",
    an_older_list_that_was_wrong: "the list of sessions is a fold too",
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_damage_is_found(damage: Callable[[WitnessStore], None], autojump_clock: MockClock) -> None:
    """Each kind of damage to a sound history breaks the law that speaks of it."""
    witness = await history()
    core_of(witness).stream.closed = False  # some damage is an event too many
    damage(witness)

    with pytest.raises(AssertionError, match=DAMAGE[damage]):
        check_laws(witness)


async def test_a_journal_that_lacks_something_is_found(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """An event that changes the state for good but is not journalled breaks the law of the journal."""
    witness = await history()
    monkeypatch.setattr(checked, "TRANSIENT_EVENTS", (ev.SessionRenamed,))

    with pytest.raises(AssertionError, match="replaying the journal gives the state"):
        check_laws(witness)


async def break_a_law(error: Exception | None = None) -> None:
    async with open_checked_service(CONFIG) as service:
        session_id = (await service.create_session(name="a")).session_id
        service._core.sessions[session_id].state.name = "b"
        if error is not None:
            raise error


async def test_the_check_comes_at_the_end(autojump_clock: MockClock) -> None:
    """A law broken inside the block is told when the block is left."""
    with pytest.raises(AssertionError, match="gives the state"):
        await break_a_law()


async def test_an_error_of_the_block_is_not_hidden(autojump_clock: MockClock) -> None:
    """When the block itself fails, its own error comes out and not the verdict about the laws."""
    with pytest.raises(LookupError, match="my own"):
        await break_a_law(LookupError("my own"))
