"""The one synchronous step that records an event: stamp, journal, fold, publish. No checkpoint inside."""

from collections.abc import Callable

from session_core.ids import ClientId
from session_core.session.cwd_history import MOVE_EVENTS, CwdHistory
from session_core.session.session_list import SessionListState
from session_core.session.state import SessionState
from session_core.storage.base import SessionStore
from session_core.stream.event_stream import EventStream
from session_core.vocabulary.events import Event, SessionEvent


class EventRecorder:
    """Shared by all sessions of a service; the only writer of the stream, the store and the list of sessions."""

    def __init__(self, stream: EventStream, store: SessionStore, now: Callable[[], int]) -> None:
        self.stream = stream
        self.store = store
        self.session_list = SessionListState()
        self.cwd_history = CwdHistory(self.session_list)
        self.now = now

    def record_event(self, state: SessionState | None, event: Event, by: ClientId | None = None) -> SessionEvent:
        """Record an event of a session, or an app-wide one when there is no state.

        The store comes first: if it refuses, nothing has changed. The folds are total and cannot fail.
        """
        session_id = state.session_id if state is not None else None
        envelope = self.stream.stamp(session_id, event, by=by, recorded_at=self.now())
        self.store.append(envelope)
        if state is not None:
            state.apply(envelope)
            if type(event) in MOVE_EVENTS:
                self.cwd_history.record_move(state.session_id, envelope.seq)
        self.session_list.apply(envelope)
        return self.stream.push(envelope)

    async def wait_until_durable(self, *, with_replies: bool = False) -> None:
        """Wait until everything recorded so far is durable, remembered replies too if asked; return at once if it is.

        Raises:
            StorageFailed: It never will be.
        """
        seq = self.stream.seq
        if with_replies or self.store.durable_seq < seq:
            await self.store.wait_durable(seq)
