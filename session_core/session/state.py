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

from collections.abc import Iterable
from typing import overload

import attrs

from session_core.errors import ProtocolError
from session_core.ids import Cursor, MessageId, SessionId
from session_core.session.activity import next_activity
from session_core.session.appliers import APPLIERS
from session_core.session.session_list import SessionListState
from session_core.vocabulary.events import DELTA_EVENTS, TRANSIENT_EVENTS, SessionEvent
from session_core.vocabulary.extensions import ExtensionDisplay, ExtensionEntry
from session_core.vocabulary.frozen import Rope, Vector
from session_core.vocabulary.messages import LiveTool, Message, PartialMessage, Usage
from session_core.vocabulary.protocols import ExecutorPoint, ExecutorState, Frame, ProtocolRecord
from session_core.vocabulary.sessions import (
    IDLE,
    Activity,
    Approval,
    Dialog,
    ForkOrigin,
    PlanItem,
    QueueItem,
    RunningTurn,
    Settings,
    StopRequest,
    TurnOutcome,
    UsageLine,
    Wakeup,
)
from session_core.vocabulary.snapshots import ServiceSnapshot, SessionSnapshot, path_to


@attrs.define(slots=True, eq=False, kw_only=True)
class SessionState:
    """The working form of a `SessionSnapshot`: same fields, updated in place by `apply`."""

    session_id: SessionId
    sseq: int = 0
    name: str = ""
    created_at: int = 0
    updated_at: int = 0
    archived: bool = False
    deleted: bool = False
    parent_id: SessionId | None = None
    forked_from: ForkOrigin | None = None
    settings: Settings = Settings(model="", cwd="")
    activity: Activity = IDLE
    messages: Vector[Message] = attrs.field(factory=Vector[Message])
    earlier: int = 0
    window_chars: int | None = None
    """The size of all `messages`, counted when the first one is added: most uses of a snapshot never need it."""
    head: MessageId | None = None
    partial: PartialMessage | None = None
    growing: Rope | None = None
    """The text of the last part of `partial`, kept apart because it grows with every delta."""
    tools: tuple[LiveTool, ...] = ()
    turn: RunningTurn | None = None
    last_outcome: TurnOutcome | None = None
    stop: StopRequest | None = None
    queue: tuple[QueueItem, ...] = ()
    approvals: tuple[Approval, ...] = ()
    dialogs: tuple[Dialog, ...] = ()
    grants: tuple[str, ...] = ()
    wakeups: tuple[Wakeup, ...] = ()
    usage: Usage = Usage()
    usage_by: tuple[UsageLine, ...] = ()
    context_tokens: int = 0
    plan: tuple[PlanItem, ...] = ()
    displays: tuple[ExtensionDisplay, ...] = ()
    entries: tuple[ExtensionEntry, ...] = ()
    protocol: ProtocolRecord = ProtocolRecord()
    frames: tuple[Frame, ...] = ()
    frame_id: str | None = None
    executor: ExecutorState | None = None
    executor_points: tuple[ExecutorPoint, ...] = ()
    executor_lost: bool = False

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

    @property
    def transcript(self) -> tuple[Message, ...]:
        """The messages from the root to the head, oldest first, as far back as the window reaches.

        Use `load_messages` for earlier ones. Empty if the head itself is one of them.
        """
        return path_to(self.messages, self.head)

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
        return SessionSnapshot(
            session_id=self.session_id,
            cursor=cursor,
            sseq=self.sseq,
            name=self.name,
            created_at=self.created_at,
            updated_at=self.updated_at,
            archived=self.archived,
            deleted=self.deleted,
            parent_id=self.parent_id,
            forked_from=self.forked_from,
            settings=self.settings,
            activity=self.activity,
            messages=self.messages,
            earlier=self.earlier,
            head=self.head,
            partial=self.build_partial(),
            tools=self.tools,
            turn=self.turn,
            last_outcome=self.last_outcome,
            stop=self.stop,
            queue=self.queue,
            approvals=self.approvals,
            dialogs=self.dialogs,
            grants=self.grants,
            wakeups=self.wakeups,
            usage=self.usage,
            usage_by=self.usage_by,
            context_tokens=self.context_tokens,
            plan=self.plan,
            displays=self.displays,
            entries=self.entries,
            protocol=self.protocol,
            frames=self.frames,
            frame_id=self.frame_id,
            executor=self.executor,
            executor_points=self.executor_points,
            executor_lost=self.executor_lost,
        )

    @classmethod
    def from_snapshot(cls, snapshot: SessionSnapshot) -> "SessionState":
        """Make a working state that continues from a snapshot."""
        fields = {name: getattr(snapshot, name) for name in _SHARED_FIELDS}
        partial = snapshot.partial
        growing = partial.parts[-1].text if partial is not None and partial.parts else None
        return cls(**fields, growing=growing)


_SHARED_FIELDS = tuple(
    field.name for field in attrs.fields(SessionSnapshot) if field.name in attrs.fields_dict(SessionState)
)


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
