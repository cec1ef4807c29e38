"""Cells of a hostile model: what they must not reach, and what must not hurt the service that runs them."""

import os
import socket
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from session_core import limits
from session_core.protocols.code import executor, saved_state
from session_core.protocols.execution import KeptState
from session_core.storage.home import default_home
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ToolResultPart
from tests._needs import needs_sandbox
from tests.session_core.protocols.code._executor import (
    Session,
    alive,
    kept,
    open_session,
    result,
    run_out_of_time,
)

pytestmark = needs_sandbox

CANARY = "canary-71be2c"


@pytest.fixture
async def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Session]:
    """A session in a folder beside somebody else's, with secrets in the environment and in the home."""
    root, other, home = tmp_path / "root", tmp_path / "other", default_home()
    for folder in (root / "hidden", other, home):
        folder.mkdir(parents=True, exist_ok=True)
    (root / "mine.txt").write_text("mine")
    (root / "hidden" / "key").write_text(CANARY)
    (root / "way-out").symlink_to(other)
    (other / "theirs.txt").write_text(CANARY)
    (home / "token").write_text(CANARY)
    monkeypatch.setenv("API_TOKEN", CANARY)
    async with open_session(root, hidden=(str(root / "hidden"), str(home))) as session:
        yield session


async def refused(cells: Session, code: str) -> str:
    """Run a cell that must fail, and return how it did; nothing of it may hold a secret."""
    done = await cells.run(code)
    assert done.error is not None, done
    assert CANARY not in f"{done.output}{done.error}"
    return done.error


async def test_nothing_outside_the_root_can_be_read(cells: Session) -> None:
    """A cell reads its folder, and no file beside it, behind a link, hidden in it, of the home or of the system."""
    other = cells.folder.parent / "other" / "theirs.txt"
    assert "mine" == await cells.show("print(open('mine.txt').read())")
    for path in (
        str(other),
        "way-out/theirs.txt",
        "../other/theirs.txt",
        "hidden/key",
        str(default_home() / "token"),
        __file__,
        "/etc/passwd",
        "/etc/shadow",
        "/root/.bashrc",
        f"/proc/1/root{other}",
        f"/proc/self/root{other}",
        f"/proc/{os.getpid()}/environ",
    ):
        assert "Error" in await refused(cells, f"print(open({path!r}).read())")
    assert "[]" == await cells.show("import os\nos.listdir('hidden')")
    seen = await cells.show("print(sorted(os.listdir('/')), os.listdir('/etc'), os.listdir('/home') if 0 else '')")
    assert not {"'home'", "'var'", "'run'", "'sys'", "'mnt'"} & set(seen.strip("[]").replace(",", "").split())


async def test_files_that_are_to_be_asked_for(cells: Session) -> None:
    """Where reading has to be asked for, a cell sees no file at all, and keeps its variables through that change."""
    await cells.show("kept = open('mine.txt').read()")
    cells.may_read = False
    for code in ("open('mine.txt')", f"open({str(cells.folder / 'mine.txt')!r})"):
        assert "FileNotFoundError" in await refused(cells, code)
    assert "[]" in await cells.show("import os; print(os.listdir('.'))")
    assert "mine" in await cells.show("print(kept)")


async def test_nothing_can_be_written(cells: Session) -> None:
    """A cell changes no file of its folder nor of the system; it has a small folder of its own, in memory."""
    for code in (
        "open('new.txt', 'w')",
        "open('mine.txt', 'a')",
        "import os; os.remove('mine.txt')",
        "import os; os.rename('mine.txt', 'other.txt')",
        "import os; os.chmod('mine.txt', 0)",
        "import os; os.mkdir('folder')",
        "import os; os.symlink('/', 'link')",
        "open('/usr/x', 'w')",
        "open('/x', 'w')",
        "open('/dev/x', 'w')",
        "open('/dev/shm/x', 'w')",
        "open('/proc/sys/kernel/hostname', 'w').write('x')",
        f"open({sys.base_prefix + '/x'!r}, 'w')",
        f"import ctypes\nif ctypes.CDLL(None).mount(b'', {str(cells.folder).encode()!r}, b'', 32, None): raise OSError",
    ):
        assert "Error" in await refused(cells, code)
    assert "File too large" in await refused(
        cells, f"open('/tmp/x', 'wb').write(bytes({limits.CELL_FILE_BYTES + 99_999}))"
    )
    room = "for n in range(99):\n    with open(f'/tmp/{n}', 'wb') as f: f.write(bytes(8_000_000))"
    assert "No space left" in await refused(cells, room)
    assert ["hidden", "mine.txt", "way-out"] == sorted(path.name for path in cells.folder.iterdir())
    assert "mine" == (cells.folder / "mine.txt").read_text()


