"""What cells have done is kept with the end of their turn, however that comes."""

from pathlib import Path
from typing import Any

import pytest

from session_core.protocols.driver import Actions, DriverView
from session_core.service.service import open_session_service
from session_core.storage.sqlite import SqliteStore
from session_core.testing.scripted import Hang, Pause, ScriptedProvider, text
from tests.session_core.service._helpers import new_session, say, scripted
from tests.session_core.service._protocols import CellDriver, ToyExecutor, Watched


class Failing(CellDriver):
    """Has a cell run, and then a bug."""

    def on_code(self, view: DriverView) -> Actions:
        raise ZeroDivisionError("a bug")


@pytest.mark.parametrize("end", ["stopped", "failed"])
async def test_state_of_a_turn_without_a_proper_end(end: str, tmp_path: Path, quiet_log: None) -> None:
    """A cell that has run before its turn was stopped, or failed, is there after a restart."""
    provider = ScriptedProvider(text("run x"), (Pause("here"), Hang()))
    first = Watched(driver=CellDriver() if end == "stopped" else Failing(), executor=ToyExecutor())
    async with open_session_service(scripted(provider, store=SqliteStore(tmp_path), **first.settings())) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        if end == "stopped":
            await provider.wait_for_pause("here")
            await service.request_stop(session_id)
        assert (await service.wait_for_turn(session_id)).outcome.status == end
    executor: Any = ToyExecutor()
    again = Watched(driver=CellDriver(), executor=executor)
    answers = (text("run y"), text("end"))
    async with open_session_service(scripted(*answers, store=SqliteStore(tmp_path), **again.settings())) as service:
        assert (await say(service, session_id)).status == "completed"
    assert executor.cells == ["x", "y"]
