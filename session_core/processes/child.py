"""A running child process, for everyone who starts programs: its start, its pipes, its end.

1. The child leads a session and process group of its own; signals go to the group, never to the child alone.
2. It inherits nothing but its pipes. Our ends of them are read to the very end, so no process of the group hangs on a
   full pipe while the group is being ended.
3. The group has ended when the block of `open_child` is left, when `end` returns, or when `Cancelled` propagates. This
   takes at most `KILL_GRACE_MS` for SIGTERM and as much again for SIGKILL.
4. A process that leaves the group with `setsid` is out of reach unless it carries a mark, but cannot make us wait: we
   close its pipe. Inside bubblewrap nothing is out of reach, see `Namespace`.
5. The thread that started the child lives as long as the child. Linux treats the death of that thread as the death of
   the parent, so a child with a parent-death signal would die with an idle worker thread.
"""

import errno
import os
import secrets
import signal
import subprocess
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import attrs
import trio

from session_core.limits import KILL_GRACE_MS
from session_core.processes.process_table import descendants, is_group_alive, kill_marked
from session_core.processes.sandbox_processes import Namespace, open_pipe
from session_core.sandbox.landlock import start_thread

_GRACE: Final = KILL_GRACE_MS / 1000
"""How long a group may take to end after SIGTERM, and how long its remaining output may take to be read."""
_KILL_WAIT: Final = KILL_GRACE_MS / 1000
"""How long the kernel may take to end a group after SIGKILL."""
_LOOK_AGAIN: Final = 0.02
"""The polling interval for the end of a group; no system call waits for a whole group."""
_NO_PROGRAM: Final = "there is no such program"
_NO_INTERPRETER: Final = "the interpreter named in its first line is missing"
_NOT_A_PROGRAM: Final = "it is not a program; a script begins with the one that runs it, such as #!/usr/bin/env node"

OnBytes = Callable[[bytes | bytearray], None]


class ProcessNotStarted(Exception):
    """A program could not be started; the message says why in one sentence, and its cause is the system's error."""


@attrs.frozen(kw_only=True)
class Launch:
    """How to start a program.

    Attributes:
        argv: The program and its arguments; no shell is involved.
        cwd: The folder it runs in.
        env: Its whole environment; ours by default.
        bubblewrap: The program in `argv` that sets up the sandbox, if there is one.
        inside: Variables to add inside the sandbox.
        program: The file that is executed, under the name in `argv`; by default the one of that name.
    """

    argv: tuple[str, ...] = attrs.field(converter=tuple[str, ...])
    cwd: str
    env: Mapping[str, str] = attrs.field(factory=os.environ.copy, repr=False)  # may contain keys
    bubblewrap: str | None = None
    inside: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    program: str | None = None


def _discard(chunk: bytes | bytearray) -> None:
    pass


@attrs.frozen(kw_only=True)
class ChildOptions:
    """What a child is given, and how it is ended.

    Attributes:
        with_input: Whether it gets a pipe as stdin; otherwise its input is empty.
        joined_output: Whether stdout and stderr are one stream.
        on_stderr: Gets what `read_stderr` reads, and what is written while the child is being ended.
        mark: An environment variable that identifies every process the child has started, even outside its group.
        exit_patience: How many seconds it may take to end by itself once its stdin is closed.
    """

    with_input: bool = True
    joined_output: bool = False
    on_stderr: OnBytes = _discard
    mark: str | None = None
    exit_patience: float = 0


