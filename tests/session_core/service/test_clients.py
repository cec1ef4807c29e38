"""Clients: who did what, who may act, and who is there."""

from typing import Any

import pytest

from session_core.errors import Conflict, Forbidden, InvalidInput, ServiceClosed, SessionCoreError
from session_core.ids import ClientId
from session_core.session.state import fold
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedProvider, text
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary.commands import Command
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.sessions import ClientPresence, ClientRole
from session_core.vocabulary.snapshots import ServiceSnapshot
from tests.session_core.service._commands import ALL_COMMANDS
from tests.session_core.service._helpers import new_session, recorded, scripted


async def test_events_say_who_acted() -> None:
    """What a client does is recorded under its name, and what nobody in particular does under none."""
    async with open_checked_service(scripted(text("a"))) as service:
        with service.attach("ann") as ann:
            created = await ann.create_session()
            await ann.send_user_message(created.session_id, "hello")
            await ann.wait_for_turn(created.session_id)
            events = recorded(service, created.session_id)
        by = {type(event.event): event.by for event in events}
        assert [ClientId("ann")] * 3 == [by[kind] for kind in (ev.SessionCreated, ev.TurnStarted, ev.MessageAdded)]
        assert (None, None) == (by[ev.MessageCompleted], by[ev.TurnEnded])
        app_wide = [event.event for event in recorded(service) if event.session_id is None]
        assert [
            ev.ClientAttached(client_id=ClientId("ann"), role="controller"),
            ev.ClientDetached(client_id=ClientId("ann")),
        ] == app_wide


async def test_a_follow_up_keeps_its_author() -> None:
    """A message that waited and was delivered during the turn is recorded under the name of who sent it."""
    provider = ScriptedProvider(text("a"), text("b"))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "one")
        with service.attach("bob") as bob:
            await bob.send_user_message(session_id, "two")
        await service.wait_for_turn(session_id)
        added = [event for event in recorded(service, session_id) if isinstance(event.event, ev.MessageAdded)]
        assert [ClientId("local"), ClientId("bob")] == [event.by for event in added]


@pytest.mark.parametrize("command", ALL_COMMANDS, ids=lambda command: type(command).__name__)
async def test_observers_may_read_but_not_act(command: Command[object]) -> None:
    """An observer is forbidden every command that changes something, and no command that only reads."""
    async with open_checked_service(scripted()) as service:
        with service.attach("watcher", role="observer") as watcher:
            before = len(recorded(service))
            try:
                await watcher.execute(command)
                raised: type[SessionCoreError] | None = None
            except SessionCoreError as error:
                raised = type(error)
            assert (raised is Forbidden) == (not command.reads_only)
            assert before == len(recorded(service))


async def test_names_of_clients_are_unique() -> None:
    """Two clients cannot be attached under one name at a time, and a name is free again afterwards."""
    async with open_checked_service(scripted()) as service:
        with service.attach("ann"):
            for taken in ("ann", "local"):
                with pytest.raises(Conflict) as caught, service.attach(taken):
                    pass
                assert "client_id" == caught.value.field
            assert 1 == service.statistics().clients
        with service.attach("ann"), pytest.raises(InvalidInput), service.attach(" "):
            pass
        assert 0 == service.statistics().clients


@pytest.mark.parametrize(
    ("client_id", "role", "field"),
    [(7, "controller", "client_id"), ("a\nb", "controller", "client_id"), ("ann", "boss", "role")],
)
async def test_clients_that_cannot_be(client_id: str, role: ClientRole, field: str) -> None:
    """A name that is no line of text and a role nobody knows are refused, naming the field, and nobody is attached."""
    async with open_checked_service(scripted()) as service:
        with pytest.raises(InvalidInput) as caught, service.attach(client_id, role=role):
            pass
        assert field == caught.value.field
        assert [] == recorded(service)


async def test_what_a_client_can_show_is_known() -> None:
    """Everybody learns which questions and displays of extensions a client can deal with; unknown kinds are refused."""
    async with open_checked_service(scripted()) as service:
        with service.attach("ann", ui={"set_status", "confirm"}):
            (ann,) = (await service.load_service()).clients
        odd: tuple[Any, ...] = ({"dance"}, "confirm", {7})
        for each in odd:
            with pytest.raises(InvalidInput) as caught, service.attach("bob", ui=each):
                pass
            assert "ui" == caught.value.field

    assert ClientPresence(client_id=ClientId("ann"), role="controller", ui=("confirm", "set_status")) == ann


async def test_commands_of_clients_that_cannot_be() -> None:
    """A command in a name that is no line of text is refused, naming the field, and does nothing."""
    async with open_checked_service(scripted()) as service:
        for odd in ("a\nb", "", 7):
            with pytest.raises(InvalidInput) as caught:
                await service.execute(c.CreateSession(), client_id=odd)  # type: ignore[arg-type]
            assert "client_id" == caught.value.field
        assert [] == recorded(service)


ANN = ClientPresence(client_id=ClientId("ann"), role="controller")
WATCHER = ClientPresence(client_id=ClientId("watcher"), role="observer")


async def test_who_is_there_is_known_to_those_who_come_late() -> None:
    """Whoever begins to follow all sessions learns who is attached, and hears of every coming and going after."""
    async with open_checked_service(scripted()) as service:
        with service.attach("ann"):
            feed = service.follow(None)
            (snapshot,) = await feed.receive_batch()
            assert isinstance(snapshot, ServiceSnapshot)
            assert (ANN,) == snapshot.clients == (await service.load_service()).clients
            with service.attach("watcher", role="observer"):
                events = await feed.receive_batch()
                both = fold(snapshot, [event for event in events if isinstance(event, SessionEvent)])
                assert (ANN, WATCHER) == both.clients == (await service.load_service()).clients
            events = await feed.receive_batch()
            assert (ANN,) == fold(both, [event for event in events if isinstance(event, SessionEvent)]).clients
        assert () == (await service.load_service()).clients


async def test_who_is_there_is_known_after_a_lag() -> None:
    """A reader that missed comings and goings gets a snapshot that names exactly those who are there."""
    async with open_checked_service(scripted(stream_capacity=2)) as service, service.follow(None) as feed:
        with service.attach("gone"):
            (first,) = await feed.receive_batch()
            assert isinstance(first, ServiceSnapshot)
            assert ["gone"] == [client.client_id for client in first.clients]
        with service.attach("ann"), service.attach("watcher", role="observer"):
            (resynced,) = await feed.receive_batch()
            assert isinstance(resynced, ServiceSnapshot)
            assert (ANN, WATCHER) == resynced.clients
            assert feed.last_resync is not None
            assert "lagged" == feed.last_resync.reason


async def test_nobody_attaches_to_a_closed_service() -> None:
    """Attaching to a service that has ended is refused and leaves no trace; one attached until then just leaves."""
    async with open_checked_service(scripted()) as service:
        staying = service.attach("ann")
        staying.__enter__()
    last = service._core.config.store.durable_seq
    with pytest.raises(ServiceClosed), service.attach("bob"):
        pass
    assert (ANN,) == tuple(service._clients.values())
    staying.__exit__(None, None, None)
    assert last == service._core.config.store.durable_seq
