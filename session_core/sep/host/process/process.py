"""A running extension: its pipes, its log, its end.

1. The child leads its own session and process group, and inherits nothing but its three pipes.
2. Both the process and its pipe are watched. The end of either is the end of the extension, even if a leftover process
   still holds the pipe, or the process lives on without one.
3. On leaving the block, the whole group is ended: by SIGTERM, then SIGKILL. So are processes that have left the group
   but still carry the child's mark in their environment, and everything in a sandbox.
4. Its output is read until the very end, so it cannot hang on a full pipe.
5. The thread that started the child lives as long as the child; see `tools.process`.
"""

import os
import secrets
import select
import signal
import subprocess
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import attrs
import trio

from session_core import limits
from session_core.limits import KILL_GRACE_MS
from session_core.rpc.connection import NotificationHandler, RpcConnection, ignore_notification, open_connection
from session_core.rpc.request_tasks import RequestHandler, refuse_method
from session_core.sandbox.landlock import start_thread
from session_core.sep.host.process.extension_log import ExtensionLog, ProcessLog
from session_core.sep.host.process.launch import ExtensionLaunch, LaunchRefused, is_lasting
from session_core.tools.process import ChildProcess, end_group, explain_start_failure
from session_core.tools.sandbox_processes import Namespace

# --- lines on stdout that are not messages ----------------------------------------------------------------------------
# Programs greet people and print debug output, and messages come out broken. All of it goes to the log, with the reason
# if a line looks like a message; otherwise authors would search for a long time. Of a flood, only the first lines of
# each second are logged, with the number of the rest.
_SECOND: Final = 1.0


class StdoutNoise:
    """Logs lines that are not messages."""

    def __init__(self, log: ExtensionLog, *, now: Callable[[], float] = trio.current_time) -> None:
        self._log = log
        self._now = now
        self._since = float("-inf")
        self._room = 0
        self._left_out = 0

    def add_line(self, line: bytes, reason: str) -> None:
        """Log a line, or the beginning of a long one, and why it is not a message."""
        now = self._now()
        if now >= self._since + _SECOND:
            self.finish()
            self._since, self._room = now, limits.EXTENSION_NOISE_LINES
        if not self._room:
            self._left_out += 1
            return
        self._room -= 1
        text = line.decode("utf-8", errors="replace").strip()
        if text.startswith("{"):
            text = f"not a message ({reason}): {text}"
        self._log.note("stdout", text)

    def finish(self) -> None:
        """Log how many lines were left out recently."""
        if self._left_out:
            lines = "line" if self._left_out == 1 else "lines"
            self._log.note("stdout", f"... and {self._left_out} similar {lines}")
        self._left_out = 0


# --- process ----------------------------------------------------------------------------------------------------------

MARK: Final = "SESSION_CORE_EXTENSION"
"""The variable that marks all processes of an extension, wherever they have gone."""
_GRACE: Final = KILL_GRACE_MS / 1000
_ENDING_SECONDS: Final = 6 * _GRACE  # the group and a sandbox take at most four
_PROC: Final = Path("/proc")
_SWEEPS: Final = 5  # while one is killed, it may start another
_DYING_SECONDS: Final = 1.0  # how long a killed process may take to leave the process table
_CHUNK: Final = 65_536


class ExtensionProcess:
    """A running child and the connection to it; made by `open_extension_process`."""

    def __init__(self, child: ChildProcess, stdin: trio.lowlevel.FdStream, connection: RpcConnection) -> None:
        self.pid = child.pid
        self.connection = connection
        self._child = child
        self._stdin = stdin
        self._over = trio.Event()
        self._reason = ""

    async def wait_exit(self) -> int:
        """Wait until the process itself has ended; a negative number is a signal."""
        return await self._child.wait()

    async def wait_over(self) -> str:
        """Wait until nothing more can come from it, and return the reason as one sentence."""
        await self._over.wait()
        return self._reason

    async def close_stdin(self) -> None:
        """Close its stdin to signal that nothing more will come; the connection ends with it."""
        await self._stdin.aclose()

    def kill_group(self) -> None:
        """Kill it and everything still in its group, now."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    async def watch(self) -> None:
        """Detect the end of the process or of its pipe."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._close_after_exit)
            closed = await self.connection.wait_closed()
            self._reason = closed.message
            with trio.move_on_after(_GRACE):  # a process that closes its pipe is about to exit; its status says more
                self._reason = describe_exit(await self._child.wait())
            self._over.set()
            nursery.cancel_scope.cancel()

    async def _close_after_exit(self) -> None:
        await self._child.wait()
        with trio.move_on_after(_GRACE):  # what it wrote before its end may still be in the pipe
            await self.connection.wait_closed()
        self.connection.close()


