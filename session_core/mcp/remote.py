"""Servers over streamable HTTP: each of our messages is a POST, and the response carries its answer.

The SDK's own transport does not fit: it leaves generators behind that only trio's garbage collection closes, reads
bodies of any size, and fails completely when one request fails. Here:

1. Each request has its own task; cancelling it tells the server and then hangs up.
2. Bodies and events are bounded, and compressed ones refused, because a small one could unpack to any size.
3. No redirect is followed, so configured headers go to the configured URL and nowhere else.
4. A server that can no longer be reached ends the link, with the reason. One that only refuses a request does not.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit

import trio

from session_core.mcp.config import HttpServer
from session_core.mcp.diagnostics import Diagnostics
from session_core.mcp.transport import (
    MAX_MESSAGE_BYTES,
    OnTransportEnd,
    TransportStreams,
    as_json,
    build_failure,
    parse_message,
)
from session_core.providers.endpoint import is_loopback
from session_core.providers.sse import SseEventTooLarge, SseParser

if TYPE_CHECKING:
    import httpx2
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCMessage, RequestId


# --- reading HTTP bodies: bounded, and without leaving a generator behind ---------------------------------------------
class UnusableHttpAnswer(Exception):
    """A response that cannot be read; the message says why."""


class BodyReadScope:
    """A scope for reading a body that may be abandoned halfway.

    Breaking out of the loop would leave the client's generators to the garbage collector, which trio complains about. A
    cancelled read unwinds them all.
    """

    def __init__(self, response: "httpx2.Response") -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise UnusableHttpAnswer("it compresses its answers although it was asked not to")
        self._scope = trio.CancelScope()
        self._reason = ""

    def give_up(self, reason: str) -> None:
        """End at the next read; the reason is raised on leaving the scope."""
        self._reason = reason
        self._scope.cancel()

    def __enter__(self) -> Self:
        self._scope.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        swallowed = bool(self._scope.__exit__(kind, error, traceback))
        if self._reason and (swallowed or error is None):
            raise UnusableHttpAnswer(self._reason)
        return swallowed


async def read_body(response: "httpx2.Response") -> bytes:
    """Return a body that is not too large; raises `UnusableHttpAnswer`."""
    body = bytearray()
    with BodyReadScope(response) as reading:
        async for chunk in response.aiter_raw():
            if len(body) + len(chunk) > MAX_MESSAGE_BYTES:
                reading.give_up(f"the answer has more than {MAX_MESSAGE_BYTES:,} bytes")
            else:
                body += chunk
    return bytes(body)


# --- remote -----------------------------------------------------------------------------------------------------------

_CONNECT_SECONDS: Final = 15.0
_SLACK_SECONDS: Final = 30.0
"""A request's own deadline comes first; this one is for requests that no caller waits for any more."""
_GOODBYE_SECONDS: Final = 1.0
_OUTGOING: Final = 64
_LONGEST_PAUSE: Final = 60.0

_SESSION: Final = "mcp-session-id"
_VERSION: Final = "mcp-protocol-version"


@asynccontextmanager
async def open_remote(
    config: HttpServer, diagnostics: Diagnostics, on_end: OnTransportEnd
) -> AsyncGenerator[TransportStreams]:
    """Prepare the connection to the server; the first message opens it.

    Cancellation: the session on the server is ended, which takes at most a second.
    """
    import anyio
    import httpx2
    from mcp.shared.message import SessionMessage

    reading = config.timeout_ms / 1000 + _SLACK_SECONDS
    client = httpx2.AsyncClient(
        headers={"accept-encoding": "identity", **config.headers},
        timeout=httpx2.Timeout(_CONNECT_SECONDS, read=reading),
        follow_redirects=False,
        trust_env=not is_loopback(urlsplit(config.url).hostname or ""),  # no proxy between us and this machine
    )
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](_OUTGOING)
    with incoming, read, write, outgoing:
        async with client:
            way = _HttpTransport(config.url, client, incoming, diagnostics, on_end)
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(way.send_all, outgoing, nursery)
                    yield TransportStreams(read=read, write=write)
                    nursery.cancel_scope.cancel()
            finally:
                with trio.move_on_after(_GOODBYE_SECONDS, shield=True):
                    await way.close_session()


