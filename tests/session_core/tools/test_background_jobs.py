"""Background jobs: real commands that outlive the call that started them, and nothing else."""

import fcntl
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from session_core.ids import SessionId
from session_core.tools import background_jobs
from session_core.tools.background_jobs import BackgroundJobs, JobInfo, open_background_jobs
from session_core.tools.base import ToolOutput
from session_core.tools.command_confinement import ShellSetup, confine
from session_core.tools.job_tools import ListJobs, ReadJob, StopJob, shell_tools
from session_core.tools.shell import RESULT_CHARS, ShellTool
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import SandboxPolicy
from tests._needs import needs_sandbox
from tests.session_core.tools._calls import (
    EVERY_RIGHT,
    assert_no_child,
    context_in,
    processes_with,
    refusal,
    run,
)

FULL = SandboxPolicy(mode="full_access")
ONE, TWO = SessionId("s1"), SessionId("s2")
SERVICE = """
import sys, trio
from pathlib import Path
from session_core.ids import SessionId
from session_core.tools.background_jobs import open_background_jobs
from session_core.tools.command_confinement import ShellSetup, confine
from tests.session_core.tools._calls import context_in

async def main(root, command):
    async with open_background_jobs() as jobs:
        where = await confine(context_in(Path(root)), ShellSetup())
        job = await jobs.start(SessionId("s1"), command, where)
        while "locked" not in (await jobs.read(SessionId("s1"), job, wait_ms=60_000)).text:
            pass
        print("locked", flush=True)
        await trio.sleep_forever()

trio.run(main, *sys.argv[1:])
"""


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    """Fail any test that leaves a child behind."""
    yield
    assert_no_child()


@pytest.fixture
async def jobs() -> AsyncGenerator[BackgroundJobs]:
    """An open registry."""
    async with open_background_jobs() as opened:
        yield opened


async def begin(jobs: BackgroundJobs, root: Path, command: str, session: str = "s1", **more: Any) -> str:
    """Start a command without a sandbox, which is quicker."""
    where = await confine(context_in(root, sandbox=FULL), ShellSetup())
    return await jobs.start(SessionId(session), command, where, **more)


@pytest.mark.parametrize("sandbox", [SandboxPolicy(), FULL])
async def test_a_job_from_begin_to_end(tmp_path: Path, jobs: BackgroundJobs, sandbox: SandboxPolicy) -> None:
    """A model starts a job, reads what it says as it goes on, sees it in the list and ends it."""
    mark = secrets.token_hex(8)
    shell, read, stop, listed = shell_tools(jobs)
    context = context_in(tmp_path, rights=EVERY_RIGHT, sandbox=sandbox)

    started = await run(shell, context, command=f"echo begun; sh -c 'sleep 1000; : {mark}'", background=True)
    assert started.details is not None
    assert "job_1" == started.details["job_id"]
    assert "begun\n[job_1: running]" == (await run(read, context, job_id="job_1", wait_ms=60_000)).text
    assert "(nothing new)\n[job_1: running]" == (await run(read, context, job_id="job_1")).text
    assert f"job_1: running: echo begun; sh -c 'sleep 1000; : {mark}'" == (await run(listed, context)).text
    with trio.fail_after(300):
        while not processes_with(mark):  # noqa: ASYNC110 - for a moment, a process that starts another has no words
            await trio.sleep(0.01)

    assert "(nothing new)\n[job_1: stopped]" == (await run(stop, context, job_id="job_1")).text
    assert [] == processes_with(mark)


async def test_a_job_that_ends_by_itself(tmp_path: Path, jobs: BackgroundJobs) -> None:
    """The last output and the exit code can be read after the end, and whoever waits is woken by it."""
    job = await begin(jobs, tmp_path, "exit 3")
    output = await jobs.read(ONE, job, wait_ms=60_000)
    assert JobInfo(job_id=job, command="exit 3", state="finished", exit_code=3) == output.info

    job = await begin(jobs, tmp_path, "sleep 1000", timeout_ms=100)
    assert (await jobs.read(ONE, job, wait_ms=60_000)).info.timed_out


