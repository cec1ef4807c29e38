"""A connection on trio: one task reads, one writes, and each request of the other side has its own task.

Rules:
1. The reader waits only for bytes, or for a long line to be parsed in a thread, where `max_values` asks for that.
   Notifications are handled in order, before the replies behind them. However much comes in at once, other tasks run
   after each small portion of it.
2. A reply wakes its caller directly: one `reschedule`, no other objects.
3. While several requests are pending, or their callers have just been woken together, everything they queue within a
   scheduler tick goes out in one write. A lone frame is written at once, without the writer task.
4. Requests and notifications wait while the other side does not read. Replies, cancellations and events never do.
5. The connection ends once, with a reason. Then all pending and later requests fail with `RpcClosed`, handlers are
   cancelled, and the block of `open_connection` continues until it is left. When a write fails, what the other side
   had sent before still counts.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Generic, NoReturn, TypeVar

import trio

from session_core import limits
from session_core.error_capture import ErrorCapture
from session_core.rpc.byte_streams import STREAM_ERRORS, Sink, Source, make_sink, make_source, nonblocking_descriptors
from session_core.rpc.deadlines import Deadlines, ExtendableTimeout, Waiter
from session_core.rpc.failures import ClosedKind, CloseReason, RpcClosed, RpcFailed, RpcTimedOut
from session_core.rpc.messages import Notification, Request, SuccessReply, encode_notification, parse
from session_core.rpc.outbox import Outbox, OutboxOverflow, OutboxStatistics
from session_core.rpc.peer import (
    CANCEL,
    Incoming,
    RefusedRequest,
    RpcPeer,
    RpcStatistics,
    SettledRequest,
    UnusableHandler,
    encode_refusal,
    ignore_unusable,
)
from session_core.rpc.request_tasks import RequestHandler, RequestTasks, refuse_method

# Read until the other side ends, with a pause for other tasks after each portion. The pause is as long as the portion
# took: a short message may be expensive to handle, and however many come, other tasks get half of the time.
W = TypeVar("W")

_FREE_SECONDS = 0.002  # a shorter portion is not worth a pause
_LONGEST_PAUSE = 0.5
_LAST_READS = 64  # reads after a failed write: what was sent before the end still counts


class ReadLoop(Generic[W]):
    """Reads the bytes of a source and passes them through a peer.

    Args:
        source: Where the bytes come from.
        peer: Parses them.
        take: Receives the parsed messages; never waits.
        max_values: The most values in one message; None for any number.
    """

    def __init__(
        self, source: Source, peer: RpcPeer[W], take: Callable[[list[Incoming[W]]], None], max_values: int | None
    ) -> None:
        self._max_values = max_values
        self._source = source
        self._peer = peer
        self._take = take
        self._read_scope = trio.CancelScope()
        self._write_error: BaseException | None = None

    def end_with(self, write_error: BaseException) -> None:
        """Process what has already arrived and stop: nothing can be written any more, so the rest is pointless."""
        self._write_error = write_error
        self._read_scope.cancel(reason="nothing can be written any more")

    async def run(self) -> tuple[ClosedKind, BaseException | None]:
        """Read until the end and return why it ended."""
        with self._read_scope:
            return await self._read()
        return await self._read_last_words()

    async def _read(self) -> tuple[ClosedKind, BaseException | None]:
        while True:
            try:
                data = await self._source.read()
            except STREAM_ERRORS as error:
                return "read_failed", error
            if data:
                self._peer.receive(data)
            else:
                self._peer.finish()
            await self._take_all()
            if self._peer.is_flooded:
                return "flooded", None
            if not data:
                return "ended", None

    async def _read_last_words(self) -> tuple[ClosedKind, BaseException | None]:
        with suppress(OSError):
            for _ in range(_LAST_READS):
                await self._take_all()
                data = self._source.read_now()
                if not data or self._peer.is_flooded:
                    break
                self._peer.receive(data)
                await trio.lowlevel.checkpoint()
        return "write_failed", self._write_error

    async def _take_all(self) -> None:
        while True:
            if (line := self._peer.long_line) is not None:
                understand = partial(parse, line, most_values=self._max_values)
                message = await trio.to_thread.run_sync(understand, abandon_on_cancel=True)
                self._take(self._peer.take_long_line(message))
                continue
            began = trio.current_time()
            self._take(self._peer.take_portion())
            if (took := trio.current_time() - began) > _FREE_SECONDS:
                await trio.sleep(min(took, _LONGEST_PAUSE))
            if not self._peer.has_unread or self._peer.is_flooded:
                return
            await trio.lowlevel.checkpoint()


# --- connection -------------------------------------------------------------------------------------------------------

log = logging.getLogger(__name__)

NotificationHandler = Callable[[Notification], object]
"""Handles a notification; the reader calls it in order, so it must not wait."""


def ignore_notification(_: Notification) -> None:
    """Ignore a notification."""


class RpcConnection:
    """One end of a connection; made by `open_connection`. `closed` is the reason once it has ended."""

    def __init__(
        self,
        source: Source,
        sink: Sink,
        handle_request: RequestHandler,
        handle_notification: NotificationHandler,
        *,
        handle_unusable: UnusableHandler,
        name: str,
        max_line: int,
        max_values: int | None,
        max_reply: int | None,
    ) -> None:
        self.name = name
        self._sink = sink
        self._handle_notification = handle_notification
        self._handle_unusable = handle_unusable
        self._peer: RpcPeer[Waiter] = RpcPeer(
            max_line=max_line,
            long_line=limits.RPC_LONG_LINE if max_values is not None else None,
            handle_unusable=self._handle_unusable_line,
        )
        self._read_loop = ReadLoop(source, self._peer, self._handle_incoming, max_values)
        self._outbox = Outbox()
        self._deadlines = Deadlines()
        self._request_tasks = RequestTasks(handle_request, self._send, name, max_reply)
        self.closed: CloseReason | None = None
        self._ended = trio.Event()
        self._writable = True
        self._woken_together = 0  # callers whose replies came in the last portion: likely to send again
        self._nursery: trio.Nursery | None = None
        self._writer: trio.lowlevel.Task | None = None  # while it sleeps
        self._waiting_for_room = trio.lowlevel.ParkingLot()
        self._waiting_for_flush = trio.lowlevel.ParkingLot()

    async def wait_closed(self) -> CloseReason:
        """Wait for the end of the connection and return the reason."""
        await self._ended.wait()
        assert self.closed is not None
        return self.closed

    def statistics(self) -> tuple[RpcStatistics, OutboxStatistics]:
        """Return the current counts: what came in, and what is queued to go out."""
        return self._peer.statistics(), self._outbox.statistics()

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | ExtendableTimeout | None = None,  # noqa: ASYNC109 - part of the protocol: the other side is told
    ) -> Any:
        """Send a request and wait for the result. Values are plain JSON or `JsonObject`s; a timeout may be extendable.

        Raises:
            RpcFailed: The other side answered with an error.
            RpcTimedOut: It did not answer in time.
            RpcClosed: The connection has ended.
            InvalidInput: The params have no form in JSON, or are too large; nothing was sent.

        Cancellation: tells the other side that the reply is no longer wanted, and drops a late one.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        patience = timeout if timeout is None or isinstance(timeout, ExtendableTimeout) else ExtendableTimeout(timeout)
        if self._outbox.crowded or self.closed is not None or (patience is not None and patience.seconds <= 0):
            await self._wait_for_room(method, patience)
        waiter = Waiter(self._give_up, trio.lowlevel.current_task())
        waiter.id, frame = self._peer.request(method, params, waiter)
        self._send(frame)
        if waiter.resolved:  # sending failed and ended the connection
            await trio.lowlevel.cancel_shielded_checkpoint()
            return waiter.unwrap()
        waiter.asleep = True
        if patience is not None:
            self._deadlines.add(waiter.id, waiter, method, patience, pending=self._peer.pending)
        return await trio.lowlevel.wait_task_rescheduled(waiter.abort)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification; waits while the other side does not read.

        Raises:
            RpcClosed: The connection has ended.
            InvalidInput: The params have no form in JSON, or are too large; nothing was sent.

        Cancellation: nothing was sent.
        """
        await self.wait_for_room()
        self._send(encode_notification(method, params))

    def notify_now(self, method: str, params: Mapping[str, Any] | None = None) -> bool:
        """Send a notification that may be dropped; never waits. Return False if it was dropped.

        Raises:
            InvalidInput: The params have no form in JSON, or are too large; nothing was sent.
        """
        return self.send_now(encode_notification(method, params))

    def send_now(self, notification: bytes) -> bool:
        """Send an already encoded notification, or drop it; never waits."""
        if self.closed is not None or self._outbox.crowded:
            return False
        self._send(notification)
        return True

    @property
    def has_room(self) -> bool:
        """Whether `wait_for_room` would not wait."""
        return self.closed is None and not self._outbox.crowded

    async def wait_for_room(self) -> None:
        """Wait until the other side has read enough for more to be sent.

        Raises:
            RpcClosed: The connection has ended.
        """
        await trio.lowlevel.checkpoint()
        await self._wait_for_room()

    def push_event(self, event: str, payload: Mapping[str, Any] | None = None, *, context: Any = None) -> int:
        """Put an event into the lane that may be shed; never waits. Returns its `seq`.

        Raises:
            InvalidInput: The payload has no form in JSON, or is too large; nothing was pushed.
        """
        seq = self._outbox.push_event(event, payload, context)
        self._wake_writer()
        return seq

    def note_lost(self, count: int) -> None:
        """Report to the other side, before the next event, that `count` events were lost before they got here."""
        self._outbox.note_lost(count)

    async def flush(self) -> None:
        """Wait until everything queued is written, or the connection has ended."""
        await trio.lowlevel.checkpoint()
        while not self._outbox.empty and self.closed is None:
            await self._waiting_for_flush.park()

    async def _wait_for_room(self, method: str = "", patience: ExtendableTimeout | None = None) -> None:
        if patience is not None:
            with trio.move_on_at(patience.until) as scope:
                await self._wait_for_room()
            if scope.cancelled_caught:
                raise RpcTimedOut(method, patience.seconds)
        while self._outbox.crowded and self.closed is None:
            await self._waiting_for_room.park()
        if self.closed is not None:
            await trio.lowlevel.checkpoint()
            raise RpcClosed(self.closed)

    def _give_up(self, id: int) -> None:
        if frame := self._peer.give_up(id):
            self._send(frame)

    def _send(self, frame: bytes) -> None:
        """Send a control frame now or soon; if that is impossible, end the connection without raising."""
        if self.closed is not None or not self._writable:
            return
        alone = self._woken_together <= 1 and self._peer.pending + self._request_tasks.running <= 1
        if alone and self._sink.direct and self._outbox.clear:
            try:
                written = self._sink.write_now(frame)
            except OSError as error:
                self._write_failed(error)
                return
            if written == len(frame):
                return
            self._outbox.add_rest(memoryview(frame)[written:])
        else:
            try:
                self._outbox.add(frame)
            except OutboxOverflow:
                self._close("not_reading")
                return
        self._wake_writer()

    def _wake_writer(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            trio.lowlevel.reschedule(writer)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Read, write and handle until the end."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._write)
            nursery.start_soon(self._deadlines.run)
            task_status.started()
            self._close(*await self._read_loop.run())

    def _handle_incoming(self, items: list[Incoming[Waiter]]) -> None:
        assert self._nursery is not None
        woken = 0
        for item in items:
            match item:
                case SettledRequest(waiter, reply):
                    woken += 1
                    if isinstance(reply, SuccessReply):
                        waiter.resolve(reply.result)
                    else:
                        waiter.resolve(None, RpcFailed(reply.code, reply.message, reply.data))
                case Request():
                    self._request_tasks.start(item, self._nursery)
                case Notification(method=method, params=params) if method == CANCEL:
                    self._request_tasks.cancel(params.get("id"))
                case Notification():
                    self._dispatch_notification(item)
                case RefusedRequest():
                    self._send(encode_refusal(item))
        self._woken_together = woken

    def _dispatch_notification(self, notification: Notification) -> None:
        try:
            self._handle_notification(notification)
        except Exception:
            log.exception("%s: handling the notification %s failed", self.name, notification.method[:100])

    def _handle_unusable_line(self, line: bytes, reason: str) -> None:
        try:
            self._handle_unusable(line, reason)
        except Exception:
            log.exception("%s: handling a line that cannot be used failed", self.name)

    async def _write(self) -> NoReturn:
        while True:
            while self._outbox.empty:
                self._waiting_for_flush.unpark_all()
                self._writer = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._abort_writer)
            try:
                await self._sink.write_round(self._outbox)
            except STREAM_ERRORS as error:
                self._write_failed(error)
                await trio.sleep_forever()  # until the end, which has just come
            if self._waiting_for_room and not self._outbox.crowded:
                self._waiting_for_room.unpark_all()

    def _abort_writer(self, _: object) -> trio.lowlevel.Abort:
        self._writer = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _write_failed(self, error: BaseException) -> None:
        """Make the reader end the connection, after replies that have already arrived."""
        self._writable = False
        self._read_loop.end_with(error)

    def _close(self, kind: ClosedKind, error: BaseException | None = None) -> None:
        if self.closed is not None:
            return
        detail = (error.strerror if isinstance(error, OSError) else None) or str(error or "")
        closed = self.closed = CloseReason(kind=kind, detail=detail)
        for waiter in self._peer.close():
            waiter.resolve(None, RpcClosed(closed))
        self._waiting_for_room.unpark_all()
        self._waiting_for_flush.unpark_all()
        self._ended.set()
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel(reason=f"the connection has ended: {kind}")

    async def flush_briefly(self) -> None:
        """Flush what is still queued, for a short time, after the block was left without an error."""
        with trio.move_on_after(limits.RPC_FLUSH_MS / 1000):
            await self.flush()

    def close(self) -> None:
        """End the connection when its block is left."""
        self._close("left")


@asynccontextmanager
async def open_connection(
    source: int | trio.abc.ReceiveStream,
    sink: int | trio.abc.SendStream,
    *,
    handle_request: RequestHandler = refuse_method,
    handle_notification: NotificationHandler = ignore_notification,
    handle_unusable: UnusableHandler = ignore_unusable,
    name: str = "peer",
    max_line: int = limits.MAX_RPC_LINE,
    max_values: int | None = None,
    max_reply: int | None = None,
) -> AsyncGenerator[RpcConnection]:
    """Connect to another program for the duration of the block.

    Args:
        source: Where its messages come from: a descriptor or a stream. It is not closed here.
        sink: Where ours go; the same stream twice for a socket.
        handle_request: Answers its requests, each in its own task.
        handle_notification: Handles its notifications, one after the other; must not wait.
        handle_unusable: Gets each line that is not a message, or its beginning, and the reason; must not wait.
        name: Its name in the log.
        max_line: The longest message to read, in bytes.
        max_values: The most values in a message to read; with a limit, long messages are parsed in a thread.
        max_reply: The longest reply to one of its requests, in bytes; by default `limits.MAX_RPC_LINE`.

    Cancellation: ends the connection at once. Leaving the block without an error waits at most `limits.RPC_FLUSH_MS`
    for queued frames to be written.
    """
    connection = RpcConnection(
        make_source(source),
        make_sink(sink),
        handle_request,
        handle_notification,
        handle_unusable=handle_unusable,
        name=name,
        max_line=max_line,
        max_values=max_values,
        max_reply=max_reply,
    )
    own = ErrorCapture()
    with own.reraise(), nonblocking_descriptors(source, sink):
        async with trio.open_nursery() as nursery:
            await nursery.start(connection.run)
            try:
                with own.capture():
                    yield connection
                    await connection.flush_briefly()
            finally:
                connection.close()
