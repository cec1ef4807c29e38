"""Children that run for the length of a block: their pipes, their signals, and that nothing is left of them."""

import errno
import signal
import sys
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from session_core.processes import child, process_table, sandbox_processes
from session_core.processes.child import ChildOptions, Launch, ProcessNotStarted, describe_exit, open_child
from session_core.sandbox.bubblewrap import Bubblewrap, find_bubblewrap, sandbox_argv
from session_core.sandbox.plan import SandboxPlan
from session_core.sandbox.seccomp import filter_in_memory
from session_core.testing.cancel_sweep import SweepRun, cancel_sweep
from tests._needs import needs_sandbox
from tests.session_core.sep._children import own_descriptors
from tests.session_core.tools._calls import assert_no_child, processes_with

PATIENCE = 300.0


def shell(script: str, *arguments: str) -> Launch:
    return Launch(argv=["/bin/sh", "-c", script, *arguments], cwd="/")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "its process ended with exit status 0"),
        (-9, "its process was ended by SIGKILL"),
        (-99, "its process was ended by signal 99"),
    ],
)
def test_how_a_process_ended_in_words(status: int, words: str) -> None:
    """An exit status or a signal becomes a sentence."""
    assert describe_exit(status) == words


@pytest.mark.parametrize(
    ("program", "error", "expected"),
    [
        ("nowhere", PermissionError(errno.EACCES, "Permission denied"), "there is no such program"),
        ("closed", PermissionError(errno.EACCES, "Permission denied"), "in {cwd!r}: Permission denied"),
        ("./script", FileNotFoundError(), "the interpreter named in its first line is missing"),
        ("script", FileNotFoundError(), "the interpreter named in its first line is missing"),
    ],
)
def test_why_it_could_not_be_started(tmp_path: Path, program: str, error: OSError, expected: str) -> None:
    """A folder of the PATH that may not be searched never hides that there is no such program; a file there is told."""
    for name in ("closed", "script"):
        (tmp_path / name).touch()
    said = child._explain_failure(
        Launch(argv=[program], cwd=str(tmp_path), env={"PATH": f"/no/such:{tmp_path}"}), error
    )

    assert expected.format(cwd=str(tmp_path)) in said


@attrs.frozen(kw_only=True)
class World:
    """What tells one run of the sweep from all others: a word on the command line of what it starts."""

    mark: str = attrs.field(factory=lambda: f"mark{uuid.uuid4().hex}")
    descriptors: set[tuple[str, str]] = attrs.field(factory=own_descriptors)


@asynccontextmanager
async def world() -> AsyncGenerator[World]:
    yield World()


async def nothing_is_left(world: World, run: SweepRun) -> None:
    assert [] == processes_with(world.mark)
    assert own_descriptors() == world.descriptors
    assert_no_child()


async def test_cancelling_at_every_step_leaves_nothing() -> None:
    """Wherever a block around a child is cancelled, the child and its pipes are gone, and so is what has run away."""

    async def talk(world: World) -> None:
        launch = shell('setsid sleep 1000 $0 & echo ready; read -r line; echo "$line"', world.mark)
        async with open_child(launch, ChildOptions(mark="MARK_OF_A_TEST")) as running:
            assert await running.stdout.receive_some() == b"ready\n"
            await running.stdin.send_all(b"answer\n")
            assert await running.stdout.receive_some() == b"answer\n"
            assert await running.wait() == 0

    with trio.fail_after(PATIENCE):
        assert await cancel_sweep(world, talk, nothing_is_left) > 5


@needs_sandbox
async def test_cancelling_at_every_step_empties_the_sandbox() -> None:
    """Wherever a block around a sandbox is cancelled, nothing that runs inside is left, whatever session it is in."""
    bubblewrap = await find_bubblewrap()
    assert isinstance(bubblewrap, Bubblewrap)
    plan = SandboxPlan(cwd="/", filter_file=filter_in_memory())

    async def talk(world: World) -> None:
        script = f"setsid sleep 1000 & : {world.mark}; echo $0 $GIVEN; wait"
        argv = sandbox_argv(["/bin/sh", "-c", script, world.mark], plan, bubblewrap)
        launch = Launch(argv=argv, cwd="/", bubblewrap=bubblewrap.path, inside={"GIVEN": "inside"})
        async with open_child(launch) as running:
            assert await running.stdout.receive_some() == f"{world.mark} inside\n".encode()

    with trio.fail_after(PATIENCE):
        assert await cancel_sweep(world, talk, nothing_is_left) > 3


@needs_sandbox
async def test_a_program_that_is_only_just_starting_is_asked_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not there yet when its sandbox is ended is asked as soon as it is, instead of being killed in the end."""
    bubblewrap = await find_bubblewrap()
    assert isinstance(bubblewrap, Bubblewrap)
    argv = sandbox_argv(
        ["/bin/sh", "-c", "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done"],
        SandboxPlan(cwd="/", filter_file=filter_in_memory()),
        bubblewrap,
    )
    real, looks = process_table.descendants, 0

    def descendants(first: int) -> list[int]:
        nonlocal looks
        looks += 1
        return [] if looks == 1 else real(first)

    monkeypatch.setattr(sandbox_processes, "descendants", descendants)
    monkeypatch.setattr(child, "_GRACE", PATIENCE)
    async with open_child(Launch(argv=argv, cwd="/", bubblewrap=bubblewrap.path)) as running:
        assert await running.stdout.receive_some() == b"ready\n"

    assert (await running.wait(), looks) == (7, 2)


async def test_a_child_may_end_by_itself() -> None:
    """A child that is given the time ends when its input does, and what it says on stderr until then is heard."""
    heard = bytearray()
    options = ChildOptions(on_stderr=heard.extend, exit_patience=PATIENCE)
    async with open_child(shell("read -r line || echo the end >&2; exit 3"), options) as running:
        pass

    assert (await running.wait(), bytes(heard)) == (3, b"the end\n")


async def test_a_signal_reaches_the_whole_group() -> None:
    """A signal goes to the child and to what it has started, and does nothing once they are gone."""
    script = "import os, signal; os.fork(); print(end='.', flush=True); signal.pause()"
    async with open_child(Launch(argv=[sys.executable, "-S", "-c", script], cwd="/")) as running:
        said = b""
        while len(said) < 2:
            said += await running.stdout.receive_some()
        await running.signal(signal.SIGUSR1)
        assert await running.stdout.receive_some() == b""
        assert await running.wait() == -signal.SIGUSR1
        await running.signal(signal.SIGUSR1)


@needs_sandbox
async def test_a_missing_filter_is_no_missing_program(tmp_path: Path) -> None:
    """A filter of system calls that is gone is told as such: the program is there."""
    bubblewrap = await find_bubblewrap()
    assert isinstance(bubblewrap, Bubblewrap)
    argv = sandbox_argv(["true"], SandboxPlan(cwd="/", filter_file=str(tmp_path / "gone")), bubblewrap)
    before = own_descriptors()
    with pytest.raises(ProcessNotStarted, match=r"the sandbox cannot be made: .*gone"):
        async with open_child(Launch(argv=argv, cwd="/", bubblewrap=bubblewrap.path)):
            pass

    assert own_descriptors() == before
