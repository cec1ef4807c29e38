"""A running extension: its pipes, its log, its end.

1. Both the process and its pipe are watched. The end of either is the end of the extension, even if a leftover process
   still holds the pipe, or the process lives on without one.
2. On leaving the block, its group and everything in its sandbox are ended, and so are processes that have left the
   group but still carry the child's mark in their environment; see `processes.child`.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio

from session_core import limits
from session_core.processes.child import Child, ChildOptions, ProcessNotStarted, describe_exit, open_child
from session_core.rpc.connection import NotificationHandler, RpcConnection, ignore_notification, open_connection
from session_core.rpc.request_tasks import RequestHandler, refuse_method
from session_core.sep.host.process.extension_log import ExtensionLog, ProcessLog
from session_core.sep.host.process.launch_command import ExtensionLaunch, LaunchRefused, is_lasting

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
_GRACE: Final = limits.KILL_GRACE_MS / 1000


class ExtensionProcess:
    """A running child and the connection to it; made by `open_extension_process`."""

    def __init__(self, child: Child, connection: RpcConnection) -> None:
        self.pid = child.pid
        self.connection = connection
        self._child = child
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
        await self._child.stdin.aclose()

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
    noise = StdoutNoise(log.whole)
    async with open_extension_child(launch, log) as child, trio.open_nursery() as nursery:
        nursery.start_soon(child.read_stderr)
        try:
            async with open_connection(
                child.stdout,
                child.stdin,
                handle_request=handle_request,
                handle_notification=handle_notification,
                handle_unusable=noise.add_line,
                name=name,
                max_values=limits.MAX_EXTENSION_VALUES,
            ) as connection:
                process = ExtensionProcess(child, connection)
                nursery.start_soon(process.watch)
                yield process
        finally:
            noise.finish()
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_extension_child(launch: ExtensionLaunch, log: ProcessLog) -> AsyncGenerator[Child]:
    """Start a program the way extensions are started, for the length of the block; its pipes are up to the caller.

    Raises:
        LaunchRefused: The program could not be started.

    Cancellation: the process group is gone when this returns; it takes at most six grace periods.
    """
    child: Child | None = None
    try:
        async with open_child(launch, ChildOptions(on_stderr=log.feed_stderr, mark=MARK)) as child:
            yield child
    except ProcessNotStarted as error:
        why = str(error) if launch.paths is None else launch.paths.show(str(error))
        raise LaunchRefused(why, final=is_lasting(error.__cause__)) from error
    finally:
        log.finish_stderr()
        if child is not None and child.search_failure is not None:
            log.note("host", f"leftover processes were not searched for: {child.search_failure}")
