"""The list of all sessions as a fold over the events of all sessions. Total, like the fold of one session."""

from typing import Any

from session_core.ids import ClientId, Cursor, SessionId
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import TRANSIENT_EVENTS, SessionEvent
from session_core.vocabulary.extensions import ExtensionInfo
from session_core.vocabulary.frozen import evolve_value
from session_core.vocabulary.sessions import IDLE, ClientPresence
from session_core.vocabulary.snapshots import ServiceSnapshot, SessionSummary


class SessionListState:
    """The working form of a `ServiceSnapshot`."""

    __slots__ = ("clients", "earlier", "extensions", "read_only", "sessions")

    def __init__(self) -> None:
        self.sessions: dict[SessionId, SessionSummary] = {}
        self.clients: dict[ClientId, ClientPresence] = {}
        self.read_only: str | None = None
        self.earlier = 0
        self.extensions: dict[tuple[str, str | None], ExtensionInfo] = {}

    def apply(self, envelope: SessionEvent) -> None:
        """Fold one event of any session into the list."""
        event, session_id = envelope.event, envelope.session_id
        if isinstance(event, TRANSIENT_EVENTS):
            return
        if session_id is None:
            self._apply_app_wide(event)
        elif isinstance(event, ev.SessionCreated):
            self.sessions[session_id] = _build_summary(session_id, event, envelope.at)
        elif isinstance(event, ev.SessionDeleted):
            if self.sessions.pop(session_id, None) is None:
                self.earlier = max(0, self.earlier - 1)
        elif session_id in self.sessions:
            before = self.sessions[session_id]
            self.sessions[session_id] = evolve_value(before, updated_at=envelope.at, **_changed_fields(before, event))

    def _apply_app_wide(self, event: ev.Event) -> None:
        if isinstance(event, ev.ClientAttached):
            self.clients[event.client_id] = ClientPresence(
                client_id=event.client_id, role=event.role, ui=event.ui, name=event.name, kind=event.kind
            )
        elif isinstance(event, ev.ClientDetached):
            self.clients.pop(event.client_id, None)
        elif isinstance(event, ev.StorageStopped):
            self.read_only = event.reason
        elif isinstance(event, ev.ExtensionChanged):
            self.extensions[event.extension.name, event.extension.folder] = event.extension
        elif isinstance(event, ev.ExtensionRemoved):
            self.extensions.pop((event.name, event.folder), None)

    def snapshot(self, cursor: Cursor) -> ServiceSnapshot:
        """Freeze the list as it is at `cursor`."""
        return ServiceSnapshot(
            cursor=cursor,
            sessions=tuple(self.sessions.values()),
            clients=tuple(self.clients.values()),
            read_only=self.read_only,
            extensions=tuple(self.extensions.values()),
            earlier=self.earlier,
        )

    @classmethod
    def from_snapshot(cls, snapshot: ServiceSnapshot) -> "SessionListState":
        """Make a working list that continues from a snapshot."""
        state = cls()
        state.sessions = {summary.session_id: summary for summary in snapshot.sessions}
        state.clients = {client.client_id: client for client in snapshot.clients}
        state.read_only = snapshot.read_only
        state.earlier = snapshot.earlier
        state.extensions = {(each.name, each.folder): each for each in snapshot.extensions}
        return state


def _build_summary(session_id: SessionId, event: ev.SessionCreated, created_at: int) -> SessionSummary:
    return SessionSummary(
        session_id=session_id,
        name=event.name,
        created_at=created_at,
        updated_at=created_at,
        archived=False,
        parent_id=event.parent_id,
        cwd=event.settings.cwd,
        model=event.settings.model,
        activity=IDLE,
    )


def _changed_fields(before: SessionSummary, event: ev.Event) -> dict[str, Any]:
    """Return the fields of a summary that an event changes."""
    match event:
        case ev.SessionRenamed(name=name):
            return {"name": name}
        case ev.SessionArchived():
            return {"archived": True}
        case ev.SessionRestored():
            return {"archived": False}
        case ev.ModelSwitched(model=model):
            return {"model": model}
        case ev.WorkingDirectoryChanged(cwd=cwd):
            return {"cwd": cwd}
        case ev.ActivityChanged(activity=activity):
            return {"activity": activity}
        case ev.MessageQueued():
            return {"queued": before.queued + 1}
        case ev.QueueItemRemoved():
            return {"queued": max(0, before.queued - 1)}
        case ev.MessageAdded(queue_item_id=str()):
            return {"queued": max(0, before.queued - 1)}
        case ev.WakeupScheduled():
            return {"wakeups": before.wakeups + 1}
        case ev.WakeupCancelled() | ev.WakeupFired():
            return {"wakeups": max(0, before.wakeups - 1)}
        case ev.ApprovalRequested() | ev.DialogOpened():
            return {"open_requests": before.open_requests + 1}
        case ev.ApprovalResolved() | ev.DialogClosed():
            return {"open_requests": max(0, before.open_requests - 1)}
        case _:
            return {}
