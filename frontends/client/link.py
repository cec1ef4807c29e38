"""One connection to a server, from its opening to its end; reconnecting is the client's task.

Rules:
1. One task reads and one writes. The reading task never waits for the consumers of feeds or replies.
2. Each request has exactly one outcome: a reply, an error, or the end of the link. Cancelling it tells the server.
3. Replies and notifications are handled in the order they arrived, each before the next.
4. Requests wait while the server does not read; all other messages are small, and answer something.
5. A server that is silent for twice its heartbeat interval is gone.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio
import anyio.lowlevel

import session_core as sc
from frontends.client.change_signal import ChangeSignal
from frontends.client.transport import Transport, TransportLost

GREETING_S: Final = 10.0
"""How long a server may take to welcome us."""
CROWDED_BYTES: Final = 1024 * 1024
"""Unwritten bytes beyond which requests wait."""
CROWDED_FRAMES: Final = 1_024
"""The same in frames."""
MAX_FRAMES: Final = 8_192
"""Waiting frames, including those that cannot be held back; a server that leaves more unread is given up."""
_WRITE_BYTES: Final = 64 * 1024
_LAST_WORDS_S: Final = 1.0
"""How long to keep reading after writing has failed: the server may say why."""

ReplyHandler = Callable[[sc.wire.SuccessReply | sc.wire.FailureReply | None], None]
"""Takes the outcome of a request; None means that the link has ended before it."""


class LinkLost(Exception):
    """The link has ended before the reply arrived."""


class ServerLink:
    """One connection; `run` serves it.

    Args:
        transport: Sends and receives the bytes.
        on_notification: Takes notifications with their size in bytes, one after the other; must not block.

    Attributes:
        ended: Why it has ended.
        final: Whether reconnecting is pointless.
        goodbye: The server's goodbye before it ended the link.
        useful: Whether it has carried anything besides the greeting.
    """

    def __init__(
        self, transport: Transport, on_notification: Callable[["ServerLink", sc.wire.Notification, int], None]
    ) -> None:
        self.ended: sc.SessionCoreError | None = None
        self.final = False
        self.goodbye: sc.wire.Goodbye | None = None
        self.useful = False
        self._transport = transport
        transport.heard = self._hear
        self._on_notification = on_notification
        self._peer: sc.wire.RpcPeer[ReplyHandler] = sc.wire.RpcPeer(max_line=sc.wire.MAX_SNAPSHOT_LINE)
        self._outbox: deque[bytes] = deque()
        self._outbox_bytes = 0
        self._written = ChangeSignal()
        self._queued = ChangeSignal()
        self._scope = anyio.CancelScope()
        self._quiet = anyio.CancelScope()  # ends when nothing is heard for too long
        self._silence_limit_s = GREETING_S
        self._welcomed = False
        self._broken: sc.SessionCoreError | None = None  # why writing has failed
        self._received = 0  # bytes that no notification has accounted for yet

    # --- asking -------------------------------------------------------------------------------------------------------

    async def request(self, method: str, params: Mapping[str, Any]) -> sc.wire.SuccessReply | sc.wire.FailureReply:
        """Send a request and wait for the reply.

        Raises:
            LinkLost: The link has ended, before or meanwhile.
            InvalidInput: The params cannot be encoded as JSON, or are too large; nothing was sent.

        Cancellation: the server is told that the request is cancelled.
        """
        await anyio.lowlevel.checkpoint()
        while self.ended is None and self._crowded:
            await self._written.wait()
        outcomes: list[sc.wire.SuccessReply | sc.wire.FailureReply | None] = []
        arrived = ChangeSignal()

        def settle(outcome: sc.wire.SuccessReply | sc.wire.FailureReply | None) -> None:
            outcomes.append(outcome)
            arrived.notify()

        number = self.ask(method, params, settle)
        try:
            while not outcomes:
                await arrived.wait()
        finally:
            if not outcomes:
                self._give_up(number)
        if outcomes[0] is None:
            raise LinkLost
        return outcomes[0]

    def ask(self, method: str, params: Mapping[str, Any], answer: ReplyHandler) -> int:
        """Send a request; `answer` handles its outcome before any later message. Never blocks.

        Raises:
            InvalidInput: The params cannot be encoded as JSON, or are too large; nothing was sent.
        """
        if self.ended is not None:
            answer(None)
            return 0
        number, frame = self._peer.request(method, params, answer)
        self._send(frame)
        return number

    def _give_up(self, number: int) -> None:
        frame = self._peer.give_up(number)
        if frame is not None:
            self._send(frame)

    @property
    def _crowded(self) -> bool:
        return self._outbox_bytes > CROWDED_BYTES or len(self._outbox) > CROWDED_FRAMES

    def _send(self, frame: bytes) -> None:
        if self.ended is not None:
            return
        if len(self._outbox) >= MAX_FRAMES:
            self.end(sc.Disconnected("the server does not read its input"))
            return
        self._outbox.append(frame)
        self._outbox_bytes += len(frame)
        self._queued.notify()

    # --- serving ------------------------------------------------------------------------------------------------------

    def welcome(self, heartbeat_ms: int) -> None:
        """Handle the server's welcome, which states its heartbeat interval."""
        self._welcomed = True
        self._silence_limit_s = max(2 * heartbeat_ms, 1) / 1000
        self._quiet.deadline = anyio.current_time() + self._silence_limit_s

    def end(self, error: sc.SessionCoreError, *, final: bool = False) -> None:
        """End the link; only the first reason counts."""
        if self.ended is not None:
            return
        self.ended, self.final = error, final
        self._outbox.clear()
        self._outbox_bytes = 0
        self._scope.cancel()
        for answer in self._peer.close():
            answer(None)
        self._written.notify()

    async def run(self) -> None:
        """Read and write until the end.

        Cancellation: ends the link.
        """
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._write)
                    await self._read()
                    tasks.cancel_scope.cancel()
        finally:
            self.end(sc.Disconnected("the client has left"))

    async def _read(self) -> None:
        with self._quiet:
            self._quiet.deadline = anyio.current_time() + self._silence_limit_s
            try:
                await self._listen()
            except TransportLost as lost:
                self.end(lost.error, final=lost.final)
        if self._broken is not None:
            self.end(self._broken)
        elif self.ended is None:
            what = "has sent nothing" if self._welcomed else "has not answered the hello"
            self.end(sc.Disconnected(f"the server {what} for {self._silence_limit_s:g} s"))

    async def _listen(self) -> None:
        while self.ended is None:
            data = await self._transport.receive()
            self._received += len(data)
            self._hear()
            self._peer.receive(data)
            while self._peer.has_unread and self.ended is None:
                for item in self._peer.take_portion():
                    self._take(item)
                await anyio.lowlevel.checkpoint()
            if self._peer.is_flooded:
                self.end(sc.ProtocolError("the server writes too much that is not a message"))

    def _hear(self) -> None:
        """Take a sign of life: a long line over a slow network may take longer than the silence that is allowed."""
        if self._welcomed and self._broken is None:
            self._quiet.deadline = anyio.current_time() + self._silence_limit_s

    def _take(
        self,
        item: sc.wire.Request | sc.wire.Notification | sc.wire.SettledRequest[ReplyHandler] | sc.wire.RefusedRequest,
    ) -> None:
        if self.ended is not None:
            if isinstance(item, sc.wire.SettledRequest):
                item.waiter(None)
            return
        match item:
            case sc.wire.SettledRequest(waiter=answer, reply=reply):
                self.useful = self.useful or self._welcomed
                answer(reply)
            case sc.wire.Notification():
                size, self._received = self._received, 0
                self._on_notification(self, item, size)
            case sc.wire.Request(id=id):
                self._send(sc.wire.encode_refusal(sc.wire.RefusedRequest(id=id, reason="a client answers no requests")))
            case sc.wire.RefusedRequest():
                self._send(sc.wire.encode_refusal(item))

    async def _write(self) -> None:
        try:
            while True:
                while not self._outbox:
                    await self._queued.wait()
                await self._transport.send(self._next_lines())
                if not self._crowded:
                    self._written.notify()
        except TransportLost as lost:
            self._broken = lost.error
            self._quiet.deadline = anyio.current_time() + _LAST_WORDS_S

    def _next_lines(self) -> bytes:
        lines, size = [], 0
        while self._outbox and size < _WRITE_BYTES:
            line = self._outbox.popleft()
            lines.append(line)
            size += len(line)
        self._outbox_bytes -= size
        return b"".join(lines)
