"""The HTTP listener of a running server."""

import contextlib
import errno
import logging
import os
import socket
import ssl
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import trio
from hypercorn.trio.worker_context import WorkerContext

import session_core as sc
from frontends.server.access import EVERYTHING, Access
from frontends.server.http.app import HttpApp
from frontends.server.http.hypercorn_guards import GONE, App, GuardedConfig, GuardedConnection, Headers, Stream
from frontends.server.http.logins import BrowserLogins, cookie_name
from frontends.server.http.request_checks import SECURITY_HEADERS, AdmissionRules, host_names
from frontends.server.http.settings import HttpBounds, HttpSettings, Tls
from frontends.server.http.tokens import TokenVerifier, rotate
from frontends.server.server import Server, pause_garbage_collection

# --- all clients of the HTTP listener, each served by a task, up to a limit -------------------------------------------
log = logging.getLogger(__name__)

_REFUSAL_S: Final = 1.0


class Connections:
    """The connected clients."""

    def __init__(self, app: App, bounds: HttpBounds, headers: Headers, context: ssl.SSLContext | None) -> None:
        self.refused = 0
        self._app = app
        self._bounds = bounds
        self._config = GuardedConfig(bounds, headers)
        self._tls = context
        self._hypercorn = WorkerContext(None)
        self._open: set[GuardedConnection] = set()
        self._by_address: Counter[str] = Counter()
        self._changed = trio.lowlevel.ParkingLot()
        self._finishing = False

    def __len__(self) -> int:
        return len(self._open)

    async def serve_client(self, stream: trio.SocketStream) -> None:
        """Serve one client that has just connected."""
        if self._finishing:
            await trio.aclose_forcefully(stream)
            return
        try:
            address = str(stream.socket.getpeername()[0])
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except OSError:
            await trio.aclose_forcefully(stream)
            return
        most = self._bounds.connections_per_address
        if len(self._open) >= self._bounds.connections or self._by_address[address] >= most:
            await self._refuse(stream)
            return
        secured: Stream = stream
        if self._tls is not None:
            secured = trio.SSLStream(stream, self._tls, server_side=True, https_compatible=True)
        connection = GuardedConnection(secured, self._config, self._bounds)
        self._open.add(connection)
        self._by_address[address] += 1
        try:
            await connection.run(self._app, self._hypercorn)
        finally:
            self._open.discard(connection)
            self._by_address[address] -= 1
            self._by_address += Counter()  # removes addresses without connections
            self._changed.unpark_all()

    async def _refuse(self, stream: trio.SocketStream) -> None:
        self.refused += 1
        every = b"".join(b"%s: %s\r\n" % pair for pair in self._config.response_headers("h11"))
        answer = b"HTTP/1.1 429 \r\ncontent-length: 0\r\nconnection: close\r\nretry-after: 1\r\n" + every + b"\r\n"
        with trio.move_on_after(_REFUSAL_S), contextlib.suppress(*GONE):
            if self._tls is None:
                await stream.send_all(answer)
                await stream.send_eof()
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(stream)

    async def finish(self) -> None:
        """Give responses in progress a moment to finish; accepts no new clients."""
        self._finishing = True
        await self._hypercorn.terminated.set()
        for connection in tuple(self._open):
            connection.end_if_resting()
        with trio.move_on_after(self._bounds.farewell_s):
            while self._open:
                await self._changed.park()


# --- listener ---------------------------------------------------------------------------------------------------------

_BACKLOG: Final = 1_024
_LOOK_EVERY_S: Final = 1.0