class _HttpTransport:
    def __init__(
        self,
        url: str,
        client: "httpx2.AsyncClient",
        incoming: "MemoryObjectSendStream[SessionMessage | Exception]",
        diagnostics: Diagnostics,
        on_end: OnTransportEnd,
    ) -> None:
        self._url = url
        self._client = client
        self._incoming = incoming
        self._diagnostics = diagnostics
        self._on_end = on_end
        self._session = ""
        self._version = ""
        self._open: dict[RequestId, trio.CancelScope] = {}

    async def send_all(self, outgoing: "MemoryObjectReceiveStream[SessionMessage]", nursery: trio.Nursery) -> None:
        """Send the session's messages; waits only for the handshake, because everything else depends on it."""
        from mcp_types import JSONRPCNotification, JSONRPCRequest

        async for item in outgoing:
            message, headers = item.message, dict(getattr(item.metadata, "headers", None) or {})
            self._version = headers.get(_VERSION, self._version)
            if isinstance(message, JSONRPCRequest):
                scope = self._open[message.id] = trio.CancelScope()
                nursery.start_soon(self._request, message.id, message, headers, scope)
            elif isinstance(message, JSONRPCNotification) and message.method == "notifications/initialized":
                await self._send_notification(message, headers)
                nursery.start_soon(self._listen)
            else:
                nursery.start_soon(self._send_notification, message, headers)

    async def close_session(self) -> None:
        """Tell the server that the session is over."""
        import httpx2

        if self._session:
            try:
                async with self._client.stream("DELETE", self._url, headers=self._build_headers({})):
                    pass
            except httpx2.HTTPError as error:
                self._diagnostics.note(f"it could not be told that we leave: {error}")

    async def _request(
        self, number: "RequestId", message: "JSONRPCMessage", headers: dict[str, str], scope: trio.CancelScope
    ) -> None:
        import httpx2
        from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR

        try:
            with scope:
                async with self._client.stream(
                    "POST", self._url, content=as_json(message), headers=self._build_headers(headers)
                ) as response:
                    self._session = response.headers.get(_SESSION, self._session)
                    if response.is_success and response.status_code != 202:
                        await self._take_answer(response, number)
                    else:
                        await self._take_refusal(response, number)
        except UnusableHttpAnswer as error:
            await self._fail(number, INTERNAL_ERROR, str(error))
        except httpx2.HTTPError as error:
            reason = f"it cannot be reached: {str(error) or type(error).__name__}"
            self._on_end(reason)
            await self._fail(number, CONNECTION_CLOSED, reason)
        finally:
            self._open.pop(number, None)

    async def _take_answer(self, response: "httpx2.Response", number: "RequestId") -> None:
        from mcp_types import CONNECTION_CLOSED

        kind = response.headers.get("content-type", "").lower()
        if kind.startswith("application/json"):
            await self._pass_on(await read_body(response))
        elif kind.startswith("text/event-stream"):
            await self._pass_on_events(response)
            if number in self._open:
                # If the answer was among the events, its request has ended and ignores this.
                await self._fail(number, CONNECTION_CLOSED, "it ended its answer too early")
        else:
            raise UnusableHttpAnswer(f"it answered with {kind[:100] or 'no content type'} instead of JSON")

    async def _take_refusal(self, response: "httpx2.Response", number: "RequestId") -> None:
        from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, JSONRPCError

        status_text = f"HTTP {response.status_code} {response.reason_phrase}".rstrip()
        if response.has_redirect_location:
            raise UnusableHttpAnswer(f"{status_text}: it redirects to another address, which is not followed")
        if response.status_code == 404 and self._session:
            self._on_end("it has forgotten our session")
            await self._fail(number, CONNECTION_CLOSED, "it has forgotten our session")
            return
        refusal = parse_message(await read_body(response))
        if isinstance(refusal, JSONRPCError):
            await self._fail(number, refusal.error.code, refusal.error.message, refusal.error.data)
        else:
            await self._fail(number, INTERNAL_ERROR, status_text)

    async def _send_notification(self, message: "JSONRPCMessage", headers: dict[str, str]) -> None:
        """Send a notification; if it cancels a request, hang up on that request afterwards."""
        import httpx2
        from mcp_types import JSONRPCNotification

        try:
            async with self._client.stream(
                "POST", self._url, content=as_json(message), headers=self._build_headers(headers)
            ):
                pass  # its response is not read
        except httpx2.HTTPError as error:
            self._diagnostics.note(f"a message could not be sent: {error}")
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            scope = self._open.get((message.params or {}).get("requestId", ""))
            if scope is not None:
                scope.cancel()

    async def _listen(self) -> None:
        """Receive the server's own messages for as long as it lets us."""
        import httpx2

        pause = 1.0
        while True:
            try:
                async with self._client.stream(
                    "GET",
                    self._url,
                    headers=self._build_headers({"accept": "text/event-stream"}),
                    timeout=httpx2.Timeout(_CONNECT_SECONDS, read=None),
                ) as response:
                    kind = response.headers.get("content-type", "").lower()
                    if not response.is_success or not kind.startswith("text/event-stream"):
                        return  # it offers no such stream
                    await self._pass_on_events(response)
                    pause = 1.0
            except (UnusableHttpAnswer, httpx2.HTTPError) as error:
                self._diagnostics.note(f"it cannot be listened to: {error}")
            await trio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _pass_on_events(self, response: "httpx2.Response") -> None:
        parser = SseParser(MAX_MESSAGE_BYTES)
        with BodyReadScope(response) as reading:
            async for chunk in response.aiter_raw():
                try:
                    events = parser.feed(chunk)
                except SseEventTooLarge as error:
                    reading.give_up(f"the answer has more than {MAX_MESSAGE_BYTES:,} bytes")
                    events = error.events
                for event in events:
                    if event.event in ("", "message") and event.data:
                        await self._pass_on(event.data.encode())

    async def _pass_on(self, data: bytes) -> None:
        from mcp.shared.message import SessionMessage
        from mcp_types import JSONRPCError, JSONRPCResponse

        message = parse_message(data)
        if message is None:
            raise UnusableHttpAnswer("it answered with an invalid message")
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self._open.pop(message.id, None)
        await self._incoming.send(SessionMessage(message))

    async def _fail(self, number: "RequestId", code: int, text: str, data: object = None) -> None:
        import anyio

        try:
            await self._incoming.send(build_failure(number, code, text, data))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._diagnostics.note(text)

    def _build_headers(self, more: dict[str, str]) -> dict[str, str]:
        headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        if self._session:
            headers[_SESSION] = self._session
        if self._version:
            headers[_VERSION] = self._version
        return {**headers, **more}
