"""Lines before the mailbox: what the commands of one session wait in, when one of them has to wait before it is sent.

Extensions are asked about a command, a folder is read, or a session is brought into memory before its command goes into
the mailbox. Whatever comes meanwhile for the same session stands in line behind it, so that the order of arrival stays.

Rules:
1. Changes of a session go on in the order in which they came. Whoever only reads waits for what the same client has
   sent before, and for nobody else; nor for a command that a hook is asked about: the hook may have asked people, and
   who is to answer must be able to see the question.
2. Sessions do not wait for each other, and while nobody waits in a session there is no line, and nothing to be done.
3. What extensions send passes the line, and so does what a hook itself sends: the line may be waiting for just that.
4. All lines together are bounded like the mailbox. Cancellation: whoever leaves lets those behind move up. When the
   service closes, all who stand in line are told.
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
"""The sessions about whose commands hooks are being asked, in this task or one that began it."""


def begin_work() -> None:
    """Forget in this task that a hook began it: work that goes on by itself stands in line like everybody."""
    _answering.set(frozenset())


@attrs.define(eq=False, slots=True)
class QueuePlace:
    """The place of one command in the line of its session; `number` is its place in the order of all commands."""

    request: CommandRequest
    number: int
    _session_id: SessionId | None
    _queue: "_SessionQueue | None"
    _queues: "SessionQueues"
    _free: trio.Event | None = None

    async def reach_the_front(self) -> None:
        """Wait until nobody is before this one; does not wait at all if that is so.

        Raises:
            ServiceClosed: The service has closed meanwhile.
        """
        if self._queue is not None and not self._queue.is_at_front(self):
            self._free = trio.Event()
            await self._free.wait()
        self._queues.refuse_if_closed()

    @contextmanager
    def allow_hook_commands(self) -> Generator[None]:
        """Have hooks asked about the command within the block; what they send for its session passes the line."""
        if self._queue is not None:
            self._queue.let_readers_pass(self)
        also = {self._session_id} if self._session_id is not None else set[SessionId]()
        token = _answering.set(_answering.get() | also)
        try:
            yield
        finally:
            _answering.reset(token)

    def leave(self) -> None:
        """Let those behind move up, as this one goes into the mailbox in this very step, or has given up."""
        line, self._queue = self._queue, None
        if line is not None:
            self._queues.remove_place(self, line)

    def release(self) -> None:
        """Wait no longer."""
        if self._free is not None:
            self._free.set()


@attrs.define(eq=False, slots=True)
class _SessionQueue:
    """Those who stand in line for a session, in the order of arrival: all changes, and what each client has sent.

    A change goes on when it is the first of both, a reader when it is the first of its client; so only those two can be
    free when somebody leaves, however long the line is.
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
        """Let what the same client reads wait for this one no more."""
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
    """The lines of all sessions.

    Args:
        capacity: Commands that may stand in them altogether.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._queues: dict[SessionId, _SessionQueue] = {}
        self._standing = 0
        self._closed = False

    def must_wait(self, request: CommandRequest) -> bool:
        """Tell whether a command has to stand in line, because of those who do already."""
        session_id: SessionId | None = getattr(request.command, "session_id", None)
        line = self._queues.get(session_id) if self._queues and session_id is not None else None
        return line is not None and not _may_skip_queue(request, line.session_id) and line.must_wait(request)

    @contextmanager
    def hold_place(self, request: CommandRequest, number: int) -> Generator[QueuePlace]:
        """Stand in line for the length of the block, or until `Place.leave`.

        Raises:
            Overloaded: Too many do already.
        """
        session_id: SessionId | None = getattr(request.command, "session_id", None)
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
        """Take somebody out of a line."""
        line.leave(place)
        self._standing -= 1
        if not line.places:
            del self._queues[line.session_id]

    def waiting_requests(self) -> Iterator[CommandRequest]:
        """Look at those who stand in line."""
        return (place.request for line in self._queues.values() for place in line.places)

    def close(self) -> None:
        """Tell all who stand in line, and whoever comes later, that the service is closed."""
        self._closed = True
        for line in self._queues.values():
            for place in line.places:
                place.release()

    def refuse_if_closed(self) -> None:
        """Let nobody on any more once the service is closed."""
        if self._closed:
            msg = "the service was closed before this command ran"
            raise ServiceClosed(msg)


def _may_skip_queue(request: CommandRequest, session_id: SessionId) -> bool:
    return extension_of(request.client_id) is not None or session_id in _answering.get()
