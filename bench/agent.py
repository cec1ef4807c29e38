"""The whole agent: steps per second on a real store, alone and with many sessions at once."""

import time
from functools import partial

import trio

from bench.measure import Result, best_times
from bench.store_material import scratch_directory
from bench.workshop import Workshop, open_workshop
from session_core.ids import SessionId
from session_core.storage.memory import MemoryStore
from session_core.storage.sqlite import SqliteStore

SESSIONS = 16
STEPS = 60  # of a session in a round; a model call each, and a tool call in all but the last
ROUNDS = 6


def measure_agent() -> Result:
    """Concurrent sessions share the waits for the disk, so together they do more steps than one session."""
    return trio.run(_agent, STEPS, ROUNDS)


async def _agent(steps: int, rounds: int) -> Result:
    with scratch_directory() as home:
        async with open_workshop(SqliteStore(home)) as kept, open_workshop(MemoryStore()) as bare:
            in_memory = [await bare.new_session()]
            one = [await kept.new_session()]
            many = [await kept.new_session() for _ in range(SESSIONS)]
            works = [
                partial(_work, bare, in_memory, steps),
                partial(_work, kept, one, steps),
                partial(_work, kept, many, steps),
            ]
            wall = await best_times(rounds, *works, clock=time.perf_counter)
            cpu = await best_times(max(1, rounds // 2), *works)
    memory, alone, together = wall[0] / steps, wall[1] / steps, wall[2] / (steps * SESSIONS)
    cpu_memory, cpu_alone, cpu_together = cpu[0] / steps, cpu[1] / steps, cpu[2] / (steps * SESSIONS)
    return Result(
        name="agent",
        title="steps per second of 16 sessions at once / of one session, each step durable before its tool runs",
        ratio=alone / together,
        target=1.3,
        comparison="at least",
        details={
            "1 session, steps per second": 1 / alone,
            "16 sessions, steps per second of all": 1 / together,
            "1 session, ms per step": alone * 1e3,
            "16 sessions, ms per step of each": together * SESSIONS * 1e3,
            "1 session, ms of CPU of all threads per step": cpu_alone * 1e3,
            "16 sessions, ms of CPU of all threads per step": cpu_together * 1e3,
            "1 session in memory, steps per second": 1 / memory,
            "1 session in memory, ms of CPU per step": cpu_memory * 1e3,
        },
    )


async def _work(workshop: Workshop, sessions: list[SessionId], steps: int) -> None:
    """Let sessions work for one turn each, all at once."""
    async with trio.open_nursery() as nursery:
        for session_id in sessions:
            nursery.start_soon(workshop.turn, session_id, steps)
