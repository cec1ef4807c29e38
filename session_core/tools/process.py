"""Run a program as a process group, and leave no process behind when it is stopped.

1. The child leads a session and process group of its own; signals go to the group, never to the child alone.
2. Its output is read to the very end, so no process of the group hangs on a full pipe while the group is being ended.
3. The group has ended before `run_in_group` returns or lets `Cancelled` through. This takes at most `KILL_GRACE_MS` for
   SIGTERM and as much again for SIGKILL.
4. A process that leaves the group with `setsid` is out of reach, but cannot make us wait: we close its pipe. Inside
   bubblewrap nothing is out of reach, see `Namespace`.
5. The thread that started the child lives as long as the child. Linux treats the death of that thread as the death of
   the parent, so a child with a parent-death signal would die with an idle worker thread.
"""

import codecs
import math
import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final

import attrs
import trio

from session_core.limits import KILL_GRACE_MS, MAX_TOOL_OUTPUT_CHARS
from session_core.sandbox.landlock import start_thread
from session_core.tools.base import ToolFailed
from session_core.tools.sandbox_processes import Namespace, descendants

_GRACE: Final = KILL_GRACE_MS / 1000
"""How long a group may take to end after SIGTERM."""
_KILL_WAIT: Final = KILL_GRACE_MS / 1000
"""How long the kernel may take to end a group after SIGKILL."""
_LOOK_AGAIN: Final = 0.02
"""The polling interval for the end of a group; no system call waits for a whole group."""
_NO_PROGRAM: Final = "there is no such program"
_NO_INTERPRETER: Final = "the interpreter named in its first line is missing"
_PROC: Final = Path("/proc")
"""Process information on Linux; missing on other systems."""


@attrs.frozen(kw_only=True)
class ProcessOutcome:
    """How a program ended; `output` is the tail of its output, and a negative `exit_code` names a signal.

    `error_output` holds stderr if it was read separately.
    """

    exit_code: int
    output: str
    truncated: bool
    timed_out: bool = False
    error_output: str = ""
    error_truncated: bool = False


async def run_in_group(
    argv: Sequence[str],
    *,
    cwd: str,
    on_output: Callable[[str], None],
    env: Mapping[str, str] | None = None,
    output_limit: int = MAX_TOOL_OUTPUT_CHARS,
    timeout_ms: int | None = None,
    on_start: Callable[[], None] | None = None,
    bubblewrap: str | None = None,
    on_error_output: Callable[[str], None] | None = None,
    on_group: Callable[["RunningGroup"], None] | None = None,
) -> ProcessOutcome:
    """Run a program to its end, without input; stdout and stderr are one stream unless `on_error_output` is given.

    Processes that the program left running get a moment to finish their output and are then ended too.

    Args:
        argv: The program and its arguments; no shell is involved.
        cwd: The folder it runs in.
        on_output: Gets the output piece by piece as it arrives; must not block.
        env: Its whole environment; ours by default.
        output_limit: How many characters of the tail of the output the outcome keeps.
        timeout_ms: After this time the program is ended as by a cancellation, and the outcome says so.
        on_start: Called once, when the program runs.
        bubblewrap: The program in `argv` that opens the sandbox, if any; everything inside is ended as a whole.
        on_error_output: Gets stderr, which is then a separate stream with the same bound.
        on_group: Called once, when the program runs, with the group to send signals to.

    Raises:
        ToolFailed: The program could not be started.

    Cancellation: the whole group gets SIGTERM, then SIGKILL after `KILL_GRACE_MS`, and is gone when `Cancelled`
        propagates. Output written after the cancellation is read and discarded.
    """
    namespace = Namespace() if bubblewrap is not None else None
    process = await _start(
        argv, cwd=cwd, env=env, namespace=namespace, bubblewrap=bubblewrap, apart=on_error_output is not None
    )
    output = _Output(on_output, output_limit)
    errors = _Output(on_error_output or on_output, output_limit)
    timed_out = False
    try:
        if on_start is not None:
            on_start()
        if on_group is not None:
            on_group(RunningGroup(process, confined=namespace is not None))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_pump, process.stdout, output.feed)
            if process.stderr is not None:
                nursery.start_soon(_pump, process.stderr, errors.feed)
            if namespace is not None:
                nursery.start_soon(namespace.read_first_pid)
            with trio.move_on_after(math.inf if timeout_ms is None else timeout_ms / 1000) as limit:
                await process.wait()
            timed_out = limit.cancelled_caught
            # The rest of the group may still be writing, for example a `tee` behind the program.
            nursery.cancel_scope.deadline = trio.current_time() + (0 if timed_out else _GRACE)
    finally:
        with trio.move_on_after(3 * _GRACE + _KILL_WAIT, shield=True):
            await end_group(process, namespace)
        if namespace is not None:
            namespace.close()
    output.feed(b"", final=True)
    errors.feed(b"", final=True)
    return ProcessOutcome(
        exit_code=await process.wait(),
        output=output.tail(),
        truncated=output.truncated,
        timed_out=timed_out,
        error_output=errors.tail(),
        error_truncated=errors.truncated,
    )


