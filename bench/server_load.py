"""Many clients of one server: the cost of idle clients, and of sending the same events to all of them."""

import math
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager

import attrs

from bench.measure import Result, collector_off
from bench.server_clients import (
    Client,
    Crowd,
    Welcome,
    count_of,
    following,
    nothing,
    seq_of,
    unix_clients,
    websockets,
)
from bench.server_driver import Program, check_there_is, idle, make_room_for, running
from bench.store_material import scratch_directory

IDLE = 1_000
IDLE_S = 16.0  # a little more than the heartbeat interval, so each client receives one
WARM = 8  # clients connected first, so shared data exists before measuring
STREAMING = 100
BURST = 64
BURSTS = 20
ROUNDS = 5
IDLE_CLIENT = 2.5
"""Hypercorn alone only waits; our server also has a feed, heartbeats and requests in both directions."""
FAN_OUT = 4.6
"""The ratio of bare hypercorn on trio to uvicorn, when the choice between the two was made."""
WAYS = {"ours": "ours by WebSocket", "unix": "ours by unix socket", "bare": "hypercorn alone", "uvicorn": "uvicorn"}
KINDS = {"words": "words of one answer", "tools": "lines of two tools in turns"}


@contextmanager
def serving() -> Generator[Program]:
    """Run our server on a new home during the block."""
    with scratch_directory() as home, running("-m", "bench.server_process", str(home)) as program:
        yield program


# --- idle clients -----------------------------------------------------------------------------------------------------


def measure_idle_clients() -> Result:
    """An idle client needs not much more memory than with hypercorn alone."""
    check_there_is("hypercorn", "starlette")
    make_room_for(4 * IDLE)
    return _idle_clients(IDLE, IDLE_S)


@attrs.frozen
class _Weight:
    """The cost of clients: KiB in total, and seconds of CPU while idle."""

    kib: float
    cpu_s: float


def _idle_clients(count: int, seconds: float) -> Result:
    with (
        serving() as ours,
        serving() as unix,
        running("-m", "bench.server_bare", "reading") as bare,
        ExitStack() as stack,
    ):
        programs = {"ours": ours, "unix": unix, "bare": bare}
        at_rest = {name: following(programs[name].ask(op="open")["session"]) for name in ("ours", "unix")}

        def come(many: int) -> None:
            stack.enter_context(websockets(ours, many, at_rest["ours"]))
            stack.enter_context(unix_clients(unix, many, at_rest["unix"]))
            stack.enter_context(websockets(bare, many, nothing))

        come(WARM)
        before = {name: program.memory_kib for name, program in programs.items()}
        come(count)
        weights = _weigh(programs, before, seconds)
    return _idle_result(weights, count, seconds)


def _weigh(programs: Mapping[str, Program], before: Mapping[str, float], seconds: float) -> dict[str, _Weight]:
    """Wait; return the CPU time of each program during the wait, and its memory afterwards."""
    spent = {name: program.cpu_s for name, program in programs.items()}
    idle(seconds)
    return {
        name: _Weight(program.memory_kib - before[name], program.cpu_s - spent[name])
        for name, program in programs.items()
    }


def _idle_result(weights: Mapping[str, _Weight], count: int, seconds: float) -> Result:
    details: dict[str, float] = {}
    for name, weight in weights.items():
        words = WAYS[name]
        details[f"{words}, {count:,} clients, MB"] = weight.kib / 1000 * 1.024
        details[f"{words}, KiB per client"] = weight.kib / count
        details[f"{words}, {count:,} clients, % of a CPU"] = weight.cpu_s / seconds * 100
    return Result(
        name="idle_clients",
        title=f"memory for each of {count:,} idle WebSocket clients that follow a session / hypercorn alone",
        ratio=weights["ours"].kib / weights["bare"].kib,
        target=IDLE_CLIENT,
        comparison="at most",
        details=details,
    )


# --- fan-out ----------------------------------------------------------------------------------------------------------


def measure_fan_out() -> Result:
    """Delivering an event to a reader costs not much more CPU than in a plain app on uvicorn."""
    check_there_is("uvicorn", "starlette", "wsproto")
    make_room_for(8 * STREAMING)
    return _fan_out(STREAMING, BURSTS, ROUNDS)


