"""Background commands: they run until they, their session or the service end."""

import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, Literal

import attrs
import trio

from session_core.ids import SessionId
from session_core.processes.child import Child
from session_core.processes.run import run_in_group
from session_core.tools.base import ToolFailed
from session_core.tools.command_confinement import CommandLaunch, Confinement, prepare_launch

log = logging.getLogger(__name__)

MAX_RUNNING_PER_SESSION: Final = 8
"""A model that starts more has lost track of them."""
MAX_RUNNING: Final = 64
"""Over all sessions, to protect the machine."""
MAX_FINISHED_PER_SESSION: Final = 16
"""Finished jobs whose last output can still be read; the oldest are forgotten."""
MAX_FINISHED: Final = 64
"""Over all sessions, so abandoned jobs do not pile up; the oldest sessions lose theirs first."""
MAX_UNREAD_CHARS: Final = 200_000
"""Unread output kept per job; older output is dropped, and the reader is told how much."""

NOTING_S: Final = 5.0
"""How long `on_end` of a job may take."""

OnEnd = Callable[[], Awaitable[None]]
JobState = Literal["running", "finished", "stopped"]


@attrs.frozen(kw_only=True)
class JobInfo:
    """The current state of a job; `exit_code` is set once it has finished, a negative one names a signal."""

    job_id: str
    command: str
    state: JobState
    exit_code: int | None = None
    timed_out: bool = False
    unread: int = 0


@attrs.frozen(kw_only=True)
class JobOutput:
    """A job's output since the last read; `missed` characters before it were dropped unread."""

    info: JobInfo
    text: str
    missed: int


async def _do_nothing() -> None:
    """Do nothing at the end of a job; the default `on_end`."""


class _Job:
    """One job: its unread output and its state."""

    def __init__(self, job_id: str, command: str, on_end: OnEnd = _do_nothing) -> None:
        self.on_end = on_end
        self.job_id = job_id
        self.command = command
        self.scope = trio.CancelScope()
        self.ended = trio.Event()
        self.changed = trio.Event()
        self._state: JobState = "running"
        self._exit_code: int | None = None
        self._timed_out = False
        self._pieces: deque[str] = deque()
        self._size = 0
        self._missed = 0

    def add_output(self, text: str) -> None:
        self._pieces.append(text)
        self._size += len(text)
        while self._size > MAX_UNREAD_CHARS:
            oldest = self._pieces.popleft()
            cut = min(len(oldest), self._size - MAX_UNREAD_CHARS)
            if cut < len(oldest):
                self._pieces.appendleft(oldest[cut:])
            self._size -= cut
            self._missed += cut
        self._tell()

    def end(self, state: JobState, exit_code: int | None = None, *, timed_out: bool = False) -> None:
        self._state, self._exit_code, self._timed_out = state, exit_code, timed_out
        self.ended.set()
        self._tell()

    def take_output(self) -> JobOutput:
        text, missed = "".join(self._pieces), self._missed
        self._pieces.clear()
        self._size = self._missed = 0
        return JobOutput(info=self.info, text=text, missed=missed)

    @property
    def info(self) -> JobInfo:
        return JobInfo(
            job_id=self.job_id,
            command=self.command,
            state=self._state,
            exit_code=self._exit_code,
            timed_out=self._timed_out,
            unread=self._size + self._missed,
        )

    def _tell(self) -> None:
        self.changed.set()
        self.changed = trio.Event()