@attrs.define(eq=False, kw_only=True)
class Child:
    """A running program, the leader of its group; made by `start_child`.

    Attributes:
        pid: Its process id, which is also the group id.
        stdout: The stream of its output.
        exit_code: How it has ended, once that is known; a negative number names a signal.
        search_failure: Why processes with its mark could not be searched for at the end, if so.
    """

    pid: int
    stdout: trio.lowlevel.FdStream
    _stdin: trio.lowlevel.FdStream | None
    _stderr: trio.lowlevel.FdStream | None
    _namespace: Namespace | None
    _mark: str | None
    _options: ChildOptions
    exit_code: int | None = None
    search_failure: str | None = None
    _exited: trio.Event = attrs.field(factory=trio.Event, init=False)

    @property
    def stdin(self) -> trio.lowlevel.FdStream:
        """The stream of its input."""
        assert self._stdin is not None
        return self._stdin

    @property
    def stderr(self) -> trio.lowlevel.FdStream:
        """The stream of its error output."""
        assert self._stderr is not None
        return self._stderr

    async def wait(self) -> int:
        """Wait for its end and return its exit code."""
        await self._exited.wait()
        assert self.exit_code is not None
        return self.exit_code

    async def read_stderr(self) -> None:
        """Read its error output to the end."""
        await _drain(self.stderr, self._options.on_stderr)

    async def signal(self, number: int) -> None:
        """Send a signal to every process in the group, or inside the sandbox; skips processes that are gone.

        Cancellation: the signal was sent to all of them or to none.
        """
        if self._namespace is None:
            await trio.lowlevel.checkpoint()
            self._signal_group(number)
            return
        while self.exit_code is None:  # nothing signals that the sandbox is set up
            # The first process below bubblewrap belongs to bubblewrap; a signal to either would not reach the program.
            inside = (await trio.to_thread.run_sync(descendants, self.pid))[1:]
            for pid in inside:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            if inside:
                return
            await trio.sleep(_LOOK_AGAIN)

    def kill(self) -> None:
        """Kill everything in its group now; it may outlive this call, and `end` must still be called."""
        self._signal_group(signal.SIGKILL)

    async def end(self) -> None:
        """End the whole group, the sandbox and what carries its mark, and close the pipes.

        Cancellation: continues until that is done, which takes at most `exit_patience` and five grace periods.
        """
        with trio.CancelScope(shield=True), ExitStack() as opened:
            for stream in filter(None, (self._stdin, self.stdout, self._stderr)):
                opened.callback(stream.close)
            if self._namespace is not None:
                opened.callback(self._namespace.close)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_drain, self.stdout, _discard)
                if self._stderr is not None:
                    nursery.start_soon(self.read_stderr)
                if self._stdin is not None:
                    await self._stdin.aclose()
                    with trio.move_on_after(self._options.exit_patience):
                        await self.wait()
                with trio.move_on_after(3 * _GRACE + _KILL_WAIT):
                    await self._end_group()
                if self._mark is not None:
                    try:
                        await trio.to_thread.run_sync(kill_marked, self._mark.encode())
                    except OSError as error:
                        self.search_failure = error.strerror
                # The last words are in the pipe, and the end comes at once if nobody holds its other end any more.
                patience = 0 if self._options.on_stderr is _discard else _GRACE
                nursery.cancel_scope.deadline = trio.current_time() + patience

    def note_exit(self, exit_code: int) -> None:
        """Record how it has ended; called by the one who started it."""
        self.exit_code = exit_code
        self._exited.set()

    async def _end_group(self) -> None:
        if self._namespace is not None:
            # Ending bubblewrap kills everything inside, so ask the inside to end first.
            with trio.move_on_after(_GRACE):
                while not await self._namespace.ask_to_end() and self.exit_code is None:  # noqa: ASYNC110 - as `signal`
                    await trio.sleep(_LOOK_AGAIN)
                await self.wait()
        for number, patience in ((signal.SIGTERM, _GRACE), (signal.SIGKILL, _KILL_WAIT)):
            if not self._signal_group(number):
                break
            with trio.move_on_after(patience):
                await self._wait_for_group_end()
                break
        if self._namespace is not None:
            await self._namespace.end()

    async def _wait_for_group_end(self) -> None:
        """Wait until the child is reaped and nothing else is alive in its group."""
        await self.wait()
        while self._signal_group(0) and await trio.to_thread.run_sync(is_group_alive, self.pid):  # noqa: ASYNC110
            # Grandchildren are not our children, so we are not notified of their end.
            await trio.sleep(_LOOK_AGAIN)

    def _signal_group(self, number: int) -> bool:
        """Send a signal to the group and return whether any process got it.

        A group id stays taken as long as the group has a member, and the kernel reuses a freed id only after all
        others, so the signal cannot hit another group in the short time in which this is called.
        """
        # PermissionError: macOS raises it for a group of zombies only; elsewhere it means that we may not signal it.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
            return True
        return False


@asynccontextmanager
async def open_child(launch: Launch, options: ChildOptions | None = None) -> AsyncGenerator[Child]:
    """Start a program and have it run for the length of the block; see `Child.end` for what then happens to it.

    Raises:
        ProcessNotStarted: The program could not be started.

    Cancellation: the child and everything it started have ended when `Cancelled` propagates.
    """
    child = await start_child(launch, options)
    try:
        yield child
    finally:
        await child.end()  # noqa: ASYNC102 - it is shielded and bounded


async def start_child(launch: Launch, options: ChildOptions | None = None) -> Child:
    """Start a program; the caller ends it by `Child.end`.

    Raises:
        ProcessNotStarted: The program could not be started.

    Cancellation: nothing was started.
    """
    options = options or ChildOptions()
    if not launch.argv or not launch.argv[0]:
        raise ProcessNotStarted("there is no program to run: the command is empty")
    await trio.lowlevel.checkpoint_if_cancelled()
    with ExitStack() as ours, ExitStack() as theirs:  # the child soon has copies of theirs, or never will
        try:
            return await _start(launch, options, ours, theirs)
        except (OSError, ValueError) as error:
            failure = error
    why = await trio.to_thread.run_sync(_explain_failure, launch, failure, abandon_on_cancel=True)
    raise ProcessNotStarted(why) from failure


