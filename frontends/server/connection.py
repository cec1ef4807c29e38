"""One connection: the client says hello, runs commands, and follows feeds."""

import logging
from contextlib import ExitStack
from functools import partial
from typing import Any, Final, Literal, TypeVar

import trio

import session_core as sc
from frontends.server.access import EVERYTHING, Access
from frontends.server.client_names import choose_client_id
from frontends.server.feeds import Feeds
from frontends.server.frames import is_slow_to_encode
from frontends.server.server import Server

log = logging.getLogger(__name__)
T = TypeVar("T")

TransportName = Literal["socket", "WebSocket"]
FAILED: Final = -32000
"""The code of every typed error; the data identifies the error."""
GREETING_S: Final = 10.0
"""How long a client may take to send its hello."""
_MAX_INSTANCE_CHARS: Final = 200


async def serve_connection(
    server: Server,
    source: int | trio.abc.ReceiveStream,
    sink: int | trio.abc.SendStream,
    *,
    access: Access = EVERYTHING,
    transport: TransportName = "socket",
    credential: str = "",
) -> None:
    """Serve one client until it leaves, or the server ends; `credential` distinguishes those with limited rights.

    Cancellation: the connection ends at once.
    """
    attendant = ClientConnection(server, access, transport, credential)
    try:
        server.count_connection()
    except sc.SessionCoreError as refusal:
        await _turn_away(source, sink, refusal)
        return
    try:
        async with (
            sc.wire.open_connection(
                source,
                sink,
                handle_request=attendant.handle,
                handle_unusable=attendant.report_unusable_line,
                name=f"client over the {transport}",
                max_reply=sc.wire.MAX_SNAPSHOT_LINE,
            ) as connection,
            trio.open_nursery() as nursery,
        ):
            attendant.begin(connection, nursery)
            try:
                await connection.wait_closed()
            finally:
                attendant.end()
            nursery.cancel_scope.cancel(reason="the connection has ended")
    finally:
        server.release_connection()


async def _turn_away(
    source: int | trio.abc.ReceiveStream, sink: int | trio.abc.SendStream, refusal: sc.SessionCoreError
) -> None:
    async with sc.wire.open_connection(source, sink, name="a client that is turned away") as connection:
        connection.notify_now("goodbye", sc.wire.to_json(sc.wire.Goodbye(reason=refusal.message)))


async def _close_soon(connection: sc.wire.RpcConnection) -> None:
    await connection.flush_briefly()
    connection.close()


