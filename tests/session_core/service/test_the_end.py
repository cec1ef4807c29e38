"""The end of a service: what runs, who waits and who reads then, and whose error comes out."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from session_core.errors import ServiceClosed
from session_core.service.service import open_session_service
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Forever
from session_core.vocabulary.snapshots import SessionSnapshot
from tests.session_core.service._commands import ALL_COMMANDS
from tests.session_core.service._helpers import new_session, recorded, scripted


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
        with trio.fail_after(300):
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
        nursery.cancel_scope.deadline = trio.current_time() + 60
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
            service._mailbox._idle_actor = trio.lowlevel.ParkingLot()  # nobody wakes the actor
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


@pytest.mark.parametrize("running", [False, True])
async def test_the_error_of_the_block_keeps_its_cause(running: bool) -> None:  # noqa: FBT001
    """An error raised from another one inside the block still says so outside."""
    cause = ZeroDivisionError("why")
    with pytest.raises(ValueError, match="mine") as caught:  # noqa: PT012
        async with open_session_service(scripted(Forever("x"))) as service:
            if running:
                await service.send_user_message(await new_session(service), "go")
            raise ValueError("mine") from cause
    assert caught.value.__cause__ is cause
