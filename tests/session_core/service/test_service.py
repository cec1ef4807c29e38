"""The service as a whole: bad input, bugs, cursors, overload, settings."""

from typing import Any

import attrs
import pytest
import trio

from session_core import limits
from session_core.errors import (
    Conflict,
    CursorRefused,
    InternalError,
    InvalidInput,
    NotFound,
    Overloaded,
)
from session_core.ids import Cursor, Epoch, TurnId
from session_core.service.config import ServiceConfig
from session_core.service.handlers import HANDLERS
from session_core.service.service import open_session_service
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import text
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary.commands import COMMANDS, Command
from tests.session_core.service._commands import ALL_COMMANDS, NOBODY, one_of_each
from tests.session_core.service._helpers import new_session, recorded, say, scripted, trace


def test_every_command_is_tried() -> None:
    """The list of examples above covers the whole catalogue, and every command has a handler."""
    assert set(COMMANDS) == {type(command) for command in ALL_COMMANDS}
    assert set(COMMANDS) == set(HANDLERS)


@pytest.mark.parametrize("command", one_of_each(NOBODY), ids=lambda command: type(command).__name__)
async def test_unknown_session(command: Command[object]) -> None:
    """Every command that names a session nobody knows is refused, names the field and changes nothing."""
    async with open_checked_service(scripted()) as service:
        with pytest.raises(NotFound) as caught:
            await service.execute(command)
        assert ("not_found", "session_id") == (caught.value.code, caught.value.field)
        assert [] == recorded(service)


@pytest.mark.parametrize(
    "sent", ["", " \n\t", "x" * 20_000_000, "half \ud800 a character"], ids=["empty", "blank", "20 MB", "surrogate"]
)
@pytest.mark.parametrize(
    "kind", [c.SendUserMessage, c.StartTurnIfIdle, c.EditMessage, c.EditQueueItem, c.ScheduleWakeup]
)
async def test_bad_text(kind: type, sent: str) -> None:
    """Text that is empty, endless or not encodable is refused by every command that takes one, and starts nothing."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        extra: dict[type, dict[str, Any]] = {
            c.EditMessage: {"message_id": "msg_x"},
            c.EditQueueItem: {"item_id": "item_x"},
            c.ScheduleWakeup: {"delay_ms": 5},
        }
        before = trace(service, session_id)
        with pytest.raises(InvalidInput) as caught:
            await service.execute(kind(session_id=session_id, text=sent, **extra.get(kind, {})))
        assert "text" == caught.value.field
        assert "text" in caught.value.message
        assert len(caught.value.message) < 200
        assert before == trace(service, session_id)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * (limits.MAX_NAME_CHARS + 1), "\udfff", "\x1b[2J"])
async def test_bad_names(name: str) -> None:
    """A name that is empty, too long, not one line or not encodable is refused."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        for attempt in (c.CreateSession(name=name), c.RenameSession(session_id=session_id, name=name)):
            with pytest.raises(InvalidInput) as caught:
                await service.execute(attempt)
            assert "name" == caught.value.field


def test_wrong_types_name_the_field() -> None:
    """A command cannot be built with a value of the wrong type, and the error names the field."""
    with pytest.raises(InvalidInput) as caught:
        c.SendUserMessage(session_id=NOBODY, text=5)  # type: ignore[arg-type]
    assert ("text", "text must be text, not a whole number") == (caught.value.field, caught.value.message)


async def test_unknown_command_objects() -> None:
    """Something that is no command of the catalogue is refused, whatever it is."""

    class Mine(c.LoadService):
        pass

    async with open_checked_service(scripted()) as service:
        for odd in (None, "create_session", object(), Mine()):
            with pytest.raises(InvalidInput) as caught:
                await service.execute(odd)  # type: ignore[arg-type]
            assert "command" == caught.value.field


async def test_a_bug_in_a_handler_fails_that_command_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that raises fails its own command with `InternalError`, and the service goes on."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError("oh no")

    monkeypatch.setitem(HANDLERS, c.RenameSession, broken)
    monkeypatch.setitem(HANDLERS, c.RequestStop, broken)
    async with open_checked_service(scripted(text("fine"))) as service:
        session_id = await new_session(service)
        attempts: list[Command[object]] = [
            c.RenameSession(session_id=session_id, name="n"),
            c.RequestStop(session_id=session_id),
        ]
        for attempt in attempts:
            with pytest.raises(InternalError) as caught:
                await service.execute(attempt)
            assert "internal" == caught.value.code
            assert "ZeroDivisionError: oh no" in caught.value.message
        assert "completed" == (await say(service, session_id)).status


# --- cursors ----------------------------------------------------------------------------------------------------------