async def _start(launch: Launch, options: ChildOptions, ours: ExitStack, theirs: ExitStack) -> Child:
    our_out, their_out = open_pipe(ours, theirs)
    their_in, our_in = open_pipe(theirs, ours) if options.with_input else (subprocess.DEVNULL, None)
    our_err, their_err = (None, subprocess.STDOUT) if options.joined_output else open_pipe(ours, theirs)
    namespace = None
    if launch.bubblewrap is not None:
        try:
            namespace = Namespace(launch.argv, launch.bubblewrap, launch.inside, ours, theirs)
        except (FileNotFoundError, PermissionError) as error:  # it is the filter that is missing, not the program
            raise ProcessNotStarted(f"the sandbox cannot be made: {error}") from error
    mark = None if options.mark is None else f"{options.mark}={secrets.token_hex(16)}"
    env = launch.env
    if mark is not None:
        name, _, value = mark.partition("=")
        env = {**env, name: value}
    token = trio.lowlevel.current_trio_token()
    known = trio.Event()
    child: Child | None = None
    failure: Exception | None = None

    def note_start(pid: int) -> None:
        nonlocal child
        child = Child(
            pid=pid,
            stdin=None if our_in is None else trio.lowlevel.FdStream(our_in),
            stdout=trio.lowlevel.FdStream(our_out),
            stderr=None if our_err is None else trio.lowlevel.FdStream(our_err),
            namespace=namespace,
            mark=mark,
            options=options,
        )
        known.set()

    def note_failure(error: Exception) -> None:
        nonlocal failure
        failure = error
        known.set()

    def note_exit(exit_code: int) -> None:
        assert child is not None
        child.note_exit(exit_code)

    def live() -> None:
        with suppress(trio.RunFinishedError):
            try:
                program = subprocess.Popen(  # noqa: TID251 - in its own thread, which has to outlive the child
                    launch.argv if namespace is None else namespace.argv,
                    executable=launch.program,
                    cwd=launch.cwd,
                    env=env,
                    stdin=their_in,
                    stdout=their_out,
                    stderr=their_err,
                    start_new_session=True,
                    pass_fds=() if namespace is None else namespace.inherited,
                )
            except Exception as error:  # noqa: BLE001 - passed to the task that waits for it
                token.run_sync_soon(note_failure, error)
                return
            token.run_sync_soon(note_start, program.pid)
            if namespace is not None:
                token.run_sync_soon(namespace.note_report, namespace.read_report())
            token.run_sync_soon(note_exit, program.wait())

    start_thread(live, name=f"runs {launch.argv[0]}", bubblewrap=launch.bubblewrap)
    with trio.CancelScope(shield=True):  # otherwise a program that is just starting would never be ended
        await known.wait()
    if child is None:
        assert failure is not None
        raise failure
    ours.pop_all()
    return child


async def _drain(stream: trio.lowlevel.FdStream, feed: OnBytes) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while chunk := await stream.receive_some():
            feed(chunk)


def describe_exit(status: int) -> str:
    """Describe how a process ended."""
    if status >= 0:
        return f"its process ended with exit status {status}"
    with suppress(ValueError):
        return f"its process was ended by {signal.Signals(-status).name}"
    return f"its process was ended by signal {-status}"


def _explain_failure(launch: Launch, error: OSError | ValueError) -> str:
    program, cwd = launch.argv[0], launch.cwd
    prefix = f"cannot run {program!r}"
    if not isinstance(error, OSError):
        return f"{prefix}: {error}"
    # The error names the folder or the program, depending on the platform, so we check the folder ourselves.
    if isinstance(error, FileNotFoundError | NotADirectoryError) and not Path(cwd).is_dir():
        return f"{prefix}: the folder {cwd!r} does not exist"
    if error.errno == errno.ENOEXEC:
        return f"{prefix}: {_NOT_A_PROGRAM}"
    # If one folder in PATH may not be searched, the system reports "permission denied" for every missing program.
    if isinstance(error, FileNotFoundError | PermissionError):
        # Not Path.is_file, which raises in a folder that may not be searched.
        on_path = (os.path.isfile(os.path.join(cwd, each, program)) for each in os.get_exec_path(launch.env))  # noqa: PTH113, PTH118
        if os.sep not in program and not any(on_path):
            return f"{prefix}: {_NO_PROGRAM}"
        if isinstance(error, FileNotFoundError):
            is_there = os.sep not in program or Path(cwd, program).exists()
            return f"{prefix}: {_NO_INTERPRETER if is_there else _NO_PROGRAM}"
    return f"{prefix} in {cwd!r}: {error.strerror}"
