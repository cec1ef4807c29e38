"""The mailbox: order, one outcome each, bounds, cancellation, the end."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from session_core.errors import Overloaded, ServiceClosed
from session_core.ids import ClientId, SessionId
from session_core.service.extension_api import extension_client
from session_core.service.mailbox import Mailbox, MailboxStatistics
from session_core.vocabulary.commands import Command, CommandRequest, CreateSession, LoadSession, RenameSession


def request(name: str) -> CommandRequest:
    return CommandRequest(command=CreateSession(name=name))


def name_of(asked: CommandRequest) -> str:
    assert isinstance(asked.command, CreateSession)
    assert asked.command.name is not None
    return asked.command.name


class Performer:
    """Notes what it performs; the name "bug" raises."""

    def __init__(self) -> None:
        self.performed: list[tuple[str, int]] = []

    def __call__(self, asked: CommandRequest, number: int) -> object:
        name = name_of(asked)
        self.performed.append((name, number))
        if name == "bug":
            raise ZeroDivisionError
        return name.upper()


async def test_commands_run_in_the_order_of_their_calls() -> None:
    """Commands are performed one by one in the order in which they were sent, and each caller gets its own reply."""
    performer = Performer()
    mailbox = Mailbox(performer, capacity=500)
    replies: dict[str, object] = {}

    async def call(name: str) -> None:
        replies[name] = await mailbox.call(request(name))

    names = [f"n{number}" for number in range(200)]
    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(call, name)
            await wait_all_tasks_blocked()  # so that the calls have an order
        assert 200 == mailbox.statistics().waiting
        await nursery.start(mailbox.run)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert [(name, place) for place, name in enumerate(names, start=1)] == performer.performed
    assert {name: name.upper() for name in names} == replies


async def test_an_error_reaches_its_caller_only() -> None:
    """A command that raises fails for its caller, and the next one is performed."""
    mailbox = Mailbox(Performer(), capacity=5)
    async with trio.open_nursery() as nursery:
        await nursery.start(mailbox.run)
        with pytest.raises(ZeroDivisionError):
            await mailbox.call(request("bug"))
        assert "A" == await mailbox.call(request("a"))
        nursery.cancel_scope.cancel()


async def test_bounds_cancellation_and_the_end() -> None:
    """One too many is refused, a cancelled one is skipped, and those left at the end are told so."""
    performer = Performer()
    mailbox = Mailbox(performer, capacity=2)
    ended: list[str] = []

    async def call(name: str) -> None:
        try:
            await mailbox.call(request(name))
        except ServiceClosed as error:
            ended.append(f"{name} {error.code}")

    async with trio.open_nursery() as callers:
        with trio.CancelScope() as given_up:
            async with trio.open_nursery() as impatient:
                impatient.start_soon(call, "a")
                await wait_all_tasks_blocked()
                callers.start_soon(call, "b")
                await wait_all_tasks_blocked()
                with pytest.raises(Overloaded):
                    await mailbox.call(request("c"))
                assert ["a", "b"] == [name_of(each) for each in mailbox.waiting_requests()]
                given_up.cancel()
        assert ["b"] == [name_of(each) for each in mailbox.waiting_requests()]
        mailbox.close()
        with pytest.raises(ServiceClosed):
            await mailbox.call(request("d"))
    assert ["b closed"] == ended
    assert [] == performer.performed
    assert MailboxStatistics(waiting=0, performed=0, refused=1) == mailbox.statistics()


# --- preparing --------------------------------------------------------------------------------------------------------

ONE, OTHER = SessionId("one"), SessionId("other")
A, B = ClientId("a"), ClientId("b")


def rename(name: str, client_id: ClientId, session_id: SessionId = ONE) -> CommandRequest:
    return CommandRequest(command=RenameSession(session_id=session_id, name=name), client_id=client_id)


def load(client_id: ClientId) -> CommandRequest:
    return CommandRequest(command=LoadSession(session_id=ONE), client_id=client_id)


async def test_who_waits_for_a_preparing_command() -> None:
    """Changes of its session wait, and reads of its own client until a hook is asked; nobody else does."""
    mailbox = Mailbox(Performer(), capacity=5)
    requests = {
        "change of a": rename("x", A),
        "change of b": rename("x", B),
        "read of a": load(A),
        "read of b": load(B),
        "elsewhere": rename("x", A, OTHER),
        "no session": CommandRequest(command=CreateSession(), client_id=A),
        "extension": rename("x", extension_client("git")),
    }

    def waiting() -> set[str]:
        return {what for what, asked in requests.items() if mailbox.must_wait(asked)}

    with mailbox.enter(rename("first", A)) as first:
        assert {"change of a", "change of b", "read of a"} == waiting()
        with mailbox.while_asking_hooks(first):
            assert set() == waiting(), "all of these would be sent by the hook"
        assert {"change of a", "change of b"} == waiting()
        with mailbox.enter(rename("second", B)):
            assert {"change of a", "change of b", "read of b"} == waiting()
    assert set() == waiting()


async def test_commands_that_prepare_run_in_the_order_of_arrival() -> None:
    """Commands of a session that prepare run as they came, whoever gives up, and those of another go ahead of them."""
    performed: list[str] = []

    def perform(asked: CommandRequest, number: int) -> object:
        command: Command[object] = asked.command
        assert isinstance(command, RenameSession)
        performed.append(f"{number} {command.name}")
        return None

    mailbox = Mailbox(perform, capacity=5)
    go_on, impatient = trio.Event(), trio.CancelScope()

    async def send(asked: CommandRequest, prepared: trio.Event | None, scope: trio.CancelScope) -> None:
        with scope, mailbox.enter(asked) as entry:
            await mailbox.wait_for_turn(entry)
            if prepared is not None:
                await prepared.wait()
            await mailbox.call(asked, entry)

    async with trio.open_nursery() as nursery:
        await nursery.start(mailbox.run)
        for name, prepared, scope in (
            ("first", go_on, trio.CancelScope()),
            ("given up", None, impatient),
            ("second", None, trio.CancelScope()),
        ):
            nursery.start_soon(send, rename(name, A), prepared, scope)
            await wait_all_tasks_blocked()
        await send(rename("elsewhere", A, OTHER), None, trio.CancelScope())
        impatient.cancel()
        await wait_all_tasks_blocked()
        assert 2 == len([*mailbox.waiting_requests()])
        go_on.set()
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert ["4 elsewhere", "1 first", "3 second"] == performed
    assert [] == [*mailbox.waiting_requests()]
