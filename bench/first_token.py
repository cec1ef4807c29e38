"""The time to the first word of an answer, compared with the bare HTTP client, with a model that answers at once."""

import json
import multiprocessing
import socket
import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any

import attrs
import httpx2
import trio

from bench.measure import Result, collector_off
from bench.store_material import scratch_directory
from session_core.ids import SessionId
from session_core.providers.base import ModelRequest, TextChunk
from session_core.providers.endpoint import Endpoint
from session_core.providers.openai_chat import PATH, ChatCompletionsProvider
from session_core.service.config import ServiceConfig
from session_core.service.service import SessionService, open_session_service
from session_core.storage.base import SessionStore
from session_core.storage.memory import MemoryStore
from session_core.storage.sqlite import SqliteStore
from session_core.stream.subscription import Subscription
from session_core.vocabulary.events import PartDelta

CALLS = 40
ROUNDS = 6

# --- a model that answers at once -------------------------------------------------------------------------------------

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_MOST_BYTES = 65_536


def _data(content: object) -> bytes:
    line = f"data: {json.dumps(content)}\n\n".encode()
    return f"{len(line):x}\r\n".encode() + line + b"\r\n"


def _choice(delta: object, reason: str | None) -> dict[str, Any]:
    return {"id": "c", "object": "chat.completion.chunk", "choices": [{"delta": delta, "finish_reason": reason}]}


_FIRST = _HEAD + _data(_choice({"role": "assistant", "content": "Hello"}, None))
_REST = _data(_choice({}, "stop")) + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


def serve(to_parent: Connection) -> None:
    """Answer every call at once, until killed. Runs in its own process, because it must not share our interpreter."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        to_parent.send(listener.getsockname()[1])
        while True:
            client, _ = listener.accept()
            Thread(target=_answer_all, args=(client,), daemon=True).start()


def _answer_all(client: socket.socket) -> None:
    with client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        waiting = b""
        while True:
            while (end := _end_of_request(waiting)) is None:
                if not (piece := client.recv(_MOST_BYTES)):
                    return
                waiting += piece
            waiting = waiting[end:]
            client.sendall(_FIRST)
            client.sendall(_REST)


def _end_of_request(received: bytes) -> int | None:
    """Return where the first request ends; None while it is incomplete."""
    head, found, _ = received.partition(b"\r\n\r\n")
    if not found:
        return None
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    end = len(head) + len(found) + int(lengths[0])
    return end if len(received) >= end else None


@contextmanager
def running_server() -> Generator[str]:
    """Run the server during the block and yield its address."""
    context = multiprocessing.get_context("spawn")
    from_child, to_parent = context.Pipe(duplex=False)
    process = context.Process(target=serve, args=(to_parent,), daemon=True)
    process.start()
    try:
        with from_child, to_parent:
            yield f"http://127.0.0.1:{from_child.recv()}/v1"
    finally:
        process.kill()
        process.join()
        process.close()


# --- three ways to ask it ---------------------------------------------------------------------------------------------


def measure_first_token() -> Result:
    """The first word of an answer takes hardly longer than through the bare HTTP client."""
    with running_server() as address:
        return trio.run(_first_token, address, CALLS, ROUNDS)


SYSTEM = "You are a careful assistant."
BODY = json.dumps({"model": "m", "stream": True, "messages": [{"role": "system", "content": SYSTEM}]}).encode()
HEADERS = {"content-type": "application/json", "accept": "text/event-stream", "accept-encoding": "identity"}
"""The same request that our provider sends, so server and client do the same work."""

Ask = Callable[[], Awaitable[float]]
"""Calls the model once and returns how long the first word took, in seconds."""


async def _first_token(address: str, calls: int, rounds: int) -> Result:
    endpoint = Endpoint(base_url=address)
    provider = ChatCompletionsProvider(endpoint, "m")
    request = ModelRequest(model="m", messages=(), system=SYSTEM)
    with scratch_directory() as home:
        async with (
            httpx2.AsyncClient(trust_env=False) as client,
            _asking(MemoryStore(), provider) as in_memory,
            _asking(SqliteStore(home), provider) as on_disk,
        ):
            asks: list[Ask] = [
                lambda: _ask_bare(client, address + PATH),
                lambda: _ask_provider(provider, request),
                in_memory.first_word,
                on_disk.first_word,
            ]
            bare, ours, memory, disk = await _best_medians(rounds, calls, asks)
        await endpoint.aclose()
    return Result(
        name="first_token",
        title="the first word of an answer through our provider / the first bytes of it through bare httpx2",
        ratio=ours / bare,
        target=2,
        comparison="at most",
        details={
            "first bytes through bare httpx2, ms": bare * 1e3,
            "first TextChunk of our provider, ms": ours * 1e3,
            "message sent until its first PartDelta is read, sessions in memory, ms": memory * 1e3,
            "message sent until its first PartDelta is read, sessions on disk, ms": disk * 1e3,
            "whole service, sessions in memory / bare httpx2": memory / bare,
            "whole service, sessions on disk / bare httpx2": disk / bare,
        },
    )


async def _best_medians(rounds: int, calls: int, asks: list[Ask]) -> list[float]:
    """Alternate between the functions; return the best round of each, by the median of its calls."""
    medians: list[list[float]] = [[] for _ in asks]
    for ask in asks:
        await ask()  # opens the connections
    for _ in range(rounds):
        for ask, found in zip(asks, medians, strict=True):
            with collector_off():
                found.append(statistics.median([await ask() for _ in range(calls)]))
    return [min(found) for found in medians]


async def _ask_bare(client: httpx2.AsyncClient, address: str) -> float:
    started = time.perf_counter()
    async with client.stream("POST", address, content=BODY, headers=HEADERS) as response:
        pieces = response.aiter_bytes()
        await anext(pieces)
        taken = time.perf_counter() - started
        async for _ in pieces:
            pass
    return taken


async def _ask_provider(provider: ChatCompletionsProvider, request: ModelRequest) -> float:
    taken = None
    started = time.perf_counter()
    async with provider.stream(request) as events:
        async for event in events:
            if taken is None and isinstance(event, TextChunk):
                taken = time.perf_counter() - started
    assert taken is not None, "the model sent no text"
    return taken


@attrs.frozen
class _Asker:
    """A client that sends messages and reads the answers."""

    service: SessionService
    session_id: SessionId
    events: Subscription

    async def first_word(self) -> float:
        """Send a message and return how long the first word of the answer took; each time in a new conversation."""
        await self.service.clear_context(self.session_id)
        started = time.perf_counter()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.service.send_user_message, self.session_id, "Hello")
            while not any(isinstance(event.event, PartDelta) for event in await self.events.receive_batch()):
                pass
            taken = time.perf_counter() - started
        await self.service.wait_for_turn(self.session_id)
        return taken


@asynccontextmanager
async def _asking(store: SessionStore, provider: ChatCompletionsProvider) -> AsyncGenerator[_Asker]:
    config = ServiceConfig(models={"m": provider}, tools=(), store=store, cwd="/", system_prompt=SYSTEM)
    async with open_session_service(config) as service:
        session_id = (await service.create_session()).session_id
        async with service.subscribe(session_id) as events:
            yield _Asker(service, session_id, events)
