"""The routes of the HTTP listener."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, Final

import trio
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

import session_core as sc
from frontends.server.access import Access
from frontends.server.client_names import HTTP_CLIENT
from frontends.server.frames import is_slow_to_encode
from frontends.server.http import command_endpoint
from frontends.server.http.events import EventsAnswer
from frontends.server.http.logins import BrowserLogins, cookie_header
from frontends.server.http.openapi import document_bytes
from frontends.server.http.settings import HttpBounds
from frontends.server.http.tokens import Credential
from frontends.server.server import Server

WEBSOCKET: Final = "/v1/ws"
_USED_LINK: Final = (
    "this link was already used, or is older than a minute; `session-core serve --login`, on the machine of the "
    "service, makes a new one"
)

RouteAnswer = Response | EventsAnswer


class Routes:
    """The endpoints; each request is admitted, with its credential in `request.state.credential`.

    Args:
        server: The server.
        bounds: The size limits of bodies.
        logins: Turns codes into cookies.
        cookie: The name of the cookie.
        secure: Whether cookies are for TLS only.
        feeding: Counts a feed for the length of a block.
        figures: Returns the text of the metrics.
    """

    def __init__(
        self,
        server: Server,
        bounds: HttpBounds,
        logins: BrowserLogins,
        *,
        cookie: str,
        secure: bool,
        feeding: Callable[[], AbstractContextManager[object]],
        figures: Callable[[], Response],
    ) -> None:
        self._server = server
        self._bounds = bounds
        self._logins = logins
        self._cookie = cookie
        self._secure = secure
        self._feeding = feeding
        self._figures = figures
        self.large = trio.CapacityLimiter(bounds.large_bodies)

    def table(self) -> list[Route]:
        """Return all routes."""
        return [
            self._route("GET", "/", self._root),
            self._route("GET", "/healthz", self._health),
            self._route("GET", "/login", self._login),
            self._route("GET", "/metrics", self._metrics),
            self._route("GET", "/openapi.json", self._openapi),
            self._route("GET", "/v1/status", self._status),
            self._route("POST", "/v1/commands", self._execute),
            self._route("POST", "/v1/commands/{type}", self._execute_typed),
            self._route("GET", "/v1/service", self._load_service),
            self._route("GET", "/v1/sessions", self._list_sessions),
            self._route("GET", "/v1/sessions/{id}", self._load_session),
            self._route("GET", "/v1/sessions/{id}/messages", self._load_messages),
            self._route("GET", "/v1/events", self._events),
            self._route("GET", "/v1/sessions/{id}/events", self._session_events),
            self._route("GET", WEBSOCKET, self._not_a_websocket),
        ]

    def _route(self, method: str, path: str, endpoint: Callable[[Request], Awaitable[RouteAnswer]]) -> Route:
        async def answered(request: Request) -> RouteAnswer:
            request.scope["route_path"] = path
            try:
                return await endpoint(request)
            except sc.SessionCoreError as error:
                return command_endpoint.refuse_for(error)

        return Route(path, answered, methods=[method])

    async def _root(self, request: Request) -> Response:
        return PlainTextResponse("session-core is running here. Its API is described at /openapi.json.\n")

    async def _health(self, request: Request) -> Response:
        if self._server.closing:
            raise sc.ServiceClosed("the server is shutting down")
        return command_endpoint.answer({"ok": True})

    async def _login(self, request: Request) -> Response:
        if request.method == "HEAD":  # link previews must not use up the code
            raise HTTPException(405, headers={"allow": "GET"})
        secret = self._logins.redeem(request.query_params.get("code", ""))
        if secret is None:
            info = sc.wire.ErrorInfo(code="access_denied", message=_USED_LINK, field="code")
            return command_endpoint.refuse(
                info, 403, for_reading=command_endpoint.wants_page(request.headers.get("accept"))
            )
        cookie = cookie_header(self._cookie, secret, secure=self._secure)
        return Response(status_code=303, headers={"location": "/", "set-cookie": cookie})

    async def _metrics(self, request: Request) -> Response:
        _access(request).check_service()
        return self._figures()

    async def _openapi(self, request: Request) -> Response:
        return Response(document_bytes(), media_type="application/json")

    async def _status(self, request: Request) -> Response:
        _access(request).check_service()
        return command_endpoint.answer(self._server.status())

    async def _execute(self, request: Request) -> Response:
        async with command_endpoint.body_of(request, self._bounds.body_bytes, self.large) as body:
            asked = command_endpoint.execute_from(body)
            return await self._run(request, asked.command, asked.idempotency_key)

    async def _execute_typed(self, request: Request) -> Response:
        async with command_endpoint.body_of(request, self._bounds.body_bytes, self.large) as body:
            return await self._run(
                request, command_endpoint.value_from(request.path_params["type"], body, sc.Command[Any]), None
            )

    async def _load_service(self, request: Request) -> Response:
        return await self._run(request, sc.commands.LoadService(), None)

    async def _list_sessions(self, request: Request) -> Response:
        return await self._run(request, command_endpoint.command_from_query("list_sessions", request), None)

    async def _load_session(self, request: Request) -> Response:
        command = sc.commands.LoadSession(session_id=sc.SessionId(request.path_params["id"]))
        return await self._run(request, command, None)

    async def _load_messages(self, request: Request) -> Response:
        command = command_endpoint.command_from_query("load_messages", request, session_id=request.path_params["id"])
        return await self._run(request, command, None)

    async def _run(self, request: Request, command: "sc.Command[Any]", key: str | None) -> Response:
        credential: Credential = request.state.credential
        credential.access.check_command(command, self._server.service.find_request)
        key = key if key is not None else request.headers.get("idempotency-key")
        client_id = sc.ClientId(HTTP_CLIENT + credential.id)

        async def execute() -> object:
            return await self._server.service.execute(command, idempotency_key=key, client_id=client_id)

        reply = await command_endpoint.while_connected(request, execute)
        if is_slow_to_encode(reply):
            return await trio.to_thread.run_sync(command_endpoint.answer, reply)
        return command_endpoint.answer(reply)

    async def _events(self, request: Request) -> RouteAnswer:
        return self._follow(request, None)

    async def _session_events(self, request: Request) -> RouteAnswer:
        return self._follow(request, sc.SessionId(request.path_params["id"]))

    def _follow(self, request: Request, session_id: sc.SessionId | None) -> RouteAnswer:
        _access(request).check_session(session_id)
        after = command_endpoint.cursor_from(request)
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        return EventsAnswer(self._server, session_id, after, self._feeding)

    async def _not_a_websocket(self, request: Request) -> Response:
        info = sc.wire.ErrorInfo(code="invalid_input", message="this is for WebSockets", field="Upgrade")
        refusal = command_endpoint.refuse(info, 426)
        refusal.headers["upgrade"] = "websocket"
        return refusal


def _access(request: Request) -> Access:
    credential: Credential = request.state.credential
    return credential.access
