"""What all sessions are doing, one line per change. Pure functions."""

from pathlib import Path

import session_core as sc
from frontends.shared.activity_words import WORDS, paint_activity
from frontends.shared.figures import format_count, local_time
from frontends.shared.home import format_command
from frontends.shared.sanitise import one_line
from frontends.shared.session_lookup import short_ids
from frontends.shared.style import Style

_NAME_CHARS = 60
_WHY_CHARS = 200


class SessionListView:
    """Turns the list of all sessions and its events into lines; `home` is for commands in advice."""

    def __init__(self, style: Style, home: Path | None = None) -> None:
        self._style = style
        self._home = home
        self._session_list: sc.SessionListState | None = None
        self._short: dict[sc.SessionId, str] = {}

    @property
    def at_rest(self) -> bool:
        """Whether nothing is running in any session, and nothing waits to."""
        if self._session_list is None:
            return False
        return all(each.activity.is_at_rest and not each.queued for each in self._session_list.sessions.values())

    def apply_item(self, item: sc.FeedItem, missed: int | None) -> list[str]:
        """Apply a snapshot or an event, and return the lines about it."""
        match item:
            case sc.ServiceSnapshot():
                return self._snapshot(item, missed)
            case sc.SessionEvent() if self._session_list is not None:
                before = None if item.session_id is None else self._session_list.sessions.get(item.session_id)
                said = self._client(item.event) or self._describe_event(item.event, before)
                self._session_list.apply(item)
                return [] if said is None else [self._line(item, before, said)]
            case _:
                return []

    def _snapshot(self, snapshot: sc.ServiceSnapshot, missed: int | None) -> list[str]:
        first, before = self._session_list is None, self._session_list
        self._session_list = sc.SessionListState.from_snapshot(snapshot)
        self._name_all()
        if first:
            busy = [each for each in snapshot.sessions if not each.activity.is_at_rest]
            head = f"Watching {format_count(len(snapshot.sessions), 'session')}, {len(busy)} at work."
            return [self._style.dim(head), *(self._now(each) for each in busy)]
        many = "some events" if missed is None else format_count(missed, "event")
        lines = [self._style.dim(f"(the display fell behind by {many}; continuing from a new snapshot)")]
        known = before.sessions if before is not None else {}
        changed = [
            each for each in snapshot.sessions if _displayed_state(known.get(each.session_id)) != _displayed_state(each)
        ]
        return [*lines, *(self._now(each) for each in changed)]

    def _name_all(self) -> None:
        assert self._session_list is not None
        self._short = dict(short_ids(tuple(self._session_list.sessions.values())))

    def _line(self, event: sc.SessionEvent, before: sc.SessionSummary | None, said: str) -> str:
        assert self._session_list is not None
        time_text = self._style.dim(f"{local_time(event.at):%H:%M:%S}")
        if event.session_id is None:
            return f"{time_text} {said}"
        if event.session_id not in self._short:
            self._name_all()
        summary = self._session_list.sessions.get(event.session_id) or before
        name = "" if summary is None else f' "{one_line(summary.name, _NAME_CHARS)}"'
        short = self._short.get(event.session_id, one_line(event.session_id))
        if isinstance(event.event, sc.events.ApprovalRequested):
            said += f"; answer with: {format_command(self._home, 'run', f'--session {short}')}"
        return f"{time_text} {self._style.cyan(short)}{name} {said}"

    def _now(self, summary: sc.SessionSummary) -> str:
        short = self._style.cyan(self._short[summary.session_id])
        return f'{short} "{one_line(summary.name, _NAME_CHARS)}" {self._format_activity(summary.activity)}'

    def _client(self, event: sc.Event) -> str | None:
        """Describe a client that comes or goes; nameless clients send one request and leave."""
        assert self._session_list is not None
        if isinstance(event, sc.events.ClientAttached) and event.name:
            return self._style.dim(f"{one_line(event.name, _NAME_CHARS)} ({event.kind}) has attached")
        client = (
            self._session_list.clients.get(event.client_id) if isinstance(event, sc.events.ClientDetached) else None
        )
        if client is None or not client.name:
            return None
        return self._style.dim(f"{one_line(client.name, _NAME_CHARS)} ({client.kind}) has left")

    def _describe_event(self, event: sc.Event, before: sc.SessionSummary | None) -> str | None:
        """Describe what has changed; None if the event does not affect the list."""
        match event:
            case sc.events.ActivityChanged(activity=activity):
                return self._format_activity(activity)
            case sc.events.SessionCreated():
                return "was created"
            case sc.events.SessionDeleted():
                return self._style.yellow("was deleted")
            case sc.events.SessionArchived():
                return "was archived"
            case sc.events.SessionRestored():
                return "is back in the list"
            case sc.events.SessionRenamed():
                was = "" if before is None else f' (before: "{one_line(before.name, _NAME_CHARS)}")'
                return f"has a new name{was}"
            case sc.events.MessageQueued():
                return "has a message waiting"
            case sc.events.ApprovalRequested(approval=approval):
                return self._style.yellow(f"asks whether {one_line(approval.tool_name, _NAME_CHARS)} may run")
            case sc.events.StorageStopped(reason=reason):
                return self._style.red(f"the service is read-only: {one_line(reason, _WHY_CHARS)}")
            case _:
                return None

    def _format_activity(self, activity: sc.Activity) -> str:
        why = f": {one_line(activity.message, _WHY_CHARS)}" if activity.message else ""
        return paint_activity(self._style, activity, WORDS[activity.name] + why)


def _displayed_state(summary: sc.SessionSummary | None) -> tuple[object, ...] | None:
    return None if summary is None else (summary.name, summary.activity, summary.archived)
