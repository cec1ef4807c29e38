"""Opening one very long session, and listing very many, compared with the file system itself."""

import os
import time
from pathlib import Path

import trio

from bench.measure import Result, best_times
from bench.store_material import TURNS, add_session, open_core, scratch_directory, write_long_session
from session_core.ids import SessionId
from session_core.service.config import ServiceConfig
from session_core.service.service import open_session_service
from session_core.session.restore import restore
from session_core.storage.base import StoredSession
from session_core.storage.files import store_file
from session_core.storage.sqlite import SqliteStore
from session_core.storage.sqlite_reader import SqliteReader
from session_core.testing.scripted import Hang, ScriptedProvider

CHUNK = 1024 * 1024

# --- one long session -------------------------------------------------------------------------------------------------

OPEN_ROUNDS = 5


def measure_reopen() -> Result:
    """A session of a hundred megabytes is ready for a message much sooner than all of it could be read."""
    return trio.run(_reopen, TURNS, OPEN_ROUNDS)


async def _reopen(turns: int, rounds: int) -> Result:
    with scratch_directory() as home:
        started = time.perf_counter()
        async with open_core(SqliteStore(home)) as core:
            session_id = await write_long_session(core, turns)
        written = time.perf_counter() - started
        held, messages = 0, 0

        async def ready() -> None:
            nonlocal held, messages
            held, messages = await _open_and_send(home, session_id)

        cat, everything, opened = await best_times(
            rounds,
            lambda: trio.to_thread.run_sync(read_file, store_file(home)),
            lambda: _fold_everything(home, session_id),
            ready,
            clock=time.perf_counter,
        )
        size = store_file(home).stat().st_size
    return Result(
        name="reopen",
        title="opening a session of 100 MB until a message to it is durable / reading and folding all its events",
        ratio=opened / everything,
        target=1 / 5,
        comparison="at most",
        details={
            "file, MB": size / 1e6,
            "messages": messages,
            "messages held by the state": held,
            "writing it, MB per second": size / 1e6 / written,
            "reading the file from beginning to end, ms": cat * 1e3,
            "reading and folding all events, ms": everything * 1e3,
            "opening service and session, sending a message, ms": opened * 1e3,
            "opening / reading the file": opened / cat,
        },
    )


def read_file(file: Path) -> int:
    """Read a file from beginning to end, as `cat` does, and return its length."""
    length = 0
    with file.open("rb", buffering=0) as data:
        while chunk := data.read(CHUNK):
            length += len(chunk)
    return length


async def _open_and_send(home: Path, session_id: SessionId) -> tuple[int, int]:
    """Continue a session after a restart; return how many messages the state holds, and how many there are."""
    config = ServiceConfig(store=SqliteStore(home), models={"m": ScriptedProvider(Hang())}, cwd="/")
    async with open_session_service(config) as service:
        snapshot = await service.load_session(session_id)
        await service.send_user_message(session_id, "Go on.")
        return len(snapshot.messages), snapshot.earlier + len(snapshot.messages)


async def _fold_everything(home: Path, session_id: SessionId) -> None:
    reader = SqliteReader(home)
    async with reader.open_reader():
        events = [event async for page in reader.journal(session_id) for event in page]
    restore(session_id, StoredSession(snapshot=None, events=tuple(events)))


# --- many sessions ----------------------------------------------------------------------------------------------------

SESSIONS = 10_000
LIST_ROUNDS = 7


def measure_listing() -> Result:
    """Listing ten thousand sessions takes about as long as listing ten thousand files."""
    return trio.run(_listing, SESSIONS, LIST_ROUNDS)


async def _listing(sessions: int, rounds: int) -> Result:
    with scratch_directory() as place:
        home, files = place / "home", place / "files"
        async with open_core(SqliteStore(home)) as core:
            for number in range(sessions):
                add_session(core, name=f"session number {number}")
            await core.store.wait_durable(core.seq)
        files.mkdir()
        for number in range(sessions):
            (files / f"session-{number:05}.jsonl").touch()
        scan, ls, listed, opened = await best_times(
            rounds,
            lambda: trio.to_thread.run_sync(scan_files, files),
            lambda: _ls(files),
            lambda: _list(home),
            lambda: _open(home, sessions),
            clock=time.perf_counter,
        )
    return Result(
        name="listing",
        title="opening a store and listing its 10,000 sessions / ls -l of a directory with 10,000 files",
        ratio=listed / ls,
        target=2,
        comparison="at most",
        details={
            "os.scandir with a stat of each file, ms": scan * 1e3,
            "ls -l, ms": ls * 1e3,
            "opening a reader and listing, ms": listed * 1e3,
            "opening and closing a service, ms": opened * 1e3,
            "opening a reader and listing / os.scandir": listed / scan,
            "opening and closing a service / ls -l": opened / ls,
        },
    )


def scan_files(directory: Path) -> list[tuple[str, int, float]]:
    """List a directory with the sizes and times of its files, sorted."""
    with os.scandir(directory) as entries:
        found = [(entry.name, entry.stat()) for entry in entries]
    return sorted((name, stat.st_size, stat.st_mtime) for name, stat in found)


async def _ls(directory: Path) -> None:
    await trio.run_process(["ls", "-l", str(directory)], capture_stdout=True)


async def _list(home: Path) -> None:
    reader = SqliteReader(home)
    async with reader.open_reader():
        await reader.list_sessions()


async def _open(home: Path, sessions: int) -> None:
    async with open_session_service(ServiceConfig(store=SqliteStore(home), cwd="/")) as service:
        assert service.statistics().sessions == sessions
