"""The bookkeeping of one end of a connection, without any I/O.

Rules:
1. Our ids count up from 1 and are never reused; the ids of the other side are its own affair.
2. A request is pending until it is answered, given up, or the connection ends: exactly one of them, exactly once.
3. A reply without a pending request is counted and dropped: `late` if the id was once ours (given up, or already
   answered), `unknown` if not.
4. An unreadable reply fails its request if its id can be seen; an unreadable request is refused the same way. All other
   unreadable lines are counted and dropped.
5. Received lines are parsed in portions, so the caller can do other things in between.
6. All useless input counts as noise until the next useful message; close the connection to an `is_flooded` peer.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import attrs

from session_core import limits
from session_core.rpc import messages
from session_core.rpc.failures import INTERNAL_ERROR, INVALID_REQUEST
from session_core.rpc.line_frames import LineSplitter, OversizedLine
from session_core.rpc.messages import (
    FailureReply,
    Notification,
    Request,
    RpcId,
    RpcMessage,
    SuccessReply,
    UnusableLine,
)

CANCEL = "$/cancel"

_REPLIES = (SuccessReply, FailureReply)

W = TypeVar("W")


class SettledRequest(NamedTuple, Generic[W]):
    """A pending request got its reply; `waiter` is the object passed with it. A tuple, because there are many."""

    waiter: W
    reply: SuccessReply | FailureReply


@attrs.frozen(kw_only=True)
class RefusedRequest:
    """An unusable request; its sender must be told."""

    id: RpcId
    reason: str


@attrs.frozen(kw_only=True)
class RpcStatistics:
    """Counts for people and tests.

    Attributes:
        pending: Requests of ours that wait for a reply.
        blank: Blank lines.
        garbage: Lines that were not messages.
        oversized: Lines that were too long.
        late: Replies to requests of ours that were no longer pending.
        unknown: Replies to requests that we never sent.
    """

    pending: int
    blank: int
    garbage: int
    oversized: int
    late: int
    unknown: int


Incoming = Request | Notification | SettledRequest[W] | RefusedRequest

UnusableHandler = Callable[[bytes, str], object]
"""Gets an unusable line, or the beginning of a long one, and the reason; must not wait."""


def ignore_unusable(_line: bytes, _reason: str) -> None:
    """Ignore an unusable line."""


class RpcPeer(Generic[W]):
    """Our pending requests and their waiters; lines in, messages out.

    Pass bytes to `receive`, then call `take_portion` while `has_unread` is true. With `long_line`, that stops before a
    line longer than this: `long_line` returns it to be parsed elsewhere, and `take_long_line` takes what it was.
    """

    def __init__(
        self,
        *,
        max_line: int = limits.MAX_RPC_LINE,
        long_line: int | None = None,
        handle_unusable: UnusableHandler = ignore_unusable,
    ) -> None:
        self._aside = max_line if long_line is None else long_line
        self._lines = LineSplitter(max_line)
        self._handle_unusable = handle_unusable
        self._unread: deque[bytes | OversizedLine] = deque()
        self._pending: dict[RpcId, W] = {}
        self._last_id = 0
        self._skipped = self._noise = self._blank_before = 0  # at or since the last useful message
        self._garbage = self._oversized = self._late = self._unknown = 0

    @property
    def pending(self) -> int:
        """How many requests wait for their reply."""
        return len(self._pending)

    @property
    def is_flooded(self) -> bool:
        """Whether there was too much noise since the last useful message to expect another one."""
        noise = self._noise + self._lines.blank_bytes - self._blank_before
        skipped = self._skipped + self._lines.skipped_bytes
        return noise > limits.MAX_RPC_NOISE or skipped > limits.MAX_RPC_SKIPPED

    @property
    def has_unread(self) -> bool:
        """Whether there are lines for another portion."""
        return bool(self._unread)

    def request(self, method: str, params: Mapping[str, Any] | None, waiter: W) -> tuple[int, bytes]:
        """Open a request; return its id and the bytes to send.

        Raises:
            InvalidInput: The params have no form in JSON, or are too large; nothing was opened.
        """
        number = self._last_id + 1
        frame = messages.encode_request(number, method, params)
        self._last_id = number
        self._pending[number] = waiter
        return number, frame

    def give_up(self, id: int) -> bytes | None:
        """Stop waiting for a reply; return the bytes to send, or None if the request is not pending."""
        if id not in self._pending:
            return None
        del self._pending[id]
        return messages.encode_notification(CANCEL, {"id": id})

    def close(self) -> list[W]:
        """Forget all pending requests and return their waiters."""
        waiters = list(self._pending.values())
        self._pending.clear()
        return waiters

    def receive(self, data: bytes) -> None:
        """Take the next bytes."""
        self._unread.extend(self._lines.feed(data))

    def finish(self) -> None:
        """Take a last line without an end: no more bytes will come."""
        self._unread.extend(self._lines.finish())

    def take_portion(self) -> list[Incoming[W]]:
        """Parse the next few lines, in order; few enough to take only a moment."""
        found: list[Incoming[W]] = []
        item: Incoming[W] | None
        unread, room = self._unread, limits.RPC_PORTION_BYTES
        for _ in range(min(len(unread), limits.RPC_PORTION_LINES)):
            line = unread.popleft()
            if type(line) is bytes:
                if len(line) > self._aside:
                    unread.appendleft(line)
                    break
                room -= len(line)
                item = self._understand(line)
            else:
                assert isinstance(line, OversizedLine)
                room -= len(line.head)
                item = self._handle_oversized(line)
            if item is not None:
                found.append(item)
            if room <= 0:
                break
        return found

    @property
    def long_line(self) -> bytes | None:
        """The next line, if it takes long to parse."""
        line = self._unread[0] if self._unread else None
        return line if type(line) is bytes and len(line) > self._aside else None

    def take_long_line(self, message: RpcMessage) -> list[Incoming[W]]:
        """Take the long line, which was parsed elsewhere."""
        line = self._unread.popleft()
        assert type(line) is bytes
        item = self._settle(line, message)
        return [item] if item is not None else []

    def statistics(self) -> RpcStatistics:
        """Return the current counts."""
        return RpcStatistics(
            pending=len(self._pending),
            blank=self._lines.blank,
            garbage=self._garbage,
            oversized=self._oversized,
            late=self._late,
            unknown=self._unknown,
        )

    def _understand(self, line: bytes) -> Incoming[W] | None:
        return self._settle(line, messages.parse(line))

    def _settle(self, line: bytes, message: RpcMessage) -> Incoming[W] | None:
        if isinstance(message, _REPLIES):
            if message.id in self._pending:
                self._reset_noise()
                return SettledRequest(self._pending.pop(message.id), message)
            self._count_useless(message)
            return None
        if isinstance(message, UnusableLine):
            return self._handle_unusable_line(line, message)
        self._reset_noise()
        return message

    def _reset_noise(self) -> None:
        self._skipped = self._noise = 0
        self._blank_before = self._lines.blank_bytes

    def _count_useless(self, reply: SuccessReply | FailureReply) -> None:
        # Not its bytes: the peer is not to blame for a large reply if it learned too late that the reply is not wanted.
        self._noise += limits.RPC_NOISE_LINE
        if isinstance(reply.id, int) and 1 <= reply.id <= self._last_id:
            self._late += 1
        else:
            self._unknown += 1

    def _handle_oversized(self, line: OversizedLine) -> SettledRequest[W] | RefusedRequest | None:
        self._oversized += 1
        self._skipped += line.size
        reason = f"the message is too large: {line.size:,} bytes"
        return self._settle_unusable(line.head, messages.describe_broken_line(line.head, reason))

    def _handle_unusable_line(self, line: bytes, found: UnusableLine) -> SettledRequest[W] | RefusedRequest | None:
        if found.oversized:
            self._oversized += 1
            self._skipped += len(line)
            return self._settle_unusable(line[: limits.RPC_HEAD_BYTES], found)
        self._garbage += 1
        self._noise += len(line) + limits.RPC_NOISE_LINE
        return self._settle_unusable(line[: limits.RPC_HEAD_BYTES], found)

    def _settle_unusable(self, head: bytes, found: UnusableLine) -> SettledRequest[W] | RefusedRequest | None:
        """Report an unusable line, and find the request to settle or refuse because of it."""
        self._handle_unusable(head, found.reason)
        if found.id is not None and found.kind == "request":
            return RefusedRequest(id=found.id, reason=found.reason)
        if found.kind == "reply" and found.id in self._pending:
            said = f"the answer cannot be used: {found.reason}"
            failure = FailureReply(id=found.id, code=INTERNAL_ERROR, message=said)
            return SettledRequest(waiter=self._pending.pop(found.id), reply=failure)
        return None


def encode_refusal(refused: RefusedRequest) -> bytes:
    """Encode the answer to an unusable request."""
    return messages.encode_failure(refused.id, INVALID_REQUEST, refused.reason)
