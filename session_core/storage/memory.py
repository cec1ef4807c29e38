"""A store that lives as long as the process: for tests, scripts and demos."""

import trio

from session_core.ids import SessionId
from session_core.vocabulary.events import PASSING, SessionEvent


class MemoryStore:
    """Keeps every durable event in a list per session; an event is as durable as it gets when it is handed over."""

    def __init__(self) -> None:
        self.durable_seq = 0
        self._events: dict[SessionId, list[SessionEvent]] = {}

    def append(self, event: SessionEvent) -> None:
        """Take an event over."""
        self.durable_seq = event.seq
        if event.session_id is not None and not isinstance(event.event, PASSING):
            self._events.setdefault(event.session_id, []).append(event)

    async def wait_durable(self, seq: int) -> None:
        """Return at once."""
        await trio.lowlevel.checkpoint()

    def events_of(self, session_id: SessionId) -> tuple[SessionEvent, ...]:
        """Return the kept events of a session, oldest first."""
        return tuple(self._events.get(session_id, ()))

    def forget(self, session_id: SessionId) -> None:
        """Remove a session's events."""
        self._events.pop(session_id, None)
