"""Whether a service is still there: lost connections, services that come back, and those that do not."""

from pathlib import Path

import attrs
import pytest
import trio

from frontends.client import ConnectionState
from frontends.server.daemon import presence as presence_module
from frontends.server.daemon.presence import Presence

CONNECTED = ConnectionState(phase="connected")
LOST = ConnectionState(phase="lost", reason="a cable")


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether there is a process that is the service, at each look; the last answer stays."""
    answers: list[bool] = []

    def look(_: Path) -> object:
        return object() if (answers.pop(0) if len(answers) > 1 else answers[0]) else None

    async def at_once(function: object, *arguments: object) -> object:
        await trio.lowlevel.checkpoint()
        return look(Path("/"))

    monkeypatch.setattr(presence_module, "service_process", look)
    monkeypatch.setattr(trio.to_thread, "run_sync", at_once)  # a thread would not wait for the clock to jump
    return answers


async def test_a_service_that_comes_back_is_waited_for(
    home: Path, there: list[bool], autojump_clock: trio.testing.MockClock
) -> None:
    """A lost connection ends nothing while the process is there, or comes back in time."""
    there[:] = [True, True, False]
    presence = Presence(home)
    ended: list[str] = []

    async def run() -> None:
        ended.append(await presence.run())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        presence.note(LOST)
        await trio.sleep(2.5 * presence_module.MISSED_S)  # it was looked for twice
        presence.note(CONNECTED)
        await trio.sleep(10 * presence_module.MISSED_S)
        assert [] == ended
        presence.note(LOST)
        presence.note(attrs.evolve(LOST, attempt=2))
        await trio.sleep(2 * presence_module.MISSED_S)
        assert ["a cable"] == ended
    assert "a cable" == presence.gone


async def test_those_who_read_are_let_go(home: Path, there: list[bool], autojump_clock: trio.testing.MockClock) -> None:
    """Whoever reads when the service is gone for good stops waiting, and so does whoever comes later."""
    there[:] = [True]
    presence = Presence(home)
    let_go: list[str] = []

    async def read(name: str) -> None:
        with presence.read_while_present():
            await trio.Event().wait()
        let_go.append(name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(presence.run)
        nursery.start_soon(read, "first")
        await trio.testing.wait_all_tasks_blocked()
        presence.note(ConnectionState(phase="ended", reason="shut down"))
        await trio.testing.wait_all_tasks_blocked()
        assert ["first"] == let_go
        nursery.start_soon(read, "second")
    assert ["first", "second"] == let_go
    assert "shut down" == presence.gone
