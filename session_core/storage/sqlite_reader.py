"""Read the store of a home in worker threads, even while another process writes to it."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from os import PathLike
from pathlib import Path
from typing import TypeVar

import trio

from session_core.errors import ServiceClosed
from session_core.ids import MessageId, SessionId
from session_core.storage.base import MessagePage, StoredSession
from session_core.storage.executor_state import read_leaves
from session_core.storage.files import Connect, connect, open_for_reading
from session_core.storage.home import default_home
from session_core.storage.reader import ConnectionReader
from session_core.storage.schema import UNREADABLE, store_error
from session_core.storage.session_list import read_summaries
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.messages import Message
from session_core.vocabulary.replies import SearchHit
from session_core.vocabulary.snapshots import SessionSummary

T = TypeVar("T")


class SqliteReader:
    """Reads the store of a home, even while another process writes to it."""

    def __init__(self, home: str | PathLike[str] | None = None, *, connect: Connect = connect) -> None:
        self._home = Path(home) if home is not None else None
        self._connect = connect
        self._reading = trio.CapacityLimiter(1)  # one connection serves one reader at a time
        self._reader: ConnectionReader | None = None
        self._closed = True

    @property
    def home(self) -> Path:
        """The home directory."""
        if self._home is None:
            self._home = default_home()
        return self._home

    @asynccontextmanager
    async def open_reader(self) -> AsyncGenerator[None]:
        """Open the store for reading; the reading methods work inside the block."""
        self._closed = False
        try:
            await self._read(ConnectionReader.probe)
            yield
        finally:
            await self._close_reader()  # noqa: ASYNC102 - it shields itself, and waits for a read at most

    async def _read(self, what: Callable[..., T], *arguments: object) -> T:
        def in_thread() -> T:
            if self._closed:
                raise ServiceClosed("the store is closed")
            try:
                if self._reader is None:
                    self._reader = ConnectionReader(open_for_reading(self.home, self._connect))
                return what(self._reader, *arguments)
            except UNREADABLE as error:
                raise store_error(error) from error

        return await trio.to_thread.run_sync(in_thread, limiter=self._reading)

    async def _close_reader(self) -> None:
        """Close the connection when no read is using it."""
        with trio.CancelScope(shield=True):
            async with self._reading:
                self._closed = True
                if self._reader is not None:
                    self._reader.close()
                    self._reader = None

    async def list_sessions(self) -> tuple[SessionSummary, ...]:
        """Return the list of sessions, oldest first."""
        return await self._read(lambda reader: read_summaries(reader.db))

    async def load(self, session_id: SessionId) -> StoredSession | None:
        """Return the data from which a session resumes."""
        return await self._read(ConnectionReader.load, _encodable_name(session_id))

    async def load_messages(self, session_id: SessionId, *, before: int, limit: int) -> MessagePage:
        """Return messages that came right before message number `before`."""
        return await self._read(ConnectionReader.messages, _encodable_name(session_id), before, limit)

    async def load_path(self, session_id: SessionId, message_id: MessageId, *, max_chars: int) -> tuple[Message, ...]:
        """Return the path to this message."""
        return await self._read(
            ConnectionReader.message_path, _encodable_name(session_id), _encodable_name(message_id), max_chars
        )

    async def newest_leaf(self, session_id: SessionId, message_id: MessageId) -> MessageId | None:
        """Return the newest message that descends from this one."""
        return await self._read(ConnectionReader.newest_leaf, _encodable_name(session_id), _encodable_name(message_id))

    async def search(self, text: str, *, limit: int) -> tuple[SearchHit, ...]:
        """Return messages that contain all words of `text`."""
        return await self._read(ConnectionReader.search, text, limit)

    async def journal(self, session_id: SessionId) -> AsyncIterator[tuple[SessionEvent, ...]]:
        """Read all events of a session in order."""
        n = 0
        while page := await self._read(ConnectionReader.journal_page, _encodable_name(session_id), n):
            n += len(page)
            yield page

    async def load_leaves(self, session_id: SessionId, digests: Collection[str]) -> Mapping[str, bytes]:
        """Return those of these leaves of an executor's state that exist."""
        name = SessionId(_encodable_name(session_id))
        return await self._read(lambda reader: read_leaves(reader.db, name, digests))


def _encodable_name(name: str) -> str:
    """Return a name that can be looked up; a name that cannot be encoded matches nothing."""
    return name.encode("utf-8", "replace").decode()
