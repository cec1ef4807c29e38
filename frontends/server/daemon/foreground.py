"""Serve the service of a home until it is told to end or has been idle long enough."""

import logging
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import trio

import session_core as sc
from frontends.server.daemon.log_file import write_log
from frontends.server.daemon.runtime_paths import Listening, announce_open, format_open_to_others, log_file
from frontends.server.home_service import open_home_service
from frontends.server.server import Server, ServerSettings, pause_garbage_collection
from frontends.server.unix_listener import serve_unix
from frontends.shared.socket_path import prepare_run_folder, socket_path_of_home

if TYPE_CHECKING:
    from frontends.server.daemon.command import ServeRequest
    from frontends.server.http.settings import HttpSettings

log = logging.getLogger(__name__)

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


Ready = Callable[[Listening], Awaitable[None]]
"""Called once, as soon as clients are accepted."""


async def serve_home(options: "ServeRequest", ready: Ready) -> None:
    """Serve a home until a signal or a client ends it, or it has been idle long enough.

    Running turns are then interrupted, and recorded as such.

    Raises:
        Conflict: The home has a service already; the message names the process.
        StoreInUse: Another program uses the home; the message names the process.
        StoreUnusable: The home cannot be used.
        ConfigInvalid, InvalidInput: The configuration is wrong.
    """
    with ExitStack() as last, trio.open_signal_receiver(*ENDING_SIGNALS) as signals:  # before anything is begun
        async with _claim_service(options.home):
            with _logging(options):
                try:
                    async with trio.open_nursery() as nursery:
                        mind = _Minder(signals, nursery.cancel_scope)
                        nursery.start_soon(mind.run)
                        await _serve(options, ready, mind, last)
                        nursery.cancel_scope.cancel(reason="the service has ended")
                except BaseExceptionGroup as group:
                    raise _unwrap_single_error(group) from None


def _unwrap_single_error(error: BaseException) -> BaseException:
    """Return the only typed error of a group without the group, for the user."""
    inner = error
    while isinstance(inner, BaseExceptionGroup) and len(inner.exceptions) == 1:
        inner = inner.exceptions[0]
    return inner if isinstance(inner, sc.SessionCoreError) else error


@asynccontextmanager
async def _claim_service(home: Path) -> AsyncGenerator[None]:
    """Become the only service of this home, before any slow work, so other processes know that one is starting."""

    def become() -> sc.setup.HomeLock:
        folder = prepare_run_folder(home)
        try:
            return sc.setup.HomeLock.acquire(folder)
        except sc.StoreInUse:
            holder = sc.setup.lock_holder(folder)
            who = str(holder) if holder is not None else "another process"
            raise sc.Conflict(
                f"this home already has a service: {who}; to see it: session-core status, to end it: "
                "session-core shutdown"
            ) from None

    lock = await trio.to_thread.run_sync(become)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _logging(options: "ServeRequest") -> Generator[None]:
    """Keep a log for the length of the block, including the error that ends it."""
    with write_log(log_file(options.home), options.log_level):
        log.info("version %s starts, process %d", sc.__version__, os.getpid())
        try:
            yield
        except (Exception, BaseExceptionGroup) as error:  # reported to the starting process, and kept in the log
            log.error("the service failed", exc_info=error)  # noqa: TRY400 - also groups
            raise
        finally:
            log.info("process %d ends", os.getpid())


class _Minder:
    """Turns the first signal into a clean shutdown; a signal before the server exists cancels the start."""

    def __init__(self, signals: AsyncIterator[int], starting: trio.CancelScope) -> None:
        self._signals = signals
        self._starting = starting
        self.server: Server | None = None

    async def run(self) -> None:
        """Wait for the first signal and start the shutdown."""
        number = await anext(self._signals)
        log.info("asked to end by %s", signal.Signals(number).name)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second Ctrl-C ends even a hanging service
        if self.server is None:
            self._starting.cancel(reason="asked to end before the service had started")
        else:
            self.server.end(sc.wire.Goodbye(reason="the service was asked to end"))


async def _serve(options: "ServeRequest", ready: Ready, mind: _Minder, last: ExitStack) -> None:
    home = options.home
    async with open_home_service(sc.setup.current_environment(home)) as (setup, service):
        server = Server(service, ServerSettings(home=str(home), idle_s=options.idle_limit_s))
        async with trio.open_nursery() as listeners:
            socket = await listeners.start(serve_unix, server, socket_path_of_home(home))
            sending = _telemetry(service, asked=options.telemetry, ending=server.ending)
            async with sending, _open_http(server, options.http) as address:
                mind.server = server
                listeners.start_soon(server.end_when_idle)
                log.info("serving %s at %s%s", home, socket, f" and {address}" if address else "")
                if server.open_to_others is not None:
                    log.warning("%s", format_open_to_others(server.open_to_others))
                for remark in setup.remarks:
                    log.warning("%s", remark)
                with announce_open(home):
                    await ready(
                        Listening(
                            pid=os.getpid(),
                            socket=socket,
                            address=address,
                            open_to_others=server.open_to_others,
                            remarks=setup.remarks,
                        )
                    )
                    await server.ending.wait()
                last.enter_context(pause_garbage_collection(for_good=True))
                log.info("ending with %d connections", server.connections)
                await server.say_goodbye()
            listeners.cancel_scope.cancel(reason="the server has ended")


@asynccontextmanager
async def _telemetry(
    service: sc.SessionService, *, asked: bool, ending: trio.Event | None = None
) -> AsyncGenerator[None]:
    """Send spans until the shutdown, if telemetry is wanted; otherwise none of it is even imported.

    Raises:
        Unavailable: It was requested, but the required packages are not installed.
        InvalidInput: It was requested, but its variables are wrong.
    """
    from frontends.server.telemetry.availability import check_installed, is_wanted

    async with AsyncExitStack() as stack:
        if is_wanted(os.environ, asked=asked):
            try:
                check_installed()
                from frontends.server.telemetry.exporter import open_telemetry

                await stack.enter_async_context(open_telemetry(service, ending=ending))
                log.info("telemetry spans are sent")
            except (sc.Unavailable, sc.InvalidInput) as refused:
                if asked:
                    raise
                log.warning("%s", refused.message)  # the variables may be meant for other programs
        yield


@asynccontextmanager
async def _open_http(server: Server, settings: "HttpSettings | None") -> AsyncGenerator[str | None]:
    if settings is None:
        yield None
        return
    from frontends.server.http.listener import open_http_listener

    async with open_http_listener(server, settings) as listener:
        server.login_link = listener.login_link
        yield listener.url
