"""The process of cells: what ends it, what takes its place, and what is there then."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from session_core.protocols.faults import ProtocolFault
from session_core.service.service import open_session_service
from session_core.storage.sqlite import SqliteStore
from session_core.testing.scripted import ScriptedAnswer, ScriptedProvider, ScriptedTool, text
from session_core.vocabulary.events import ToolOutputDelta
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ToolResultPart
from tests._needs import NO_SANDBOX, disable_sandbox, needs_sandbox
from tests.session_core.protocols.code._executor import (
    CONFINED,
    UNCONFINED,
    alive,
    kept,
    open_session,
    result,
    run_out_of_time,
)
from tests.session_core.service._helpers import new_session, say, scripted


@pytest.fixture
def slow_clock(mock_clock: MockClock) -> MockClock:
    """A clock on which nothing takes long, on busy cores either: time passes when a test says so."""
    mock_clock.rate = 0.01
    return mock_clock


async def test_slow_cell_is_interrupted_and_keeps_what_it_did(tmp_path: Path, slow_clock: MockClock) -> None:
    """A cell whose time is over meets a KeyboardInterrupt, keeps its variables, and its process goes on."""
    async with open_session(tmp_path, cell_seconds=1) as session:
        await session.run("x = 1")
        pid = session.executor.pid
        slow = await run_out_of_time(session, slow_clock, "x = 2\nprint('on it')\nwhile True: pass")
        assert "on it" == slow.output
        assert "KeyboardInterrupt\nThe cell was interrupted after 1 seconds" in (slow.error or "")
        asleep = await run_out_of_time(session, slow_clock, "import time\nprint('on it')\ntime.sleep(600)")
        assert "KeyboardInterrupt" in (asleep.error or "")
        assert ("2", pid) == (await session.show("x"), session.executor.pid)
        slow_clock.rate = 1


async def test_time_of_tools_does_not_count(tmp_path: Path, slow_clock: MockClock) -> None:
    """A cell that waits for a tool longer than its own time is not interrupted."""

    async def answer(name: str, arguments: JsonObject) -> ToolResultPart:
        slow_clock.jump(10)
        await trio.lowlevel.checkpoint()
        return result("at last")

    async with open_session(tmp_path, cell_seconds=1, answer=answer) as session:
        assert "at last" == await session.show("print(wait())")
        slow_clock.rate = 1


async def test_cell_that_cannot_be_interrupted_is_killed(tmp_path: Path, slow_clock: MockClock) -> None:
    """A cell that catches every interrupt is killed, told so, and variables are as they were before it."""
    stubborn_code = "x = 2\nwhile True:\n    try:\n        print('on it')\n        sum(range(9999))\n    except: pass"
    async with open_session(tmp_path, cell_seconds=1) as session:
        await session.run("x = 1\nimport sys\ngone = sys._getframe()")
        pid = session.executor.pid
        stubborn = await run_out_of_time(session, slow_clock, stubborn_code, rate=10)
        assert (
            "The cell ran for more than 1 seconds and could not be interrupted: it was killed. Variables are as they "
            "were before this cell: what it changed is lost. Lost as well, as they cannot be kept: gone."
        ) == stubborn.error
        assert "1" == await session.show("x")
        assert pid != session.executor.pid
        slow_clock.rate = 1


@pytest.mark.parametrize("sandbox", ["confined", "unconfined"])
async def test_killed_process_is_replaced(tmp_path: Path, sandbox: str) -> None:
    """A process that is killed, between cells or in one, is replaced by one with the last good variables, and told."""
    async with open_session(tmp_path) as session:
        if sandbox == "unconfined":
            session.sandbox = UNCONFINED
        await session.run("x = [1]\nimport threading\nlock = threading.Lock()\ndef f(): return x")
        os.kill(session.processes[-1], signal.SIGKILL)
        again = await session.run("x.append(2)\nf()")
        assert "[1, 2]\n[The Python process was restarted, as it had ended since the last cell" in again.output
        assert "[Gone, as they cannot be kept: lock.]" in again.output
        async with trio.open_nursery() as nursery:
            session.said.clear()

            async def kill() -> None:
                await session.until_said("now")
                os.kill(session.processes[-1], signal.SIGKILL)

            nursery.start_soon(kill)
            killed = await session.run("x.append(3)\nprint('now')\nwhile True: pass")
        assert "now" == killed.output
        assert (
            "The Python process has ended: it was ended by SIGKILL. Variables are as they were before this cell: what "
            "it changed is lost."
        ) == killed.error
        assert "[1, 2]" == await session.show("f()")


async def test_cancelled_cell_leaves_what_was_before(tmp_path: Path) -> None:
    """Cancelling at any moment ends the process, and the next cell finds what was there before the cancelled one."""
    async with open_session(tmp_path) as session:
        await session.run("x = 1")
        for moment in (0.0, 0.001, 0.02, 0.3):
            before = session.processes
            with trio.move_on_after(moment) as scope:
                await session.run("x = 2\nwhile True: pass")
            assert scope.cancelled_caught
            if moment:
                assert [] == alive(before)
        after = await session.show("x")
        assert (
            "1\n[The Python process was restarted, as the last cell was stopped; what that changed is lost.]" == after
        )

        async def for_ever(name: str, arguments: JsonObject) -> ToolResultPart:
            await trio.sleep_forever()

        session.answer = for_ever
        with trio.move_on_after(0.3):
            await session.run("wait()\nx = 3")
        assert (await session.show("x")).startswith("1\n")


async def test_second_caller_waits_and_closing_ends_all(tmp_path: Path) -> None:
    """Two cells run one after the other; closing ends the running one with an error, and nothing is left or started."""
    async with open_session(tmp_path) as session:
        found: list[str] = []

        async def run(code: str) -> None:
            found.append((await session.run(code)).output)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, "import time\nlog = ['a']\ntime.sleep(0.1)\nlog.append('b')")
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(run, "log")
        assert ["", "['a', 'b']"] == found
        processes = session.processes
        assert (3 if NO_SANDBOX is None else 1) == len(processes), "bubblewrap is two of them"
        errors: list[str | None] = []

        async def endless() -> None:
            errors.append((await session.run("print('now')\nwhile True: pass")).error)

        session.said.clear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(endless)
            await session.until_said("now")
            await session.executor.aclose()
        assert "The Python process has ended" in (errors[0] or "")
        assert [] == alive(processes)
        with pytest.raises(ProtocolFault, match="has been closed"):
            await session.run("1")


async def test_new_folder_is_a_new_process(tmp_path: Path) -> None:
    """When the session's folder changes, cells see the new one, with the variables of before, and are told."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").touch()
    async with open_session(tmp_path / "one") as session:
        assert "['one.txt']" == await session.show("import os\nfiles = os.listdir()\nfiles")
        session.folder = tmp_path / "two"
        output = await session.show("files, os.listdir()")
        assert output.startswith("(['one.txt'], ['two.txt'])\n[The Python process was restarted, as the folder")