class HttpListener:
    """An open listener.

    Attributes:
        url: Its URL for programs of this machine, with the actual port.
        open_to_others: Where it listens for other machines, if it does; 0.0.0.0 and [::] mean all addresses.
        app: The ASGI app; its counts are public.
        connections: The connected clients.
    """

    def __init__(self, server: Server, settings: HttpSettings, listening: socket.socket) -> None:
        address, port = listening.getsockname()[:2]
        scheme = settings.scheme
        names = [str(address), *(["localhost"] if settings.address.is_loopback else [])]
        urls = [url.lower() for url in settings.urls]
        known = (*settings.names, *(url.partition("://")[2] for url in urls))
        hosts = frozenset({*host_names(names, port, scheme), *(name.lower() for name in known)})
        near = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(str(address), str(address))  # noqa: S104 - to be replaced
        self.url = f"{scheme}://{next(iter(host_names([near], port, scheme)))}"
        far = f"{scheme}://{next(iter(host_names([str(address)], port, scheme)))}"
        self.open_to_others = None if settings.address.is_loopback else far
        self._linked = urls[0] if urls else self.url
        self.home = Path(server.settings.home)
        self._verifier = TokenVerifier(self.home)
        self._looking = trio.Lock()
        self._logins = BrowserLogins(self._verifier.refresh, now=server.now)
        rules = AdmissionRules(
            scheme=scheme,
            hosts=hosts,
            cookie=cookie_name(port, secure=settings.tls is not None),
            body_bytes=settings.bounds.body_bytes,
            token=self._verifier.credential_of,
            login=self._logins.credential_of,
            origins=frozenset({*settings.origins, *urls}),
        )
        self.app = HttpApp(server, rules, settings.bounds, self._logins, self._figures, look=self.refresh_tokens)
        tls = None if settings.tls is None else _build_tls_context(settings.tls)
        self.connections = Connections(self.app, settings.bounds, SECURITY_HEADERS, tls)

    def login_link(self, access: Access = EVERYTHING) -> str:
        """Return a link that lets one browser in, once, within a minute."""
        return f"{self._linked}/login?code={self._logins.new_code(access)}"

    def rotate_token(self) -> str:
        """Give the home a new token, and disconnect the clients of the old one at once."""
        token = rotate(self.home)
        self._disconnect_clients()
        return token

    async def watch_token(self) -> None:
        """Watch for token changes by other processes, and disconnect clients whose tokens are no longer valid."""
        while True:
            await trio.sleep(_LOOK_EVERY_S)
            await self.refresh_tokens()
            self._disconnect_clients()

    async def refresh_tokens(self) -> None:
        """Reload the valid tokens if they have changed; in a thread, because the list may be long."""
        if not self._verifier.has_changed:
            return
        async with self._looking:
            if self._verifier.has_changed:
                self._verifier.use_state(await trio.to_thread.run_sync(self._verifier.read_files))

    def _disconnect_clients(self) -> None:
        self._verifier.refresh()
        self.app.disconnect_clients(self._verifier.is_good)

    def _figures(self) -> tuple[int, int]:
        return len(self.connections), self.connections.refused


@asynccontextmanager
async def open_http_listener(server: Server, settings: HttpSettings | None = None) -> AsyncGenerator[HttpListener]:
    """Accept clients over HTTP for the length of the block.

    Leaving the block gives responses in progress at most `bounds.farewell_s` to finish, and then ends all connections,
    whatever their clients do. End the server first (`Server.end`), so feeds end on their own.

    Raises:
        InvalidInput: The settings are unsafe.
        StoreUnusable: The token cannot be created or read.
        Unavailable: The address cannot be listened on, or the certificate cannot be used.
    """
    settings = settings or HttpSettings()
    settings.check()
    with _open_socket(settings) as listening:
        listener = await trio.to_thread.run_sync(HttpListener, server, settings, listening)
        sockets = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
        own = sc.wire.ErrorCapture()
        with ExitStack() as ending, own.reraise():
            async with trio.open_nursery() as nursery:
                await nursery.start(trio.serve_listeners, listener.connections.serve_client, [sockets])
                nursery.start_soon(listener.watch_token)
                server.address, server.open_to_others = listener.url, listener.open_to_others
                try:
                    with own.capture():
                        yield listener
                        ending.enter_context(pause_garbage_collection())
                        await listener.connections.finish()
                finally:
                    server.address = server.open_to_others = None
                    nursery.cancel_scope.cancel(reason="the listener is closed")


def _open_socket(settings: HttpSettings) -> socket.socket:
    address = settings.address
    listening = socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address.version == 6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind((str(address), settings.port))
        listening.listen(_BACKLOG)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise sc.Unavailable(
            f"the server cannot listen on {settings.host} port {settings.port}: {_explain_bind_error(error)}",
            field="port",
        ) from error
    return listening


def _explain_bind_error(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "another program uses it; choose another port, or 0 for any"
    if error.errno == errno.EACCES:
        return "ports below 1024 are for the system; choose another port, or 0 for any"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this machine does not have that address; 0.0.0.0 means all of its addresses"
    return error.strerror or str(error)


def _build_tls_context(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(tls.certificate, tls.key)
    except ssl.SSLError as error:
        raise sc.Unavailable(
            f"the certificate or its key cannot be used: is {str(tls.certificate)!r} the certificate, and "
            f"{str(tls.key)!r} the key that belongs to it, both as PEM?",
            field="tls",
        ) from error
    except OSError as error:
        raise sc.Unavailable(
            f"the certificate or its key cannot be used: {_find_unreadable_file(tls)} cannot be read: {error.strerror}",
            field="tls",
        ) from error
    return context


def _find_unreadable_file(tls: Tls) -> str:
    """Return the file that cannot be opened: the error of `load_cert_chain` does not name it."""
    return repr(str(tls.key if os.access(tls.certificate, os.R_OK) else tls.certificate))
