"""Queues before the mailbox: one per session, for commands that wait while an earlier one is being prepared.

Before a command enters the mailbox, extensions may be asked about it, its folder read, or its session loaded. Later
commands of the same session queue up behind it, which preserves the order of arrival.

Rules:
1. Changes of a session proceed in the order of arrival. A read waits only for earlier commands of the same client,
   unless such a command is waiting for a hook: the hook may have asked a person, who must be able to see the question.
   Example: while a hook is asked about client A's prompt, A's second prompt waits, but A's snapshot request does not.
2. Sessions do not wait for each other. A session in which nothing waits has no queue and no overhead.
3. Commands of extensions bypass the queue, and so do those that a hook itself sends: the queue may be waiting for them.
4. All queues together are bounded like the mailbox. Cancellation: when a command leaves, those behind it move up. When
   the service closes, all queued commands are told.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import attrs
import trio

from session_core.errors import Overloaded, ServiceClosed
from session_core.ids import ClientId, SessionId
from session_core.service.extension_api import extension_of
from session_core.vocabulary.commands import CommandRequest

_answering: Final[ContextVar[frozenset[SessionId]]] = ContextVar("_answering", default=frozenset())
"""The sessions whose commands hooks are being asked about, in this task or one that started it."""


def begin_work() -> None:
    """Forget that a hook started this task: independent work queues like any other."""
    _answering.set(frozenset())


@attrs.define(eq=False, slots=True)
class QueuePlace:
    """The place of one command in its session's queue; `number` is its place in the order of all commands."""

    request: CommandRequest
    number: int
    _session_id: SessionId | None
    _queue: "_SessionQueue | None"
    _queues: "SessionQueues"
    _free: trio.Event | None = None

    async def reach_the_front(self) -> None:
        """Wait until no command is ahead of this one; return at once if none is.

        Raises:
            ServiceClosed: The service has closed meanwhile.
        """
        if self._queue is not None and not self._queue.is_at_front(self):
            self._free = trio.Event()
            await self._free.wait()
        self._queues.refuse_if_closed()

    @contextmanager
    def allow_hook_commands(self) -> Generator[None]:
        """Ask hooks within the block: what they send for this session bypasses the queue, and reads stop waiting."""
        if self._queue is not None:
            self._queue.let_readers_pass(self)
        also = {self._session_id} if self._session_id is not None else set[SessionId]()
        token = _answering.set(_answering.get() | also)
        try:
            yield
        finally:
            _answering.reset(token)

    def leave(self) -> None:
        """Leave the queue; those behind move up. The command enters the mailbox in the same step, or has given up."""
        line, self._queue = self._queue, None
        if line is not None:
            self._queues.remove_place(self, line)

    def release(self) -> None:
        """Stop waiting."""
        if self._free is not None:
            self._free.set()


@attrs.define(eq=False, slots=True)
class _SessionQueue:
    """The queued commands of a session, in the order of arrival: all changes, and the commands of each client.

    A change proceeds when it is first in both, a read when it is the first of its client. So when a command leaves,
    only those two can become free, however long the queue is.
    """

    session_id: SessionId
    places: dict[QueuePlace, None] = attrs.field(factory=dict)
    _changes: dict[QueuePlace, None] = attrs.field(factory=dict)
    _by_client: dict[ClientId, dict[QueuePlace, None]] = attrs.field(factory=dict)

    def join(self, place: QueuePlace) -> None:
        self.places[place] = None
        if not place.request.command.reads_only:
            self._changes[place] = None
        self._by_client.setdefault(place.request.client_id, {})[place] = None

    def leave(self, place: QueuePlace) -> None:
        del self.places[place]
        self._changes.pop(place, None)
        self.let_readers_pass(place)
        self._move_up(self._changes)

    def let_readers_pass(self, place: QueuePlace) -> None:
        """Let reads of the same client no longer wait for this command."""
        client_id = place.request.client_id
        own = self._by_client.get(client_id)
        if own is not None and place in own:
            del own[place]
            self._move_up(own)
            if not own:
                del self._by_client[client_id]

    def is_at_front(self, place: QueuePlace) -> bool:
        own = self._by_client.get(place.request.client_id, {})
        is_first = place not in own or next(iter(own)) is place
        return is_first and (place.request.command.reads_only or next(iter(self._changes)) is place)

    def must_wait(self, request: CommandRequest) -> bool:
        return bool(self._by_client.get(request.client_id)) or (bool(self._changes) and not request.command.reads_only)

    def _move_up(self, places: dict[QueuePlace, None]) -> None:
        first = next(iter(places), None)
        if first is not None and self.is_at_front(first):
            first.release()


class SessionQueues:
    """The queues of all sessions.

    Args:
        capacity: Commands that may wait in all queues together.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._queues: dict[SessionId, _SessionQueue] = {}
        self._standing = 0
        self._closed = False

    def must_wait(self, request: CommandRequest) -> bool:
        """Return whether a command must queue behind others."""
        session_id = request.command.session_id
        line = self._queues.get(session_id) if self._queues and session_id is not None else None
        return line is not None and not _may_skip_queue(request, line.session_id) and line.must_wait(request)

    @contextmanager
    def hold_place(self, request: CommandRequest, number: int) -> Generator[QueuePlace]:
        """Hold a place in the queue within the block, or until `QueuePlace.leave`.

        Raises:
            Overloaded: Too many commands wait already.
        """
        session_id = request.command.session_id
        if session_id is None or _may_skip_queue(request, session_id):
            yield QueuePlace(request, number, session_id, None, self)
            return
        if self._standing >= self._capacity:
            msg = f"{self._capacity} commands are waiting already; try again in a moment"
            raise Overloaded(msg)
        line = self._queues.setdefault(session_id, _SessionQueue(session_id))
        place = QueuePlace(request, number, session_id, line, self)
        line.join(place)
        self._standing += 1
        try:
            yield place
        finally:
            place.leave()

    def remove_place(self, place: QueuePlace, line: _SessionQueue) -> None:
        """Remove a place from a queue."""
        line.leave(place)
        self._standing -= 1
        if not line.places:
            del self._queues[line.session_id]

    def waiting_requests(self) -> Iterator[CommandRequest]:
        """Return the queued commands."""
        return (place.request for line in self._queues.values() for place in line.places)

    def close(self) -> None:
        """Tell all queued commands, and all later ones, that the service is closed."""
        self._closed = True
        for line in self._queues.values():
            for place in line.places:
                place.release()

    def refuse_if_closed(self) -> None:
        """Raise `ServiceClosed` once the service is closed."""
        if self._closed:
            msg = "the service was closed before this command ran"
            raise ServiceClosed(msg)


def _may_skip_queue(request: CommandRequest, session_id: SessionId) -> bool:
    return extension_of(request.client_id) is not None or session_id in _answering.get()
