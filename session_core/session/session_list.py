"""The list of all sessions as a fold over the events of all sessions. Total, like the fold of one session.

Rules:
1. The list fits into a line: when its sessions take more than `limits.MAX_LIST_BYTES`, counted by
   `count_summary_bytes`, the least recently used ones leave the list until the rest take seven eighths of that.
   Sessions at work, and those in which a person is asked something, leave last. `earlier` counts the sessions that are
   not listed.
2. A session that has left the list is not listed again before the service is restarted. What happens in it changes
   nothing in the list; when it is deleted, `earlier` goes down.
3. What is listed depends only on what was listed before, never on what else a state knows. So a client, which gets only
   the listed sessions, computes the same list as the service, which goes on knowing all of them.
"""

from collections.abc import Iterable
from typing import Any, Final

from session_core import limits
from session_core.ids import ClientId, Cursor, SessionId
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import TRANSIENT_EVENTS, SessionEvent
from session_core.vocabulary.extensions import ExtensionInfo
from session_core.vocabulary.frozen import evolve_value
from session_core.vocabulary.sessions import IDLE, ClientPresence
from session_core.vocabulary.snapshots import ServiceSnapshot, SessionSummary

_ENVELOPE_BYTES: Final = 1_024
"""A summary without its texts: the names of its fields, its ids and its numbers."""
_LONGEST_SUMMARY: Final = _ENVELOPE_BYTES + 6 * (
    2 * limits.MAX_NAME_CHARS + limits.MAX_PATH_CHARS + limits.MAX_ERROR_CHARS
)


def count_summary_bytes(summary: SessionSummary) -> int:
    """Return how many bytes a summary takes as JSON at most: six for each character (code point) of its texts."""
    chars = len(summary.name) + len(summary.cwd) + len(summary.model) + len(summary.activity.message or "")
    return _ENVELOPE_BYTES + 6 * chars


class SessionListState:
    """The working form of a `ServiceSnapshot`.

    Attributes:
        sessions: All sessions that this state knows, oldest first; a snapshot leaves out the `unlisted` ones.
    """

    __slots__ = ("_listed_bytes", "clients", "earlier", "extensions", "read_only", "sessions", "unlisted")

    def __init__(self) -> None:
        self.sessions: dict[SessionId, SessionSummary] = {}
        self.unlisted: set[SessionId] = set()
        self._listed_bytes: int | None = None  # not counted before there are enough sessions to exceed the bound
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
            self._remove(session_id)
            self.sessions[session_id] = _build_summary(session_id, event, envelope.at)
            self._limit(self.sessions[session_id])
        elif isinstance(event, ev.SessionDeleted):
            if not self._remove(session_id):
                self.earlier = max(0, self.earlier - 1)
        elif session_id in self.sessions:
            before = self.sessions[session_id]
            self.sessions[session_id] = evolve_value(before, updated_at=envelope.at, **_changed_fields(before, event))
            if self._listed_bytes is not None and session_id not in self.unlisted:
                self._listed_bytes -= count_summary_bytes(before)
                self._limit(self.sessions[session_id])

    def load(self, summaries: Iterable[SessionSummary]) -> None:
        """Begin with these sessions, oldest first, and list those for which there is room."""
        self.sessions = {summary.session_id: summary for summary in summaries}
        self._limit()

    def _remove(self, session_id: SessionId) -> bool:
        """Forget a session; return whether it was listed."""
        before = self.sessions.pop(session_id, None)
        if before is None or session_id in self.unlisted:
            self.unlisted.discard(session_id)
            return False
        if self._listed_bytes is not None:
            self._listed_bytes -= count_summary_bytes(before)
        return True

    def _limit(self, added: SessionSummary | None = None) -> None:
        """Count an added session; take some off the list if there is no room for all."""
        if self._listed_bytes is not None and added is not None:
            self._listed_bytes += count_summary_bytes(added)
        if len(self.sessions) - len(self.unlisted) <= limits.MAX_LIST_BYTES // _LONGEST_SUMMARY:
            return
        if self._listed_bytes is None:
            self._listed_bytes = sum(map(count_summary_bytes, self._list()))
        if self._listed_bytes <= limits.MAX_LIST_BYTES:
            return
        for summary in sorted(self._list(), key=_leaving_order):
            if self._listed_bytes <= limits.MAX_LIST_BYTES * 7 // 8:
                break
            self._listed_bytes -= count_summary_bytes(summary)
            self.unlisted.add(summary.session_id)
            self.earlier += 1

    def _list(self) -> tuple[SessionSummary, ...]:
        if not self.unlisted:
            return tuple(self.sessions.values())
        return tuple(each for each in self.sessions.values() if each.session_id not in self.unlisted)

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
            sessions=self._list(),
            clients=tuple(self.clients.values()),
            read_only=self.read_only,
            extensions=tuple(self.extensions.values()),
            earlier=self.earlier,
        )

    @classmethod
    def from_snapshot(cls, snapshot: ServiceSnapshot) -> "SessionListState":
        """Make a working list that continues from a snapshot."""
        state = cls()
        state.clients = {client.client_id: client for client in snapshot.clients}
        state.read_only = snapshot.read_only
        state.earlier = snapshot.earlier
        state.extensions = {(each.name, each.folder): each for each in snapshot.extensions}
        state.load(snapshot.sessions)
        return state


def _leaving_order(summary: SessionSummary) -> tuple[bool, int]:
    """Return the sort key of the sessions that leave the list: the smallest leaves first."""
    return (not summary.activity.is_at_rest or summary.open_requests > 0, summary.updated_at)


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
