"""Commands whose extension is reloaded, switched off or falls over while they run."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from session_core.ids import SessionId
from session_core.rpc.failures import RpcFailed
from session_core.rpc.messages import Request
from session_core.sep.host.calls.contexts import Contexts
from session_core.sep.host.extension import HostedExtension
from session_core.sep.host.process.extension_log import ExtensionLog
from session_core.sep.host.process.process_session import ExtensionTimeouts
from tests.session_core.sep._children import Host
from tests.session_core.sep._stand_in import FOUND, StandIn, StandIns, no_preparation


class Commanded:
    """An extension whose command takes some seconds; `said` is what came of it."""

    def __init__(self, seconds: float) -> None:
        self.processes = StandIns()
        self.processes.answer = self._answer
        self._seconds = seconds
        self.extension = HostedExtension(
            FOUND,
            Host(),
            ExtensionLog(),
            open_process=self.processes.open,
            prepare=no_preparation,
            pace=ExtensionTimeouts(backoffs=()),
        )
        self.said: list[str] = []

    async def _answer(self, process: StandIn, request: Request) -> Any:
        if request.method == "command/execute":
            await trio.sleep(self._seconds)
            return {"content": "done"}
        answer = await StandIns().answer_well(process, request)
        if request.method == "shutdown":
            process.crash("it was asked to go")
        return answer

    async def run(self) -> None:
        try:
            self.said.append(await self.extension.run_command(Contexts(), SessionId("ses_here"), "work", ""))
        except RpcFailed as failed:
            self.said.append(failed.message)


async def _said(commanded: Commanded, meanwhile: str) -> list[str]:
    """Run its command, and do something to it meanwhile."""
    extension = commanded.extension
    async with trio.open_nursery() as nursery:
        await nursery.start(extension.run)
        nursery.start_soon(commanded.run)
        await wait_all_tasks_blocked()
        match meanwhile:
            case "reload":
                await extension.reload()
            case "crash":
                commanded.processes.all[0].crash()
                await wait_all_tasks_blocked()
            case _:
                pass  # it is stopped below
        await extension.stop()
    return commanded.said


async def test_a_command_may_end_during_a_reload(autojump_clock: MockClock) -> None:
    """What ends within the time that the old process is given is answered as if nothing had happened."""
    assert ["done"] == await _said(Commanded(4), "reload")


@pytest.mark.parametrize(
    ("meanwhile", "words"),
    [
        (
            "reload",
            "the extension tried was reloaded, and its old process did not finish within 5 s, while /tried.work ran",
        ),
        ("stop", "the extension tried was switched off or ended while /tried.work ran"),
        ("crash", "the process of the extension tried ended while /tried.work ran"),
    ],
)
async def test_why_a_command_has_no_answer(autojump_clock: MockClock, meanwhile: str, words: str) -> None:
    """Whoever waits for a command whose process is gone is told what became of the extension."""
    assert [words] == await _said(Commanded(100), meanwhile)
