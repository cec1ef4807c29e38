"""A small HTTP server on loopback that replays recorded answers and misbehaves as told, for the tests of providers.

    async with open_replay_server(Reply(body=(recording,)), Reply(status=429, headers={"retry-after": "7"})) as server:
        ... server.base_url ...; server.requests[0].json()

The first call gets the first reply, the next one the next; the last reply is given to all that follow. A body is bytes
to be sent, each piece in a chunk of its own, and steps: `STALL`, `CUT`, `FOREVER`, or a `trio.Event` to wait for.
"""

import json
import socket
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import Enum, auto
from typing import Any

import attrs
import trio


class Step(Enum):
    """What happens between two pieces of a body."""

    STALL = auto()
    """Send nothing more, and wait until the client goes away."""
    CUT = auto()
    """Break the connection off in the midst of the answer."""
    FOREVER = auto()
    """Repeat the pieces before this, until the client goes away."""


STALL, CUT, FOREVER = Step.STALL, Step.CUT, Step.FOREVER
Body = Sequence["bytes | Step | trio.Event"]


@attrs.frozen(kw_only=True)
class Reply:
    """One scripted answer; `raw` sends the body as it is, without a head and chunks, and hangs up."""

    body: Body = ()
    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict)
    raw: bool = False


def json_reply(status: int, body: object, headers: Mapping[str, str] | None = None) -> Reply:
    """An answer that is no stream, as errors are."""
    content = {"content-type": "application/json", **(headers or {})}
    return Reply(status=status, headers=content, body=(json.dumps(body).encode(),))


@attrs.frozen(kw_only=True)
class Recorded:
    """A request as it came in, and when; names of headers are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float = attrs.field(factory=trio.current_time)

    def json(self) -> Any:
        return json.loads(self.body)


class ReplayServer:
    """The running server: where it is, what it was asked, and how many connections it has."""

    def __init__(self, replies: Sequence[Reply], port: int) -> None:
        self.base_url = f"http://127.0.0.1:{port}"
        self.requests: list[Recorded] = []
        self.connections = 0
        self.open_connections = 0
        self.stalled = trio.Event()
        self._replies = replies
        self._changed = trio.Condition()

    async def wait_until_closed(self) -> None:
        """Wait until no client holds a connection any more."""
        async with self._changed:
            while self.open_connections:
                await self._changed.wait()

    async def wait_until_stalled(self) -> None:
        """Wait until an answer has come to its `STALL`."""
        await self.stalled.wait()

    async def serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        self.open_connections += 1
        try:
            async with stream:
                await self._answer_all(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            with trio.CancelScope(shield=True):
                async with self._changed:  # noqa: ASYNC102 - it never waits long
                    self.open_connections -= 1
                    self._changed.notify_all()

    async def _answer_all(self, stream: trio.SocketStream) -> None:
        buffer = bytearray()
        while (request := await _receive_request(stream, buffer)) is not None:
            reply = self._replies[min(len(self.requests), len(self._replies) - 1)]
            self.requests.append(request)
            if not await self._answer(stream, reply):
                return

    async def _answer(self, stream: trio.SocketStream, reply: Reply) -> bool:
        """Play one reply; return whether the connection can go on."""
        if not reply.raw:
            headers = {
                "content-type": "text/event-stream; charset=utf-8",
                "transfer-encoding": "chunked",
                **reply.headers,
            }
            lines = [f"HTTP/1.1 {reply.status} Replayed", *(f"{name}: {text}" for name, text in headers.items())]
            await stream.send_all("\r\n".join([*lines, "", ""]).encode("latin-1"))
        sent: list[bytes] = []
        for step in reply.body:
            match step:
                case bytes():
                    sent.append(step)
                    await _send(stream, step, raw=reply.raw)
                case trio.Event():
                    await step.wait()
                case Step.STALL:
                    self.stalled.set()
                    await _wait_for_goodbye(stream)
                    return False
                case Step.CUT:
                    reset = struct.pack("ii", 1, 0)
                    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                    return False
                case Step.FOREVER:
                    while True:
                        for piece in sent:
                            await _send(stream, piece, raw=reply.raw)
        if reply.raw:
            return False
        await stream.send_all(b"0\r\n\r\n")
        return True


async def _send(stream: trio.SocketStream, piece: bytes, *, raw: bool) -> None:
    if raw:
        await stream.send_all(piece)
    elif piece:
        await stream.send_all(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")


async def _wait_for_goodbye(stream: trio.SocketStream) -> None:
    while await stream.receive_some():
        pass


async def _receive_request(stream: trio.SocketStream, buffer: bytearray) -> Recorded | None:
    while b"\r\n\r\n" not in buffer:
        if not (piece := await stream.receive_some()):
            return None
        buffer += piece
    head, _, _ = bytes(buffer).partition(b"\r\n\r\n")
    del buffer[: len(head) + 4]
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): text.strip() for name, _, text in (line.partition(":") for line in lines)}
    length = int(headers.get("content-length", "0"))
    while len(buffer) < length:
        if not (piece := await stream.receive_some()):
            return None
        buffer += piece
    body = bytes(buffer[:length])
    del buffer[:length]
    method, path, _ = first.split(" ")
    return Recorded(method=method, path=path, headers=headers, body=body)


@asynccontextmanager
async def open_replay_server(*replies: Reply) -> AsyncIterator[ReplayServer]:
    """Serve these replies on a free port until the block is left."""
    assert replies, "a server without replies could only hang up"
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        server = ReplayServer(replies, listeners[0].socket.getsockname()[1])
        await nursery.start(trio.serve_listeners, server.serve, listeners)
        try:
            yield server
        finally:
            nursery.cancel_scope.cancel()
