"""Programs of a turn: real ones, confined like commands of the model, and none of them left when the turn is over."""

import os
import secrets
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from session_core import limits
from session_core.agent.plugin_support.turn_processes import MAX_WAITING_SIGNALS, TurnProcesses
from session_core.agent.tool_runner import ToolConfig
from session_core.ids import CallId, new_session_id
from session_core.permissions.rules import PermissionRule, RuleDecision
from session_core.processes import child
from session_core.processes.run import OutputTail
from session_core.protocols.contexts import Processes, ProcessInfo
from session_core.protocols.faults import CallbackContextExpired
from session_core.session.recorder import EventRecorder
from session_core.session.session import Session, Work
from session_core.session.state import SessionState
from session_core.session.turn_handle import TurnHandle
from session_core.storage.memory import MemoryStore
from session_core.stream.event_stream import EventStream
from session_core.testing.cancel_sweep import SweepRun, cancel_sweep
from session_core.tools.base import NoHost, ToolFailed
from session_core.tools.command_confinement import ShellSetup
from session_core.vocabulary import events as ev
from session_core.vocabulary.sessions import PermissionMode, SandboxPolicy, Settings
from tests._needs import needs_sandbox
from tests.session_core.session._helpers import TURN
from tests.session_core.tools._calls import assert_no_child, processes_with

FULL, CONFINED = SandboxPolicy(mode="full_access"), SandboxPolicy()
in_both = pytest.mark.parametrize("sandbox", [FULL, pytest.param(CONFINED, marks=needs_sandbox)])
BOTH_HEAR = """
trap 'echo outer' USR1
setsid bash -c "trap 'echo inner; exit' USR1; sleep 1000 & echo > ready; wait" &
wait; wait; exit 7
"""