async def run(
    job: _Job,
    confinement: Confinement,
    timeout_ms: int | None,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run one job to its end; the job counts as started once its program has."""
    started = False
    launch: CommandLaunch | None = None
    ended: Callable[[], None] = partial(job.end, "stopped")

    def tell(_: Child) -> None:
        nonlocal started
        started = True
        task_status.started()

    try:
        with job.scope:
            async with prepare_launch(job.command, confinement, reports_if_stopped=True) as launch:
                outcome = await run_in_group(
                    launch,
                    on_output=job.add_output,
                    output_limit=0,
                    timeout_ms=timeout_ms,
                    on_start=tell,
                )
            ended = partial(job.end, "finished", outcome.exit_code, timed_out=outcome.timed_out)
    except OSError as error:
        if not started:
            raise
        log.warning("a command in the background was lost: %s", error)  # the other jobs go on
    finally:
        if launch is not None and launch.remarks:
            job.add_output(launch.format_remarks())
        with trio.move_on_after(NOTING_S, shield=True):
            await job.on_end()  # before anyone sees that the job has ended
        ended()


class BackgroundJobs:
    """The jobs of all sessions; a session sees and ends only its own. Created by `open_background_jobs`."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._jobs: dict[SessionId, dict[str, _Job]] = {}
        self._started = 0

    async def start(
        self,
        session_id: SessionId,
        command: str,
        confinement: Confinement,
        *,
        timeout_ms: int | None = None,
        on_end: OnEnd = _do_nothing,
    ) -> str:
        """Start a command and return the id of its job; `on_end` is awaited once, even if the command does not start.

        Raises:
            ToolFailed: There are too many jobs, or the command could not be started.

        Cancellation: before the program runs, the job is ended; after that, it goes on like any other job.
        """
        if (refusal := self._find_refusal(session_id)) is not None:
            await on_end()
            raise ToolFailed(refusal)
        self._started += 1
        job = _Job(f"job_{self._started}", command, on_end)
        jobs = self._jobs.setdefault(session_id, {})
        jobs[job.job_id] = job
        try:
            await self._nursery.start(run, job, confinement, timeout_ms)
        except BaseException:
            jobs.pop(job.job_id, None)
            raise
        self._forget_old(session_id)
        return job.job_id

    def _find_refusal(self, session_id: SessionId) -> str | None:
        ours = self._list_running(session_id)
        if len(ours) >= MAX_RUNNING_PER_SESSION:
            return f"{len(ours)} jobs are running in this session already; stop one with job_stop first"
        if self.running_count >= MAX_RUNNING:
            return "too many jobs are running in other sessions; try again later"
        return None

    @property
    def running_count(self) -> int:
        """The number of running commands over all sessions."""
        return sum(len(self._list_running(each)) for each in self._jobs)

    def list(self, session_id: SessionId) -> tuple[JobInfo, ...]:
        """Return the jobs of a session, the oldest first."""
        return tuple(job.info for job in self._jobs.get(session_id, {}).values())

    async def read(self, session_id: SessionId, job_id: str, *, wait_ms: int = 0) -> JobOutput:
        """Take a job's output since the last read; if there is none, wait up to `wait_ms` for output or its end.

        Cancellation: nothing is taken.
        """
        job = self._find_job(session_id, job_id)
        with trio.move_on_after(wait_ms / 1000):
            while not job.info.unread and not job.ended.is_set():
                await job.changed.wait()
        await trio.lowlevel.checkpoint_if_cancelled()
        return job.take_output()

    async def stop(self, session_id: SessionId, job_id: str) -> JobOutput:
        """End a job with everything it started, and return its last output.

        Cancellation: the job is ended anyway.
        """
        job = self._find_job(session_id, job_id)
        job.scope.cancel(reason="the job was stopped")
        await job.ended.wait()
        return job.take_output()

    async def stop_session(self, session_id: SessionId) -> int:
        """End and forget all jobs of a session, and return how many of them were running.

        Cancellation: the jobs are ended anyway, and stay listed until they have ended.
        """
        running = self._list_running(session_id)
        self.cancel_session(session_id)
        for job in running:
            await job.ended.wait()
        if not self._list_running(session_id):
            self._jobs.pop(session_id, None)
        return len(running)

    def cancel_session(self, session_id: SessionId) -> None:
        """Begin to end all jobs of a session; jobs that have not ended yet are still listed as running."""
        for job in self._list_running(session_id):
            job.scope.cancel(reason="the session was stopped")

    def _find_job(self, session_id: SessionId, job_id: str) -> _Job:
        jobs = self._jobs.get(session_id, {})
        if job_id not in jobs:
            known = f"there are {', '.join(jobs)}" if jobs else "there are none in this session"
            raise ToolFailed(f"there is no job {job_id[:100]!r}; {known}")
        return jobs[job_id]

    def _list_running(self, session_id: SessionId) -> tuple[_Job, ...]:
        return tuple(job for job in self._jobs.get(session_id, {}).values() if not job.ended.is_set())

    def _forget_old(self, session_id: SessionId) -> None:
        jobs = self._jobs.get(session_id, {})
        finished = [job_id for job_id, job in jobs.items() if job.ended.is_set()]
        for job_id in finished[: max(0, len(finished) - MAX_FINISHED_PER_SESSION)]:
            del jobs[job_id]
        everywhere = [
            (each, job_id) for each, known in self._jobs.items() for job_id, job in known.items() if job.ended.is_set()
        ]
        for each, job_id in everywhere[: max(0, len(everywhere) - MAX_FINISHED)]:
            del self._jobs[each][job_id]


@asynccontextmanager
async def open_background_jobs() -> AsyncGenerator[BackgroundJobs]:
    """Open a registry of jobs; at the end of the block all running jobs are ended concurrently."""
    async with trio.open_nursery() as nursery:
        try:
            yield BackgroundJobs(nursery)
        finally:
            nursery.cancel_scope.cancel(reason="the service ends")