async def test_no_network(cells: Session) -> None:
    """A cell reaches no port of the machine and no socket beside it, even where the session's policy has a network."""
    with socket.create_server(("127.0.0.1", 0)) as ear, socket.socket(socket.AF_UNIX) as file_ear:
        file_ear.bind(str(cells.folder / "ear.sock"))
        file_ear.listen()
        port = ear.getsockname()[1]
        for code in (
            f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)",
            "import socket; socket.create_connection(('192.0.2.1', 80), 2)",
            "import socket; socket.getaddrinfo('example.org', 80)",
            f"import urllib.request; urllib.request.urlopen('http://127.0.0.1:{port}/', timeout=2)",
            "import socket; socket.socket(socket.AF_UNIX).connect('ear.sock')",
            "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
        ):
            assert "rror" in await refused(cells, code)
        for each in (ear, file_ear):
            each.setblocking(False)
            with pytest.raises(BlockingIOError):
                each.accept()


async def test_no_secrets_and_no_other_process(cells: Session) -> None:
    """A cell finds no secret in any environment, sees no process but its own, and cannot trace, signal or start one."""
    found = await cells.show(
        "import glob, os\nprint(dict(os.environ))\n"
        "for name in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline'):\n"
        "    try: print(open(name).read())\n    except OSError: pass\n"
        "print('pids', [n for n in os.listdir('/proc') if n.isdigit()], os.getppid())"
    )
    assert CANARY not in found
    assert "pids ['1', '2'] 1" in found
    for code, told in (
        (f"os.kill({os.getpid()}, 9)", "ProcessLookupError"),
        ("os.fork()", "PermissionError"),
        ("import subprocess; subprocess.run(['/bin/true'])", "PermissionError"),
        ("os.posix_spawn('/bin/true', ['true'], {})", "PermissionError"),
        ("import multiprocessing; multiprocessing.Process(target=print).start()", "Error"),
        ("import ctypes\nif ctypes.CDLL(None).ptrace(16, 1, 0, 0) < 0: raise OSError('traced')", "OSError: traced"),
        ("if ctypes.CDLL(None).unshare(0x10000000) < 0: raise OSError('unshared')", "OSError: unshared"),
    ):
        assert told in await refused(cells, code)
    assert "No module named 'session_core'" in await refused(cells, "import session_core")
    assert "No module named 'trio'" in await refused(cells, "import trio")


async def test_greed_ends_in_an_error(cells: Session) -> None:
    """A bomb of processes or threads, all memory, and output without end are each an error of the cell at most."""
    assert "PermissionError" in await refused(cells, "import os\nwhile True: os.fork()")
    assert "MemoryError" in await refused(cells, f"x = bytearray({2 * limits.CELL_MEMORY_BYTES})")
    assert "MemoryError" in await refused(cells, "x = []\nwhile True: x.append(bytes(500_000_000))")
    await cells.run("del x")
    assert "Error" in await refused(
        cells, "import threading\nwhile True: threading.Thread(target=threading.Event().wait, daemon=True).start()"
    )
    flood = await cells.run("print('z' * 30_000_000)")
    assert (None, True) == (flood.error, len(flood.output) < 2_200)
    assert "2" == (await cells.show("1 + 1")).partition("\n")[0]