@pytest.fixture(autouse=True)
def no_child_is_left(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail any test that leaves a child behind, or that has given up waiting for the end of one."""
    yield
    assert_no_child()
    assert not [each for each in caplog.get_records("call") if "still being ended" in each.getMessage()]


def processes_in(
    root: Path,
    sandbox: SandboxPolicy = FULL,
    *,
    mode: PermissionMode = "full",
    config: ToolConfig | None = None,
    shell: ShellSetup | None = None,
) -> TurnProcesses:
    """The programs of a turn that has just begun, in a session of this folder."""
    session = Session(
        SessionState(session_id=new_session_id()), EventRecorder(EventStream(), MemoryStore(), lambda: 1_000)
    )
    settings = Settings(model="m", cwd=str(root), permission_mode=mode, sandbox=sandbox)
    session.record(ev.SessionCreated(name="s", settings=settings))
    session.work = Work(kind="turn", turn_id=TURN)
    session.record(ev.TurnStarted(turn_id=TURN))
    return TurnProcesses(TurnHandle(session, session.work, approval_timeout_ms=1_000), config or ToolConfig(), shell)


def endless() -> tuple[str, list[str]]:
    """A program that does not end by itself, and what its command line is known by."""
    mark = f"1000.{secrets.randbelow(10**12):012}"
    return mark, ["sleep", mark]


async def said_to(fifo: Path) -> str:
    """Wait for what a program writes into a pipe of this name."""
    return await trio.to_thread.run_sync(fifo.read_text, abandon_on_cancel=True)


async def refusal(processes: Processes, argv: Any, **more: Any) -> str:
    """Why a program was not started."""
    with pytest.raises(ToolFailed) as caught:
        await processes.start(argv, **more)
    return str(caught.value)


# --- running ----------------------------------------------------------------------------------------------------------


@in_both
async def test_a_program_runs(tmp_path: Path, sandbox: SandboxPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets its arguments as they are, its folder and its environment, and not ours; how it ended is told."""
    monkeypatch.setenv("SOME_TOKEN", "secret")
    (tmp_path / "below").mkdir()
    odd = "a  'b' \"c\" $HOME `d`\n* -e"
    script = 'printf "%s|" "$1" "$GIVEN" "$SOME_TOKEN" "${PWD##*/}"; echo " end" >&2; exit 3'

    async with processes_in(tmp_path, sandbox) as processes:
        first = await processes.start(["bash", "-c", script, "x", odd], cwd="below", env={"GIVEN": odd})
        ended = await processes.wait(first)
        second = await processes.start(["/no/such/program"])
        missing = await processes.wait(second)

    assert ended == ProcessInfo(
        process_id=first,
        argv=("bash", "-c", script, "x", odd),
        running=False,
        exit_code=3,
        output=f"{odd}|{odd}||below| end\n",
    )
    assert 127 == missing.exit_code
    assert "/no/such/program" in missing.output
    assert (ended, missing) == processes.list()


async def test_a_program_is_listed_while_it_runs(tmp_path: Path) -> None:
    """What a program has said so far can be read before it has ended."""
    os.mkfifo(tmp_path / "go")
    os.mkfifo(tmp_path / "ready")
    script = "echo early; read < go; echo late; echo > ready; exec sleep 1000"

    async with processes_in(tmp_path) as processes:
        heard = trio.Event()
        add = OutputTail.add

        def hear(tail: OutputTail, text: str) -> None:
            add(tail, text)
            heard.set()

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(OutputTail, "add", hear)
            program = await processes.start(["bash", "-c", script])
        await heard.wait()
        (running,) = processes.list()
        await trio.to_thread.run_sync((tmp_path / "go").write_text, "\n", abandon_on_cancel=True)
        await said_to(tmp_path / "ready")
        ended = await processes.cancel(program)

    assert (True, None, "early\n") == (running.running, running.exit_code, running.output)
    assert (False, "early\nlate\n") == (ended.running, ended.output)


@needs_sandbox
async def test_the_environment_does_not_reach_what_makes_the_sandbox(tmp_path: Path) -> None:
    """A library that is to be loaded into the program is loaded into no program outside of the sandbox."""
    async with processes_in(tmp_path, CONFINED) as processes:
        program = await processes.start(["true"], env={"LD_PRELOAD": "/no/such/library.so"})
        ended = await processes.wait(program)

    assert 0 == ended.exit_code
    assert 1 == ended.output.count("/no/such/library.so")  # the loader complains once per program


@needs_sandbox
@pytest.mark.parametrize("network", [False, True])
async def test_confinement(tmp_path: Path, *, network: bool) -> None:
    """A program changes files of the session only, sees no hidden place, and has the network if the policy says so."""
    inside, hidden = tmp_path / "inside", tmp_path / "inside" / "hidden"
    hidden.mkdir(parents=True)
    (hidden / "key").write_text("secret")
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    script = f"""
        echo new > ours; echo new > {tmp_path}/theirs; cat hidden/key
        (exec 3<> /dev/tcp/127.0.0.1/{port}) && echo connected
    """

    sandbox, config = SandboxPolicy(network=network), ToolConfig(hidden=(str(hidden),))
    async with listener, processes_in(inside, sandbox, config=config) as processes:
        ended = await processes.wait(await processes.start(["bash", "-c", script]))

    assert (True, False) == ((inside / "ours").exists(), (tmp_path / "theirs").exists())
    assert (network, False) == ("connected" in ended.output, "secret" in ended.output)


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "more", "why"),
    [
        ([], {}, "empty"),
        ([""], {}, "empty"),
        ("ls -l", {}, "list of strings"),
        (["ls", 1], {}, "list of strings"),
        (["a=b"], {}, "'='"),
        (["echo", "a\0b"], {}, "null character"),
        (["echo", "\ud800"], {}, "cannot run"),
        (["echo", "x" * 40_000], {}, "longer than"),
        (["true"], {"env": {"A=B": "c"}}, "'A=B'"),
        (["true"], {"env": {"A": 1}}, "'A'"),
        (["true"], {"cwd": "gone"}, "no folder 'gone'"),
    ],
)
async def test_what_no_program_can_look_like(tmp_path: Path, argv: Any, more: Any, why: str) -> None:
    """Bad input is refused with a word about it, and leaves nothing behind."""
    async with processes_in(tmp_path) as processes:
        assert why in await refusal(processes, argv, **more)
        assert () == processes.list()


