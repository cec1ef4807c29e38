"""Where the terminal's service is: in the background, shared with others, or in a thread of this very process.

Both give the path of a socket, so that the terminal is a client like any other, and one contract serves both. What is
heavy is imported by whoever opens a place, in its thread: there is something to see on the screen by then.
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
    """Where a service is."""

    def open(self) -> Path:
        """Return the socket of a service that lets clients in; blocks, so call it in a thread.

        It is called again when the service is gone, and then starts another.

        Raises:
            SessionCoreError: There is no service and none can be started; the message says why.
        """
        ...

    def close(self) -> None:
        """Leave it, for good; blocks, and ends an `open` that still waits."""
        ...


class _Loop:
    """Runs things on trio in the threads that ask for it, until any thread ends that for good."""

    def __init__(self) -> None:
        self._ended = False
        self._running: dict[trio.CancelScope, trio.lowlevel.TrioToken] = {}

    def run(self, main: Callable[[], Awaitable[T]]) -> T:
        """Run a function in this thread.

        Raises:
            Disconnected: It was ended before it was done.
        """
        import trio

        return trio.run(self._bounded, main)

    def end(self) -> None:
        """Cancel what runs, and whatever somebody would run later."""
        self._ended = True
        for scope, token in list(self._running.items()):
            with suppress(_run_finished()):
                token.run_sync_soon(scope.cancel)

    async def _bounded(self, main: Callable[[], Awaitable[T]]) -> T:
        import trio

        with trio.CancelScope() as scope:
            self._running[scope] = trio.lowlevel.current_trio_token()
            try:
                if self._ended:  # asked after it is known to `end`, so that one of the two always sees the other
                    scope.cancel(reason="closed")
                return await main()
            finally:
                del self._running[scope]
        raise _closed_error()


@attrs.define(eq=False)
class BackgroundService:
    """The service of a home, as a process of its own that is started if it does not run; leaving it ends nothing."""

    home: Path
    arguments: Sequence[str] = ()
    _loop: _Loop = attrs.field(init=False, factory=_Loop)

    def open(self) -> Path:
        """Find it, or start it."""
        from frontends.daemon.launcher import find_or_start

        return self._loop.run(partial(find_or_start, self.home, arguments=self.arguments))

    def close(self) -> None:
        """Leave it running, and look for it no more."""
        self._loop.end()


@attrs.define(eq=False)
class EmbeddedService:
    """A service in a thread of this process; it ends with the terminal."""

    home: Path
    _running: _ServiceThread | None = attrs.field(init=False, default=None)
    _closed: bool = attrs.field(init=False, default=False)
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)

    def open(self) -> Path:
        """Start it, unless it runs already."""
        with self._lock:
            if self._closed:
                raise _closed_error()
            if self._running is None or self._running.has_ended:
                if self._running is not None:
                    self._running.end()
                self._running = _ServiceThread(self.home)
            running = self._running
        return running.wait_ready()

    def close(self) -> None:
        """End it, and wait until it has ended."""
        with self._lock:
            self._closed = True
            running = self._running
        if running is not None:
            running.end()


class _ServiceThread:
    """A service in a thread, from its start to its end, and the folder with its socket."""

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
        """Whether it serves no more, or never did."""
        return not self._thread.is_alive()

    def wait_ready(self) -> Path:
        """Wait until it lets clients in."""
        self._ready.wait()
        if self._error is not None:
            self.end()
            raise self._error
        return self._socket

    def end(self) -> None:
        """End it, and leave nothing behind; more than one may call this."""
        self._loop.end()
        self._thread.join()
        self._socket.unlink(missing_ok=True)
        with suppress(OSError):
            self._folder.rmdir()

    def _run(self) -> None:
        try:
            self._loop.run(self._serve)
        except BaseException as error:  # noqa: BLE001 - told to whoever waits for the start
            self._error = _unwrap_single_error(error)
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        import trio

        from frontends.commands.sessions.patience import PatientStore
        from frontends.server.server import Server, ServerSettings
        from frontends.server.unix_door import serve_unix

        async with (
            sc.open_home_setup(self._home, store=PatientStore(self._home)) as setup,
            sc.open_session_service(setup.service) as service,
            trio.open_nursery() as nursery,
        ):
            server = Server(service, ServerSettings(home=str(self._home), idle_s=None))
            await nursery.start(serve_unix, server, self._socket)
            self._ready.set()
            await server.ending.wait()
            await server.say_goodbye()
            nursery.cancel_scope.cancel(reason="the service has ended")


def _run_finished() -> type[Exception]:
    import trio

    return trio.RunFinishedError


def _closed_error() -> sc.Disconnected:
    return sc.Disconnected("the terminal was closed")


def _unwrap_single_error(error: BaseException) -> BaseException:
    """Return the one error in a group, without the group."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
