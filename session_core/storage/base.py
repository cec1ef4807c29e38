"""What the service needs of a store. Handing an event over never waits; knowing that it is durable may."""

from typing import Protocol

from session_core.ids import SessionId
from session_core.vocabulary.events import SessionEvent


class SessionStore(Protocol):
    """An append-only journal of events per session."""

    @property
    def durable_seq(self) -> int:
        """The global number of the last event that will survive anything."""
        ...

    def append(self, event: SessionEvent) -> None:
        """Take an event over, in order, without waiting. Passing events need not be kept."""
        ...

    async def wait_durable(self, seq: int) -> None:
        """Wait until the event `seq` and all before it are durable."""
        ...

    def events_of(self, session_id: SessionId) -> tuple[SessionEvent, ...]:
        """Return the kept events of a session, oldest first."""
        ...

    def forget(self, session_id: SessionId) -> None:
        """Remove a deleted session and all its events."""
        ...