async def test_memory_that_nobody_counts(cells: Session) -> None:
    """A cell gets no memory beside its own, by files in memory or shared segments, and has few files open at once."""
    shared = "import ctypes\nif ctypes.CDLL(None).{}(0, 4096, 0o1600) < 0: raise OSError('refused')"
    for call in ("shmget", "semget", "msgget"):
        assert "OSError: refused" in await refused(cells, shared.format(call))
    assert "PermissionError" in await refused(cells, "import os; os.memfd_create('x')")
    assert "Too many open files" in await refused(cells, "import os\nends = []\nwhile True: ends += os.pipe()")
    await cells.run("for end in ends: os.close(end)")
    assert "2" == (await cells.show("1 + 1")).partition("\n")[0]


WRITE = "import os\nfor n in range(3, 20):\n    try:\n        {}\n    except OSError: pass"


BREAKING = (
    ("import os\nos._exit(7)", "it exited with status 7"),
    ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "it was ended by SIGKILL"),
    ("import ctypes\nctypes.string_at(0)", "it was ended by SIGSEGV"),
    ("import os\nos.closerange(0, 100)", "The Python process has ended"),
    (WRITE.format("os.write(n, b'no frame\\n')"), "malformed message"),
    (WRITE.format("os.write(n, b'[1]\\n')"), "malformed message"),
    (WRITE.format("while True: os.write(n, b'x' * 60_000)"), "it exceeded the size limit"),
    (WRITE.format("if n != 5:\n            while True: os.write(n, b'{}\\n' * 9_000)"), "it exceeded the size limit"),
)


async def test_broken_process_is_told_and_replaced(cells: Session) -> None:
    """Whatever a cell does to its own process, the next cell runs with what was there before."""
    for code, told in BREAKING:
        await cells.run("x = 'still here'")
        assert told in await refused(cells, "x = 'changed'\n" + code)
        assert "'still here'" == (await cells.show("x")).partition("\n")[0]


FORGE = """
import json, os, sys
def forge(**frame):
    frame.setdefault('cell', int(sys._getframe(1).f_code.co_filename[6:-1]))
    for n in range(3, 20):
        try: os.write(n, json.dumps(frame).encode() + b'\\n')
        except OSError: pass
x = 1
"""
FORGED = (
    "say='part', name='value:x', data='!'",
    "say='part', name='../../x', data=''",
    "say='part', name=7, data=[]",
    "say='done', kept=['value:never'], lost=[], news=[]",
    "say='done', kept=['value:x'] * 3, lost=7, news=[[1, 2], 'x', None]",
    "say='done', kept=None",
    "say='ran', error=[], finished=True, value={'a': [[]]}",
    "say='image', type='text/html', data='PHNjcmlwdD4='",
    "say='call', call=[], tool='no such tool', arguments={}",
    "say='call', call=1, tool=['x'], arguments='x'",
    "say='call', cell=-1, call=1, tool='wait', arguments={}",
    "say='began', cell='x'",
    "say='loading', name=[]",
)


async def test_forged_frames_hurt_nobody_else(cells: Session) -> None:
    """A frame that a cell has forged ends as a result or an error of that cell, and later cells run."""
    for frame in FORGED:
        await cells.run(FORGE)
        done = await cells.run(f"forge({frame})")
        assert (0, ()) == (done.tool_calls, done.images)
        with trio.fail_after(300):
            await cells.run("print('whatever a forged end has left in the pipe')")
            assert "alive" in (await cells.run("print('alive')")).output, frame