class ChildProcess:
    """A running program, the leader of its group; the code that started it calls `set_exit_code` at its end.

    Attributes:
        pid: Its process id, which is also the group id.
        stdout: The stream of its output.
        stderr: The stream of its error output, if that is read separately.
    """

    def __init__(self, pid: int, stdout: trio.lowlevel.FdStream, stderr: trio.lowlevel.FdStream | None) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self._exit_code: int | None = None
        self._ended = trio.Event()

    def set_exit_code(self, exit_code: int) -> None:
        """Record how it has ended; a negative number names a signal."""
        self._exit_code = exit_code
        self._ended.set()

    @property
    def exit_code(self) -> int | None:
        """The exit code, if it is known by now."""
        return self._exit_code

    async def wait(self) -> int:
        """Wait for its end and return its exit code."""
        await self._ended.wait()
        assert self._exit_code is not None
        return self._exit_code


class RunningGroup:
    """A program and everything it has started, while `run_in_group` runs it."""

    def __init__(self, process: ChildProcess, *, confined: bool) -> None:
        self._process = process
        self._confined = confined

    @property
    def exit_code(self) -> int | None:
        """The program's exit code, if it is known by now; a negative number names a signal."""
        return self._process.exit_code

    async def signal(self, number: int) -> None:
        """Send a signal to every process in the group, or inside the sandbox; skips processes that are gone.

        Cancellation: the signal was sent to all of them or to none.
        """
        if not self._confined:
            await trio.lowlevel.checkpoint()
            _signal_group(self._process, number)
            return
        while self._process.exit_code is None:  # nothing signals that the sandbox is set up
            # The first process below bubblewrap belongs to bubblewrap; a signal to either would not reach the program.
            inside = (await trio.to_thread.run_sync(descendants, self._process.pid))[1:]
            for pid in inside:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            if inside:
                return
            await trio.sleep(_LOOK_AGAIN)


async def _start(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str] | None,
    namespace: Namespace | None = None,
    bubblewrap: str | None = None,
    apart: bool = False,
) -> ChildProcess:
    if not argv or not argv[0]:
        raise ToolFailed("there is no program to run: the command is empty")
    await trio.lowlevel.checkpoint_if_cancelled()
    argv, kept_open = list(argv), list[int]()
    if namespace is not None:
        try:
            argv = namespace.enter(argv, str(bubblewrap))
        except OSError as error:
            namespace.close()
            raise ToolFailed(f"the sandbox cannot be made: {error}") from error
        kept_open += namespace.inherited_descriptors
    pipes = _open_pipes(2 if apart else 1)
    token = trio.lowlevel.current_trio_token()
    started = trio.Event()
    child: ChildProcess | None = None
    failure: Exception | None = None

    def on_started(pid: int) -> None:
        nonlocal child
        stdout, *stderr = (trio.lowlevel.FdStream(reading) for reading, _ in pipes)
        child = ChildProcess(pid, stdout, stderr[0] if stderr else None)
        started.set()

    def on_failed(error: Exception) -> None:
        nonlocal failure
        failure = error
        started.set()

    def on_ended(exit_code: int) -> None:
        assert child is not None
        child.set_exit_code(exit_code)

    def live() -> None:
        try:
            program = subprocess.Popen(  # noqa: TID251 - in its own thread, which has to outlive the child
                argv,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=pipes[0][1],
                stderr=pipes[1][1] if apart else subprocess.STDOUT,
                start_new_session=True,
                pass_fds=kept_open,
            )
        except Exception as error:  # noqa: BLE001 - handed to the task that waits for it
            token.run_sync_soon(on_failed, error)
            return
        finally:
            for _, writing in pipes:
                os.close(writing)
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(on_started, program.pid)
            exit_code = program.wait()
            token.run_sync_soon(on_ended, exit_code)

    start_thread(live, name=f"runs {argv[0]}", bubblewrap=bubblewrap)
    with trio.CancelScope(shield=True):  # otherwise a program that is just starting would never be ended
        await started.wait()
    if namespace is not None:
        namespace.close_inherited()
    if child is not None:
        return child
    assert failure is not None
    for reading, _ in pipes:
        os.close(reading)
    if namespace is not None:
        namespace.close()
    if not isinstance(failure, OSError | ValueError):
        raise failure
    raise ToolFailed(await explain_start_failure(argv[0], cwd, failure, env=env)) from failure


def _open_pipes(count: int) -> list[tuple[int, int]]:
    made: list[tuple[int, int]] = []
    try:
        made.extend(os.pipe() for _ in range(count))
    except OSError:
        for end in (end for pipe in made for end in pipe):
            os.close(end)
        raise
    return made


async def explain_start_failure(
    program: str, cwd: str, error: OSError | ValueError, *, env: Mapping[str, str] | None = None
) -> str:
    """Describe why a program could not be started in a folder, with the given environment or with ours.

    Cancellation: leaves nothing behind.
    """
    return await trio.to_thread.run_sync(_explain_start_failure, program, cwd, error, env, abandon_on_cancel=True)


