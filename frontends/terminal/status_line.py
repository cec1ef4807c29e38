"""The last line: how the terminal is connected, what the viewed session does, with which model, and at what cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
from rich.text import Text
from textual.widgets import Static

import session_core as sc
from frontends.console.figures import dollars
from frontends.console.style import duration
from frontends.terminal.activity_words import colour_of, glyph_of, words_of
from frontends.terminal.cells import width_of
from frontends.terminal.desk import Lag
from frontends.terminal.inert import inert_line
from frontends.terminal.options import NewSession
from frontends.terminal.tier_words import TIERS

if TYPE_CHECKING:
    from frontends.client import ConnectionState

_GAP: Final = "  "
_STATUS_CHARS: Final = 60


@attrs.frozen(kw_only=True)
class Item:
    """Something on the line; those with a higher rank go first when there is no room, `colour` is the theme's."""

    text: str = attrs.field(converter=inert_line)
    rank: int = 0
    colour: str = "text-muted"


class StatusLine(Static):
    """One line of items."""

    DEFAULT_CSS = """
    StatusLine { height: 1; background: $panel; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._drawn: tuple[str, list[Item]] | None = None

    def show(
        self,
        *,
        connection: ConnectionState | None,
        state: sc.SessionState | None,
        fleet: sc.FleetState | None,
        lag: Lag | None,
        now_ms: int,
        failure: str | None = None,
        draft: NewSession | None = None,
        following: bool = True,
    ) -> None:
        """Show what is the case."""
        items = [
            *connection_items(connection, failure),
            *session_items(state, now_ms),
            *setting_items(state, draft),
            *other_items(state, fleet, lag, following=following),
        ]
        kept = kept_within(items, max(20, self.size.width - 2))
        if (self.app.theme, kept) == self._drawn:  # this is asked with every picture
            return
        self._drawn = (self.app.theme, kept)
        line = Text(no_wrap=True, overflow="ellipsis")
        for index, item in enumerate(kept):
            colour = self.app.theme_variables.get(item.colour, "")
            line.append(_GAP if index else "")
            line.append(item.text, style=colour if colour.startswith("#") else "")
        self.update(line, layout=False)


def kept_within(items: list[Item], width: int) -> list[Item]:
    """Leave out the least important items until the rest fits."""
    kept = list(items)
    while len(kept) > 1 and sum(width_of(each.text) + len(_GAP) for each in kept) - len(_GAP) > width:
        kept.remove(max(reversed(kept), key=lambda each: each.rank))
    return kept


def connection_items(connection: ConnectionState | None, failure: str | None) -> list[Item]:
    """Say how the terminal is connected, if not simply so."""
    if failure is not None:
        return [Item(text="✗ no service", colour="error")]
    if connection is None or connection.phase == "connecting":
        return [Item(text="◐ connecting", colour="warning")]
    if connection.phase == "lost":
        return [Item(text=f"✗ connection lost, attempt {connection.attempt}", colour="error")]
    if connection.phase == "ended":
        return [Item(text="✗ the service has ended", colour="error")]
    return [Item(text="◆", colour="success", rank=9)]


def session_items(state: sc.SessionState | None, now_ms: int) -> list[Item]:
    """Say what the viewed session does, for how long, and what waits in it."""
    if state is None:
        return [Item(text="new session")]
    since = "" if state.turn is None else f" {duration(max(0, now_ms - state.turn.started_at))}"
    activity = state.activity
    items = [Item(text=f"{glyph_of(activity)} {words_of(activity, now_ms)}{since}", colour=colour_of(activity))]
    if state.queue:
        items.append(Item(text=f"{len(state.queue)} queued", rank=1, colour="warning"))
    if state.wakeups:
        items.append(Item(text=f"{len(state.wakeups)} scheduled", rank=6))
    said = [display.status for display in state.displays if display.status]
    return items + [Item(text=each[:_STATUS_CHARS], rank=7) for each in said]


def setting_items(state: sc.SessionState | None, draft: NewSession | None) -> list[Item]:
    """Say which model answers, what it may do, and what it has cost."""
    if state is None:
        model = draft.model if draft is not None else None
        tier = draft.tier if draft is not None else None
        return [
            *([Item(text=model, rank=2)] if model else []),
            *([Item(text=TIERS[tier].short, rank=4)] if tier else []),
        ]
    settings, usage = state.settings, state.usage
    thinking = "" if settings.thinking == "off" else f" thinks {settings.thinking}"
    items = [Item(text=f"{settings.model}{thinking}", rank=2)]
    loose = settings.permission_tier == "full"
    items.append(Item(text=TIERS[settings.permission_tier].short, rank=3, colour="warning" if loose else "text-muted"))
    if settings.sandbox.mode == "full_access":
        items.append(Item(text="no sandbox", rank=3, colour="warning"))
    if state.context_tokens:
        items.append(Item(text=f"{thousands(state.context_tokens)} tokens", rank=5))
    if usage.cost_micros:
        items.append(Item(text=("~" if usage.estimated else "") + dollars(usage.cost_micros), rank=4))
    return items


def thousands(count: int) -> str:
    """Return a number as people read it at a glance."""
    if count < 1_000:
        return str(count)
    return f"{count / 1_000:.1f}k" if count < 100_000 else f"{count // 1_000}k"


def other_items(
    state: sc.SessionState | None, fleet: sc.FleetState | None, lag: Lag | None, *, following: bool
) -> list[Item]:
    """Say what goes on elsewhere, and whether this is the newest."""
    items: list[Item] = []
    if fleet is not None:
        if fleet.read_only is not None:
            items.append(Item(text=f"nothing can be changed: {fleet.read_only}", colour="error"))
        mine = None if state is None else state.session_id
        others = [each for each in fleet.sessions.values() if each.session_id != mine and each.parent_id is None]
        asking = sum(each.activity.name == "awaiting_permission" for each in others)
        busy = sum(not each.activity.at_rest for each in others) - asking
        if asking:
            items.append(
                Item(text="? 1 other asks you" if asking == 1 else f"? {asking} others ask you", colour="warning")
            )
        if busy > 0:
            items.append(Item(text=f"{busy} other{'s' if busy > 1 else ''} at work", rank=5))
        watching = sum(1 for each in fleet.clients.values() if each.name)
        if watching > 1:
            items.append(Item(text=f"{watching} watching", rank=8))
    if lag is not None:
        items.append(Item(text=_lagged(lag), rank=1, colour="warning"))
    if not following:
        items.append(Item(text="↓ more below", rank=1, colour="accent"))
    return items


def _lagged(lag: Lag) -> str:
    if lag.waited:
        return "behind, catching up"
    return f"resynced after {lag.missed:,} missed" if lag.missed else "resynced"
