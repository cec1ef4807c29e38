"""Requests to another program over pipes: our connection, a naive one, and a bare loop.

The other program is `peers/echo.mjs`, run by node, which answers each request with its own params. The naive
connection takes a lock, sends one line per request, and wakes each caller with an event. The bare loop writes a line
and reads until the answer has arrived.
"""

import json
import subprocess
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import trio

from bench.measure import Result, best_times
from session_core.rpc.connection import open_connection

PEER = Path(__file__).parent / "peers" / "echo.mjs"
REQUESTS = 3_200
ROUNDS = 5
AT_ONCE = 32
PARAMS = {"call_id": "call_1", "tool": "read", "arguments": {"path": "src/some/module.py", "lines": 400}}

Ask = Callable[[], Awaitable[object]]


def measure_rpc() -> Result:
    """Concurrent requests are faster than through the naive connection."""
    return trio.run(_rpc, REQUESTS, ROUNDS)


async def _rpc(requests: int, rounds: int) -> Result:
    async with running_peer() as ours, running_peer() as theirs, running_peer() as bare:
        async with _our_way(ours) as our_ask, _obvious_way(theirs) as obvious_ask:
            ways = {"ours": our_ask, "obvious": obvious_ask, "bare": _bare_way(bare)}
            cpu = await _times(ways, requests, rounds, time.process_time)
            wall = await _times(ways, requests, rounds, time.perf_counter)
    return Result(
        name="rpc",
        title=f"{AT_ONCE} requests under way to another program, one write and one event each / our connection",
        ratio=cpu["obvious", AT_ONCE] / cpu["ours", AT_ONCE],
        target=2,
        comparison="at least",
        details={
            f"our connection, {AT_ONCE} under way, µs of CPU": cpu["ours", AT_ONCE],
            f"the obvious one, {AT_ONCE} under way, µs of CPU": cpu["obvious", AT_ONCE],
            "our connection, 1 under way, µs of CPU": cpu["ours", 1],
            "the obvious one, 1 under way, µs of CPU": cpu["obvious", 1],
            "a bare loop, 1 under way, µs of CPU": cpu["bare", 1],
            f"our connection, {AT_ONCE} under way, µs": wall["ours", AT_ONCE],
            f"the obvious one, {AT_ONCE} under way, µs": wall["obvious", AT_ONCE],
            "our connection, 1 under way, µs": wall["ours", 1],
            "the obvious one, 1 under way, µs": wall["obvious", 1],
            "a bare loop, 1 under way, µs": wall["bare", 1],
        },
    )


async def _times(
    ways: Mapping[str, Ask], requests: int, rounds: int, clock: Callable[[], float]
) -> Mapping[tuple[str, int], float]:
    """Return the best time of a request for each connection, alone and concurrently, in µs."""
    cases = [(name, ask, 1) for name, ask in ways.items()]
    cases += [(name, ask, AT_ONCE) for name, ask in ways.items() if name != "bare"]

    def work(ask: Ask, at_once: int) -> Callable[[], Awaitable[object]]:
        return lambda: _side_by_side(ask, at_once, requests // at_once)

    best = await best_times(rounds, *(work(ask, at_once) for _, ask, at_once in cases), clock=clock)
    return {
        (name, at_once): seconds / (requests // at_once * at_once) * 1e6
        for (name, _, at_once), seconds in zip(cases, best, strict=True)
    }


async def _side_by_side(ask: Ask, at_once: int, times: int) -> None:
    async def one_after_the_other() -> None:
        for _ in range(times):
            await ask()

    async with trio.open_nursery() as nursery:
        for _ in range(at_once):
            nursery.start_soon(one_after_the_other)


@asynccontextmanager
async def running_peer() -> AsyncGenerator[trio.Process]:
    """Run the other program; it ends when its stdin is closed."""
    process = await trio.lowlevel.open_process(["node", str(PEER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    async with process.stdout:
        try:
            yield process
        finally:
            with trio.CancelScope(shield=True):
                await process.stdin.aclose()
                with trio.move_on_after(5):
                    await process.wait()
                if process.returncode is None:
                    process.kill()
                    await process.wait()


@asynccontextmanager
async def _our_way(process: trio.Process) -> AsyncGenerator[Ask]:
    assert process.stdin is not None
    assert process.stdout is not None
    async with open_connection(process.stdout, process.stdin) as connection:
        yield lambda: connection.request("tool/execute", PARAMS)


@asynccontextmanager
async def _obvious_way(process: trio.Process) -> AsyncGenerator[Ask]:
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout
    lock = trio.Lock()
    numbers = count(1)
    waiting: dict[int, tuple[trio.Event, list[Any]]] = {}

    async def ask() -> object:
        number = next(numbers)
        done, answer = waiting[number] = trio.Event(), []
        async with lock:
            await stdin.send_all(_line(number))
        await done.wait()
        return answer[0]

    async def read() -> None:
        kept = b""
        async for piece in stdout:
            *lines, kept = (kept + piece).split(b"\n")
            for line in lines:
                message = json.loads(line)
                done, answer = waiting.pop(message["id"])
                answer.append(message["result"])
                done.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        yield ask
        nursery.cancel_scope.cancel()


def _bare_way(process: trio.Process) -> Ask:
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    async def ask() -> object:
        await stdin.send_all(_line(1))
        received = b""
        while not received.endswith(b"\n"):
            received += await stdout.receive_some()
        return json.loads(received)["result"]

    return ask


def _line(number: int) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tool/execute", "params": PARAMS}).encode() + b"\n"