async def test_cursors_that_cannot_be_resumed() -> None:
    """A foreign, future or expired cursor is refused by `subscribe`, and costs a follower one snapshot."""
    async with open_checked_service(scripted(session_stream_capacity=2, stream_capacity=2)) as service:
        created = await service.create_session()
        for name in "abcd":
            await service.rename_session(created.session_id, name)
        now = (await service.load_session(created.session_id)).cursor
        refused = {
            "foreign_epoch": Cursor(epoch=Epoch("run_other"), seq=1),
            "future": attrs.evolve(now, seq=now.seq + 1),
            "expired": created.cursor,
        }
        for problem, cursor in refused.items():
            for session_id in (created.session_id, None):
                with pytest.raises(CursorRefused) as caught:
                    service.subscribe(session_id, after=cursor)
                assert (problem, "after") == (caught.value.problem, caught.value.field)
                async with service.follow(session_id, after=cursor) as feed:
                    (snapshot,) = await feed.receive_batch()
                    assert feed.last_resync is not None
                    assert (problem, 1) == (feed.last_resync.reason, feed.resyncs)
                    assert not isinstance(snapshot, ev.SessionEvent)
                    assert now == snapshot.cursor


async def test_subscribing_to_an_unknown_session() -> None:
    """Neither a subscription nor a feed can be made for a session that does not exist."""
    async with open_checked_service(scripted()) as service:
        for attempt in (service.subscribe, service.follow):
            with pytest.raises(NotFound) as caught:
                attempt(NOBODY)
            assert "session_id" == caught.value.field


async def test_places_that_are_none() -> None:
    """A session id that is no text and a place that is no cursor are refused by every reader, naming the field."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        bad_ids: Any = ([], 7)
        strange: Any = [Cursor(epoch=Epoch("run"), seq="7"), "x", 7]  # type: ignore[arg-type]
        for attempt in (service.subscribe, service.follow):
            for after in strange:
                for place in (session_id, None):
                    with pytest.raises(InvalidInput) as caught:
                        attempt(place, after=after)
                    assert "after" == caught.value.field
            for odd in bad_ids:
                with pytest.raises(InvalidInput) as caught:
                    attempt(odd)
                assert "session_id" == caught.value.field
        assert 0 == service.statistics().stream.subscribers


# --- the mailbox ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capacity", [1, 2])
async def test_overload(capacity: int) -> None:
    """With a full mailbox one command more is refused with `Overloaded`, does nothing, and can be sent again."""
    async with open_checked_service(scripted(mailbox_capacity=capacity)) as service:
        outcomes: list[str] = []

        async def create() -> None:
            try:
                await service.create_session()
                outcomes.append("created")
            except Overloaded as error:
                outcomes.append(error.code)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(create)

        assert {"created": capacity, "overloaded": 5 - capacity} == {key: outcomes.count(key) for key in set(outcomes)}
        statistics = service.statistics()
        assert capacity == statistics.sessions
        assert (0, capacity, 5 - capacity) == (
            statistics.mailbox.waiting,
            statistics.mailbox.performed,
            statistics.mailbox.refused,
        )
        await service.create_session()


# --- settings and turns -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (ServiceConfig(models={}), "models"),
        (ServiceConfig(default_model="gone"), "default_model"),
        (ServiceConfig(mailbox_capacity=0), "mailbox_capacity"),
        (ServiceConfig(stream_capacity=0), "stream_capacity"),
        (ServiceConfig(session_stream_capacity=0), "session_stream_capacity"),
        (ServiceConfig(stop_patience_ms=-1), "stop_patience_ms"),
        (ServiceConfig(approval_timeout_ms=0), "approval_timeout_ms"),
        (ServiceConfig(cwd="here"), "cwd"),
        (ServiceConfig(tools=ServiceConfig().tools * 2), "tools"),
    ],
)
async def test_settings_that_cannot_work(config: ServiceConfig, field: str) -> None:
    """A service that cannot work is refused when it is opened, naming the setting."""
    with pytest.raises(InvalidInput) as caught:
        async with open_session_service(config):
            pass
    assert field == caught.value.field


async def test_wait_for_turn() -> None:
    """Waiting finds the named turn, else the running one, else the last, and says so when there is none."""
    async with open_checked_service(scripted(text("a"), text("b"))) as service:
        session_id = await new_session(service)
        with pytest.raises(Conflict):
            await service.wait_for_turn(session_id)
        first = await service.send_user_message(session_id, "one")
        await service.wait_for_turn(session_id)
        second = await service.send_user_message(session_id, "two")
        running = await service.wait_for_turn(session_id)
        assert second.turn_id == running.outcome.turn_id
        assert running.outcome == (await service.wait_for_turn(session_id)).outcome
        assert first.turn_id == (await service.wait_for_turn(session_id, first.turn_id)).outcome.turn_id
        with pytest.raises(NotFound) as caught:
            await service.wait_for_turn(session_id, TurnId("turn_x"))
        assert "turn_id" == caught.value.field
