"""A real service behind its real socket, in a thread of its own, for clients on any loop."""

import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import attrs
import trio

import session_core as sc
from frontends.server.http.listener import open_http_listener
from frontends.server.http.settings import HttpSettings
from frontends.server.http.tokens import ensure_token
from frontends.server.server import Server, ServerSettings
from frontends.server.unix_listener import serve_unix
from frontends.shared.socket_path import socket_path_of_home
from session_core.testing.scripted import ScriptedProvider, text

R = TypeVar("R")


@attrs.define(eq=False)
class RealServer:
    """A server that can be spoken to from outside of its loop."""

    home: Path
    url: str = ""
    token: str = ""
    _service: sc.SessionService | None = None
    _server: Server | None = None
    _loop: trio.lowlevel.TrioToken | None = None
    _nursery: trio.Nursery | None = None
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    _ready: threading.Event = attrs.field(factory=threading.Event)
    _thread: threading.Thread | None = None

    def snapshot(self, session_id: sc.SessionId) -> sc.SessionSnapshot:
        """Look at a session from the inside."""
        assert self._service is not None
        return trio.from_thread.run(self._service.load_session, session_id, trio_token=self._loop)

    def call(self, function: Callable[..., R], *arguments: Any) -> R:
        """Call a function in the server's own loop, and return what it returns."""
        return trio.from_thread.run_sync(function, *arguments, trio_token=self._loop)

    def run(self, function: Callable[..., Awaitable[R]], *arguments: Any) -> R:
        """Run an async function in the server's own loop, and return what it returns."""
        return trio.from_thread.run(function, *arguments, trio_token=self._loop)

    def spawn(self, function: Callable[[], Awaitable[None]]) -> None:
        """Have an async function run in the server's own loop, beside everything else."""
        assert self._nursery is not None
        self.call(self._nursery.start_soon, function)

    @property
    def service(self) -> sc.SessionService:
        """The service itself, for use within `call` and `run`."""
        assert self._service is not None
        return self._service

    def kill(self) -> None:
        """End it as suddenly as a process that is killed, and wait until it has ended."""
        if self._loop is not None:
            with suppress(trio.RunFinishedError):
                self._loop.run_sync_soon(self._scope.cancel)
        self.wait_until_ended()

    def wait_until_ended(self) -> None:
        """Wait until it has ended, as it was asked to, and no longer uses its home."""
        assert self._thread is not None
        self._thread.join(60)
        assert not self._thread.is_alive()

    async def _run(self, settings: dict[str, Any], config: sc.ServiceConfig, http: HttpSettings | None) -> None:
        try:
            with self._scope:
                async with (
                    sc.open_session_service(config) as service,
                    trio.open_nursery() as nursery,
                    AsyncExitStack() as stack,
                ):
                    self._service, self._loop = service, trio.lowlevel.current_trio_token()
                    self._nursery = nursery
                    self._server = Server(service, ServerSettings(home=str(self.home), **settings))
                    await nursery.start(serve_unix, self._server, socket_path_of_home(self.home))
                    if http is not None:
                        listener = await stack.enter_async_context(open_http_listener(self._server, http))
                        self.url = listener.url.replace("http", "ws", 1) + "/v1/ws"
                        self.token = ensure_token(self.home)
                    self._ready.set()
                    await self._server.ending.wait()
                    await self._server.say_goodbye()
                    nursery.cancel_scope.cancel(reason="the server has ended")
        finally:
            self._ready.set()


@contextmanager
def real_server(
    home: Path, config: sc.ServiceConfig | None = None, http: HttpSettings | None = None, **settings: Any
) -> Generator[RealServer]:
    """Run a server for the length of the block."""
    server = RealServer(home)
    config = config or sc.ServiceConfig(
        store=sc.MemoryStore(), tools=(), models={"m": ScriptedProvider(text("well, ", "hello"))}
    )
    server._thread = threading.Thread(target=trio.run, args=(server._run, settings, config, http))
    server._thread.start()
    try:
        assert server._ready.wait(60)
        assert server._loop is not None
        yield server
    finally:
        server.kill()
