"""Costs that must stay constant: a step in a long session, and the memory of idle sessions."""

import gc
import math
import multiprocessing
import os
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import attrs
import trio
import trio.testing

from bench.measure import Result
from bench.store_material import Conversation, add_session, open_core, scratch_directory
from bench.workshop import OUTPUT, Spent, Workshop, least, open_workshop
from session_core import limits
from session_core.providers.catalogue import ModelInfo
from session_core.service.core import ServiceCore
from session_core.storage.sqlite import SqliteStore
from session_core.vocabulary.messages import TextPart

# --- steps of a long session ------------------------------------------------------------------------------------------

STEPS = 2_000
COMPARED = 100  # steps, at the beginning and at the end
TURN = 50  # steps of a turn; sessions alternate, so a busy neighbour affects both
STEP_ROUNDS = 3


KNOWN = {"m": ModelInfo(name="m", provider="measured", api_id="m", context_tokens=10_000_000)}
"""A model with a known context size, as most have: its requests are fitted to it. It is large enough to cut nothing."""


def measure_steps() -> Result:
    """The two thousandth step of a session costs as much as the first."""
    return trio.run(_steps, STEPS, STEP_ROUNDS)


async def _steps(steps: int, rounds: int) -> Result:
    with scratch_directory() as place:
        async with (
            open_workshop(SqliteStore(place / "old"), KNOWN) as old,
            open_workshop(SqliteStore(place / "new"), KNOWN) as new,
        ):
            first, last = await _first_and_last(old, new, steps, rounds)
        longest = old.model.longest_request
    return Result(
        name="steps",
        title="the last 100 steps of a session of 2,000 / the first 100",
        ratio=last.wall / first.wall,
        target=1.2,
        comparison="at most",
        details={
            "first 100 steps, ms per step": first.wall / COMPARED * 1e3,
            "last 100 steps, ms per step": last.wall / COMPARED * 1e3,
            "first 100 steps, ms of CPU per step": first.cpu / COMPARED * 1e3,
            "last 100 steps, ms of CPU per step": last.cpu / COMPARED * 1e3,
            "CPU, ratio": last.cpu / first.cpu,
            "messages in the longest request": longest,
        },
    )


async def _first_and_last(old: Workshop, new: Workshop, steps: int, rounds: int) -> tuple[Spent, Spent]:
    """Return the shortest times of the first steps of a session, and of the last steps of a long one."""
    first: list[Spent] = []
    last: list[Spent] = []
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
    return least(first), least(last)


# --- memory of idle sessions ------------------------------------------------------------------------------------------

SESSIONS = 1_000
WARM_UP = 20  # fills caches before memory is measured
SHARED_EVENTS = 64  # keeps the shared event buffer out of the measurement

Meter = Callable[[], float]


@attrs.frozen(kw_only=True)
class Weight:
    """Bytes per session while it is in memory, and after it was unloaded."""

    resident: float
    away: float


def measure_memory() -> Result:
    """An idle session needs hardly any memory."""
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
    """Return the resident memory of this process in bytes; NaN if the system does not report it."""
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
    """Create sessions with one turn each, and wait until they are durable."""
    for _ in range(sessions):
        session = add_session(core)
        for event in Conversation().turn((TextPart(text="Look at this."),), [OUTPUT]):
            session.record(event)
        session.close_work("completed")
        await session.wait_until_durable()


async def _let_leave(core: ServiceCore, clock: trio.testing.MockClock) -> None:
    clock.jump(2 * limits.REMEMBERED_SESSIONS_MS / 1000)
    await trio.testing.wait_all_tasks_blocked()
    assert not core.sessions


def _settled(meter: Meter) -> float:
    gc.collect()
    return meter()