class ClientConnection:
    """Serves one client."""

    def __init__(self, server: Server, access: Access, transport: TransportName, credential: str = "") -> None:
        self.instance = ""
        self._server = server
        self._access = access
        self._transport = transport
        self._credential = credential
        self._stay = ExitStack()
        self._role: sc.ClientRole = "observer"
        self._client: sc.AttachedClient | None = None
        self._feeds: Feeds | None = None
        self._connection: sc.wire.RpcConnection | None = None
        self._nursery: trio.Nursery | None = None
        self._greeting = trio.CancelScope()

    def begin(self, connection: sc.wire.RpcConnection, nursery: trio.Nursery) -> None:
        """Start serving an open connection."""
        self._connection, self._nursery = connection, nursery
        nursery.start_soon(self._await_greeting)

    def end(self) -> None:
        """Release the client's place, if it had one, at the end of the connection."""
        self._nursery = None
        self._stay.close()

    def dismiss(self, goodbye: sc.wire.Goodbye) -> None:
        """Say goodbye to the client, release its place, and end the connection."""
        connection, nursery = self._connection, self._nursery
        self.end()
        if connection is None or nursery is None:
            return
        if connection.notify_now("goodbye", sc.wire.to_json(goodbye)):
            nursery.start_soon(_close_soon, connection)
        else:
            connection.close()  # too much is unread for the goodbye to arrive in time

    async def _await_greeting(self) -> None:
        with self._greeting:
            await trio.sleep(GREETING_S)
            self.dismiss(sc.wire.Goodbye(reason="the client did not send its hello", retry=False))

    def report_unusable_line(self, line: bytes, reason: str) -> None:
        """Report a line that is not a valid message; if it has a request id, that request is refused."""
        if self._connection is not None and sc.wire.peek_message(line).id is None:
            self._connection.send_now(sc.wire.encode_failure(None, sc.wire.PARSE_ERROR, reason))

    # --- requests -----------------------------------------------------------------------------------------------------

    async def handle(self, request: sc.wire.Request) -> Any:
        """Answer one request."""
        try:
            return await self._answer(request)
        except sc.SessionCoreError as error:
            raise sc.wire.RpcFailed(FAILED, error.message, sc.wire.to_json(sc.wire.error_info(error))) from error

    async def _answer(self, request: sc.wire.Request) -> Any:
        if request.method == "hello":
            return sc.wire.to_json(self._greet(_read(request, sc.wire.Hello)))
        client, feeds = self._client, self._feeds
        if client is None or feeds is None:
            raise sc.ProtocolError("the first request must be hello", field="$.method")
        if self._nursery is None:
            raise sc.ServiceClosed("this connection is closing")
        match request.method:
            case "execute":
                asked = _read(request, sc.wire.Execute)
                self._access.check_command(asked.command, self._server.service.find_request)
                reply = await client.execute(asked.command, idempotency_key=asked.idempotency_key)
                if is_slow_to_encode(reply):
                    return await trio.to_thread.run_sync(sc.wire.to_json, reply, abandon_on_cancel=True)
                return sc.wire.to_json(reply)
            case "follow":
                follow = _read(request, sc.wire.Follow)
                self._access.check_session(follow.session_id)
                return sc.wire.to_json(feeds.open(follow, self._server.epoch))
            case "unfollow":
                feeds.close(_read(request, sc.wire.Unfollow).feed)
                return {}
            case "status":
                self._access.check_service()
                return sc.wire.to_json(self._server.status())
            case "shutdown":
                self._shut_down(force=request.params.get("force") is True)
                return {}
            case "login_link":
                return {"url": self._login_link()}
            case _:
                raise sc.wire.method_not_found(request.method)

    def _greet(self, hello: sc.wire.Hello) -> sc.wire.Welcome:
        if self._client is not None:
            raise sc.ProtocolError("this client has already sent its hello", field="$.method")
        if self._connection is None or self._nursery is None:
            raise sc.ServiceClosed("this connection is closing")
        if self._server.closing:
            raise sc.ServiceClosed("the server is shutting down")
        if hello.contract != sc.wire.CONTRACT:
            raise sc.ProtocolError(
                f"this server speaks version {sc.wire.CONTRACT} of the contract, "
                f"and the client version {hello.contract}; use programs of one release",
                field="$.contract",
            )
        client_id = choose_client_id(hello.client_id, self._access, self._credential)
        if len(hello.instance) > _MAX_INSTANCE_CHARS:
            raise sc.InvalidInput(f"instance may have at most {_MAX_INSTANCE_CHARS} characters", field="instance")
        server, role = self._server, self._access.role_for(hello.role)
        with ExitStack() as stay:
            attach_client = partial(
                server.service.attach, client_id, role=role, ui=hello.ui, name=hello.name, kind=hello.kind
            )
            try:
                self._client = stay.enter_context(attach_client())
            except sc.Conflict:  # the last check, so other errors cost no client its connection
                if not server.dismiss_lost_connection(client_id, hello.instance):
                    raise
                self._client = stay.enter_context(attach_client())
            self.instance = hello.instance
            self._role = role
            server.add_client(self._client.client_id, self)
            stay.callback(server.remove_client, self._client.client_id, self)
            self._stay = stay.pop_all()
        self._feeds = Feeds(
            self._client.follow, self._connection, self._nursery, server.encodings, lambda: server.closing
        )
        self._greeting.cancel(reason="the client has sent its hello")
        self._nursery.start_soon(self._send_heartbeats)
        return sc.wire.Welcome(
            contract=sc.wire.CONTRACT,
            version=sc.__version__,
            epoch=server.epoch,
            client_id=self._client.client_id,
            role=role,
            heartbeat_ms=server.settings.heartbeat_ms,
        )

    def _shut_down(self, *, force: bool) -> None:
        self._refuse_observer()
        if self._access != EVERYTHING:
            raise sc.AccessDenied("this client may not shut the service down")
        self._server.shut_down(force=force)

    def _login_link(self) -> str:
        """Return a link that lets one browser in; only for clients with full, unlimited access.

        A client that came in by HTTP may have a token or a login that expires, and a link would outlast it.
        """
        self._refuse_observer()
        if self._access != EVERYTHING or self._transport != "socket":
            raise sc.AccessDenied("this client may not create login links")
        if self._server.login_link is None:
            raise sc.Unavailable("this service does not serve HTTP; start it with --http")
        return self._server.login_link()

    def _refuse_observer(self) -> None:
        if self._access == EVERYTHING and self._role == "observer":
            raise sc.Forbidden("this client is an observer: it may watch but not act")

    async def _send_heartbeats(self) -> None:
        """Send heartbeats at intervals; a client that does not read gets no more of them."""
        assert self._connection is not None
        assert self._feeds is not None
        while True:
            await trio.sleep(self._server.settings.heartbeat_ms / 1000)
            beat = sc.wire.Heartbeat(at=self._server.now(), feeds=self._feeds.places())
            self._connection.notify_now("heartbeat", sc.wire.to_json(beat))


def _read(request: sc.wire.Request, expected: type[T]) -> T:
    """Read the params of a request; their type may be omitted, because it is the method's name."""
    return sc.wire.from_json({"type": request.method, **request.params}, expected)