async def test_sessions_that_start_none(tmp_path: Path) -> None:
    """A read-only session, one that lacks the sandbox it asks for, and a folder outside are refused."""
    async with processes_in(tmp_path, mode="read_only") as processes:
        assert "read-only" in await refusal(processes, ["true"])
    async with processes_in(tmp_path, CONFINED, shell=ShellSetup(bubblewrap_places="/nowhere")) as processes:
        assert "no sandbox" in await refusal(processes, ["true"])
        assert "outside" in await refusal(processes, ["true"], cwd="/")


@pytest.mark.parametrize(
    ("decision", "argv", "why"),
    [
        ("deny", ["rm", "file"], "a rule in the configuration forbids it"),
        ("deny", ["timeout", "5", "rm", "file"], "a rule in the configuration forbids it"),
        ("deny", ["bash", "-c", "cd . && rm file"], "a rule in the configuration forbids it"),
        ("ask", ["rm", "file"], "a rule in the configuration requires approval, and a protocol has nobody to ask"),
        ("deny", ["ls"], None),
        ("allow", ["rm", "file"], None),
    ],
)
async def test_rules_count_for_programs_of_protocols(
    tmp_path: Path, decision: RuleDecision, argv: list[str], why: str | None
) -> None:
    """A rule that denies or asks about a command keeps a protocol from running it, too."""
    (tmp_path / "file").touch()
    config = ToolConfig(rules=(PermissionRule(decision=decision, command="rm *"),))
    async with processes_in(tmp_path, config=config) as processes:
        if why is not None:
            assert f"no program was started: {why}" == await refusal(processes, argv)
            assert (tmp_path / "file").exists()
        else:
            assert 0 == (await processes.wait(await processes.start(argv))).exit_code


async def test_unknown_programs(tmp_path: Path) -> None:
    """An id that no program has is an error that names it."""
    async with processes_in(tmp_path) as processes:
        with pytest.raises(KeyError, match="no program 'process_1' in this turn"):
            await processes.wait("process_1")
        with pytest.raises(KeyError, match="no program 'x'"):
            await processes.cancel("x")
        with pytest.raises(KeyError, match="no program 'x'"):
            processes.signal("x", signal.SIGTERM)


