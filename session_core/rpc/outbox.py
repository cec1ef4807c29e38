"""Frames that wait to be written, in two lanes, without any I/O.

Rules:
1. Control (requests, replies, cancellations, notifications) keeps its order and loses nothing. When it is `crowded`,
   senders that can wait should. Frames that cannot wait are accepted up to a bound; beyond it, `OutboxOverflow` is
   raised, because the other side does not read.
2. Events are a ring: the oldest are shed. Each has a `seq`, counted from 0 with every push. A marker with the number of
   shed events, without a `seq` of its own, precedes the survivors. Written + reported as lost = pushed.
3. Control goes first. One event is sent with each round of control, so neither lane starves the other.
4. Frames that were not sent completely return to their lane: an event that is still whole can be shed or overtaken.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import attrs

from session_core import limits
from session_core.rpc.messages import encode_notification

EVENT = "event"
EVENTS_LOST = "events_lost"
_ROUND_BYTES = 65_536  # about what a pipe holds


class OutboxOverflow(Exception):
    """So many control frames wait that the other side cannot be reading."""


class _OutgoingFrame(NamedTuple):
    lane: Literal["control", "event", "marker"]
    data: bytes
    lost: int = 0


@attrs.frozen(kw_only=True)
class OutboxStatistics:
    """Counts for people and tests.

    Attributes:
        control: Frames of the control lane that wait.
        control_bytes: Their size.
        events: Events that wait.
        pushed: Events ever pushed.
        shed: Events ever shed.
    """

    control: int
    control_bytes: int
    events: int
    pushed: int
    shed: int


class Outbox:
    """Two lanes of frames, and the round that is being written.

    Write what `next_round` returns and then report with `confirm_sent` how much of it was sent.
    """

    def __init__(self) -> None:
        self._control: deque[bytes] = deque()
        self._control_bytes = 0
        self._excess_bytes = 0  # of those: what snapshots have beyond the longest line of everything else
        self._events: deque[bytes] = deque()
        self._event_bytes = 0
        self._pushed = 0
        self._shed = 0
        self._unreported_losses = 0
        self._context: Any = None  # of the newest event
        self._rest: memoryview | None = None  # of a partly sent frame
        self._control_round: list[bytes] = []  # control frames that are being written
        self._round: list[_OutgoingFrame] = []  # frames that are being written after those
        self._round_size = 0

    @property
    def empty(self) -> bool:
        """Whether no frame waits."""
        return not (self._control or self._events or self._round_size or self._rest is not None)

    @property
    def clear(self) -> bool:
        """Whether a control frame could be sent at once: nothing waits before it except whole events."""
        return not (self._control or self._round_size or self._rest is not None)

    @property
    def crowded(self) -> bool:
        """Whether senders that can wait should."""
        return len(self._control) >= limits.RPC_WAIT_FRAMES or self._control_bytes >= limits.RPC_WAIT_BYTES

    def add(self, frame: bytes) -> None:
        """Add a control frame; raise `OutboxOverflow` beyond the bound."""
        # Only a snapshot is longer than a line; it has to arrive too, and so has the reply behind it.
        excess = _excess(frame)
        bytes_counted = self._control_bytes - self._excess_bytes + len(frame) - excess
        if len(self._control) >= limits.MAX_RPC_FRAMES or bytes_counted > limits.MAX_RPC_BYTES:
            raise OutboxOverflow
        if excess and self._excess_bytes > limits.MAX_SNAPSHOT_LINE:
            raise OutboxOverflow
        self._control.append(frame)
        self._control_bytes += len(frame)
        self._excess_bytes += excess

    def add_rest(self, rest: memoryview) -> None:
        """Add the rest of a frame whose beginning was sent past the lanes, which must be `clear`."""
        self._rest = rest

    def push_event(self, event: str, payload: Mapping[str, Any] | None, context: Any) -> int:
        """Add an event, shedding older ones if there are too many; return its `seq`.

        Raises:
            InvalidInput: The payload has no form in JSON, or is too large; nothing was pushed.
        """
        seq = self._pushed
        frame = _event_frame({"event": event, "seq": seq}, payload, context)
        self._pushed += 1
        self._context = context
        self._events.append(frame)
        self._event_bytes += len(frame)
        while len(self._events) > limits.RPC_EVENTS or self._event_bytes > limits.MAX_RPC_EVENT_BYTES:
            if len(self._events) == 1:
                break
            self._event_bytes -= len(self._events.popleft())
            self._shed += 1
            self._unreported_losses += 1
        return seq

    def note_lost(self, count: int) -> None:
        """Count events that were lost before they could be pushed; they are reported with the next one."""
        self._unreported_losses += count

    def next_round(self, *, many_events: bool) -> bytes | memoryview:
        """Return the bytes to write next; the outbox must not be `empty`.

        Args:
            many_events: Whether a write that would block returns at once. Otherwise only one event is taken, because
                nothing could overtake the others once they are taken.
        """
        assert not self._round_size, "say first what was sent of the last round"
        if self._rest is not None:
            return self._rest
        room = self._take_control()
        if self._events:
            self._take_events(room if many_events and not self._control_round else 1)
        data = b"".join([*self._control_round, *(frame.data for frame in self._round)])
        self._round_size = len(data)
        return data

    def confirm_sent(self, count: int) -> None:
        """Report how many bytes of the result of `next_round` were sent."""
        if self._rest is not None:
            self._rest = self._rest[count:] if count < len(self._rest) else None
            return
        control, self._control_round = self._control_round, []
        frames, self._round = self._round, []
        size, self._round_size = self._round_size, 0
        if count == size:
            return
        frames = [*(_OutgoingFrame("control", data) for data in control), *frames]
        whole = 0
        for frame in frames:
            if count < len(frame.data):
                break
            count -= len(frame.data)
            whole += 1
        if count:
            self._rest = memoryview(frames[whole].data)[count:]
            whole += 1
        for frame in reversed(frames[whole:]):
            self._put_back(frame)

    def statistics(self) -> OutboxStatistics:
        """Return the current counts."""
        return OutboxStatistics(
            control=len(self._control),
            control_bytes=self._control_bytes,
            events=len(self._events),
            pushed=self._pushed,
            shed=self._shed,
        )

    def _take_control(self) -> int:
        """Move control frames into the round; return how many more bytes it may hold."""
        if self._control_bytes <= _ROUND_BYTES:
            room = _ROUND_BYTES - self._control_bytes
            self._control_round = list(self._control)
            self._control.clear()
            self._control_bytes = 0
            return room
        room = _ROUND_BYTES
        while self._control and room > 0:
            data = self._control.popleft()
            self._control_bytes -= len(data)
            self._excess_bytes -= _excess(data)
            room -= len(data)
            self._control_round.append(data)
        return room

    def _take_events(self, room: int) -> None:
        if self._unreported_losses:
            marker = _event_frame({"event": EVENTS_LOST}, {"lost": self._unreported_losses}, self._context)
            self._round.append(_OutgoingFrame("marker", marker, self._unreported_losses))
            self._unreported_losses = 0
        while self._events and room > 0:
            data = self._events.popleft()
            self._event_bytes -= len(data)
            room -= len(data)
            self._round.append(_OutgoingFrame("event", data))

    def _put_back(self, frame: _OutgoingFrame) -> None:
        match frame.lane:
            case "control":
                self._control.appendleft(frame.data)
                self._control_bytes += len(frame.data)
                self._excess_bytes += _excess(frame.data)
            case "event":
                self._events.appendleft(frame.data)
                self._event_bytes += len(frame.data)
            case "marker":
                self._unreported_losses += frame.lost


def _event_frame(params: dict[str, Any], payload: Mapping[str, Any] | None, context: Any) -> bytes:
    if context is not None:
        params["context"] = context
    if payload is not None:
        params["payload"] = payload
    return encode_notification(EVENT, params)


def _excess(frame: bytes) -> int:
    return max(0, len(frame) - limits.MAX_RPC_LINE)
