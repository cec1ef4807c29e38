"""An extension that registers something all the time costs others next to nothing."""

import pytest
import trio
from trio.testing import MockClock

from session_core.sep.host import registrations as module
from session_core.sep.host.extension import HostedExtension
from session_core.sep.host.process.extension_log import ExtensionLog
from session_core.sep.host.registrations import CommandRegistration, Registrations, merge_update, read_registrations
from tests.session_core.sep._children import Host
from tests.session_core.sep._stand_in import FOUND, StandIns, no_preparation

SCHEMA = {"type": "object", "properties": {"depth": {"type": "integer"}}}


def tool(name: str) -> dict[str, object]:
    return {"name": name, "description": "Digs.", "parameters": SCHEMA}


def test_an_addition_measures_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small update of a large registry does not look at all of it again."""
    large = read_registrations({"tools": [tool(f"t{number}") for number in range(200)]})
    measured: list[object] = []

    def size_of(plain: object) -> int:
        measured.append(plain)
        return 0

    monkeypatch.setattr(module, "size_of", size_of)
    assert len(merge_update(large, {"tools": [tool("new")]}).tools) == 201
    assert len(measured) == 1


async def test_changes_are_told_now_and_then(autojump_clock: MockClock) -> None:
    """Of many changes in a row the first is told at once, the others together, and the last is never left out."""
    host, processes = Host(), StandIns()
    extension = HostedExtension(FOUND, host, ExtensionLog(), open_process=processes.open, prepare=no_preparation)
    told: list[int] = []
    async with trio.open_nursery() as nursery:
        await nursery.start(extension.run)
        host.on_changed = lambda extension: told.append(len(extension.registrations.commands))  # type: ignore[method-assign]
        for most in range(1, 101):
            commands = tuple(CommandRegistration(name=f"c{number}") for number in range(most))
            extension.update_registrations(Registrations(commands=commands))
        assert told == [1]
        await trio.sleep(1)
        assert told == [1, 100]
        extension.update_registrations(extension.registrations)
        await trio.sleep(1)
        assert told == [1, 100], "what is as before is no change"
        await extension.stop()
