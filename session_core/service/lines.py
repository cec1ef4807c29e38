"""Lines before the mailbox: what the commands of one session wait in, when one of them has to wait before it is sent.

Extensions are asked about a command, a folder is read, or a session is brought into memory before its command goes into
the mailbox. Whatever comes meanwhile for the same session stands in line behind it, so that the order of arrival stays.

Rules:
1. Changes of a session go on in the order in which they came. Whoever only reads waits for what the same client has
   sent before, and for nobody else: else nobody could look at a session while an extension thinks about a message.
2. Sessions do not wait for each other, and while nobody waits in a session there is no line, and nothing to be done.
3. What extensions send passes the line, and so does what a hook itself sends: the line may be waiting for just that.
4. All lines together are bounded like the mailbox. Cancellation: whoever leaves lets those behind move up.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import attrs
import trio

from session_core.errors import Overloaded
from session_core.ids import SessionId
from session_core.service.extensions_seam import extension_of
from session_core.vocabulary.commands import CommandRequest

_answering: Final[ContextVar[SessionId | None]] = ContextVar("_answering", default=None)
"""The session about whose command a hook is being asked, in this task or one that began it."""


@contextmanager
def answering(session_id: SessionId | None) -> Generator[None]:
    """Let whatever is sent for a session within the block pass its line."""
    token = _answering.set(session_id)
    try:
        yield
    finally:
        _answering.reset(token)


@attrs.define(eq=False, slots=True)
class Place:
    """The place of one command in the line of its session; `number` is its place in the order of all commands."""

    request: CommandRequest
    number: int
    session_id: SessionId | None
    _line: "list[Place] | None"
    _lines: "Lines"
    _free: trio.Event | None = None

    async def reach_the_front(self) -> None:
        """Wait until nobody is before this one; does not wait at all if that is so."""
        if self._line is not None and _is_held_up(self.request, self._line, before=self):
            self._free = trio.Event()
            await self._free.wait()

    def leave(self) -> None:
        """Let those behind move up, as this one goes into the mailbox in this very step, or has given up."""
        line, self._line = self._line, None
        if line is not None:
            self._lines.left(self, line)

    def move_up(self, line: "list[Place]") -> None:
        """Go on if nobody is before this one any more."""
        if self._free is not None and not _is_held_up(self.request, line, before=self):
            self._free.set()


class Lines:
    """The lines of all sessions.

    Args:
        capacity: Commands that may stand in them altogether.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lines: dict[SessionId, list[Place]] = {}
        self._standing = 0

    def hold_up(self, request: CommandRequest) -> bool:
        """Tell whether a command has to stand in line, because of those who do already."""
        session_id: SessionId | None = getattr(request.command, "session_id", None)
        line = self._lines.get(session_id) if self._lines and session_id is not None else None
        return line is not None and not _passes(request, session_id) and _is_held_up(request, line)

    @contextmanager
    def joined(self, request: CommandRequest, number: int) -> Generator[Place]:
        """Stand in line for the length of the block, or until `Place.leave`.

        Raises:
            Overloaded: Too many do already.
        """
        session_id: SessionId | None = getattr(request.command, "session_id", None)
        if session_id is None or _passes(request, session_id):
            yield Place(request, number, session_id, None, self)
            return
        if self._standing >= self._capacity:
            msg = f"{self._capacity} commands are waiting already; try again in a moment"
            raise Overloaded(msg)
        line = self._lines.setdefault(session_id, [])
        place = Place(request, number, session_id, line, self)
        line.append(place)
        self._standing += 1
        try:
            yield place
        finally:
            place.leave()

    def left(self, place: Place, line: list[Place]) -> None:
        """Take somebody out of a line."""
        line.remove(place)
        self._standing -= 1
        for each in line:
            each.move_up(line)
        if not line and place.session_id is not None:
            del self._lines[place.session_id]

    def waiting(self) -> Iterator[CommandRequest]:
        """Look at those who stand in line."""
        return (place.request for line in self._lines.values() for place in line)


def _passes(request: CommandRequest, session_id: SessionId | None) -> bool:
    return extension_of(request.client_id) is not None or _answering.get() == session_id


def _is_held_up(request: CommandRequest, line: list[Place], *, before: Place | None = None) -> bool:
    reads = request.command.reads_only
    for place in line:
        if place is before:
            return False
        if place.request.client_id == request.client_id or not (reads or place.request.command.reads_only):
            return True
    return False
