"""The default store: one SQLite file per home, written by group commit.

Rules:
1. `append` and similar methods only add to a list. The pump (`run`) takes the whole list, always between two steps of
   the service, and commits it in a worker thread: at once if a task waits for it, else within a tenth of a second.
   Data that comes meanwhile forms the next batch, so a busy service commits many steps at once.
2. The state after a batch (list, newest states) is fetched in the same step, so it always matches the events.
3. Text of unfinished answers is buffered separately, merged, and saved every quarter of a second; it is dropped when
   the finished message has come.
4. The search index is filled when nothing has to be committed, or when many messages wait for it (`search.py`).
5. After the first failed commit nothing more is written: all current and later waiters get `StorageFailed`.
"""

import logging
import math
import sqlite3
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from os import PathLike
from typing import Any, NoReturn, TypeVar

import trio

from session_core import limits
from session_core.errors import Overloaded, ProtocolError, ServiceClosed, StorageFailed
from session_core.ids import SessionId
from session_core.storage.base import LiveState, OpenedStore, StoredReply, StoredSession
from session_core.storage.executor_state import check_leaves
from session_core.storage.files import Connect, connect, open_for_writing
from session_core.storage.home import prepare_home
from session_core.storage.home_lock import HomeLock
from session_core.storage.kv import KvChange, encode_value, read_keys, read_value, validate_key, validate_owner
from session_core.storage.partial_text import PartialText, ended_message_id
from session_core.storage.schema import UNREADABLE, store_error
from session_core.storage.session_list import read_replies
from session_core.storage.sqlite_reader import SqliteReader
from session_core.storage.writer import Batch, SessionRemoval, Writer, WriteStep
from session_core.vocabulary.events import TRANSIENT_EVENTS, SessionEvent
from session_core.wire.codec import encode, encode_event

log = logging.getLogger(__name__)
T = TypeVar("T")