async def test_without_a_sandbox_somebody_must_have_agreed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be confined cells are refused, unless a person has agreed or the session has full access."""
    disable_sandbox(monkeypatch, "bubblewrap is not there")
    async with open_session(tmp_path) as session:
        session.unconfined = False
        with pytest.raises(ProtocolFault, match="bubblewrap is not there, and nobody agreed to run it unconfined"):
            await session.run("1")
        session.unconfined = True
        assert "2" == await session.show("x = 1\nx + 1")
        session.unconfined, session.sandbox = False, UNCONFINED
        assert (await session.show("x + 2")).startswith("3\n[The Python process was restarted")


async def test_a_yes_takes_no_sandbox_away(tmp_path: Path) -> None:
    """Where cells can be confined they are, whatever anybody has agreed to."""
    async with open_session(tmp_path) as session:
        session.unconfined = True
        confined = "PermissionError" in ((await session.run("import os; os.fork()")).error or "")
    assert (NO_SANDBOX is None) == confined


async def test_unconfined_cells_get_no_secrets_and_die_with_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With full access cells may write files, but still find a cleaned environment and none of our modules."""
    monkeypatch.setenv("SECRET_TOKEN", "canary")
    async with open_session(tmp_path, sandbox=UNCONFINED) as session:
        assert "written" == await session.show("open('new.txt', 'w').write('x'); print('written')")
        assert (tmp_path / "new.txt").exists()
        environment = await session.show("import os\nprint(open('/proc/self/environ').read(), os.environ)")
        assert "canary" not in environment
        assert "No module named 'session_core'" in ((await session.run("import session_core")).error or "")
        assert "9" == await session.show(
            "import ctypes\nnumber = ctypes.c_int()\nctypes.CDLL(None).prctl(2, ctypes.byref(number))\nnumber.value"
        )


