"""The service as a whole: bad input, bugs, idempotency, clients, and its end."""

from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from session_core import limits
from session_core.errors import (
    Conflict,
    CursorRefused,
    Forbidden,
    InternalError,
    InvalidInput,
    NotFound,
    Overloaded,
    ServiceClosed,
    SessionCoreError,
)
from session_core.ids import ClientId, Cursor, Epoch, MessageId, QueueItemId, RequestId, SessionId, TurnId, WakeupId
from session_core.service.config import ServiceConfig
from session_core.service.handlers import HANDLERS
from session_core.service.service import open_session_service
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Forever, ScriptedProvider, text
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary.commands import COMMANDS, Command
from session_core.vocabulary.sessions import SandboxPolicy
from session_core.vocabulary.snapshots import SessionSnapshot
from tests.session_core.service._helpers import new_session, recorded, say, scripted, trace

NOBODY = SessionId("ses_nobody")


def one_of_each(session_id: SessionId) -> list[Command[object]]:
    """One command of every kind that names a session."""
    message_id, item_id, request_id = MessageId("msg_x"), QueueItemId("item_x"), RequestId("req_x")
    return [
        c.LoadSession(session_id=session_id),
        c.RenameSession(session_id=session_id, name="n"),
        c.ArchiveSession(session_id=session_id),
        c.RestoreSession(session_id=session_id),
        c.DeleteSession(session_id=session_id),
        c.ForkSession(session_id=session_id),
        c.SendUserMessage(session_id=session_id, text="t"),
        c.StartTurnIfIdle(session_id=session_id, text="t"),
        c.EditMessage(session_id=session_id, message_id=message_id, text="t"),
        c.SwitchBranch(session_id=session_id, message_id=message_id),
        c.ResumeSession(session_id=session_id),
        c.DismissOutcome(session_id=session_id),
        c.WaitForTurn(session_id=session_id),
        c.ClearContext(session_id=session_id),
        c.CompactContext(session_id=session_id),
        c.ListQueue(session_id=session_id),
        c.EditQueueItem(session_id=session_id, item_id=item_id, text="t"),
        c.ReorderQueue(session_id=session_id, item_ids=()),
        c.RemoveQueueItem(session_id=session_id, item_id=item_id),
        c.TakeQueue(session_id=session_id),
        c.SwitchModel(session_id=session_id, model="m"),
        c.ChangePermissionTier(session_id=session_id, tier="bypass"),
        c.ChangeSandboxPolicy(session_id=session_id, policy=SandboxPolicy()),
        c.ChangeWorkingDirectory(session_id=session_id, cwd="/"),
        c.OpenDialog(session_id=session_id, kind="confirm", title="t"),
        c.AnswerDialog(session_id=session_id, request_id=request_id),
        c.AnswerApproval(session_id=session_id, request_id=request_id, decision="deny"),
        c.ScheduleWakeup(session_id=session_id, delay_ms=1, text="t"),
        c.CancelWakeup(session_id=session_id, wakeup_id=WakeupId("wake_x")),
        c.RequestStop(session_id=session_id),
    ]


ALL_COMMANDS = [c.CreateSession(), c.ListSessions(), c.LoadService(), *one_of_each(NOBODY)]


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


# --- clients ----------------------------------------------------------------------------------------------------------


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
            ev.ClientAttached(client_id=ClientId("ann"), role="participant"),
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


# --- the end ----------------------------------------------------------------------------------------------------------


async def test_the_end_of_the_service() -> None:
    """Closing interrupts what runs, ends every feed after its last event, and refuses every later command."""
    ended: list[object] = []
    async with trio.open_nursery() as nursery:
        async with open_checked_service(scripted(Forever("x"))) as service:
            session_id = await new_session(service)
            feed = service.follow(session_id)
            await service.send_user_message(session_id, "go")

            async def wait() -> None:
                ended.append((await service.wait_for_turn(session_id)).outcome.status)

            async def ask() -> None:
                ended.append((await service.open_dialog(session_id, "input", "Name?")).answered)

            async def read() -> None:
                shown = [item async for item in feed]
                assert isinstance(shown[0], SessionSnapshot)
                ended.append("read")

            for task in (wait, ask, read):
                nursery.start_soon(task)
            for _ in range(5):
                await trio.lowlevel.checkpoint()
        with trio.fail_after(5):
            await wait_all_tasks_blocked()
    assert {"interrupted", False, "read"} == set(ended)
    for command in ALL_COMMANDS:
        with pytest.raises(ServiceClosed):
            await service.execute(command)


async def test_an_open_dialog_does_not_outlive_the_service() -> None:
    """Whoever waits for an answer when the service closes is told so, although nothing was running."""
    replies: list[bool] = []
    async with trio.open_nursery() as nursery:
        async with open_checked_service(scripted()) as service:
            session_id = await new_session(service)

            async def ask() -> None:
                replies.append((await service.open_dialog(session_id, "input", "Name?")).answered)

            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
        nursery.cancel_scope.deadline = trio.current_time() + 2
    assert [False] == replies


async def test_commands_that_wait_when_the_service_closes() -> None:
    """A command still in the mailbox when the service closes is not done and gets `ServiceClosed`."""
    errors: list[str] = []
    async with trio.open_nursery() as nursery:
        async with open_checked_service(scripted()) as service:

            async def create() -> None:
                with pytest.raises(ServiceClosed) as caught:
                    await service.create_session()
                errors.append(caught.value.code)

            await wait_all_tasks_blocked()
            service._mailbox._actor_parked = False  # nobody wakes the actor
            nursery.start_soon(create)
            await wait_all_tasks_blocked()
            assert 1 == service.statistics().mailbox.waiting
        assert [] == recorded(service)
    assert ["closed"] == errors


async def test_the_error_of_the_block_comes_out_as_it_was_raised() -> None:
    """An error raised inside the block is not wrapped in a group, even with a turn running."""
    with pytest.raises(KeyError, match="mine"):  # noqa: PT012
        async with open_session_service(scripted(Forever("x"))) as service:
            await service.send_user_message(await new_session(service), "go")
            raise KeyError("mine")


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (ServiceConfig(models={}), "models"),
        (ServiceConfig(default_model="gone"), "default_model"),
        (ServiceConfig(mailbox_capacity=0), "mailbox_capacity"),
        (ServiceConfig(stream_capacity=0), "stream_capacity"),
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