async def test_a_session_sees_its_own_jobs_only(tmp_path: Path, jobs: BackgroundJobs) -> None:
    """Jobs of another session are not listed, read or ended, and stopping a session ends its jobs and no others."""
    mine = await begin(jobs, tmp_path, "sleep 1000")
    theirs = await begin(jobs, tmp_path, "sleep 1000", session="s2")

    says = f"there is no job {theirs!r}; there are {mine}"
    assert says == await refusal(ReadJob(jobs), context_in(tmp_path), job_id=theirs)
    assert says == await refusal(StopJob(jobs), context_in(tmp_path), job_id=theirs)

    assert 1 == await jobs.stop_session(ONE)
    assert () == jobs.list(ONE)
    assert (JobInfo(job_id=theirs, command="sleep 1000", state="running"),) == jobs.list(TWO)
    assert 0 == await jobs.stop_session(ONE)
    assert "there are none in this session" in await refusal(ReadJob(jobs), context_in(tmp_path), job_id=mine)


async def test_unread_output_is_bounded(tmp_path: Path, jobs: BackgroundJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output that nobody reads is dropped from its beginning; what is delivered and what is missed is all there was."""
    monkeypatch.setattr(background_jobs, "MAX_UNREAD_CHARS", 1_000)
    job = await begin(jobs, tmp_path, "seq 1000")
    await jobs._find_job(ONE, job).ended.wait()

    output = await jobs.read(ONE, job)

    whole = "".join(f"{number}\n" for number in range(1, 1_001))
    assert (whole[-1_000:], len(whole) - 1_000) == (output.text, output.missed)
    assert ("", 0) == ((again := await jobs.read(ONE, job)).text, again.missed)


async def test_a_result_is_bounded_too(tmp_path: Path, jobs: BackgroundJobs) -> None:
    """One result holds no more than any other result, and tells how much is lost."""
    job = await begin(jobs, tmp_path, f"head -c {RESULT_CHARS + 7} /dev/zero | tr '\\0' x")
    await jobs._find_job(ONE, job).ended.wait()

    output = await run(ReadJob(jobs), context_in(tmp_path), job_id=job)

    expected = f"[7 earlier characters are lost]\n{'x' * RESULT_CHARS}\n[{job}: finished with exit code 0]"
    details = JsonObject({"state": "finished", "exit_code": 0, "missed": 7})
    assert ToolOutput(text=expected, details=details) == output


async def test_jobs_are_bounded(tmp_path: Path, jobs: BackgroundJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session has so many running jobs at most, and so have all together; of finished ones the newest stay."""
    monkeypatch.setattr(background_jobs, "MAX_RUNNING_PER_SESSION", 2)
    monkeypatch.setattr(background_jobs, "MAX_RUNNING", 3)
    monkeypatch.setattr(background_jobs, "MAX_FINISHED_PER_SESSION", 1)
    for session in ("s1", "s1", "s2"):
        await begin(jobs, tmp_path, "sleep 1000", session)

    arguments = {"command": "true", "background": True}
    mine, theirs = context_in(tmp_path, sandbox=FULL), context_in(tmp_path, sandbox=FULL, session="s2")
    assert "2 jobs are running in this session already" in await refusal(ShellTool(jobs), mine, **arguments)
    assert "too many jobs are running in other sessions" in await refusal(ShellTool(jobs), theirs, **arguments)

    await jobs.stop(ONE, "job_1")
    await jobs.stop(ONE, "job_2")
    await begin(jobs, tmp_path, "sleep 1000")
    assert ["job_2", "job_4"] == [info.job_id for info in jobs.list(ONE)]

    monkeypatch.setattr(background_jobs, "MAX_FINISHED", 0)
    await jobs.stop(SessionId("s2"), "job_3")
    await begin(jobs, tmp_path, "sleep 1000", "s2")
    assert ["job_4"] == [info.job_id for info in jobs.list(ONE)], "nor do those of all sessions pile up"


async def test_a_job_that_cannot_start(tmp_path: Path, jobs: BackgroundJobs) -> None:
    """Whoever starts a job that cannot run is told why, and no job is left."""
    context = context_in(tmp_path, sandbox=FULL)
    where = await confine(context, ShellSetup())
    await trio.Path(tmp_path).rmdir()

    with pytest.raises(Exception, match="does not exist"):
        await jobs.start(ONE, "true", where)
    assert () == jobs.list(ONE)
    await trio.Path(tmp_path).mkdir()


async def test_the_end_of_the_service_ends_all_jobs(tmp_path: Path) -> None:
    """When the registry closes, no process of any job is left."""
    mark = secrets.token_hex(8)
    async with open_background_jobs() as jobs:
        for session in ("s1", "s2"):
            job = await begin(jobs, tmp_path, f"echo begun; sh -c 'sleep 1000; : {mark}'", session)
            assert "begun\n" == (await jobs.read(SessionId(session), job, wait_ms=60_000)).text
        assert processes_with(mark)
    assert [] == processes_with(mark)


@needs_sandbox
async def test_kill_9_of_the_service_ends_its_jobs(tmp_path: Path) -> None:
    """A service that is killed takes its confined jobs with it, those in sessions of their own included."""
    lock = tmp_path / "lock"
    command = "exec 8> lock; flock 8; setsid sh -c 'echo locked; sleep 1000' & wait"
    service = await trio.lowlevel.open_process(
        [sys.executable, "-c", SERVICE, str(tmp_path), command], stdout=subprocess.PIPE, cwd=str(Path.cwd())
    )
    assert service.stdout is not None
    try:
        with trio.fail_after(300):
            assert b"locked" == (await service.stdout.receive_some()).strip()
        with lock.open("w") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.kill(service.pid, signal.SIGKILL)
        with trio.CancelScope(shield=True):
            await service.wait()
            await service.stdout.aclose()
    with lock.open("w") as file, trio.fail_after(300):  # the lock is free when the last process that holds it is gone
        await trio.to_thread.run_sync(fcntl.flock, file, fcntl.LOCK_EX, abandon_on_cancel=True)


async def test_a_cancelled_reader_takes_nothing(tmp_path: Path, jobs: BackgroundJobs) -> None:
    """Output that a cancelled reader was waiting for is there for the next one."""
    os.mkfifo(tmp_path / "fifo")
    job = await begin(jobs, tmp_path, "read -r _ < fifo; echo late")
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: jobs.read(ONE, job, wait_ms=60_000))
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    await trio.Path(tmp_path / "fifo").write_text("go\n")

    assert "late\n" == (await jobs.read(ONE, job, wait_ms=60_000)).text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "the argument 'job_id' is missing"),
        ({"job_id": 1}, "the argument 'job_id' must be text"),
        ({"job_id": "x"}, "there is no job 'x'; there are none in this session"),
        ({"job_id": "x", "wait_ms": -1}, "the argument 'wait_ms' must be a whole number of at least 0"),
        ({"job_id": "x", "wait_ms": 60_001}, "the argument 'wait_ms' must be at most 60000"),
    ],
)
async def test_wrong_arguments(tmp_path: Path, jobs: BackgroundJobs, arguments: dict[str, Any], says: str) -> None:
    """What is wrong is named."""
    assert says == await refusal(ReadJob(jobs), context_in(tmp_path), **arguments)


async def test_an_empty_list(tmp_path: Path, jobs: BackgroundJobs) -> None:
    """Without jobs the list says so."""
    assert "there are no background jobs in this session" == (await run(ListJobs(jobs), context_in(tmp_path))).text