HOST = """
import os, signal, sys, trio
from contextlib import AsyncExitStack
from pathlib import Path
from tests.session_core.protocols.code._executor import CONFINED, UNCONFINED, open_session

async def main():
    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        pids = []
        for sandbox in (CONFINED, UNCONFINED):
            session = await stack.enter_async_context(open_session(Path(sys.argv[1]), sandbox=sandbox))
            nursery.start_soon(session.run, "print('now')\\nwhile True: pass")
            await session.until_said("now")
            pids += session.processes
        print(*pids, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

trio.run(main)
"""


@needs_sandbox
async def test_cells_die_with_the_service(tmp_path: Path) -> None:
    """When the service is killed in the middle of cells, confined or not, their processes are gone at once."""
    done = await trio.run_process([sys.executable, "-c", HOST, str(tmp_path)], capture_stdout=True, check=False)
    pids = [int(pid) for pid in done.stdout.split()]
    assert (-signal.SIGKILL, 4) == (done.returncode, len(pids))
    with trio.fail_after(300):
        for pid in pids:
            with suppress(ProcessLookupError):
                handle = os.pidfd_open(pid)
                try:
                    await trio.lowlevel.wait_readable(handle)
                finally:
                    os.close(handle)
    assert [] == alive(pids)


def written(code: str) -> ScriptedAnswer:
    return text(f"```python\n{code}\n```")


async def test_a_whole_service_goes_on_after_a_stop_and_after_its_end(tmp_path: Path) -> None:
    """In a service, a stop in the middle of a cell keeps what was before it, and another service goes on from there."""
    tool = ScriptedTool("look", run="seen")
    provider = ScriptedProvider(
        written("x = [look()]"),
        written("big = 'y' * 5_000\nfinish(len(x))"),
        written("x.append('lost')\nprint('now')\nwhile True: pass"),
        written("finish(x + [len(big)])"),
    )
    home = tmp_path / "home"
    sandbox = CONFINED if NO_SANDBOX is None else UNCONFINED
    config = scripted(
        provider, tools=(tool,), store=SqliteStore(home), protocol="code", cwd=str(tmp_path), sandbox=sandbox
    )
    async with open_session_service(config) as service:
        session_id = await new_session(service)
        assert 1 == (await say(service, session_id)).output
        assert 1 == len(tool.calls)
        async with service.subscribe(session_id) as events:
            await service.send_user_message(session_id, "go on")
            async for each in events:
                if isinstance(each.event, ToolOutputDelta):
                    break
        await service.request_stop(session_id)
        assert "stopped" == (await service.wait_for_turn(session_id)).outcome.status
    async with open_session_service(attrs.evolve(config, store=SqliteStore(home))) as service:
        assert ("seen", 5_000) == (await say(service, session_id)).output


EVIL = """
import collections, json
class Evil:
    def __reduce__(self): return (open, ('ran.txt', 'w'))
evil = Evil()
def leave(): pass
plain = collections.OrderedDict(a=[1, {2.5, 'x'}, (None, True)], b=b'bytes')
"""


@needs_sandbox
async def test_no_code_comes_back_without_a_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what a confined process has written, an unconfined one reads plain data alone, and nothing of it runs."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with open_session(tmp_path / "a") as session:
        assert (await session.run(EVIL)).error is None
        capture = await session.keep()
        state = kept(capture)
    disable_sandbox(monkeypatch, "bubblewrap is refused")
    async with open_session(tmp_path / "b") as session:
        await session.executor.restore(state)
        there = "sorted(set(globals()) & {'evil', 'leave', 'json', 'plain'})"
        output = await session.show(f"{there}, plain['a'][1] == {{2.5, 'x'}}")
        assert output.startswith("(['plain'], True)\n[The Python process was restarted")
        assert "leave (it is more than plain data, which is all that is read without a sandbox)" in output
        assert [] == list((tmp_path / "b").iterdir())


async def test_what_agreed_cells_wrote_comes_back_whole(tmp_path: Path) -> None:
    """A process without a sandbox that died is replaced by one that has its functions too: people agreed to them."""
    async with open_session(tmp_path, sandbox=UNCONFINED) as session:
        await session.show("import json\ndef twice(x): return 2 * x")
        os.kill(session.processes[-1], signal.SIGKILL)
        assert (await session.show("json.dumps(twice(2))")).startswith("'4'\n[The Python process was restarted")