@attrs.frozen
class _Way:
    """A server and its readers, ready to be measured."""

    program: Program
    crowd: Crowd
    task: Mapping[str, object]

    def take(self, bursts: int) -> tuple[float, float, float]:
        """Send bursts; each one starts when all readers have the previous one.

        Returns:
            Seconds of wall-clock time, seconds of the server's CPU, and messages received by all readers together.
        """
        messages = sum(client.messages for client in self.crowd.clients)
        with collector_off():
            wall, cpu = time.perf_counter(), self.program.cpu_s
            for _ in range(bursts):
                self.crowd.read_until(self.program.ask(**self.task)["seq"])
            wall, cpu = time.perf_counter() - wall, self.program.cpu_s - cpu
        return wall, cpu, sum(client.messages for client in self.crowd.clients) - messages


def _fan_out(readers: int, bursts: int, rounds: int) -> Result:
    found: dict[tuple[str, str], tuple[float, float]] = {}
    messages = 0.0
    with serving() as ours:
        for kind in KINDS:
            with (
                _our_way(ours, kind, websockets, readers) as by_websocket,
                _our_way(ours, kind, unix_clients, readers) as by_unix,
                _others_way("bench.server_bare", _one_message(by_websocket), readers) as bare,
                _others_way("bench.peers.uvicorn_app", _one_message(by_websocket), readers) as peers,
            ):
                ways = {"ours": by_websocket, "unix": by_unix, "bare": bare, "uvicorn": peers}
                for _ in range(rounds):
                    for name, way in ways.items():
                        wall, cpu, got = way.take(bursts)
                        least = found.get((kind, name), (math.inf, math.inf))
                        found[kind, name] = min(wall, least[0]), min(cpu, least[1])
                        messages = max(messages, got / (readers * bursts))
    return _fan_out_result(found, readers * bursts * BURST, readers, messages)


Connect = Callable[[Program, int, Welcome], AbstractContextManager[list[Client]]]


@contextmanager
def _our_way(program: Program, kind: str, connect: Connect, readers: int) -> Generator[_Way]:
    session = program.ask(op="open")["session"]
    with connect(program, readers, following(session)) as clients, Crowd(clients, seq_of) as crowd:
        yield _Way(program, crowd, {"op": "publish", "session": session, "kind": kind, "events": BURST})


@contextmanager
def _others_way(module: str, message: bytes, readers: int) -> Generator[_Way]:
    """Let a plain app on another server send exactly the message that ours sends for a burst."""

    def until_it_is_known(client: Client) -> None:
        client.until(lambda said: said == b"ready" or None)

    with (
        running("-m", module, "sending") as program,
        websockets(program, readers, until_it_is_known) as clients,
        Crowd(clients, count_of) as crowd,
    ):
        program.ask(op="load", text=message.decode())
        yield _Way(program, crowd, {"op": "publish"})


def _one_message(way: _Way) -> bytes:
    """Send a burst and return the message that a reader received."""
    heard: list[bytes] = []
    way.crowd.read_until(way.program.ask(**way.task)["seq"], heard.append)
    return heard[0]


def _fan_out_result(
    found: Mapping[tuple[str, str], tuple[float, float]], delivered: int, readers: int, messages: float
) -> Result:
    details: dict[str, float] = {}
    for kind, what in KINDS.items():
        for name, words in WAYS.items():
            wall, cpu = found[kind, name]
            details[f"{what}, {words}, thousand events per second to all"] = delivered / wall / 1e3
            details[f"{what}, {words}, µs of CPU per event"] = cpu / delivered * 1e6
        details[f"{what}, ours by WebSocket / uvicorn"] = found[kind, "ours"][1] / found[kind, "uvicorn"][1]
    details[f"messages for each burst of {BURST} events and reader, at most"] = messages
    return Result(
        name="fan_out",
        title=f"CPU of an event to each of {readers} WebSocket clients, bursts of {BURST}, the dearer kind / uvicorn",
        ratio=max(details[f"{what}, ours by WebSocket / uvicorn"] for what in KINDS.values()),
        target=FAN_OUT,
        comparison="at most",
        details=details,
    )
