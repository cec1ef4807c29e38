"""What does not grow: the cost of a step in a long session, and the memory of sessions that nobody uses."""

import gc
import math
import multiprocessing
import os
import time
import tracemalloc
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import attrs
import trio
import trio.testing

from bench.measure import Result, collector_off
from bench.store_material import PIECE, Conversation, add_session, open_core, scratch_directory
from session_core import limits
from session_core.ids import SessionId
from session_core.providers.base import (
    ModelFinished,
    ModelRequest,
    ProviderEvent,
    TextChunk,
    ToolCallChunk,
    ToolCallOpened,
)
from session_core.service.config import ServiceConfig
from session_core.service.core import ServiceCore
from session_core.service.service import SessionService, open_session_service
from session_core.storage.sqlite import SqliteStore
from session_core.testing.scripted import ScriptedTool
from session_core.vocabulary.messages import TextPart

OUTPUT = "a line of some file, as a tool shows it\n" * 50

# --- steps of a long session ------------------------------------------------------------------------------------------

STEPS = 2_000
COMPARED = 100  # steps, at the beginning and at the end
TURN = 50  # steps of a turn; sessions take turns, so that a busy neighbour hits both
STEP_ROUNDS = 3


class StepModel:
    """A model that says something and calls a tool, `steps_left` times, and then only says something."""

    def __init__(self) -> None:
        self.steps_left = 0
        self.longest_request = 0

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncGenerator[ProviderEvent, None]]:
        """Answer one model call."""
        self.steps_left -= 1
        self.longest_request = max(self.longest_request, len(request.messages))
        async with aclosing(self._answer(last=self.steps_left <= 0)) as answer:
            yield answer

    async def _answer(self, *, last: bool) -> AsyncGenerator[ProviderEvent, None]:
        for _ in range(5):
            await trio.lowlevel.checkpoint()
            yield TextChunk(text=PIECE)
        if not last:
            yield ToolCallOpened(name="look")
            yield ToolCallChunk(text="{}")
        yield ModelFinished()


@attrs.frozen
class Spent:
    """What something took, in seconds: by the clock, and of the processor in all threads."""

    wall: float = 0
    cpu: float = 0

    def plus(self, other: "Spent") -> "Spent":
        """Return the sum of both."""
        return Spent(self.wall + other.wall, self.cpu + other.cpu)


@attrs.frozen
class Workshop:
    """A service with a home of its own, whose sessions can be told to work for so many steps."""

    service: SessionService
    model: StepModel

    async def new_session(self) -> SessionId:
        """Make a session."""
        return (await self.service.create_session()).session_id

    async def work(self, session_id: SessionId, steps: int) -> Spent:
        """Let a session work for one turn."""
        self.model.steps_left = steps
        with collector_off():
            wall, cpu = time.perf_counter(), time.process_time()
            sent = await self.service.send_user_message(session_id, "Go on.")
            await self.service.wait_for_turn(session_id, sent.turn_id)
            return Spent(time.perf_counter() - wall, time.process_time() - cpu)


@asynccontextmanager
async def open_workshop(home: Path) -> AsyncGenerator[Workshop]:
    """Run a service on a store."""
    model, tool = StepModel(), ScriptedTool("look", run=OUTPUT)
    config = ServiceConfig(models={"m": model}, tools=(tool,), store=SqliteStore(home), cwd="/")
    async with open_session_service(config) as service:
        yield Workshop(service, model)


def measure_steps() -> Result:
    """The two thousandth step of a session costs what its first ones cost."""
    return trio.run(_steps, STEPS, STEP_ROUNDS)


