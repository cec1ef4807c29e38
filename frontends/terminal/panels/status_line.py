"""The last line: the connection, the viewed session's activity, its model, and the cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
from rich.text import Text
from textual.widgets import Static

import session_core as sc
from frontends.shared.activity_words import describe_activity
from frontends.shared.figures import dollars, duration, format_tokens
from frontends.terminal.feeds import Lag
from frontends.terminal.look.activity_glyphs import GLYPHS, colour_of
from frontends.terminal.look.permission_words import MODES
from frontends.terminal.look.sanitised_text import sanitise_line
from frontends.terminal.look.text_width import width_of
from frontends.terminal.options import NewSession

if TYPE_CHECKING:
    from frontends.client import ConnectionState

_GAP: Final = "  "
_STATUS_CHARS: Final = 60


@attrs.frozen(kw_only=True)
class StatusItem:
    """An item of the line; those with a higher rank are dropped first if room is short. `colour` is a theme colour."""

    text: str = attrs.field(converter=sanitise_line)
    rank: int = 0
    colour: str = "text-muted"


_NO_SANDBOX: Final = StatusItem(text="no sandbox", rank=3, colour="warning")


class StatusLine(Static):
    """One line of items."""

    DEFAULT_CSS = """
    StatusLine { height: 1; background: $panel; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._drawn: tuple[str, list[StatusItem]] | None = None

    def show(
        self,
        *,
        connection: ConnectionState | None,
        state: sc.SessionState | None,
        session_list: sc.SessionListState | None,
        lag: Lag | None,
        now_ms: int,
        failure: str | None = None,
        draft: NewSession | None = None,
        following: bool = True,
    ) -> None:
        """Show the current state."""
        connected = failure is None and connection is not None and connection.phase == "connected"
        items = [
            *connection_items(connection, failure),
            *session_items(state, now_ms, connected=connected),
            *setting_items(state, draft),
            *other_items(state, session_list if connected else None, lag, following=following),
        ]
        visible_items = fit_items(items, max(20, self.size.width - 2))
        if (self.app.theme, visible_items) == self._drawn:  # called with every frame
            return
        self._drawn = (self.app.theme, visible_items)
        line = Text(no_wrap=True, overflow="ellipsis")
        for index, item in enumerate(visible_items):
            colour = self.app.theme_variables.get(item.colour, "")
            line.append(_GAP if index else "")
            line.append(item.text, style=colour if colour.startswith("#") else "")
        self.update(line, layout=False)


def fit_items(items: list[StatusItem], width: int) -> list[StatusItem]:
    """Drop the least important items until the rest fits."""
    remaining = list(items)
    while len(remaining) > 1 and sum(width_of(each.text) + len(_GAP) for each in remaining) - len(_GAP) > width:
        remaining.remove(max(reversed(remaining), key=lambda each: each.rank))
    return remaining


def connection_items(connection: ConnectionState | None, failure: str | None) -> list[StatusItem]:
    """Describe the connection, unless it is normal."""
    if failure is not None:
        return [StatusItem(text="✗ no service", colour="error")]
    if connection is None or connection.phase == "connecting":
        return [StatusItem(text="◐ connecting", colour="warning")]
    if connection.phase == "lost":
        return [StatusItem(text=f"✗ connection lost, attempt {connection.attempt}", colour="error")]
    if connection.phase == "ended":
        return [StatusItem(text="✗ the service has ended", colour="error")]
    return [StatusItem(text="◆", colour="success", rank=9)]


def session_items(state: sc.SessionState | None, now_ms: int, *, connected: bool = True) -> list[StatusItem]:
    """Describe what the viewed session does, for how long, and what waits in it; or did, when it was last seen."""
    if state is None:
        return [StatusItem(text="new session")]
    since = "" if state.turn is None else f" {duration(max(0, now_ms - state.turn.started_at))}"
    activity = state.activity
    doing = describe_activity(activity, now_ms)
    if connected or activity.is_at_rest:
        items = [StatusItem(text=f"{GLYPHS[activity.name]} {doing}{since}", colour=colour_of(activity))]
    else:
        items = [StatusItem(text=f"last seen {doing}")]
    if state.queue:
        items.append(StatusItem(text=f"{len(state.queue)} queued", rank=1, colour="warning"))
    if state.wakeups:
        items.append(StatusItem(text=f"{len(state.wakeups)} scheduled", rank=6))
    said = [display.status for display in state.displays if display.status]
    return items + [StatusItem(text=each[:_STATUS_CHARS], rank=7) for each in said]


def setting_items(state: sc.SessionState | None, draft: NewSession | None) -> list[StatusItem]:
    """Describe the model, the permission mode, and the cost so far."""
    if state is None:
        model = draft.model if draft is not None else None
        mode = draft.mode if draft is not None else None
        return [
            *([StatusItem(text=model, rank=2)] if model else []),
            *([StatusItem(text=MODES[mode].short, rank=4)] if mode else []),
            *([_NO_SANDBOX] if draft is not None and draft.sandbox == "full_access" else []),
        ]
    settings, usage = state.settings, state.usage
    thinking = "" if settings.thinking == "off" else f" thinks {settings.thinking}"
    items = [StatusItem(text=f"{settings.model}{thinking}", rank=2)]
    loose = settings.permission_mode == "full"
    items.append(
        StatusItem(text=MODES[settings.permission_mode].short, rank=3, colour="warning" if loose else "text-muted")
    )
    if settings.sandbox.mode == "full_access":
        items.append(_NO_SANDBOX)
    if state.context_tokens:
        items.append(StatusItem(text=f"{format_tokens(state.context_tokens)} tokens", rank=5))
    if usage.cost_micros:
        items.append(StatusItem(text=("~" if usage.estimated else "") + dollars(usage.cost_micros), rank=4))
    return items


def other_items(
    state: sc.SessionState | None, session_list: sc.SessionListState | None, lag: Lag | None, *, following: bool
) -> list[StatusItem]:
    """Describe what happens in other sessions, and whether the view is up to date."""
    items: list[StatusItem] = []
    if session_list is not None:
        if session_list.read_only is not None:
            items.append(StatusItem(text=f"read-only: {session_list.read_only}", colour="error"))
        mine = None if state is None else state.session_id
        others = [each for each in session_list.sessions.values() if each.session_id != mine and each.parent_id is None]
        asking = sum(each.activity.name == "awaiting_permission" for each in others)
        busy = sum(not each.activity.is_at_rest for each in others) - asking
        if asking:
            items.append(
                StatusItem(text="? 1 other asks you" if asking == 1 else f"? {asking} others ask you", colour="warning")
            )
        if busy > 0:
            items.append(StatusItem(text=f"{busy} other{'s' if busy > 1 else ''} at work", rank=5))
        clients = sum(1 for each in session_list.clients.values() if each.name)
        if clients > 1:  # of the service: which of them looks at this session, nobody is told
            items.append(StatusItem(text=f"{clients} clients connected", rank=8))
    if lag is not None:
        items.append(StatusItem(text=_describe_lag(lag), rank=1, colour="warning"))
    if not following:
        items.append(StatusItem(text="↓ more below", rank=1, colour="accent"))
    return items


def _describe_lag(lag: Lag) -> str:
    if lag.waited:
        return "behind, catching up"
    return f"resynced after {lag.missed:,} missed" if lag.missed else "resynced"
