"""Running programs: real children, ended in every way, and none of them left behind."""

import errno
import os
import signal
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from session_core.processes import child, process_table, run
from session_core.processes.child import Child, Launch, ProcessNotStarted
from session_core.processes.run import ProcessOutcome, run_in_group

IGNORE_SIGTERM = "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
SAY_PID = "os.write(1, b'%d\\n' % os.getpid())\n"  # in one write: two processes may say it at once
SLEEP = "time.sleep(1000)\n"
PATIENCE_S = 300.0
FORK = "import os, sys, time; parent = os.getpid(); said, say = os.pipe(); child = os.fork()\n"
"""After this both go on; `child` is 0 in the grandchild."""
ORPHANED = "while os.getppid() == parent: time.sleep(0.001)\n"


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    """Fail any test that leaves a child behind."""
    yield
    assert_no_child()


@pytest.fixture(autouse=True)
def long_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test uses it up, on a busy machine either, unless it asks for a short one."""
    monkeypatch.setattr(child, "_GRACE", PATIENCE_S)
    monkeypatch.setattr(run, "_GRACE", PATIENCE_S)
    monkeypatch.setattr(child, "_KILL_WAIT", PATIENCE_S)


@pytest.fixture
def short_grace(long_grace: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that are sure to use it up; the kernel has all the time it needs to carry out a kill."""
    monkeypatch.setattr(child, "_GRACE", 0.1)
    monkeypatch.setattr(run, "_GRACE", 0.1)


class Watcher:
    """Keeps what a program says, and lets a test wait until it has said enough."""

    def __init__(self, lines: int = 0) -> None:
        self.text = ""
        self.enough = trio.Event()
        self._lines = lines

    def __call__(self, text: str) -> None:
        self.text += text
        if self.text.count("\n") >= self._lines:
            self.enough.set()

    @property
    def pids(self) -> list[int]:
        return [int(line) for line in self.text.splitlines()]


async def run_python(
    code: str, on_output: Callable[[str], None] = lambda _: None, output_limit: int = 100_000
) -> ProcessOutcome:
    argv = [sys.executable, "-S", "-c", code]
    with trio.fail_after(2 * PATIENCE_S):
        return await run_in_group(Launch(argv=argv, cwd="/"), on_output=on_output, output_limit=output_limit)


async def run_and_cancel(code: str, *, lines: int) -> tuple[Watcher, float]:
    """Cancel a program when it has said so many lines; return what it said and how long ending it took."""
    watcher = Watcher(lines)
    start = trio.current_time()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_python, code, watcher)
            await watcher.enough.wait()
            start = trio.current_time()
            scope.cancel()
    assert scope.cancelled_caught
    return watcher, trio.current_time() - start


def exists(pid: int) -> bool:
    """Whether the process is alive; a zombie, which its new parent has yet to reap, is not."""
    try:
        os.kill(pid, 0)
        return not process_table._PROC.is_dir() or ") Z " not in (process_table._PROC / str(pid) / "stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


def assert_no_child() -> None:
    """Fail if this process has a child, be it running or a zombie."""
    with pytest.raises(ChildProcessError):
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)


async def test_a_program_runs_to_its_end() -> None:
    """The outcome tells exit code and output, and the output was shown as it came."""
    watcher = Watcher()

    outcome = await run_python("import sys; print('hello'); sys.exit(3)", watcher)

    assert ProcessOutcome(exit_code=3, output="hello\n", truncated=False) == outcome
    assert "hello\n" == watcher.text


async def test_what_a_program_gets(tmp_path: Path) -> None:
    """It runs in its folder, with the environment it is given, without input, in a group of its own."""
    code = "import os, sys; print(os.getcwd(), os.environ['X'], repr(sys.stdin.read()), os.getpgid(0) == os.getpid())"

    outcome = await run_in_group(
        Launch(argv=[sys.executable, "-c", code], cwd=str(tmp_path), env={"X": "y"}), on_output=lambda _: None
    )

    assert f"{tmp_path} y '' True\n" == outcome.output


async def test_both_outputs_come_as_one() -> None:
    """What is written to stdout and stderr arrives in the order it was written."""
    code = "import os\nfor number in range(6): os.write(1 + number % 2, b'%d' % number)"

    assert "012345" == (await run_python(code)).output


async def test_output_is_shown_while_it_runs(short_grace: None) -> None:
    """Output is shown before the program ends."""
    watcher, _ = await run_and_cancel("import time; print('soon', flush=True)\n" + SLEEP, lines=1)

    assert "soon\n" == watcher.text