def _explain_start_failure(program: str, cwd: str, error: OSError | ValueError, env: Mapping[str, str] | None) -> str:
    prefix = f"cannot run {program!r}"
    if not isinstance(error, OSError):
        return f"{prefix}: {error}"
    # The error names the folder or the program, depending on the platform, so we check the folder ourselves.
    if isinstance(error, FileNotFoundError | NotADirectoryError) and not Path(cwd).is_dir():
        return f"{prefix}: the folder {cwd!r} does not exist"
    # If one folder in PATH may not be searched, the system reports "permission denied" for every missing program.
    if isinstance(error, FileNotFoundError | PermissionError):
        # Not Path.is_file, which raises in a folder that may not be searched.
        on_path = (os.path.isfile(os.path.join(cwd, each, program)) for each in os.get_exec_path(env))  # noqa: PTH113, PTH118
        if os.sep not in program and not any(on_path):
            return f"{prefix}: {_NO_PROGRAM}"
        if isinstance(error, FileNotFoundError):
            is_there = os.sep not in program or Path(cwd, program).exists()
            return f"{prefix}: {_NO_INTERPRETER if is_there else _NO_PROGRAM}"
    return f"{prefix} in {cwd!r}: {error.strerror}"


class _Output:
    """Decodes output as it arrives, and keeps a bounded tail of it."""

    def __init__(self, on_output: Callable[[str], None], limit: int) -> None:
        self._on_output = on_output
        self._limit = limit
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._pieces: deque[str] = deque()
        self._retained_chars = 0
        self.truncated = False

    def feed(self, chunk: bytes | bytearray, *, final: bool = False) -> None:
        text = self._decoder.decode(chunk, final)
        if not text:
            return
        self._pieces.append(text)
        self._retained_chars += len(text)
        self.truncated = self.truncated or self._retained_chars > self._limit
        while self._pieces and self._retained_chars - len(self._pieces[0]) >= self._limit:
            self._retained_chars -= len(self._pieces.popleft())
        self._on_output(text)

    def tail(self) -> str:
        text = "".join(self._pieces)
        return text[max(0, len(text) - self._limit) :]


async def _pump(stream: trio.lowlevel.FdStream, feed: Callable[[bytes | bytearray], None]) -> None:
    while chunk := await stream.receive_some():
        feed(chunk)


async def end_group(process: ChildProcess, namespace: Namespace | None) -> None:
    """End the whole group and the namespace; takes at most three times `KILL_GRACE_MS`.

    Reads and discards what is still written to the pipes, and closes them.
    """
    async with AsyncExitStack() as open_ones, trio.open_nursery() as nursery:
        for stream in filter(None, (process.stdout, process.stderr)):
            await open_ones.enter_async_context(stream)
            nursery.start_soon(_pump, stream, _discard)
        if namespace is not None:
            # Ending bubblewrap kills everything inside, so ask the inside to end first.
            with trio.move_on_after(_GRACE):
                await namespace.ask_to_end()
                await process.wait()
        for number, patience in ((signal.SIGTERM, _GRACE), (signal.SIGKILL, _KILL_WAIT)):
            if not _signal_group(process, number):
                break
            with trio.move_on_after(patience):
                await _wait_for_group_end(process)
                break
        if namespace is not None:
            await namespace.end()
        nursery.cancel_scope.cancel()


async def _wait_for_group_end(process: ChildProcess) -> None:
    """Wait until the child is reaped and nothing else is alive in its group."""
    await process.wait()
    while _signal_group(process, 0) and await trio.to_thread.run_sync(_is_group_alive, process.pid):  # noqa: ASYNC110
        # Grandchildren are not our children, so we are not notified of their end.
        await trio.sleep(_LOOK_AGAIN)


def _signal_group(process: ChildProcess, number: int) -> bool:
    """Send a signal to the group and return whether any process got it.

    A group id stays taken as long as the group has a member, and the kernel reuses a freed id only after all others, so
    the signal cannot hit another group in the short time in which this is called.
    """
    # PermissionError: macOS raises it for a group of zombies only; elsewhere it means that we may not signal the group.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
        return True
    return False


def _is_group_alive(group: int) -> bool:
    """Return whether the group holds more than zombies, which are never reaped in some containers."""
    if not _PROC.is_dir():
        return True
    return any(_is_alive_in_group(group, entry) for entry in _PROC.iterdir() if entry.name.isdigit())


def _is_alive_in_group(group: int, entry: Path) -> bool:
    try:
        status = (entry / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it has ended in the meantime
        return False
    # "pid (name) state parent group ..."; the name may hold any characters, including brackets and blanks
    state, _, its_group, *_ = status.rpartition(")")[2].split()
    return int(its_group) == group and state not in "ZX"


def _discard(chunk: bytes | bytearray) -> None:
    pass