async def _steps(steps: int, rounds: int) -> Result:
    first: list[Spent] = []
    last: list[Spent] = []
    with scratch_directory() as place:
        async with open_workshop(place / "old") as old, open_workshop(place / "new") as new:
            long = await old.new_session()
            for _ in range((steps - COMPARED) // TURN):
                await old.work(long, TURN)
            for _ in range(rounds):
                fresh, first_steps, last_steps = await new.new_session(), Spent(), Spent()
                for _ in range(COMPARED // TURN):
                    first_steps = first_steps.plus(await new.work(fresh, TURN))
                    last_steps = last_steps.plus(await old.work(long, TURN))
                first.append(first_steps)
                last.append(last_steps)
        longest = old.model.longest_request
    ms = {
        "first 100 steps, ms per step": min(each.wall for each in first),
        "last 100 steps, ms per step": min(each.wall for each in last),
        "first 100 steps, ms of CPU per step": min(each.cpu for each in first),
        "last 100 steps, ms of CPU per step": min(each.cpu for each in last),
    }
    wall_first, wall_last, cpu_first, cpu_last = ms.values()
    return Result(
        name="steps",
        title="the last 100 steps of a session of 2,000 / the first 100",
        ratio=wall_last / wall_first,
        target=1.2,
        comparison="at most",
        details={
            **{name: seconds / COMPARED * 1e3 for name, seconds in ms.items()},
            "CPU, ratio": cpu_last / cpu_first,
            "messages in the longest request": longest,
        },
    )


# --- memory of idle sessions ------------------------------------------------------------------------------------------

SESSIONS = 1_000
WARM_UP = 20  # let caches fill before anything is weighed
SHARED_EVENTS = 64  # what the stream keeps for readers of all sessions should not weigh anything here

Meter = Callable[[], float]


@attrs.frozen(kw_only=True)
class Weight:
    """Bytes that a session takes while it is in memory, and after it has left."""

    resident: float
    away: float


def measure_memory() -> Result:
    """A session that nobody uses takes hardly any memory."""
    traced = _traced(SESSIONS)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:  # in this one, freed memory is reused
        process = fresh.submit(_weigh, resident_set, SESSIONS).result()
    return Result(
        name="memory",
        title="memory of an idle session that left / of one that stays, 1,000 sessions of a short turn each",
        ratio=traced.away / traced.resident,
        target=1 / 10,
        comparison="at most",
        details={
            "in memory, bytes per session": traced.resident,
            "after it left, bytes per session": traced.away,
            "in memory, bytes of the process per session": process.resident,
            "after it left, bytes of the process per session (freed, and kept for others)": process.away,
        },
    )


def _traced(sessions: int) -> Weight:
    tracemalloc.start()
    try:
        return _weigh(lambda: tracemalloc.get_traced_memory()[0], sessions)
    finally:
        tracemalloc.stop()


def resident_set() -> float:
    """Return how much memory this process has, in bytes; not a number where the system does not tell in this way."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return math.nan
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _weigh(meter: Meter, sessions: int) -> Weight:
    clock = trio.testing.MockClock()
    return trio.run(_weigh_sessions, meter, sessions, clock, clock=clock)


async def _weigh_sessions(meter: Meter, sessions: int, clock: trio.testing.MockClock) -> Weight:
    with scratch_directory() as home:
        store, now = SqliteStore(home), lambda: int(trio.current_time() * 1000)
        async with open_core(store, now=now, stream_capacity=SHARED_EVENTS) as core:
            await _play(core, WARM_UP)
            await _let_leave(core, clock)
            empty = _settled(meter)
            await _play(core, sessions)
            full = _settled(meter)
            await _let_leave(core, clock)
            left = _settled(meter)
    return Weight(resident=(full - empty) / sessions, away=(left - empty) / sessions)


async def _play(core: ServiceCore, sessions: int) -> None:
    """Make sessions with a turn each, and wait until they are durable."""
    for _ in range(sessions):
        session = add_session(core)
        for event in Conversation().turn((TextPart(text="Look at this."),), [OUTPUT]):
            session.record(event)
        session.close_work("completed")
        await session.until_durable()


async def _let_leave(core: ServiceCore, clock: trio.testing.MockClock) -> None:
    clock.jump(2 * limits.REMEMBERED_SESSIONS_MS / 1000)
    await trio.testing.wait_all_tasks_blocked()
    assert not core.sessions


def _settled(meter: Meter) -> float:
    gc.collect()
    return meter()
