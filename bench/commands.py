"""The round trip of a command through an idle service, against two tasks that only wake each other."""

import trio

from bench.limits_of_trio import PingPong
from bench.measure import Result, best_times
from session_core.service.config import ServiceConfig
from session_core.service.service import open_session_service
from session_core.storage.memory import MemoryStore
from session_core.vocabulary.commands import ListQueue, RenameSession

CALLS = 1_000
ROUNDS = 15


def measure_command() -> Result:
    """A light command and its reply cost little more than the two task switches they need."""
    return trio.run(_command)


async def _command() -> Result:
    game = PingPong()
    config = ServiceConfig(store=MemoryStore(), cwd="/")
    async with open_session_service(config) as service, trio.open_nursery() as nursery:
        await nursery.start(game.serve)
        session_id = (await service.create_session(name="measured")).session_id
        light, changing = ListQueue(session_id=session_id), RenameSession(session_id=session_id, name="renamed")

        async def ping() -> None:
            for _ in range(CALLS):
                await game.ping()

        async def ask() -> None:
            for _ in range(CALLS):
                await service.execute(light)

        async def change() -> None:
            for _ in range(CALLS):
                await service.execute(changing)

        async def check() -> None:
            for _ in range(CALLS):
                await trio.lowlevel.checkpoint()

        seconds = await best_times(ROUNDS, ping, ask, change, check)
        nursery.cancel_scope.cancel()
    ping_pong, round_trip, change_trip, checkpoint = (each / CALLS * 1e6 for each in seconds)
    return Result(
        name="command",
        title="round trip of a light command through an idle service / two-task ping-pong",
        ratio=round_trip / ping_pong,
        target=1.5,
        comparison="at most",
        details={
            "ping-pong, µs": ping_pong,
            "execute(ListQueue), µs": round_trip,
            "execute(RenameSession), which records an event, µs": change_trip,
            "bare checkpoint of one task, µs": checkpoint,
        },
    )
