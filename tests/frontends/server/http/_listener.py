"""What tests of the HTTP listener share: a server with the listener open on loopback, and clients."""

import contextlib
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import h11
import httpx2
import trio

import session_core as sc
from frontends.server.http.listener import HttpListener, open_http_listener
from frontends.server.http.settings import HttpBounds, HttpSettings
from frontends.server.http.tokens import ensure_token
from frontends.server.server import Server, ServerSettings
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedAnswer, ScriptedProvider

PLENTY = HttpBounds(
    requests_per_s=1e9,
    requests_at_once=1e9,
    refusals_per_s=1e9,
    refusals_at_once=1e9,
    head_s=600,
    idle_s=600,
    body_s=600,
    write_s=600,
)
"""Bounds for tests of other things than bounds."""


@attrs.frozen(kw_only=True)
class Sent:
    """One server-sent event."""

    name: str
    data: Any
    id: str | None


class EventReader:
    """Reads server-sent events from a bare connection, only as much as is asked for."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.ended = False
        self._stream = stream
        self._http = h11.Connection(h11.CLIENT)
        self._text = bytearray()

    async def begin(self, path: str, headers: dict[str, str]) -> h11.Response:
        """Send the request and return the head of the answer."""
        asked = h11.Request(method="GET", target=path, headers=list(headers.items()))
        await self._stream.send_all(self._http.send(asked) + self._http.send(h11.EndOfMessage()))
        response = await self._next_part()
        assert isinstance(response, h11.Response)
        return response

    async def next(self) -> Sent:
        """Return the next event; `trio.EndOfChannel` after the last one of a complete answer."""
        seen = 0
        while (end := self._text.find(b"\n\n", seen)) < 0:
            seen = max(0, len(self._text) - 1)
            part = await self._next_part()
            if isinstance(part, h11.EndOfMessage):
                self.ended = True
                raise trio.EndOfChannel
            assert isinstance(part, h11.Data)
            self._text += part.data
        block = self._text[:end].decode()
        del self._text[: end + 2]
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        return Sent(name=fields["event"], data=json.loads(fields["data"]), id=fields.get("id"))

    async def rest(self) -> list[Sent]:
        """Return all that comes until the end, however that comes; `ended` tells whether the answer was complete."""
        found = []
        with contextlib.suppress(trio.EndOfChannel, h11.RemoteProtocolError, trio.BrokenResourceError):
            while True:
                found.append(await self.next())
        return found

    async def until(self, seq: int) -> list[Sent]:
        """Return what comes until everything up to `seq` is there."""
        found = [await self.next()]
        while found[-1].name != "feed" or found[-1].data["cursor"]["seq"] < seq:
            found.append(await self.next())
        return found

    async def _next_part(self) -> Any:
        with trio.fail_after(300):
            while (part := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(bytes(await self._stream.receive_some(65_536)))
        return part


@attrs.define(eq=False)
class RunningListener:
    """A listener that is open, with what stands behind it."""

    listener: HttpListener
    server: Server
    service: sc.SessionService
    home: Path

    @property
    def url(self) -> str:
        """Where it is."""
        return self.listener.url

    @property
    def host(self) -> str:
        """What a Host header says."""
        return self.url.partition("://")[2]

    @property
    def port(self) -> int:
        """Its port."""
        return int(self.url.rpartition(":")[2])

    @property
    def token(self) -> str:
        """The token of the home."""
        return ensure_token(self.home)

    @asynccontextmanager
    async def client(self, token: str | None = "", **settings: Any) -> AsyncGenerator[httpx2.AsyncClient]:
        """A client; with the token of the home unless another is given, or None."""
        shown = self.token if token == "" else token
        headers = {} if shown is None else {"authorization": f"Bearer {shown}"}
        headers |= settings.pop("headers", {})
        # Looking for certificates takes long, and so does everything on a slow machine.
        settings = {"trust_env": False, "verify": False, "timeout": 60, **settings}
        async with httpx2.AsyncClient(base_url=self.url, headers=headers, **settings) as client:
            yield client

    async def raw(self) -> trio.SocketStream:
        """A bare connection."""
        return await trio.open_tcp_stream("127.0.0.1", self.port)

    @asynccontextmanager
    async def events(self, path: str, last_id: str | None = None) -> AsyncGenerator[EventReader]:
        """Follow something by server-sent events for the length of the block."""
        headers = {"host": self.host, "authorization": f"Bearer {self.token}"}
        async with await self.raw() as stream:
            reader = EventReader(stream)
            response = await reader.begin(path, headers if last_id is None else {**headers, "last-event-id": last_id})
            assert 200 == response.status_code
            assert (b"content-type", b"text/event-stream; charset=utf-8") in response.headers
            yield reader

    def head(self, path: str = "/v1/status", *more: str, method: str = "GET") -> bytes:
        """The head of a request with the token."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.host}", f"Authorization: Bearer {self.token}", *more]
        return "\r\n".join([*lines, "", ""]).encode()

    async def exchange(self, sent: bytes) -> bytes:
        """Send bytes on a connection of its own, and return all that comes until the server closes it."""
        async with await self.raw() as stream:
            with contextlib.suppress(trio.BrokenResourceError):  # it may have been answered and closed before the end
                await stream.send_all(sent)
            return await read_all(stream)


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is so that nobody tells."""
    with trio.fail_after(300):
        while not condition():  # noqa: ASYNC110 - there is nothing to wait for but the thing itself
            await trio.sleep(0.01)


async def read_all(stream: trio.abc.ReceiveStream) -> bytes:
    """Read until the end, however it comes."""
    found = b""
    with trio.fail_after(300):
        try:
            while part := await stream.receive_some(65_536):
                found += part
        except trio.BrokenResourceError:
            pass
    return found


@asynccontextmanager
async def open_listener(
    home: Path,
    *answers: ScriptedAnswer | ScriptedProvider,
    settings: HttpSettings | None = None,
    config: dict[str, Any] | None = None,
    **server_settings: Any,
) -> AsyncGenerator[RunningListener]:
    """Run a checked service with a scripted model, and a listener that is open on loopback."""
    first = answers[0] if answers else None
    provider = first if isinstance(first, ScriptedProvider) else ScriptedProvider(*answers)  # type: ignore[arg-type]
    usual = {"models": {"m": provider}, "tools": (), "cwd": "/", "store": sc.MemoryStore()}
    made = sc.ServiceConfig(**{**usual, **(config or {})})
    async with open_checked_service(made) as service:
        server = Server(service, ServerSettings(home=str(home), **server_settings))
        async with open_http_listener(server, settings or HttpSettings(bounds=PLENTY)) as listener:
            yield RunningListener(listener, server, service, home)
