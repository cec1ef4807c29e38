"""One process of an extension, from its greeting to its end; a restart or a reload begins another such life.

It lasts until the process is gone, misses two pings in a row, or is retired: asked to shut down, with time to answer
and to exit.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any

import attrs
import trio

from session_core import limits
from session_core.errors import InvalidInput
from session_core.rpc.deadlines import ExtendableTimeout
from session_core.rpc.failures import RpcClosed, RpcFailed, RpcTimedOut
from session_core.sep.host.process.process import ExtensionProcess
from session_core.sep.protocol.names import PROTOCOL_VERSION


@attrs.frozen(kw_only=True)
class ExtensionTimeouts:
    """How long things may take, in seconds.

    Attributes:
        start: Until `initialize` is answered.
        stop: Until `shutdown` is answered and the process has exited.
        idle: Without a message, until it is pinged.
        pong: Until a ping counts as missed.
        healthy: After which earlier crashes are forgotten.
        backoffs: Before the first, second and further restarts; then it has failed.
    """

    start: float = limits.EXTENSION_START_MS / 1000
    stop: float = limits.EXTENSION_STOP_MS / 1000
    idle: float = limits.EXTENSION_IDLE_MS / 1000
    pong: float = limits.EXTENSION_PONG_MS / 1000
    healthy: float = limits.EXTENSION_HEALTHY_MS / 1000
    backoffs: tuple[float, ...] = (1, 5, 25)


class StartFailed(Exception):
    """A process did not start; the message says why. It is `final` if another attempt could only fail the same way."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.final = final


OpenProcess = Callable[..., AbstractAsyncContextManager[ExtensionProcess]]
"""Starts a process, and keeps it running for the length of the block: `open_extension_process`, or a stand-in."""


class ProcessSession:
    """A started process; `greet` it, then `wait_until_over`."""

    def __init__(self, process: ExtensionProcess, generation: int, pace: ExtensionTimeouts) -> None:
        self.generation = generation
        self.connection = process.connection
        self.over = trio.Event()
        self.gone = trio.Event()
        self.reason = ""
        self._process = process
        self._pace = pace
        self._began = self._heard = trio.current_time()
        self._busy = 0  # open requests, in either direction
        self._quiet: trio.Event | None = None  # exists while a caller waits for the end of those
        self._retired = trio.Event()
        self._until_quiet = False

    @property
    def alive(self) -> bool:
        """Whether a request could be answered."""
        return self.connection.closed is None and not self.over.is_set()

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return trio.current_time() - self._began

    async def greet(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send `initialize` and return the answer, with its version checked.

        Raises:
            StartFailed: It did not answer, or not correctly.
        """
        try:
            answer = await self.connection.request("initialize", params, timeout=self._pace.start)
        except RpcTimedOut:
            raise StartFailed(f"it did not answer initialize within {self._pace.start:g} s") from None
        except RpcClosed:
            raise StartFailed(f"{await self._process.wait_over()}, before it was ready") from None
        except RpcFailed as error:
            raise StartFailed(f"it answered initialize with an error: {error.message} ({error.code})") from None
        except InvalidInput as error:
            raise StartFailed(f"initialize cannot be sent: {error.message}", final=True) from error
        if not isinstance(answer, dict):
            raise StartFailed("its answer to initialize is not an object", final=True)
        version = answer.get("protocol_version")
        # A process that also speaks a later version continues with ours, the lower of the two.
        if type(version) is not int or version < 1:
            said = f"version {version}" if type(version) is int else "no version"
            raise StartFailed(f"it speaks {said} of the protocol, and this host version {PROTOCOL_VERSION}", final=True)
        return answer

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        timeout: float | ExtendableTimeout | None,  # noqa: ASYNC109 - part of the protocol: the other side is told
    ) -> Any:
        """Send a request; raises what `RpcConnection.request` raises."""
        self._busy += 1
        try:
            return await self.connection.request(method, params, timeout=timeout)
        finally:
            self._end_work()

    @contextmanager
    def suspend_pings(self) -> Generator[None]:
        """Suspend pings: something is under way that has its own time limit."""
        self._busy += 1
        try:
            yield
        finally:
            self._end_work()

    def _end_work(self) -> None:
        self._busy -= 1
        if self._busy:  # while anything is under way, the time of the last message does not matter
            return
        self.note_activity()
        if self._quiet is not None:
            self._quiet.set()
            self._quiet = None

    async def _until_nothing_is_under_way(self) -> None:
        while self._busy:
            if self._quiet is None:
                self._quiet = trio.Event()
            await self._quiet.wait()

    def note_activity(self) -> None:
        """Record a sign of life."""
        self._heard = trio.current_time()

    def retire(self, *, until_quiet: bool = False) -> None:
        """Have it shut down; with `until_quiet`, open requests get time to end first."""
        self._until_quiet = until_quiet
        self._retired.set()

    async def wait_until_over(self) -> None:
        """Wait until it is over: retired, or for a `reason`."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._until_process_is_over)
            nursery.start_soon(self._until_silent)
            nursery.start_soon(self._until_retired)
            await self.over.wait()
            nursery.cancel_scope.cancel()

    async def _until_process_is_over(self) -> None:
        self._report_crash(await self._process.wait_over())

    async def _until_silent(self) -> None:
        missed = 0
        while missed < 2:
            if self._busy:
                await self._until_nothing_is_under_way()
            elif trio.current_time() < self._heard + self._pace.idle:
                missed = 0
                await trio.sleep_until(self._heard + self._pace.idle)
            else:
                try:
                    await self.connection.request("ping", {}, timeout=self._pace.pong)
                    self.note_activity()
                except RpcTimedOut:
                    missed += 1
                except RpcClosed:
                    return  # noticed elsewhere
                except RpcFailed:  # an error is an answer too
                    self.note_activity()
        self._report_crash("it did not answer two pings in a row")

    async def _until_retired(self) -> None:
        await self._retired.wait()
        if self._until_quiet:
            with trio.move_on_after(self._pace.stop):
                await self._until_nothing_is_under_way()
        with trio.move_on_after(self._pace.stop):
            with trio.move_on_after(limits.RPC_FLUSH_MS / 1000):  # otherwise the request would overtake the last events
                await self.connection.flush()
            try:
                await self.connection.request("shutdown", {})
            except RpcFailed:
                pass  # it has ended already, or does not know the method
            else:
                with trio.move_on_after(self._pace.stop / 2):  # it may still clean up
                    await self._process.wait_exit()
            await self._process.close_stdin()
            await self._process.wait_exit()
        self.end("it was shut down")

    def _report_crash(self, reason: str) -> None:
        if not self._retired.is_set():  # a retired process may close its pipes, and still has its time
            self.end(reason)

    def end(self, reason: str) -> None:
        """Record that it is over: it is no longer supervised. The first reason counts."""
        if not self.over.is_set():
            self.reason = reason
            self.over.set()