async def test_bytes_that_are_not_text() -> None:
    """Characters split between two writes stay whole, and bytes that are no text are replaced."""
    code = "import os, time; os.write(1, b'\\xe2\\x82'); time.sleep(0.05); os.write(1, b'\\xac \\xff \\xe2')"
    watcher = Watcher()

    outcome = await run_python(code, watcher)

    assert "\N{EURO SIGN} \ufffd \ufffd" == outcome.output == watcher.text


async def test_a_signal_is_told() -> None:
    """A program that dies of a signal has its negative number as exit code."""
    assert -signal.SIGKILL == (await run_python("import os; os.kill(os.getpid(), 9)")).exit_code


async def test_huge_output_needs_little_memory() -> None:
    """Of very much output the end is kept, all of it is shown, and memory stays small."""
    seen = 0

    def count(text: str) -> None:
        nonlocal seen
        seen += len(text)

    tracemalloc.start()
    try:
        outcome = await run_python(
            "import sys\nfor _ in range(300): sys.stdout.write('x' * 99_999 + '\\n')\nprint('end')",
            count,
            output_limit=1000,
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert ProcessOutcome(exit_code=0, output="x" * 995 + "\nend\n", truncated=True) == outcome
    assert 30_000_004 == seen
    assert peak < 3_000_000


@given(chunks=st.lists(st.text(max_size=20)), limit=st.integers(0, 60))
def test_the_end_of_the_output_is_kept(chunks: list[str], limit: int) -> None:
    """However the output is cut into pieces, exactly its end is kept, and loss is told."""
    output = run.OutputTail(limit)
    for chunk in chunks:
        output.add(chunk)
    whole = "".join(chunks)

    assert whole[max(0, len(whole) - limit) :] == output.text
    assert (len(whole) > limit) == output.truncated


@pytest.mark.parametrize(
    ("argv", "cwd", "expected"),
    [
        (["no-such-program-here"], "/", "cannot run 'no-such-program-here': there is no such program"),
        (["./gone"], "/", "cannot run './gone': there is no such program"),
        (["sh"], "/no/such/folder", "cannot run 'sh': the folder '/no/such/folder' does not exist"),
        (["sh"], __file__, f"cannot run 'sh': the folder {__file__!r} does not exist"),
        (["/etc/passwd"], "/", "cannot run '/etc/passwd' in '/': Permission denied"),
        (["/etc"], "/", "cannot run '/etc' in '/': Permission denied"),
        (["sh", "a\0b"], "/", "cannot run 'sh': embedded null byte"),
        ([], "/", "there is no program to run: the command is empty"),
        ([""], "/", "there is no program to run: the command is empty"),
    ],
)
async def test_a_program_that_cannot_be_started(argv: list[str], cwd: str, expected: str) -> None:
    """A program or folder that is missing or unfit is told in one sentence."""
    with pytest.raises(ProcessNotStarted) as caught:
        await run_in_group(Launch(argv=argv, cwd=cwd), on_output=lambda _: None)

    assert expected == str(caught.value)


async def test_cancelling_ends_the_program() -> None:
    """A cancelled program that obeys is gone at once, well before the grace is over."""
    watcher, took = await run_and_cancel("import os, time\n" + SAY_PID + SLEEP, lines=1)

    assert [False] == [exists(pid) for pid in watcher.pids]
    assert took < PATIENCE_S


async def test_cancelling_lets_a_program_tidy_up(tmp_path: Path) -> None:
    """A cancelled program gets to run its own clean-up, however much it says while doing so."""
    done = tmp_path / "done"
    code = f"""
import signal, sys, time
def tidy(*_):
    sys.stdout.write("x" * 1_000_000)
    sys.stdout.flush()
    open({str(done)!r}, "w").close()
    sys.exit()
signal.signal(signal.SIGTERM, tidy)
print("ready", flush=True)
time.sleep(1000)
"""
    await run_and_cancel(code, lines=1)

    assert await trio.Path(done).exists()


async def test_cancelling_a_program_that_will_not_go(short_grace: None) -> None:
    """A program that ignores SIGTERM is killed after the grace."""
    watcher, took = await run_and_cancel(IGNORE_SIGTERM + SAY_PID + SLEEP, lines=1)

    assert [False] == [exists(pid) for pid in watcher.pids]
    assert 0.1 <= took < PATIENCE_S


async def test_cancelling_a_program_that_is_stopped(short_grace: None) -> None:
    """A program that was halted by SIGSTOP is killed after the grace."""
    code = "import os, signal\n" + SAY_PID + "os.kill(os.getpid(), signal.SIGSTOP)"
    watcher, _ = await run_and_cancel(code, lines=1)

    assert [False] == [exists(pid) for pid in watcher.pids]


async def test_cancelling_ends_grandchildren(short_grace: None) -> None:
    """Grandchildren that ignore SIGTERM are killed with the group, even if the child obeys."""
    code = FORK + "if child == 0:\n    import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SAY_PID + SLEEP
    watcher, _ = await run_and_cancel(code, lines=2)

    assert [False, False] == [exists(pid) for pid in watcher.pids]


async def test_a_grandchild_may_tidy_up_after_the_child(tmp_path: Path) -> None:
    """A grandchild has its grace too, even when the child is gone and the output was closed long ago."""
    done = tmp_path / "done"
    code = f"""
import os, signal, time
def tidy(*_):
    open({str(done)!r}, "w").close()
    os._exit(0)
if os.fork() == 0:
    signal.signal(signal.SIGTERM, tidy)
    print("ready", flush=True)
    os.close(1)
    os.close(2)
time.sleep(1000)
"""
    await run_and_cancel(code, lines=1)

    assert await trio.Path(done).exists()


async def test_cancelling_after_the_child_has_gone() -> None:
    """When the child has gone and a grandchild holds the output, a cancel still ends the grandchild."""
    watcher, took = await run_and_cancel(FORK + "if child: os._exit(0)\n" + ORPHANED + SAY_PID + SLEEP, lines=1)

    assert [False] == [exists(pid) for pid in watcher.pids]
    assert took < PATIENCE_S


async def test_what_is_left_running_is_ended(short_grace: None) -> None:
    """A program that ends normally but leaves a grandchild does not keep us waiting, and the grandchild is ended."""
    code = (
        (IGNORE_SIGTERM + FORK)
        + ("if child: os.read(said, 1); os._exit(4)\n")
        + (SAY_PID + "os.write(say, b'.')\n" + SLEEP)
    )
    watcher = Watcher()

    outcome = await run_python(code, watcher)

    assert ProcessOutcome(exit_code=4, output=watcher.text, truncated=False) == outcome
    assert [False] == [exists(pid) for pid in watcher.pids]


async def test_a_grandchild_without_output_is_ended() -> None:
    """A grandchild that holds no output is ended too when the program ends."""
    code = (
        FORK + "if child == 0:\n    os.close(1); os.close(2); time.sleep(1000)\nprint(child, flush=True); os._exit(0)"
    )

    outcome = await run_python(code)

    assert not exists(int(outcome.output))


async def test_last_words_of_a_grandchild_are_kept() -> None:
    """What a grandchild writes shortly after the end of the program is part of the output."""
    code = FORK + "if child: os._exit(0)\n" + ORPHANED + "print('late')"

    assert "late\n" == (await run_python(code)).output


async def test_a_grandchild_that_left_the_group_is_not_waited_for(short_grace: None) -> None:
    """A process that has left the group and holds the output cannot make us wait."""
    code = FORK + "if child: os.read(said, 1); os._exit(0)\nos.setsid()\n" + SAY_PID + "os.write(say, b'.')\n" + SLEEP
    pid = int((await run_python(code)).output)

    assert exists(pid)
    os.kill(pid, signal.SIGKILL)


async def test_a_group_that_cannot_be_killed_is_given_up(short_grace: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """When even SIGKILL does not help within the grace, as with a broken disk, we go on."""

    async def never(_: Child) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(Child, "_wait_for_group_end", never)
    monkeypatch.setattr(child, "_KILL_WAIT", 0.1)

    outcome = await run_python(FORK + "if child == 0: time.sleep(1000)\nprint(child)")

    with trio.fail_after(PATIENCE_S):
        while exists(int(outcome.output)):  # noqa: ASYNC110 - it is nobody's child, and was killed just now
            await trio.sleep(0.01)


async def test_a_broken_callback_ends_the_program() -> None:
    """An exception from the callback comes out, and the program is ended first."""

    def broken(text: str) -> None:
        raise LookupError(text)

    with pytest.RaisesGroup(LookupError):
        await run_python("import time; print('x', flush=True)\n" + SLEEP, broken)


async def test_cancelling_at_every_step() -> None:
    """Cancelled before the start or at any step after it, a program leaves nothing behind."""
    steps = 0
    scope = trio.CancelScope()
    while steps == 0 or scope.cancelled_caught:
        with trio.CancelScope() as scope:
            with CancelAtStep(steps, scope):
                await run_in_group(Launch(argv=["sh", "-c", "echo a; echo b"], cwd="/"), on_output=lambda _: None)
        assert_no_child()
        steps += 1

    assert steps > 5


@settings(max_examples=50)  # real processes in real time: more would only be slow
@given(moment=st.floats(0, 0.08), random=st.random_module())
@pytest.mark.slow
async def test_cancelling_at_any_moment(moment: float, random: object) -> None:
    """Whenever it is cancelled, a program with a stubborn grandchild leaves nothing behind."""
    with trio.move_on_after(moment):
        await run_in_group(
            Launch(argv=["sh", "-c", "trap '' TERM; (sleep 0.04; echo a) & echo b; sleep 0.02"], cwd="/"),
            on_output=lambda _: None,
        )
    assert_no_child()


class CancelAtStep(trio.abc.Instrument):
    """Cancel the scope after so many steps of any task, the present one or one it has started."""

    def __init__(self, steps: int, scope: trio.CancelScope) -> None:
        self._left = steps
        self._scope = scope

    def __enter__(self) -> None:
        trio.lowlevel.add_instrument(self)

    def __exit__(self, *error: object) -> None:
        trio.lowlevel.remove_instrument(self)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._left == 0:
            self._scope.cancel()
        self._left -= 1


async def test_a_program_that_takes_too_long() -> None:
    """At its time limit a program is ended as by a cancellation, and the outcome keeps what it had said."""
    code = IGNORE_SIGTERM.replace("SIG_IGN", "SIG_DFL") + "print('begun', flush=True)\n" + SLEEP
    argv = [sys.executable, "-S", "-c", code]

    outcome = None
    for seconds in (1, 10, 100):  # enough for its first word, on a busy machine too
        outcome = await run_in_group(Launch(argv=argv, cwd="/"), on_output=lambda _: None, timeout_ms=seconds * 1_000)
        if outcome.output:
            break

    assert ProcessOutcome(exit_code=-15, output="begun\n", truncated=False, timed_out=True) == outcome


async def test_the_start_is_told() -> None:
    """Whoever asks is told once that the program runs, and never of one that could not be started."""
    told: list[bool] = []

    await run_in_group(Launch(argv=["true"], cwd="/"), on_output=lambda _: None, on_start=lambda _: told.append(True))
    with pytest.raises(ProcessNotStarted):
        await run_in_group(
            Launch(argv=["/no/program"], cwd="/"), on_output=lambda _: None, on_start=lambda _: told.append(False)
        )

    assert [True] == told


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="only Linux ends a child with the thread that started it")
async def test_a_child_outlives_idle_worker_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that dies with its parent lives on when the worker threads of trio, idle for long, have ended."""
    monkeypatch.setattr("trio._core._thread_cache.IDLE_TIMEOUT", 0.01)
    die_with_parent = "import ctypes, time; ctypes.CDLL(None).prctl(1, 9)\n"

    outcome = await run_python(die_with_parent + "time.sleep(0.5); print('alive')")

    assert ProcessOutcome(exit_code=0, output="alive\n", truncated=False) == outcome


async def test_stderr_can_be_read_apart() -> None:
    """Each stream is heard, kept and bounded on its own; much on one does not keep the other waiting."""
    heard, errors = Watcher(), Watcher()
    code = "import sys; sys.stderr.write('e' * 300_000 + 'end'); print('out'); sys.exit(2)"
    with trio.fail_after(2 * PATIENCE_S):
        outcome = await run_in_group(
            Launch(argv=[sys.executable, "-S", "-c", code], cwd="/"),
            on_output=heard,
            on_error_output=errors,
            output_limit=10,
        )

    expected = ProcessOutcome(
        exit_code=2, output="out\n", truncated=False, error_output="eeeeeeeend", error_truncated=True
    )
    assert expected == outcome
    assert ("out\n", 300_003) == (heard.text, len(errors.text))


async def test_a_group_that_holds_stderr_apart_is_ended(short_grace: None) -> None:
    """A cancellation ends the group also if one of its members keeps only stderr open."""
    errors = Watcher(1)
    code = f"{IGNORE_SIGTERM}os.close(1); print(os.getpid(), file=sys.stderr, flush=True); {SLEEP}"
    argv = [sys.executable, "-S", "-c", code]
    with trio.fail_after(2 * PATIENCE_S), trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                partial(run_in_group, Launch(argv=argv, cwd="/"), on_output=errors, on_error_output=errors)
            )
            await errors.enough.wait()
            scope.cancel()

    assert [False] == [exists(pid) for pid in errors.pids]


async def test_no_pipe_is_left_when_there_are_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """When only one of two pipes can be made, that one is closed again."""
    made: list[int] = []
    heard: list[str] = []
    pipe = os.pipe

    def only_one() -> tuple[int, int]:
        if made:
            raise OSError(errno.EMFILE, "too many open files")
        made.extend(pipe())
        return made[0], made[1]

    monkeypatch.setattr(os, "pipe", only_one)
    with pytest.raises(ProcessNotStarted, match="too many"):
        await run_in_group(Launch(argv=["true"], cwd="/"), on_output=heard.append, on_error_output=heard.append)

    for end in made:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(end)
