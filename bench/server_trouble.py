"""Clients that stop reading: their effect on other clients, and on the shutdown of the server."""

import os
import re
import select
import signal
import socket
import statistics
import subprocess
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager

import attrs

from bench.measure import Result, collector_off
from bench.server_clients import Client, Crowd, following, nothing, seq_of, tcp, unix_clients, websockets
from bench.server_driver import PATIENCE_S, Program, check_there_is, idle, make_room_for, p99, start
from bench.server_load import serving
from bench.store_material import scratch_directory
from frontends.shared.socket_path import socket_path_of_home

READERS = 20
TICKS = 200
EVERY_S = 0.01  # with twenty readers, the server is idle for most of this time
ROUNDS = 7
STALLED_READS = 4_096
"""The receive buffer of a client that does not read; the system's minimum is larger."""
FILL_CHARS = 100_000
FILL_EVENTS = 80  # more than all buffers between server and client hold
SETTLE_S = 0.3
STALLED = 20
MANY_STALLED = 1_000
MESSAGES = 12
MESSAGE_CHARS = 900_000
END_S = 2.0
SHUTDOWNS = 3

_PUBLISHED = re.compile(rb"at(\d+);")
_SERVE = "from frontends.entry import main; raise SystemExit(main())"


# --- a neighbour that does not read -----------------------------------------------------------------------------------


def measure_stalled_neighbour() -> Result:
    """A client that stops reading does not delay the others."""
    check_there_is("hypercorn", "starlette")
    return _stalled_neighbour(READERS, TICKS, ROUNDS)


@attrs.frozen
class _Latencies:
    """The latencies of the readers, in seconds per round; the two kinds of round alternated."""

    alone: Sequence[Sequence[float]]
    beside: Sequence[Sequence[float]]


def _stalled_neighbour(readers: int, ticks: int, rounds: int) -> Result:
    alone: list[list[float]] = []
    beside: list[list[float]] = []
    with serving() as program:
        session = program.ask(op="open")["session"]
        with websockets(program, readers, following(session)) as clients, Crowd(clients, seq_of) as crowd:
            _keep_pace(program, crowd, session, ticks)  # the first round warms the caches
            for _ in range(rounds):
                alone.append(_keep_pace(program, crowd, session, ticks))
                with _stalled_client(program, session, crowd):
                    beside.append(_keep_pace(program, crowd, session, ticks))
    return _neighbour_result(_Latencies(alone, beside), readers)


@contextmanager
def _stalled_client(program: Program, session: str, crowd: Crowd) -> Generator[None]:
    """Add a client whose connection is full of unread data of another session."""
    other = program.ask(op="open")["session"]
    with websockets(program, 1, following(session, other), reads=STALLED_READS):
        program.ask(op="fill", session=other, chars=FILL_CHARS, events=FILL_EVENTS)
        crowd.read_until(program.ask(op="publish", session=session, kind="words", events=1)["seq"])
        yield


def _keep_pace(program: Program, crowd: Crowd, session: str, ticks: int) -> list[float]:
    """Publish an event every few milliseconds; return the latency of each event at each reader."""
    waited: list[float] = []

    def heard(message: bytes) -> None:
        now = time.monotonic_ns()
        waited.extend((now - int(at)) / 1e9 for at in _PUBLISHED.findall(message))

    with collector_off():
        idle(SETTLE_S)
        program.tell(op="pace", session=session, events=ticks, every_s=EVERY_S)
        crowd.read_for(lambda: len(waited) >= ticks * len(crowd.clients), heard)
    program.hear()
    return waited


def _neighbour_result(found: _Latencies, readers: int) -> Result:
    alone, beside = ([p99(each) for each in kind] for kind in (found.alone, found.beside))
    usual = [statistics.median(each) for each in (*found.alone, *found.beside)]
    return Result(
        name="stalled_neighbour",
        title=f"p99 from publish to receipt, {readers} WebSocket clients beside one that does not read / without it",
        ratio=statistics.median(beside) / statistics.median(alone),
        target=1.1,
        comparison="at most",
        details={
            "without it, p99, median round, ms": statistics.median(alone) * 1e3,
            "beside it, p99, median round, ms": statistics.median(beside) * 1e3,
            "without it, p99, best round, ms": min(alone) * 1e3,
            "beside it, p99, best round, ms": min(beside) * 1e3,
            "median of all, median round, ms": statistics.median(usual) * 1e3,
            "events to one reader in a round": len(found.alone[0]) / readers,
        },
    )


# --- the end ----------------------------------------------------------------------------------------------------------


