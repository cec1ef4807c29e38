"""The mailbox: order, one outcome each, bounds, cancellation, the end."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from session_core.errors import Overloaded, ServiceClosed
from session_core.service.mailbox import Mailbox, MailboxStatistics
from session_core.vocabulary.commands import CommandRequest, CreateSession


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
