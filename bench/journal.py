"""The cost of durability: publishing with a journal, and commands that wait for the disk.

Both are wall-clock times, because the time of the disk and the interpreter time of the writing thread must count.
"""

import sqlite3
import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path

import trio

from bench.measure import Result, best_times
from bench.store_material import Conversation, add_session, open_core, scratch_directory
from session_core.ids import LOCAL_CLIENT, SessionId, new_session_id, now_ms
from session_core.service.config import ServiceConfig
from session_core.service.core import ServiceCore
from session_core.service.service import SessionService, open_session_service
from session_core.session.session import Session
from session_core.storage.memory import MemoryStore
from session_core.storage.sqlite import SqliteStore
from session_core.vocabulary.events import Event, SessionEvent, SessionRenamed
from session_core.vocabulary.messages import TextPart
from session_core.wire.codec import encode

# --- publishing with a journal ----------------------------------------------------------------------------------------

TURNS = 150
TOOL_CALLS = 2
OUTPUT = "a line of some file, as a tool shows it\n" * 50
ROUNDS = 8
EVENTS_OF_A_NEW_SESSION = 1


def measure_journal() -> Result:
    """Recording turns costs little more with the journal on disk than with events that stay in memory."""
    return trio.run(_journal, TURNS, ROUNDS)


async def _journal(turns: int, rounds: int) -> Result:
    conversation = Conversation()
    asked = (TextPart(text="Look at this and mend what is broken there."),)
    played = [conversation.turn(asked, [OUTPUT] * TOOL_CALLS) for _ in range(turns)]
    with scratch_directory() as home:
        async with open_core(SqliteStore(home)) as kept, open_core(MemoryStore()) as bare:
            works = [partial(_record, bare, played), partial(_record, kept, played)]
            wall = await best_times(rounds, *works, clock=time.perf_counter)
            cpu = await best_times(max(1, rounds // 2), *works)
            events = kept.seq // (rounds + max(1, rounds // 2))  # of one run: a session made, and its turns
    without, with_journal, cpu_without, cpu_with = (each / events * 1e6 for each in (*wall, *cpu))
    return Result(
        name="journal",
        title="recording turns with the journal / with events in memory only",
        ratio=with_journal / without,
        target=1.3,
        comparison="at most",
        details={
            "events per turn": (events - EVENTS_OF_A_NEW_SESSION) / turns,
            "in memory, µs per event": without,
            "with the journal, µs per event": with_journal,
            "in memory, µs of CPU per event": cpu_without,
            "with the journal, µs of CPU of all threads per event": cpu_with,
            "CPU of all threads, ratio": cpu_with / cpu_without,
        },
    )


async def _record(core: ServiceCore, turns: list[list[Event]]) -> None:
    """Record turns in a new session, one tick per event; return when all is durable, so all work is measured."""
    session = add_session(core)
    for turn in turns:
        for event in turn:
            session.record(event)
            await trio.lowlevel.checkpoint()
        session.close_work("completed")
    await session.wait_until_durable()


# --- commands that are durable when they are answered -----------------------------------------------------------------

CLIENTS = (1, 20, 100)
COMMANDS = 2_000  # of all clients of a round together; one client alone sends a tenth
COMMAND_ROUNDS = 12
WRITERS = 20


def measure_durable() -> Result:
    """Twenty clients run many times more durable commands than SQLite commits single rows in the same time."""
    return trio.run(_durable, COMMANDS, COMMAND_ROUNDS)


async def _durable(commands: int, rounds: int) -> Result:
    rows = max(1, commands // 10)
    counts = {clients: max(1, (rows if clients == 1 else commands) // clients) for clients in CLIENTS}
    with scratch_directory() as place:
        config = ServiceConfig(store=SqliteStore(place / "home"), cwd="/")
        async with (
            open_session_service(config) as service,
            plain_inserts(place / "plain.sqlite3", rows) as insert,
            plain_inserts(place / "handed-over.sqlite3", 1) as insert_one,
            open_core(SqliteStore(place / "alone")) as core,
        ):
            sessions = [(await service.create_session(name="measured")).session_id for _ in range(max(CLIENTS))]
            works = [partial(_clients, service, sessions[:clients], each) for clients, each in counts.items()]
            writers = [add_session(core) for _ in range(WRITERS)]
            store_alone = partial(_write, writers, counts[WRITERS])

            async def insert_singly() -> None:
                for _ in range(rows):
                    await insert_one()

            each_round = [
                await best_times(1, insert, insert_singly, store_alone, *works, clock=time.perf_counter)
                for _ in range(rounds)
            ]
    plain, singly, alone, *ours = (min(times) for times in zip(*each_round, strict=True))
    twenty = 3 + CLIENTS.index(20)
    alone_per_second = WRITERS * counts[WRITERS] / alone
    ratios = [times[0] / rows * 20 * counts[20] / times[twenty] for times in each_round]
    per_second = {
        clients: clients * each / seconds for (clients, each), seconds in zip(counts.items(), ours, strict=True)
    }
    return Result(
        name="durable",
        title="durable commands per second of 20 clients / SQLite commits of one row each",
        ratio=per_second[20] / (rows / plain),
        target=5,
        comparison="at least",
        details={
            "SQLite, a commit per row, rows per second": rows / plain,
            "the same, each handed to a thread as a service must, rows per second": rows / singly,
            "20 clients / each row handed to a thread": per_second[20] / (rows / singly),
            "the store alone, 20 tasks that record an event and wait, events per second": alone_per_second,
            "20 clients / the store alone": per_second[20] / alone_per_second,
            "20 clients, ratio within a round, median": statistics.median(ratios),
            "20 clients, ratio within a round, lowest": min(ratios),
            "20 clients, ratio within a round, highest": max(ratios),
            **{f"{clients} clients, commands per second": rate for clients, rate in per_second.items()},
            **{f"{clients} clients, ratio": rate / (rows / plain) for clients, rate in per_second.items()},
            **{f"{clients} clients, ms per command": clients / rate * 1e3 for clients, rate in per_second.items()},
        },
    )


async def _clients(service: SessionService, sessions: list[SessionId], commands: int) -> None:
    async def rename(session_id: SessionId) -> None:
        for number in range(commands):
            await service.rename_session(session_id, f"the new name {number}")

    async with trio.open_nursery() as nursery:
        for session_id in sessions:
            nursery.start_soon(rename, session_id)


async def _write(sessions: list[Session], events: int) -> None:
    """Use the store as the commands do, without commands: record an event, wait until it is durable."""

    async def write(session: Session) -> None:
        for number in range(events):
            session.record(SessionRenamed(name=f"the new name {number}"), LOCAL_CLIENT)
            await session.wait_until_durable()

    async with trio.open_nursery() as nursery:
        for session in sessions:
            nursery.start_soon(write, session)


@asynccontextmanager
async def plain_inserts(file: Path, rows: int) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
    """Yield a function that inserts rows of the size of a command's journal record, with one commit per row."""
    renamed = SessionRenamed(name="the new name 100")
    row = encode(SessionEvent(1_000, 100, new_session_id(), now_ms(), renamed, LOCAL_CLIENT))
    connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False)

    def insert() -> None:
        for _ in range(rows):
            connection.execute("INSERT INTO kept (payload) VALUES (?)", (row,))

    async def insert_in_thread() -> None:
        await trio.to_thread.run_sync(insert)

    with closing(connection):
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE kept (id INTEGER PRIMARY KEY, payload BLOB NOT NULL)")
        yield insert_in_thread