async def test_a_cell_that_has_ended_again_and_again(cells: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell gains no time by saying that it has ended: it is given up as soon as any other."""
    monkeypatch.setattr("session_core.protocols.code.cell_run._GRACE", 0.1)
    monkeypatch.setattr("session_core.protocols.code.cell_run._KEEPING", 0.3)
    async with open_session(cells.folder, cell_seconds=5) as session:
        await session.run(FORGE)
        with trio.fail_after(300):
            endless = (
                "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True:\n    time.sleep(0.05)"
            )
            assert "was killed" in ((await session.run(f"{endless}\n    forge(say='ran', error=None)")).error or "")


async def test_calls_that_carry_too_much(cells: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the calls of a cell are given and give back is bounded, and the next cell may call again."""
    monkeypatch.setattr(limits, "MAX_CELL_CALL_CHARS", 10_000)

    async def answer(name: str, arguments: JsonObject) -> ToolResultPart:
        await trio.lowlevel.checkpoint()
        return result("x" * 2_000, details=JsonObject({"more": "y" * 3_000}))

    cells.answer = answer
    assert "at most" in await refused(cells, "wait(text='z' * 10_000)")
    assert "'done'" == await cells.show("wait(text='z')\n'done'")
    assert "ToolError" in await refused(cells, "while True: wait(text='z')")


async def test_changed_runner_is_the_cell_s_own_trouble(cells: Session, mock_clock: MockClock) -> None:
    """A cell that changes the program it runs in can only spoil its own process, which is given up when it is stuck."""
    mock_clock.rate = 0.01  # no cell that is to end takes too long, on busy cores either
    async with open_session(cells.folder, cell_seconds=1) as session:
        await session.run("x = 1")
        spoiled = await run_out_of_time(
            session,
            mock_clock,
            "import gc, sys, builtins, json, os\n"
            "json.dumps = lambda *a, **k: '{}'\nos.write = lambda fd, data: len(data)\nbuiltins.print = None\n"
            "sys.stdout.write('on it'); sys.stdout.flush()",
            rate=10,
        )
        assert "was killed" in (spoiled.error or "")
        assert "1" == await session.show("x")
        endless = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('on it')\nwhile True: pass"
        assert "was killed" in ((await run_out_of_time(session, mock_clock, endless, rate=10)).error or "")
        hooked = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nx = 2"
        assert "" == await session.show(hooked)
        ended = await run_out_of_time(session, mock_clock, "print('on it')\nwhile True: pass")
        assert "KeyboardInterrupt" in (ended.error or "")
        assert "2" == await session.show("x")
        mock_clock.rate = 1


EVIL = """
class Evil:
    def __reduce__(self): return (print, ('RUNNING',))
evil = Evil()
class Slow:
    def __reduce__(self):
        while True: pass
class Loud:
    def __getstate__(self): raise SystemExit
    def __getattr__(self, name): raise RuntimeError(name)
loud = Loud()
"""


async def test_what_is_kept_never_runs_in_the_service(
    cells: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Written variables are only ever read by the process of cells, and evil ones run there."""
    for module in (executor, saved_state):
        assert not hasattr(module, "pickle")
    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(f"pickle.{name}", None)
    output = await cells.show(EVIL)
    assert "loud (" in output
    assert "evil" not in output
    capture = await cells.keep()
    await cells.executor.restore(kept(capture))
    assert "RUNNING" in await cells.show("evil is None") + "".join(cells.said)
    assert "" == capsys.readouterr().out


async def test_variable_that_takes_for_ever_is_not_kept(cells: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing down, or bringing back, a variable that never ends is interrupted, and the others are kept."""
    await cells.run(EVIL + "late = 5")
    monkeypatch.setattr("session_core.protocols.code.cell_run._KEEPING", 0.3)
    output = await cells.show("slow = Slow()\nlater = 6")
    assert "slow (it takes too long to write down)" in output
    capture = await cells.keep()
    assert "value:later" in capture.state.root["order"]  # type: ignore[operator]
    monkeypatch.setattr("session_core.protocols.code.worker_restore._PATIENCE", 0.3)
    hang = "import time\nclass Hang:\n    def __reduce__(self): return (time.sleep, (60,))\nhang = Hang()"
    await cells.run(hang)
    await cells.executor.restore(kept(await cells.keep(), capture))
    assert "hang (it takes too long to bring back)" in await cells.show("later")


async def test_nothing_outlives_the_session(cells: Session) -> None:
    """When a session is closed nothing of its cells is left, whatever threads and handlers they have made."""
    await cells.run(
        "import signal, threading, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "threading.Thread(target=time.sleep, args=(600,)).start()"
    )
    processes = cells.processes
    assert 3 == len(processes)
    await cells.executor.restore(KeptState(state=(await cells.keep()).state, leaves={}))
    assert [] == alive(processes)
