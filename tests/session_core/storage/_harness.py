"""Our own stores, as the conformance suite wants them, and a disk that is watched and fails on request."""

import copy
import shutil
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from itertools import count
from pathlib import Path
from typing import Any, cast

import trio

from session_core.errors import StorageFailed
from session_core.storage import files
from session_core.storage.base import SessionStore, StoreReader
from session_core.storage.memory import MemoryStore
from session_core.storage.sqlite import SqliteStore
from session_core.storage.sqlite_reader import SqliteReader
from session_core.testing.check_store import LiveSessions, StoreHarness, open_live_sessions


class SqliteHarness(StoreHarness):
    """A home; a crash is played by copying its files as they are, which is what a killed process leaves."""

    patience_s = 1_000.0  # by a clock that runs much faster

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._homes = count(1)
        self.home = directory / "home"

    def make_store(self) -> SqliteStore:
        return SqliteStore(self.home)

    def make_reader(self) -> AbstractAsyncContextManager[StoreReader]:
        return _reading(self.home)

    async def crash(self, store: SessionStore) -> SqliteStore:
        assert isinstance(store, SqliteStore)
        left = self._directory / f"home after crash {next(self._homes)}"
        async with store._writing:  # a crash is one moment, and copying takes a while
            shutil.copytree(self.home, left)
        (left / "lock").unlink()
        self.home = left
        return SqliteStore(left)


@asynccontextmanager
async def _reading(home: Path) -> AsyncGenerator[StoreReader]:
    reader = SqliteReader(home)
    async with reader.open_reader():
        yield reader


class MemoryHarness(StoreHarness):
    """A store in memory; its place is the object itself, and what is left after a crash is a copy of it."""

    exclusive = False

    def __init__(self, make: Callable[[], MemoryStore] = MemoryStore) -> None:
        self._store = make()

    def make_store(self) -> MemoryStore:
        return self._store

    async def crash(self, store: SessionStore) -> MemoryStore:
        assert isinstance(store, MemoryStore)
        left = copy.copy(store)
        left._events = {key: list(events) for key, events in store._events.items()}
        left._unfinished = {key: list(events) for key, events in store._unfinished.items()}
        left._replies = dict(store._replies)
        left._values = {owner: dict(kept) for owner, kept in store._values.items()}
        left._leaves = {key: dict(kept) for key, kept in store._leaves.items()}
        left._summaries = {each.session_id: each for each in store._list()}
        left._live = None
        self._store = left
        return left


@asynccontextmanager
async def serving_until_failure(store: SessionStore) -> AsyncGenerator[LiveSessions]:
    """Like `serving`, for a store that fails on the way: leaving the block must say so."""
    ended = False
    try:
        async with open_live_sessions(store) as live:
            yield live
            ended = True
    except StorageFailed:
        if not ended:
            raise
        return
    raise AssertionError("leaving the block of a store that has failed says nothing")


class WatchedDisk:
    """Gives `connect` for a `SqliteStore`; `before` and `after` are called with every statement, in its thread."""

    def __init__(self) -> None:
        self.open_connections = 0
        self.statements: list[str] = []
        self.before: Callable[[str], object] = lambda _: None
        self.after: Callable[[str], object] = lambda _: None

    @property
    def commits(self) -> int:
        """How many transactions were finished so far."""
        return self.statements.count("COMMIT")

    def fail(self, statement: str) -> None:
        """Let every statement that begins like this fail from now on."""

        def refuse(started: str) -> None:
            if started.startswith(statement):
                raise sqlite3.OperationalError("disk I/O error")

        self.before = refuse

    def heal(self) -> None:
        """No statement fails any more."""
        self.before = lambda _: None

    def connect(self, home: Path, read_only: bool) -> sqlite3.Connection:  # noqa: FBT001 - the shape of `Connect`
        """Open the store file of a home."""
        self.open_connections += 1
        return cast(sqlite3.Connection, _Watched(files.connect(home, read_only), self))


class _Watched:
    def __init__(self, connection: sqlite3.Connection, disk: WatchedDisk) -> None:
        self._connection = connection
        self._disk = disk

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        return self._watch(self._connection.execute, sql, *parameters)

    def executemany(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        return self._watch(self._connection.executemany, sql, *parameters)

    def close(self) -> None:
        self._connection.close()
        self._disk.open_connections -= 1

    def _watch(self, run: Callable[..., sqlite3.Cursor], sql: str, *parameters: Any) -> sqlite3.Cursor:
        statement = " ".join(sql.split())
        self._disk.before(statement)
        self._disk.statements.append(statement)
        cursor = run(sql, *parameters)
        self._disk.after(statement)
        return cursor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class Gate:
    """Holds up the next commit until it is opened, or broken: then that commit and all later ones fail."""

    def __init__(self, disk: WatchedDisk) -> None:
        self._open = threading.Event()
        self._broken = False
        self._reached = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        disk.before = self._stop

    def _stop(self, statement: str) -> None:
        if statement == "COMMIT" and not self._open.is_set():
            self._token.run_sync_soon(self._reached.set)
            self._open.wait(300)
        if statement == "COMMIT" and self._broken:
            raise sqlite3.OperationalError("disk I/O error")

    async def reached(self) -> None:
        """Wait until a commit stands before it."""
        await self._reached.wait()

    def open(self) -> None:
        """Let everything pass from now on."""
        self._open.set()

    def break_down(self) -> None:
        """Let nothing pass any more."""
        self._broken = True
        self._open.set()


def rows(home: Path, sql: str, *parameters: object) -> list[Any]:
    """Look into the store file of a home from beside."""
    with closing(sqlite3.connect(files.store_file(home))) as connection:
        return connection.execute(sql, parameters).fetchall()


def change(home: Path, sql: str, *parameters: object) -> None:
    """Damage the store file of a home."""
    with closing(sqlite3.connect(files.store_file(home))) as connection, connection:
        assert connection.execute(sql, parameters).rowcount, "nothing was changed"