def measure_shutdown() -> Result:
    """The service shuts down quickly, whatever its clients do."""
    check_there_is("hypercorn", "starlette")
    make_room_for(4 * MANY_STALLED)
    some = [_shut_down(STALLED, STALLED) for _ in range(SHUTDOWNS)]
    return _shutdown_result(some, STALLED, _shut_down(MANY_STALLED, 0), MANY_STALLED)


@contextmanager
def _serving_a_home() -> Generator[Program]:
    """Run the real program during the block."""
    with scratch_directory() as home:
        command = ("serve", "--foreground", "--http", "0", "--home", str(home))
        program = start("-c", _SERVE, *command, stderr=subprocess.STDOUT)
        try:
            said = program.next_line().decode()
            if not said.startswith("serving"):
                raise RuntimeError(f"the service did not start: {said}")
            program.told = {"socket": str(socket_path_of_home(home))}
            with unix_clients(program, 1, following()) as (client,):
                url = client.ask("status")["address"]
            token = (home / "run" / "token").read_text(encoding="ascii").strip()
            program.told = {**program.told, "url": url, "token": token}
            yield program
        finally:
            program.end()


def _shut_down(by_websocket: int, others: int) -> float:
    """Stall clients of each kind, end the service, and return how many seconds that took."""
    with _serving_a_home() as program, ExitStack() as stack:
        (controller,) = stack.enter_context(unix_clients(program, 1, nothing))
        controller.ask("hello", client_id="bench-controller", name="bench")
        session = _execute(controller, type="create_session", cwd="/")["session_id"]
        stalled = [
            *stack.enter_context(websockets(program, by_websocket, following(session), reads=STALLED_READS)),
            *stack.enter_context(unix_clients(program, others, following(session))),
        ]
        sockets = [client.socket for client in stalled]
        sockets += [stack.enter_context(_event_reader(program, session)) for _ in range(others)]
        for number in range(MESSAGES):
            _append(controller, session, number)
        idle(0.5)  # lets the server fill all buffers
        seconds = _end(program)
        for waiting in sockets:
            if _left(waiting) >= MESSAGES * MESSAGE_CHARS:
                raise RuntimeError("a client that reads nothing still received everything, so nothing was measured")
    return seconds


def _execute(client: Client, **command: object) -> dict[str, str]:
    reply: dict[str, str] = client.ask("execute", command=command)
    return reply


def _append(client: Client, session: str, number: int) -> None:
    message = {"type": "new_message", "role": "user", "text": "." * MESSAGE_CHARS}
    _execute(client, type="append_messages", session_id=session, operation_id=f"{number}", messages=[message])


@contextmanager
def _event_reader(program: Program, session: str) -> Generator[socket.socket]:
    """Follow a session by server-sent events, and read only the first bytes."""
    lines = [
        f"GET /v1/sessions/{session}/events HTTP/1.1",
        f"Host: {program.told['url'].partition('://')[2]}",
        f"Authorization: Bearer {program.told['token']}",
    ]
    with tcp(program.told["url"], STALLED_READS) as connected:
        connected.sendall("\r\n".join([*lines, "", ""]).encode())
        if not connected.recv(64).startswith(b"HTTP/1.1 200"):
            raise RuntimeError("the measured server does not send events")
        yield connected


def _end(program: Program) -> float:
    """Terminate a program and return how long it took to exit."""
    process = os.pidfd_open(program.process.pid)
    try:
        ended = select.poll()
        ended.register(process, select.POLLIN)
        began = time.perf_counter()
        program.process.send_signal(signal.SIGTERM)
        if not ended.poll(PATIENCE_S * 1000):
            raise RuntimeError(f"the service did not exit within {PATIENCE_S:.0f} s")
        seconds = time.perf_counter() - began
    finally:
        os.close(process)
    if program.process.wait() != 0:
        raise RuntimeError(f"the service exited with code {program.process.returncode}")
    return seconds


def _left(connected: socket.socket) -> int:
    """Return how many bytes the system still holds for a client."""
    count = 0
    try:
        while piece := connected.recv(1024 * 1024):
            count += len(piece)
    except ConnectionError:
        pass  # the server closed it, because it did not read
    return count


def _shutdown_result(seconds: Sequence[float], each: int, of_many: float, many: int) -> Result:
    return Result(
        name="shutdown",
        title=f"SIGTERM to exit of the service, {each} clients of each kind, or {many:,} WebSockets, do not read / 2 s",
        ratio=max(*seconds, of_many) / END_S,
        target=1,
        comparison="at most",
        details={
            f"{each} of each kind, slowest, seconds": max(seconds),
            f"{each} of each kind, fastest, seconds": min(seconds),
            f"{many:,} WebSockets, seconds": of_many,
        },
    )