class SqliteStore(SqliteReader):
    """Keeps the sessions of one home.

    Args:
        home: The directory; by default `$SESSION_CORE_HOME`, else the platform's place for data.
        connect: Opens the file; tests pass a failing disk.
    """

    def __init__(self, home: str | PathLike[str] | None = None, *, connect: Connect = connect) -> None:
        super().__init__(home, connect=connect)
        self._writer: Writer | None = None
        self._writing = trio.CapacityLimiter(1)  # a separate limiter: stuck threads of others must not delay commits
        self._reset()

    def _reset(self) -> None:
        self.durable_seq = 0
        self.failure: StorageFailed | None = None
        self.backlog = 0
        self._start_batch()
        self._partial = PartialText()
        self._since_state: dict[SessionId, int] = {}
        self._handed_over = trio.Event()  # set when the current list has been written
        self._in_writing: trio.Event | None = None
        self._pump: trio.lowlevel.Task | None = None
        self._pump_parked = False
        self._wipe_at = -math.inf
        self._index_at = math.inf  # when to fill the search index, if nothing else is due then
        self._live: LiveState | None = None

    def _start_batch(self) -> None:
        self._steps: list[WriteStep] = []
        self._ended: list[tuple[SessionId, str]] = []  # the answers that these steps end
        self._touched: dict[SessionId, int] = {}  # the sessions of these steps, and how much reading they add
        self._commit_at = math.inf  # when the list must be written, in trio's time

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[OpenedStore]:
        """Take the right to write; leaving the block writes the remaining data and releases the right."""
        lock = await trio.to_thread.run_sync(lambda: HomeLock.acquire(prepare_home(self.home)), limiter=self._writing)
        self._reset()
        try:
            self._writer = await trio.to_thread.run_sync(self._open_writer, limiter=self._writing)
            self._closed = False
            try:
                summaries = await self.list_sessions()
                yield OpenedStore(summaries=summaries, replies=await self._read(lambda reader: read_replies(reader.db)))
            finally:
                with trio.CancelScope(shield=True):
                    await self._write_the_rest()
                    await self._close_reader()
                    await trio.to_thread.run_sync(self._writer.close, limiter=self._writing)
        finally:
            lock.release()
        if self.failure is not None:
            raise self.failure

    def _open_writer(self) -> Writer:
        connection = open_for_writing(self.home, self._connect)
        try:
            return Writer(connection)
        except UNREADABLE as error:
            connection.close()
            raise store_error(error) from error

    async def _read(self, what: Callable[..., T], *arguments: object) -> T:
        """Read after everything handed over so far has been written."""
        if (pending := self._request_commit()) is not None:
            await pending.wait()
        return await super()._read(what, *arguments)

    async def load(self, session_id: SessionId) -> StoredSession | None:
        """Return the data from which a session resumes."""
        stored = await super().load(session_id)
        if stored is not None:
            self._since_state[session_id] = len(stored.events)
        return stored

    # --- handing over -------------------------------------------------------------------------------------------------

    def append(self, event: SessionEvent) -> None:
        """Take an event over."""
        session_id = event.session_id
        if session_id is None or self.failure is not None:
            return
        if isinstance(event.event, TRANSIENT_EVENTS):
            if self._partial.add(event):
                self._wake_pump()  # so it sets its timer
            return
        size = len(encode_event(event))
        if size > limits.MAX_RECORD_BYTES:
            raise ProtocolError(f"an event of {size:,} bytes is too large to be kept")
        if (about := ended_message_id(event.event)) is not None:
            self._partial.drop(session_id, about)
            self._ended.append((session_id, about))
        self._touched[session_id] = self._touched.get(session_id, 0) + 1 + size // _BYTES_PER_EVENT
        self._hand_over(event, size)

    def remember(self, reply: StoredReply) -> None:
        """Keep a reply together with the events of its command."""
        if self.failure is None:
            encode((reply.client_id, reply.key, reply.reply))  # refuse now what could not be written later
            self._hand_over(reply)

    def forget(self, session_id: SessionId) -> None:
        """Remove a session and all its stored data."""
        if self.failure is None:
            self._partial.forget(session_id)
            self._hand_over(SessionRemoval(session_id))

    def keep_leaves(self, session_id: SessionId, leaves: Mapping[str, bytes]) -> None:
        """Store leaves of an executor's state together with the event that names them."""
        if self.failure is None:
            step = check_leaves(session_id, leaves)
            self._hand_over(step, step.size)

    def _hand_over(self, step: WriteStep, size: int = 0) -> None:
        if not self._steps:
            self._commit_at = trio.current_time() + limits.COMMIT_AFTER_MS / 1000
            self._wake_pump()  # so it sets its timer
        self._steps.append(step)
        self.backlog += size
        if len(self._steps) == limits.COMMIT_AFTER_STEPS:
            self._want_commit()

    def _wake_pump(self) -> None:
        if self._pump_parked and self._pump is not None:
            self._pump_parked = False
            trio.lowlevel.reschedule(self._pump)

    async def wait_durable(self, seq: int) -> None:
        """Wait until everything up to `seq` is durable. Cancellation: it is written all the same."""
        if (pending := self._request_commit()) is not None:
            await pending.wait()
        else:
            await trio.lowlevel.checkpoint()
        if self.failure is not None and self.durable_seq < seq:
            raise StorageFailed(self.failure.message)

    def _request_commit(self) -> trio.Event | None:
        """Request a commit now; return an event that is set when it is done, or None if all is written already."""
        if not self._steps:
            return self._in_writing
        self._want_commit()
        return self._handed_over

    def _want_commit(self) -> None:
        if self._commit_at > -math.inf:
            self._commit_at = -math.inf
            self._wake_pump()

    # --- values -------------------------------------------------------------------------------------------------------

    async def kv_get(self, owner: str, key: str) -> Any:
        """Return an owner's value for a key."""
        validate_key(owner, key)
        return await self._read(lambda reader: read_value(reader.db, owner, key))

    async def kv_set(self, owner: str, key: str, value: Any) -> None:
        """Store a value under a key; return when it is durable."""
        await self._change_value(KvChange(*validate_key(owner, key), encode_value(value)))

    async def kv_delete(self, owner: str, key: str) -> None:
        """Delete a value; return when that is durable."""
        await self._change_value(KvChange(*validate_key(owner, key), None))

    async def kv_list(self, owner: str, prefix: str = "") -> tuple[str, ...]:
        """Return the keys of an owner that start with `prefix`, in order."""
        validate_owner(owner)
        return await self._read(lambda reader: read_keys(reader.db, owner, prefix))

    async def _change_value(self, change: KvChange) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._closed:
            raise ServiceClosed("the store is closed")
        if self.failure is None and self.backlog > limits.MAX_BACKLOG_BYTES:
            raise Overloaded("the disk cannot keep up: too much data is waiting to be written; try again in a moment")
        if self.failure is None:
            self._hand_over(change, len(change.value or b""))
        if (pending := self._request_commit()) is not None:
            await pending.wait()
        if self.failure is not None:
            raise StorageFailed(self.failure.message)
        if change.refused is not None:
            raise change.refused

    # --- the pump -----------------------------------------------------------------------------------------------------

    async def run(self, live: LiveState, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> NoReturn:
        """Commit the data handed over, batch by batch, until cancelled."""
        self._live = live
        self._pump = trio.lowlevel.current_task()
        task_status.started()
        try:
            while True:
                commit_at = min(self._partial.due_at, self._commit_at)
                index_at, wipe_at = self._index_at, self._wipe_due_at()
                if trio.current_time() >= commit_at:
                    await self._let_others_join()
                    await self._commit_pending(live)
                elif trio.current_time() >= index_at:
                    await self._fill_search_index(live)
                elif trio.current_time() >= wipe_at:
                    await self._wipe_traces()
                else:
                    with trio.move_on_at(min(commit_at, index_at, wipe_at)):
                        self._pump_parked = True
                        await trio.lowlevel.wait_task_rescheduled(self._abort_park)
        finally:
            self._pump = None

    async def _let_others_join(self) -> None:
        """Wait a few ticks as long as they bring more: tasks just notified of a commit return with their next step.

        It costs microseconds, and one large transaction is far cheaper than two small ones.
        """
        quiet = 0
        for _ in range(_MOST_TICKS):
            known = len(self._steps)
            await trio.lowlevel.checkpoint()
            quiet = 0 if len(self._steps) > known else quiet + 1
            if quiet == _QUIET_TICKS:
                break

    async def _fill_search_index(self, live: LiveState) -> None:
        self._index_at = math.inf
        if self._writer is None or not self._writer.has_unindexed_messages or self.failure is not None:
            return
        try:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._writer.fill_search_index, limiter=self._writing)
        except sqlite3.Error as error:
            self._fail(error, live)

    def _wipe_due_at(self) -> float:
        return self._wipe_at if self._writer is not None and self._writer.traces else math.inf

    async def _wipe_traces(self) -> None:
        """Use a quiet moment to wipe some remains of deleted sessions."""
        assert self._writer is not None
        more = False
        try:
            with trio.CancelScope(shield=True):
                more = await trio.to_thread.run_sync(self._writer.wipe_traces, limiter=self._writing)
            self._wipe_at = trio.current_time() + (0 if more else _WIPE_AGAIN_S)
        except sqlite3.Error:
            log.exception("traces of deleted sessions could not be wiped")
            self._wipe_at = math.inf  # retried when the store is next opened

    def _abort_park(self, _: object) -> trio.lowlevel.Abort:
        self._pump_parked = False
        return trio.lowlevel.Abort.SUCCEEDED

    async def _commit_pending(self, live: LiveState) -> None:
        """Make everything handed over durable, or fail for good."""
        seq, size, written = live.seq, self.backlog, self._handed_over
        try:
            batch = self._take(live)
            if batch is None or self.failure is not None:
                return
            self._in_writing, self._handed_over = written, trio.Event()
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._write, batch, limiter=self._writing)
            self.durable_seq = seq
            self.backlog -= size
            if self._writer is not None and self._writer.has_unindexed_messages:
                self._index_at = min(self._index_at, trio.current_time() + limits.SEARCHABLE_AFTER_MS / 1000)
        except Exception as error:  # noqa: BLE001 - any error: what was not written was not acknowledged
            self._fail(error, live)
        except BaseException as error:
            self._fail(error, live)
            raise
        finally:
            if self._in_writing is written:
                self._in_writing = None
                written.set()

    def _take(self, live: LiveState) -> Batch | None:
        batch = Batch(steps=self._steps, dropped=self._ended)
        touched = self._touched
        self._start_batch()
        for session_id, weight in touched.items():
            summary = live.summary_of(session_id)
            if summary is None:
                continue
            batch.summaries[session_id] = summary
            since = self._since_state[session_id] = self._since_state.get(session_id, 0) + weight
            if since >= limits.STATE_EVERY_EVENTS and (state := live.state_of(session_id)) is not None:
                self._since_state[session_id] = 0
                batch.states[session_id] = state
                batch.partial_texts += self._partial.take(session_id)  # so no text crosses the saved state
        for step in batch.steps:
            if isinstance(step, SessionRemoval):
                self._since_state.pop(step.session_id, None)
        batch.partial_texts += self._partial.take_due()
        return batch if batch.steps or batch.partial_texts else None

    def _write(self, batch: Batch) -> None:
        assert self._writer is not None
        self._writer.write(batch)

    def _fail(self, error: BaseException, live: LiveState) -> None:
        log.error("the store could not be written", exc_info=error)
        self.failure = StorageFailed(
            f"the store in {self.home} could not be written ({error}); nothing more is accepted. Check the disk, then "
            "restart: everything acknowledged before is safe"
        )
        self._start_batch()
        self._partial = PartialText()
        self._index_at = self._wipe_at = math.inf
        self.backlog = 0
        self._handed_over.set()
        live.storage_failed(self.failure)

    async def _write_the_rest(self) -> None:
        if self._live is not None and self.failure is None:
            await self._commit_pending(self._live)
            await self._fill_search_index(self._live)
        while self._wipe_due_at() <= trio.current_time():
            await self._wipe_traces()


_QUIET_TICKS = 2
_MOST_TICKS = 32
_WIPE_AGAIN_S = 5.0  # after a reader in another process was in the way
_BYTES_PER_EVENT = 4_096  # long events count for several: what matters is how much opening a session has to read