@asynccontextmanager
async def open_extension_process(
    launch: ExtensionLaunch,
    log: ProcessLog,
    *,
    name: str,
    handle_request: RequestHandler = refuse_method,
    handle_notification: NotificationHandler = ignore_notification,
) -> AsyncGenerator[ExtensionProcess]:
    """Start an extension and connect to its pipes, for the length of the block.

    Raises:
        LaunchRefused: The program could not be started.

    Cancellation: the process group is gone when this returns; it takes at most six grace periods.
    """
    started = await _start(launch)
    noise = StdoutNoise(log.whole)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_read_stderr, started.stderr, log)
            if started.namespace is not None:
                nursery.start_soon(started.namespace.read_first_pid)
            async with open_connection(
                started.child.stdout,
                started.stdin,
                handle_request=handle_request,
                handle_notification=handle_notification,
                handle_unusable=noise.add_line,
                name=name,
            ) as connection:
                process = ExtensionProcess(started.child, started.stdin, connection)
                nursery.start_soon(process.watch)
                yield process
            nursery.cancel_scope.cancel()
    finally:
        noise.finish()
        with trio.CancelScope(shield=True):
            await _end(started, log)


@asynccontextmanager
async def open_child(launch: ExtensionLaunch, log: ProcessLog) -> AsyncGenerator["StartedChild"]:
    """Start a program the way extensions are started, for the length of the block; its pipes are up to the caller.

    Raises:
        LaunchRefused: The program could not be started.

    Cancellation: the process group is gone when this returns; it takes at most six grace periods.
    """
    started = await _start(launch)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_read_stderr, started.stderr, log)
            if started.namespace is not None:
                nursery.start_soon(started.namespace.read_first_pid)
            yield started
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await _end(started, log)


def describe_exit(status: int) -> str:
    """Describe how a process ended."""
    if status >= 0:
        return f"its process ended with exit status {status}"
    with suppress(ValueError):
        return f"its process was ended by {signal.Signals(-status).name}"
    return f"its process was ended by signal {-status}"


@attrs.frozen(kw_only=True)
class StartedChild:
    """A running child and its pipes."""

    child: ChildProcess
    stdin: trio.lowlevel.FdStream
    stderr: trio.lowlevel.FdStream
    namespace: Namespace | None
    mark: str


async def _start(launch: ExtensionLaunch) -> StartedChild:
    await trio.lowlevel.checkpoint_if_cancelled()
    mark = secrets.token_hex(16)
    with ExitStack() as ours, ExitStack() as theirs:  # the child has copies of theirs soon, or never will
        try:
            their_in, our_in = _pipe(theirs, ours)
            our_out, their_out = _pipe(ours, theirs)
            our_err, their_err = _pipe(ours, theirs)
            argv, namespace, passed = _build_sandbox_command(launch, ours, theirs)
        except (OSError, ValueError) as error:
            raise await _not_started(launch, error) from error
        token = trio.lowlevel.current_trio_token()
        outcome = trio.Event()
        child: ChildProcess | None = None
        failure: Exception | None = None

        def has_started(pid: int) -> None:
            nonlocal child
            child = ChildProcess(pid, trio.lowlevel.FdStream(our_out), stderr=None)  # we read it ourselves
            outcome.set()

        def has_failed(error: Exception) -> None:
            nonlocal failure
            failure = error
            outcome.set()

        def has_ended(status: int) -> None:
            assert child is not None
            child.set_exit_code(status)

        def live() -> None:
            try:
                program = subprocess.Popen(  # noqa: TID251 - in its own thread, which has to outlive the child
                    argv,
                    executable=launch.program,
                    cwd=launch.cwd,
                    env={**launch.env, MARK: mark},
                    stdin=their_in,
                    stdout=their_out,
                    stderr=their_err,
                    start_new_session=True,
                    pass_fds=passed,
                )
            except Exception as error:  # noqa: BLE001 - passed to the task that waits for it
                token.run_sync_soon(has_failed, error)
                return
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(has_started, program.pid)
                status = program.wait()
                token.run_sync_soon(has_ended, status)

        start_thread(live, name=f"runs {argv[0]}", bubblewrap=launch.bubblewrap)
        with trio.CancelScope(shield=True):  # otherwise the starting process would never be ended
            await outcome.wait()
        if child is None:
            assert failure is not None
            if not isinstance(failure, OSError | ValueError):
                raise failure
            raise await _not_started(launch, failure) from failure
        ours.pop_all()
        if namespace is not None:
            namespace.close_inherited()
    stdin, stderr = trio.lowlevel.FdStream(our_in), trio.lowlevel.FdStream(our_err)
    return StartedChild(child=child, stdin=stdin, stderr=stderr, namespace=namespace, mark=f"{MARK}={mark}")


