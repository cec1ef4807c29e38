"""The ASGI app of the HTTP listener: each request is checked, counted against its rate limit, and then handled."""

import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from math import inf
from typing import Any, Final

import trio
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Router

import session_core as sc
from frontends.server.http import command_endpoint
from frontends.server.http.access_log import WHOLE
from frontends.server.http.hypercorn_guards import ClientGone
from frontends.server.http.logins import BrowserLogins
from frontends.server.http.metrics import CONTENT_TYPE, Counts, metrics_text
from frontends.server.http.rate_limits import RateLimits
from frontends.server.http.request_checks import OPEN_PATHS, AdmissionRules, RequestHead, RequestRejection, check
from frontends.server.http.routes import WEBSOCKET, Routes
from frontends.server.http.served_clients import ServedClient
from frontends.server.http.settings import HttpBounds
from frontends.server.http.tokens import Credential
from frontends.server.http.websocket import NOT_ALLOWED, serve_websocket
from frontends.server.server import Server

log = logging.getLogger(__name__)

_UNKNOWN: Final = "unknown"
_REFUSED: Final = "refused"


class HttpApp:
    """The listener's ASGI app."""

    def __init__(
        self,
        server: Server,
        rules: AdmissionRules,
        bounds: HttpBounds,
        logins: BrowserLogins,
        connections: Callable[[], tuple[int, int]] = lambda: (0, 0),
        *,
        look: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
    ) -> None:
        self.counts = Counts()
        self.served_clients: set[ServedClient] = set()
        self._server = server
        self._rules = rules
        self._connections = connections
        self._look = look
        self._requests = RateLimits(per_s=bounds.requests_per_s, at_once=bounds.requests_at_once)
        # Separate buckets, so neither a monitor's probes nor a program with an old token stop a person from logging in.
        self._strangers = {
            what: RateLimits(per_s=bounds.refusals_per_s, at_once=bounds.refusals_at_once)
            for what in (_REFUSED, *OPEN_PATHS)
        }
        self.routes = Routes(
            server,
            bounds,
            logins,
            cookie=rules.cookie,
            secure=rules.scheme == "https",
            feeding=self._count_stream,
            figures=self._build_metrics_response,
        )
        self.router = Router(self.routes.table(), redirect_slashes=False)

    # --- admission ----------------------------------------------------------------------------------------------------

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request or one WebSocket."""
        head = _read_head(scope)
        await self._look()  # tokens may have changed; they are read in a thread, so other clients do not wait
        verdict = check(head, self._rules)
        client = scope["client"][0] if scope.get("client") else ""
        refusal = self._refusal(
            verdict, client, head.path, for_reading=command_endpoint.wants_page(head.header_value("accept"))
        )
        counted = self._counting(scope, send)
        if refusal is not None:
            await _send_refusal(refusal, scope, receive, counted)
        elif scope["type"] == "websocket":
            assert isinstance(verdict, Credential)
            await self._serve_websocket(verdict, scope, receive, counted)
        else:
            scope["state"]["credential"] = verdict
            await self._serve(verdict if isinstance(verdict, Credential) else None, scope, receive, counted)

    def _refusal(
        self, verdict: Credential | RequestRejection | None, client: str, path: str, *, for_reading: bool
    ) -> Response | None:
        now = trio.current_time()
        if isinstance(verdict, Credential):
            wait = self._requests.take(verdict.id, now)
        elif verdict is None:
            wait = self._strangers[path].take(client, now)  # open paths allow guessing too
        elif verdict.status == 401:
            wait = self._strangers[_REFUSED].take(client, now)
        else:
            wait = 0.0
        if wait:
            info = sc.wire.ErrorInfo(code="overloaded", message="this client sends too many requests; try again later")
            return command_endpoint.refuse(info, 429, retry_after=wait)
        if isinstance(verdict, RequestRejection):
            refusal = command_endpoint.refuse(verdict.error, verdict.status, for_reading=for_reading)
            if verdict.status == 401:
                refusal.headers["www-authenticate"] = 'Bearer realm="session-core"'
            return refusal
        return None

    def _counting(self, scope: Any, send: Any) -> Any:
        async def counted(message: Any) -> None:
            match message["type"]:
                case "http.response.start" | "websocket.http.response.start":
                    scope["begun"] = message["status"]
                    self.counts.requests[scope.get("route_path", _UNKNOWN), message["status"]] += 1
                case "http.response.body" if not message.get("more_body", False):
                    scope[WHOLE] = scope["begun"]
                case "websocket.accept":
                    self.counts.requests[WEBSOCKET, 101] += 1
                case _:
                    pass
            await send(message)

        return counted

    async def _serve(self, credential: Credential | None, scope: Any, receive: Any, send: Any) -> None:
        if credential is None:  # unauthenticated requests do not delay the shutdown
            await self._answer(scope, receive, send)
            return
        try:
            self._server.count_connection()
        except sc.SessionCoreError as refusal:
            await command_endpoint.refuse_for(refusal)(scope, receive, send)
            return
        try:
            with self._register_client(credential) as served:
                scope["state"]["served"] = served
                await self._answer(scope, receive, send)
            if served.scope.cancelled_caught and "begun" not in scope:
                ended = sc.AccessDenied("the token or the login is no longer valid", field="Authorization")
                await command_endpoint.refuse(sc.wire.error_info(ended), 401)(scope, receive, send)
        finally:
            self._server.release_connection()

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        scope["app"] = self  # makes the router raise errors that it would otherwise answer itself
        try:
            await self.router(scope, receive, send)
        except HTTPException as error:
            code = "not_found" if error.status_code == 404 else "invalid_input"
            message = "there is no such path" if error.status_code == 404 else "this method is not allowed here"
            refusal = command_endpoint.refuse(sc.wire.ErrorInfo(code=code, message=message), error.status_code)
            refusal.headers.update(error.headers or {})
            await refusal(scope, receive, send)
        except (ClientGone, BaseExceptionGroup):
            raise
        except Exception:
            log.exception("a request failed because of a bug")
            bug = sc.InternalError("the server failed because of a bug; its log says more")
            await command_endpoint.refuse_for(bug)(scope, receive, send)

    async def _serve_websocket(self, credential: Credential, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] != WEBSOCKET:
            info = sc.wire.ErrorInfo(code="not_found", message=f"WebSockets are at {WEBSOCKET}")
            await _send_refusal(command_endpoint.refuse(info, 404), scope, receive, send)
            return
        self.counts.websockets += 1
        try:
            with self._register_client(credential) as served:
                await serve_websocket(self._server, scope, receive, send, credential)
            if served.scope.cancelled_caught:
                await send({"type": "websocket.close", "code": NOT_ALLOWED})
        finally:
            self.counts.websockets -= 1

    @contextmanager
    def _register_client(self, credential: Credential) -> Generator[ServedClient]:
        """Register a client that is being served, until its credential ends."""
        good_until = inf
        if credential.expires_at is not None:
            good_until = trio.current_time() + max(0, credential.expires_at - self._server.now()) / 1000
        served = ServedClient(credential, trio.CancelScope(deadline=good_until), good_until)
        self.served_clients.add(served)
        try:
            with served.scope:
                yield served
        finally:
            self.served_clients.discard(served)

    @contextmanager
    def _count_stream(self) -> Generator[None]:
        self.counts.streams += 1
        try:
            yield
        finally:
            self.counts.streams -= 1

    def _build_metrics_response(self) -> Response:
        connections, turned_away = self._connections()
        text = metrics_text(self._server, self.counts, connections=connections, turned_away=turned_away)
        return Response(text, media_type=CONTENT_TYPE)

    def disconnect_clients(self, is_good: Callable[[Credential], bool]) -> None:
        """End all responses, feeds and WebSockets of clients whose token or login is no longer valid."""
        for served in self.served_clients:
            if not is_good(served.credential):
                served.disconnect()


def _read_head(scope: Any) -> RequestHead:
    return RequestHead(
        kind=scope["type"],
        method=scope.get("method", "GET"),
        path=scope["path"],
        headers=tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]),
        own_address=scope.get("server"),
    )


async def _send_refusal(refusal: Response, scope: Any, receive: Any, send: Any) -> None:
    """Refuse a request without handling it; a WebSocket is refused before its handshake."""
    if scope["type"] == "http":
        await refusal(scope, receive, send)
        return
    start = {"type": "websocket.http.response.start", "status": refusal.status_code, "headers": refusal.raw_headers}
    await send(start)
    await send({"type": "websocket.http.response.body", "body": refusal.body})
