"""The state of a session as a fold over its events.

Rules:
1. `SessionState.apply` is total: any event on any state gives a state, never an exception. Events that name something
   unknown change nothing.
2. The service, replay and every frontend use the same `apply`, so
   `fold(snapshot, events after its cursor) == a fresh snapshot`.
3. The working state is updated in place, but everything it holds is immutable or persistent. A snapshot therefore only
   copies references: it costs the same for any length of history and never changes afterwards.
4. The state holds only the newest messages (see `message_window`); trimming is part of the fold, so all readers see the
   same window.
"""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import overload

import attrs

from session_core.errors import ProtocolError
from session_core.ids import Cursor, MessageId
from session_core.session.activity import next_activity
from session_core.session.appliers import APPLIERS
from session_core.session.session_list import SessionListState
from session_core.vocabulary.events import DELTA_EVENTS, TRANSIENT_EVENTS, SessionEvent
from session_core.vocabulary.frozen import Rope
from session_core.vocabulary.messages import Message, PartialMessage
from session_core.vocabulary.session_fields import SessionFields
from session_core.vocabulary.snapshots import ServiceSnapshot, SessionSnapshot


@attrs.define(slots=True, eq=False, kw_only=True)
class SessionState(SessionFields):
    """The working form of a `SessionSnapshot`: same fields, updated in place by `apply`."""

    window_bytes: int | None = None
    """The size of all `messages`, counted when the first one is added: most uses of a snapshot never need it."""
    growing: Rope | None = None
    """The text of the last part of `partial`, kept apart because it grows with every delta."""

    def apply(self, envelope: SessionEvent) -> None:
        """Fold one event into the state."""
        event = envelope.event
        applier = APPLIERS.get(type(event))
        if applier is not None:
            applier(self, event, envelope)
        self.sseq = envelope.sseq
        if isinstance(event, DELTA_EVENTS):
            return  # the vast majority of events; they change neither the activity nor the time of the last change
        self.activity = next_activity(
            self.activity, event, open_approvals=len(self.approvals), in_turn=self.turn is not None
        )
        if not isinstance(event, TRANSIENT_EVENTS):
            self.updated_at = envelope.at

    def find_message(self, message_id: MessageId | None) -> Message | None:
        """Look a message up in the window; recent ones are found fastest."""
        return next((each for each in reversed(self.messages) if each.message_id == message_id), None)

    def build_partial(self) -> PartialMessage | None:
        """Return the half-finished message with all of its text."""
        if self.partial is None or self.growing is None:
            return self.partial
        last = attrs.evolve(self.partial.parts[-1], text=self.growing)
        return attrs.evolve(self.partial, parts=(*self.partial.parts[:-1], last))

    def snapshot(self, cursor: Cursor) -> SessionSnapshot:
        """Freeze the state as it is at `cursor`."""
        snapshot = _make_snapshot(cursor, *_get_shared(self))
        if self.growing is not None:
            object.__setattr__(snapshot, "partial", self.build_partial())  # not shared with anybody yet
        return snapshot

    @classmethod
    def from_snapshot(cls, snapshot: SessionSnapshot) -> "SessionState":
        """Make a working state that continues from a snapshot."""
        partial = snapshot.partial
        growing = partial.parts[-1].text if partial is not None and partial.parts else None
        return cls(**dict(zip(_SHARED, _get_shared(snapshot), strict=True)), growing=growing)


_SHARED = tuple(field.name for field in attrs.fields(SessionSnapshot) if field.name != "cursor")
_get_shared = attrgetter(*_SHARED)
_make_snapshot: Callable[..., SessionSnapshot] = SessionSnapshot
"""Takes the cursor and then all shared fields by position; passing them by name would take twice as long."""


@overload
def fold(snapshot: SessionSnapshot, events: Iterable[SessionEvent]) -> SessionSnapshot: ...
@overload
def fold(snapshot: ServiceSnapshot, events: Iterable[SessionEvent]) -> ServiceSnapshot: ...
def fold(
    snapshot: SessionSnapshot | ServiceSnapshot, events: Iterable[SessionEvent]
) -> SessionSnapshot | ServiceSnapshot:
    """Return the snapshot after these events, equal to a fresh one; events it already contains are skipped.

    `events` must come from the stream of the snapshot's cursor: one session's for a `SessionSnapshot`, all for a
    `ServiceSnapshot`. A `SessionSnapshot` ignores events of other sessions.

    Raises:
        ProtocolError: A merged event holds text from before and after the snapshot, which cannot be separated.
    """
    seq = snapshot.cursor.seq
    state: SessionState | SessionListState
    if isinstance(snapshot, SessionSnapshot):
        state = SessionState.from_snapshot(snapshot)
        mine = snapshot.session_id
        events = (event for event in events if event.session_id == mine)
    else:
        state = SessionListState.from_snapshot(snapshot)
    for event in events:
        if event.seq > seq:
            if event.merged > 1 and isinstance(state, SessionState) and event.sseq - event.merged < state.sseq:
                msg = "this merged event began before the snapshot; follow the session from the snapshot's own cursor"
                raise ProtocolError(msg, field="$.merged")
            state.apply(event)
            seq = event.seq
    return state.snapshot(Cursor(epoch=snapshot.cursor.epoch, seq=seq))


@overload
def apply(snapshot: SessionSnapshot, event: SessionEvent) -> SessionSnapshot: ...
@overload
def apply(snapshot: ServiceSnapshot, event: SessionEvent) -> ServiceSnapshot: ...
def apply(snapshot: SessionSnapshot | ServiceSnapshot, event: SessionEvent) -> SessionSnapshot | ServiceSnapshot:
    """Return the snapshot after one more event; pure, and total except for what `fold` refuses."""
    return fold(snapshot, (event,))