def _pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    reading, writing = os.pipe()
    reader.callback(os.close, reading)
    writer.callback(os.close, writing)
    return reading, writing


def _build_sandbox_command(
    launch: ExtensionLaunch, ours: ExitStack, theirs: ExitStack
) -> tuple[list[str], Namespace | None, tuple[int, ...]]:
    """Return the command line with bubblewrap's options, and the descriptors that it reads further options from."""
    argv = list(launch.argv)
    if launch.bubblewrap is None:
        return argv, None, ()
    namespace = Namespace()
    ours.callback(namespace.close)
    variables = _write_variables(launch.inside, theirs)
    argv = namespace.enter(argv, launch.bubblewrap)
    place = argv.index(launch.bubblewrap) + 1
    argv[place:place] = ["--args", str(variables)]
    return argv, namespace, (*namespace.inherited_descriptors, variables)


def _write_variables(variables: Mapping[str, str], opened: ExitStack) -> int:
    """Write variables as arguments that only bubblewrap reads; it sets them only inside the sandbox."""
    words = [word for name, value in variables.items() for word in ("--setenv", name, value)]
    if any("\0" in word for word in words):
        raise ValueError("embedded null byte")  # would end an argument and start another of its own choice
    descriptor = os.memfd_create("variables", os.MFD_CLOEXEC)
    opened.callback(os.close, descriptor)
    with open(descriptor, "wb", closefd=False) as written:
        written.write(b"".join(os.fsencode(word) + b"\0" for word in words))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


async def _not_started(launch: ExtensionLaunch, error: OSError | ValueError) -> LaunchRefused:
    why = await explain_start_failure(launch.argv[0], launch.cwd, error, env=launch.env)
    return LaunchRefused(why if launch.paths is None else launch.paths.show(why), final=is_lasting(error))


async def _read_stderr(stderr: trio.lowlevel.FdStream, log: ProcessLog) -> None:
    with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
        while chunk := await stderr.receive_some(_CHUNK):
            log.feed_stderr(chunk)


async def _end(started: StartedChild, log: ProcessLog) -> None:
    """Kill everything that is left of it, and close all descriptors."""
    with ExitStack() as afterwards:
        afterwards.callback(log.finish_stderr)
        if started.namespace is not None:
            afterwards.callback(started.namespace.close)
        async with started.stdin, started.stderr, started.child.stdout:
            with trio.move_on_after(_ENDING_SECONDS):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_read_stderr, started.stderr, log)
                    await started.stdin.aclose()
                    await end_group(started.child, started.namespace)
                    try:
                        await trio.to_thread.run_sync(_sweep, started.mark.encode())
                    except OSError as error:
                        log.note("host", f"leftover processes were not searched for: {error.strerror}")
                    # Its last output is in the pipe; the end comes at once, because nobody holds the other end any
                    # more.
                    nursery.cancel_scope.deadline = trio.current_time() + _GRACE


def _sweep(mark: bytes) -> None:
    """Kill every process that carries this mark, and what those start meanwhile, and wait until they are gone."""
    for _ in range(_SWEEPS):
        found = [entry for entry in _PROC.iterdir() if entry.name.isdigit() and _carries(entry, mark)]
        if not found:
            return
        for entry in found:
            with suppress(OSError):
                handle = os.pidfd_open(int(entry.name))
                try:
                    if _carries(entry, mark):  # and not another process that got its number meanwhile
                        signal.pidfd_send_signal(handle, signal.SIGKILL)
                        select.select([handle], [], [], _DYING_SECONDS)
                finally:
                    os.close(handle)


def _carries(entry: Path, mark: bytes) -> bool:
    try:
        return mark in (entry / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended meanwhile, or belongs to another user
        return False
