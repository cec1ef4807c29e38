"""The connection of a test host to its extension, which runs in this process or in its own."""

import math
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

import attrs
import outcome
import trio
from trio.testing import MockClock, memory_stream_pair

from session_core.errors import InvalidInput
from session_core.rpc.connection import RpcConnection
from session_core.rpc.failures import RpcFailed
from session_core.rpc.peer import CANCEL
from session_core.sep.sdk.extension import Extension
from session_core.sep.sdk.failures import host_error
from session_core.sep.sdk.runtime import CLEANUP_SECONDS, Runtime

_EXIT_SECONDS = 10.0

T = TypeVar("T")


@attrs.frozen
class ExtensionEndpoint:
    """The extension's end of the connection: both streams, when its observers are done, how it ended."""

    source: trio.abc.ReceiveStream
    sink: trio.abc.SendStream
    settled: Callable[[], Awaitable[None]]
    wait_exit: Callable[[], Awaitable[int]]


@asynccontextmanager
async def run_in_memory(
    extension: Extension, on_fault: Callable[[str, Exception], None]
) -> AsyncGenerator[ExtensionEndpoint]:
    """Run an extension alongside the test for the length of the block; `on_fault` gets the errors of observers."""
    # A jumping clock does not wait for threads, and plain cleanup functions run in one.
    jumping = isinstance(trio.lowlevel.current_clock(), MockClock)
    seconds = math.inf if jumping else CLEANUP_SECONDS
    runtime = Runtime(extension, cleanup_seconds=seconds, on_fault=on_fault)
    ours, theirs = memory_stream_pair()
    ended = trio.Event()

    async def run(task_status: trio.TaskStatus[None]) -> None:  # noqa: ASYNC128 - the runtime reports
        async with theirs:
            await runtime.run(theirs, theirs, task_status=task_status)
        ended.set()

    async def wait_exit() -> int:
        await ended.wait()
        return 0

    async with ours, trio.open_nursery() as nursery:
        await nursery.start(run)
        try:
            yield ExtensionEndpoint(ours, ours, runtime.wait_settled, wait_exit)
        finally:
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def run_as_process(argv: Sequence[str], folder: str | None) -> AsyncGenerator[ExtensionEndpoint]:
    """Run a program for the length of the block; its stderr appears with the test's own."""
    process = await trio.lowlevel.open_process(list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with process.stdin, process.stdout:
            yield ExtensionEndpoint(process.stdout, process.stdin, trio.lowlevel.checkpoint, process.wait)
            await process.stdin.aclose()
            with trio.move_on_after(_EXIT_SECONDS):
                await process.wait()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


_RUNNING: ContextVar["StartedCall[Any] | None"] = ContextVar("_RUNNING", default=None)


class StartedCall(Generic[T]):
    """A call started by `TestHost.start`: it can be cancelled the way hosts cancel, and awaited."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self._line: ExtensionLink | None = None
        self._number = 0
        self._cancelled = False
        self._ended = trio.Event()
        self._outcome: outcome.Outcome[T] | None = None

    def cancel(self) -> None:
        """Cancel the request. Its answer is still awaited; see `result`."""
        self._cancelled = True
        if self._line is not None:
            self._line.cancel(self._number)

    async def result(self) -> T:
        """Wait for the answer, or raise the call's error: -32800 if it was cancelled in time."""
        await self._ended.wait()
        assert self._outcome is not None
        return self._outcome.unwrap()

    def bind_request(self, line: "ExtensionLink", number: int) -> None:
        """Record the number by which the extension knows the request."""
        self._line, self._number = line, number

    def confirm_sent(self) -> None:
        """Record that the request has been sent."""
        if self._cancelled and self._line is not None:
            self._line.cancel(self._number)

    async def run(self, method: Callable[..., Awaitable[T]], args: Sequence[Any], named: Mapping[str, Any]) -> None:
        """Make the call."""
        _RUNNING.set(self)
        with self.scope:
            self._outcome = await outcome.acapture(method, *args, **named)
            if isinstance(self._outcome, outcome.Error) and not isinstance(self._outcome.error, Exception):
                raise self._outcome.error
        self._ended.set()


class ExtensionLink:
    """Sends requests and notifications to the extension; each request has a number by which it can be cancelled."""

    def __init__(self, connection: RpcConnection) -> None:
        self.connection = connection
        self._number = 0

    async def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        """Send a request, and wait as long as it takes.

        Raises:
            HostError: The extension answered with an error, or is gone.
        """
        # Without congestion, a request is numbered and sent before anything else happens here.
        await self.connection.flush()
        await trio.lowlevel.checkpoint_if_cancelled()
        self._number += 1
        running = _RUNNING.get()
        if running is not None:
            running.bind_request(self, self._number)
            trio.lowlevel.current_trio_token().run_sync_soon(running.confirm_sent)
        try:
            return await self.connection.request(method, params)
        except InvalidInput:
            self._number -= 1
            raise
        except RpcFailed as failed:
            raise host_error(failed) from failed

    def cancel(self, number: int) -> None:
        """Tell the extension that a request was cancelled."""
        self.connection.notify_now(CANCEL, {"id": number})
