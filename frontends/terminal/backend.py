"""The terminal's service: in the background, shared with other clients, or in a thread of this process.

Both kinds return the path of a socket, so the terminal is a client like any other and one contract serves both. `open`
does the heavy imports in its own thread; by then the screen already shows something.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Protocol, TypeVar

import attrs

import session_core as sc

if TYPE_CHECKING:
    import trio

T = TypeVar("T")


class ServiceLocation(Protocol):
    """The location of a service."""

    def open(self) -> Path:
        """Return the socket of a service that accepts clients; blocks, so call it in a thread.

        Called again when the service is gone, it starts another one.

        Raises:
            SessionCoreError: There is no service and none can be started; the message says why.
        """
        ...

    def find(self) -> Path | None:
        """Return the socket of a service that somebody else has started; None if there is none. Blocks.

        Raises:
            SessionCoreError: There is one, but it cannot be used; the message says why.
        """
        ...

    def close(self) -> None:
        """Leave the service for good; blocks, and ends an `open` or `find` that is still waiting."""
        ...


class _Loop:
    """Runs trio functions in the calling threads until any thread ends the loop for good."""

    def __init__(self) -> None:
        self._ended = False
        self._running: dict[trio.CancelScope, trio.lowlevel.TrioToken] = {}

    def run(self, main: Callable[[], Awaitable[T]]) -> T:
        """Run a function in this thread.

        Raises:
            Disconnected: The loop was ended before the function finished.
        """
        import trio

        return trio.run(self._bounded, main)

    def end(self) -> None:
        """Cancel everything that is running, and everything that is started later."""
        self._ended = True
        import trio

        for scope, token in list(self._running.items()):
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(scope.cancel)

    async def _bounded(self, main: Callable[[], Awaitable[T]]) -> T:
        import trio

        with trio.CancelScope() as scope:
            self._running[scope] = trio.lowlevel.current_trio_token()
            try:
                if self._ended:  # checked after registering: no race with `end`
                    scope.cancel(reason="closed")
                return await main()
            finally:
                del self._running[scope]
        raise _closed_error()


@attrs.define(eq=False)
class BackgroundService:
    """The service of a home as a separate process, started if it is not running; closing leaves it running."""

    home: Path
    arguments: Sequence[str] = ()
    _loop: _Loop = attrs.field(init=False, factory=_Loop)

    def open(self) -> Path:
        """Find the service, or start it."""
        from frontends.server.daemon.discovery import find_or_start

        return self._loop.run(partial(find_or_start, self.home, arguments=self.arguments))

    def find(self) -> Path | None:
        """Find the service, and start none."""
        from frontends.server.daemon.discovery import find_service

        return self._loop.run(partial(find_service, self.home))

    def close(self) -> None:
        """Leave the service running, and stop looking for it."""
        self._loop.end()


@attrs.define(eq=False)
class EmbeddedService:
    """A service in a thread of this process; it ends with the terminal."""

    home: Path
    _running: _ServiceThread | None = attrs.field(init=False, default=None)
    _closed: bool = attrs.field(init=False, default=False)
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)

    def open(self) -> Path:
        """Start the service unless it is already running."""
        with self._lock:
            if self._closed:
                raise _closed_error()
            if self._running is None or self._running.has_ended:
                if self._running is not None:
                    self._running.end()
                self._running = _ServiceThread(self.home)
            running = self._running
        return running.wait_ready()

    def find(self) -> Path | None:
        """Find nothing: nobody else starts a service in this process."""
        return None

    def close(self) -> None:
        """End the service and wait until it has ended."""
        with self._lock:
            self._closed = True
            running = self._running
        if running is not None:
            running.end()


class _ServiceThread:
    """A service in a thread, from start to end, and the folder with its socket."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._folder = Path(mkdtemp(prefix="session-core-"))
        self._socket = self._folder / "socket"
        self._loop = _Loop()
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="session service", daemon=True)
        self._thread.start()

    @property
    def has_ended(self) -> bool:
        """Whether the service has ended or never started."""
        return not self._thread.is_alive()

    def wait_ready(self) -> Path:
        """Wait until the service accepts clients."""
        self._ready.wait()
        if self._error is not None:
            self.end()
            raise self._error
        return self._socket

    def end(self) -> None:
        """End the service and clean up; may be called more than once."""
        self._loop.end()
        self._thread.join()
        self._socket.unlink(missing_ok=True)
        with suppress(OSError):
            self._folder.rmdir()

    def _run(self) -> None:
        try:
            self._loop.run(self._serve)
        except BaseException as error:  # noqa: ASYNC103, BLE001 - `wait_ready` raises it
            self._error = _unwrap_single_error(error)
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        import trio

        from frontends.server.home_service import open_home_service
        from frontends.server.server import Server, ServerSettings
        from frontends.server.unix_listener import serve_unix

        async with (
            open_home_service(sc.setup.current_environment(self._home)) as (_, service),
            trio.open_nursery() as nursery,
        ):
            server = Server(service, ServerSettings(home=str(self._home), idle_s=None))
            await nursery.start(serve_unix, server, self._socket)
            self._ready.set()
            await server.ending.wait()
            await server.say_goodbye()
            nursery.cancel_scope.cancel(reason="the service has ended")


def _closed_error() -> sc.Disconnected:
    return sc.Disconnected("the terminal was closed")


def _unwrap_single_error(error: BaseException) -> BaseException:
    """Return the only error of a group, without the group."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