async def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few run at once, the end of a long output is kept, and the oldest that have ended are forgotten."""
    monkeypatch.setattr(limits, "MAX_TURN_PROCESSES", 2)
    monkeypatch.setattr(limits, "MAX_ENDED_TURN_PROCESSES", 2)
    monkeypatch.setattr(child, "_GRACE", 30)  # who is asked to end does so, as soon as it gets to it
    much = "head -c 300000 /dev/zero | tr '\\0' x; echo the end"

    async with processes_in(tmp_path) as processes:
        first, second = [await processes.start(endless()[1]) for _ in range(2)]
        assert "2 programs run" in await refusal(processes, ["true"])
        assert 143 == (await processes.cancel(first)).exit_code
        third = await processes.start(["bash", "-c", much])
        output = (await processes.wait(third)).output
        fourth = await processes.start(["true"])
        await processes.wait(fourth)

        assert limits.MAX_TOOL_OUTPUT_CHARS == len(output)
        assert output.endswith("xthe end\n")
        assert [second, third, fourth] == [each.process_id for each in processes.list()]


async def test_the_bounds_are_those_of_the_limits(tmp_path: Path) -> None:
    """Starts that are under way count too, so no more than eight ever run."""
    async with processes_in(tmp_path) as processes, trio.open_nursery() as nursery:
        refused: list[str] = []

        async def try_to_start() -> None:
            try:
                await processes.start(endless()[1])
            except ToolFailed as failure:
                refused.append(str(failure))

        for _ in range(10):
            nursery.start_soon(try_to_start)
    assert ["8 programs run in this turn already; wait for one or cancel it first"] * 2 == refused
    assert 8 == len(processes.list())


# --- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sandbox", "script"),
    [
        (FULL, BOTH_HEAR.replace("setsid ", "")),
        pytest.param(CONFINED, BOTH_HEAR, marks=needs_sandbox),  # there nobody can run away
    ],
)
async def test_a_signal_reaches_all(tmp_path: Path, sandbox: SandboxPolicy, script: str) -> None:
    """A signal reaches the program and what it has started."""
    os.mkfifo(tmp_path / "ready")

    async with processes_in(tmp_path, sandbox) as processes:
        program = await processes.start(["bash", "-c", script])
        await said_to(tmp_path / "ready")
        processes.signal(program, signal.SIGUSR1)
        ended = await processes.wait(program)
        processes.signal(program, signal.SIGUSR1)  # nobody is there to get it

    assert (7, True, True) == (ended.exit_code, "outer\n" in ended.output, "inner\n" in ended.output)


@in_both
async def test_signals_right_after_the_start(tmp_path: Path, sandbox: SandboxPolicy) -> None:
    """A signal is not lost when the sandbox is still being made; too many at once and wrong numbers are refused."""
    async with processes_in(tmp_path, sandbox) as processes:
        program = await processes.start(endless()[1])
        for _ in range(MAX_WAITING_SIGNALS - 1):
            processes.signal(program, signal.SIGWINCH)
        processes.signal(program, signal.SIGTERM)
        with pytest.raises(ToolFailed, match="wait to be sent"):
            processes.signal(program, signal.SIGWINCH)
        with pytest.raises(ToolFailed, match="no signal 0"):
            processes.signal(program, 0)
        assert 143 == (await processes.wait(program)).exit_code


@in_both
async def test_cancel(tmp_path: Path, sandbox: SandboxPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that does not want to end is ended with all it has started; the others run on."""
    monkeypatch.setattr(child, "_GRACE", 0.1)
    os.mkfifo(tmp_path / "ready")
    mark, sleep = endless()
    script = f"trap '' TERM; {' '.join(sleep)} & echo > ready; wait"

    async with processes_in(tmp_path, sandbox) as processes:
        other = await processes.start(endless()[1])
        program = await processes.start(["bash", "-c", script])
        await said_to(tmp_path / "ready")
        ended = await processes.cancel(program)

        assert [] == processes_with(mark)
        # Bubblewrap goes when it is asked to, if it gets to it in time, and the kernel then kills what is inside.
        assert not ended.running
        assert ended.exit_code in ({143, 137} if sandbox is CONFINED else {137})
        assert ended == await processes.cancel(program)
        assert [True] == [each.running for each in processes.list() if each.process_id == other]


# --- the end of the turn ----------------------------------------------------------------------------------------------


@in_both
async def test_the_end_of_the_turn(tmp_path: Path, sandbox: SandboxPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving the block ends all programs with what they have started; what they said can still be read."""
    monkeypatch.setattr(child, "_GRACE", 30)  # who is asked to end does so, as soon as it gets to it
    os.mkfifo(tmp_path / "ready")
    mark, sleep = endless()
    runs_away = "setsid " if sandbox is CONFINED else ""
    processes = processes_in(tmp_path, sandbox)

    async def turn() -> None:
        async with processes:
            await processes.start(sleep)
            await processes.start(["bash", "-c", f"{runs_away}{' '.join(sleep)} & echo > ready; wait"])
            await said_to(tmp_path / "ready")
            assert processes_with(mark)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await turn()

    assert [] == processes_with(mark)
    first, second = processes.list()
    assert [False, False] == [first.running, second.running]
    assert first == await processes.wait(first.process_id)
    assert 143 == first.exit_code
    processes.signal(first.process_id, signal.SIGTERM)
    with pytest.raises(CallbackContextExpired):
        await processes.start(["true"])


async def test_a_stop_of_the_turn(tmp_path: Path) -> None:
    """When the turn is cancelled, its programs have ended before the cancellation goes on."""
    mark, sleep = endless()
    with trio.CancelScope() as scope:
        try:
            async with processes_in(tmp_path) as processes:
                await processes.start(sleep)
                scope.cancel()
                await trio.sleep_forever()
        finally:
            assert [] == processes_with(mark)
    assert scope.cancelled_caught


async def test_the_end_comes_while_somebody_starts(tmp_path: Path) -> None:
    """A start that somebody else has begun within the turn does not outlive it."""
    mark, sleep = endless()
    begun = trio.Event()

    def make_host(_handle: TurnHandle, _call_id: CallId) -> NoHost:
        begun.set()
        return NoHost()

    processes = processes_in(tmp_path, config=ToolConfig(make_host=make_host))
    async with trio.open_nursery() as nursery:

        async def start() -> None:
            with pytest.raises(CallbackContextExpired):
                await processes.start(sleep)

        async with processes:
            nursery.start_soon(start)
            await begun.wait()  # now it looks at the folder, in a thread
    assert () == processes.list()
    assert [] == processes_with(mark)


async def test_a_sweep_of_cancellations(tmp_path: Path) -> None:
    """Wherever the turn is cancelled, no program is left, and none is listed as running."""
    mark, sleep = endless()

    @asynccontextmanager
    async def prepare() -> AsyncGenerator[TurnProcesses]:
        yield processes_in(tmp_path)

    async def operation(processes: TurnProcesses) -> None:
        async with processes:
            first = await processes.start(sleep)
            await processes.start(sleep)
            processes.signal(first, signal.SIGWINCH)
            await processes.cancel(first)

    async def check(processes: TurnProcesses, run: SweepRun) -> None:
        assert [] == processes_with(mark)
        assert_no_child()
        assert not any(each.running for each in processes.list())
        assert run.cancelled or 2 == len(processes.list())

    assert 5 < await cancel_sweep(prepare, operation, check)


async def test_a_turn_without_programs_pays_nothing(tmp_path: Path) -> None:
    """The block alone opens no nursery, starts no task, and lets nobody else run."""
    processes, task = processes_in(tmp_path), trio.lowlevel.current_task()
    assert task.parent_nursery is not None
    before = len(task.child_nurseries), len(task.parent_nursery.child_tasks)
    with trio.testing.assert_no_checkpoints():
        async with processes:
            assert before == (len(task.child_nurseries), len(task.parent_nursery.child_tasks))


# --- faults and undo --------------------------------------------------------------------------------------------------


async def test_a_fault_ends_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is lost by a fault of ours is ended and says so; the turn and its other programs go on."""
    add, faults = OutputTail.add, [OSError("no room")]

    def fail_once(tail: OutputTail, text: str) -> None:
        if faults:
            raise faults.pop()
        add(tail, text)

    async with processes_in(tmp_path) as processes:
        other = await processes.start(endless()[1])
        monkeypatch.setattr(OutputTail, "add", fail_once)
        lost = await processes.wait(await processes.start(["bash", "-c", "echo hello; sleep 1000"]))

        assert (False, True) == (lost.running, "the program was lost" in lost.output)
        assert [True] == [each.running for each in processes.list() if each.process_id == other]


@attrs.define
class Noting(NoHost):
    """Notes when it is asked to look at the folder, and cannot keep what it has seen."""

    noted: list[str] = attrs.field(factory=list)
    fails: bool = False

    async def before_command(self) -> None:
        self.noted.append("before")
        if self.fails:
            raise ToolFailed("the folder could not be saved")

    def watch_background_command(self) -> Callable[[], Awaitable[None]]:
        async def noted() -> None:
            await trio.lowlevel.checkpoint()
            self.noted.append("after")
            raise OSError("the disk is gone")

        return noted


async def test_files_are_kept_for_an_undo(tmp_path: Path) -> None:
    """The folder is looked at before a program runs and after its end; what cannot be kept is not changed."""
    host = Noting()
    config = ToolConfig(make_host=lambda _handle, _call_id: host)
    async with processes_in(tmp_path, config=config) as processes:
        program = await processes.start(endless()[1])
        assert ["before"] == host.noted
        await processes.cancel(program)
        assert ["before", "after"] == host.noted
        await processes.start(endless()[1])
    assert ["before", "after"] * 2 == host.noted

    host.fails = True
    async with processes_in(tmp_path, config=config) as processes:
        assert "could not be saved" in await refusal(processes, ["touch", "made"])
    assert not await trio.Path(tmp_path, "made").exists()
