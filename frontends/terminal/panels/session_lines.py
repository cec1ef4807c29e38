"""The lines of the session list as values: they hold everything that is drawn, so equal lines are drawn once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import attrs
from rich.text import Text

import session_core as sc
from frontends.shared.figures import format_ago, format_count, format_path
from frontends.terminal.look.activity_glyphs import GLYPHS, colour_of, describe_activity_briefly
from frontends.terminal.look.sanitised_text import sanitise_line
from frontends.terminal.look.text_width import cut_start
from frontends.terminal.panels.session_order import FamilyRow, FolderRows

WIDTH: Final = 34
"""The width of the list in cells."""
MOST_ROWS: Final = 300
"""The most sessions listed; `/` finds the rest."""
_FRAME: Final = 2
"""Cells taken by the border and the scrollbar."""
NAME_CHARS: Final = 200
_FOLDER_CHARS: Final = 1_000
_MARGIN: Final = 4
"""Cells before the second line of a session, to align it with the name."""


@attrs.frozen(kw_only=True)
class SidebarHeading:
    """The folder of the sessions below, or a remark."""

    text: str
    dim: bool = False


@attrs.frozen(kw_only=True)
class SessionLine:
    """One session; `colour` is a theme colour's name, `about` what the session does and what waits in it."""

    session_id: sc.SessionId
    name: str
    glyph: str
    colour: str
    about: str
    depth: int = 0
    viewed: bool = False
    unread: bool = False


Line = SidebarHeading | SessionLine


class SessionLines:
    """Builds the lines, reusing earlier ones while they would be the same."""

    def __init__(self) -> None:
        self._made: dict[sc.SessionId, tuple[tuple[object, ...], SessionLine]] = {}

    def build_lines(
        self,
        folders: Sequence[FolderRows],
        *,
        viewed: sc.SessionId | None,
        unread: Collection[sc.SessionId],
        now_ms: int,
    ) -> list[Line]:
        """Return the lines of these sessions, at most `MOST_ROWS` plus one that counts the rest."""
        lines: list[Line] = []
        before, self._made = self._made, {}
        remaining = sum(len(each.rows) for each in folders)
        for folder in folders:
            if len(lines) + 1 >= MOST_ROWS:
                break
            path = sanitise_line(format_path(folder.folder), _FOLDER_CHARS)
            lines.append(SidebarHeading(text=cut_start(path, WIDTH - _FRAME)))
            visible_rows = folder.rows[: MOST_ROWS - len(lines)]
            remaining -= len(visible_rows)
            for row in visible_rows:
                summary = row.summary
                session_id = summary.session_id
                key = (summary, row.depth, session_id == viewed, session_id in unread, _moment(summary, now_ms))
                made = before.get(session_id)
                if made is None or made[0] != key:
                    made = (key, session_line(row, viewed=viewed, unread=unread, now_ms=now_ms))
                self._made[session_id] = made
                lines.append(made[1])
        if remaining:
            lines.append(SidebarHeading(text=f"{remaining} more; / finds them", dim=True))
        return lines


def _moment(summary: sc.SessionSummary, now_ms: int) -> int:
    """Return the time, rounded to the precision shown."""
    match summary.activity.name:
        case "idle":
            return (now_ms - summary.updated_at) // 60_000
        case "rate_limited":
            return now_ms // 1_000
        case _:
            return 0


def session_line(
    row: FamilyRow, *, viewed: sc.SessionId | None, unread: Collection[sc.SessionId], now_ms: int
) -> SessionLine:
    """Return the line of a session."""
    summary = row.summary
    return SessionLine(
        session_id=summary.session_id,
        name=sanitise_line(summary.name, NAME_CHARS) or "new session",
        glyph=GLYPHS[summary.activity.name],
        colour=colour_of(summary.activity),
        about=describe_session(summary, now_ms, unread=summary.session_id in unread),
        depth=row.depth,
        viewed=summary.session_id == viewed,
        unread=summary.session_id in unread,
    )


def describe_session(summary: sc.SessionSummary, now_ms: int, *, unread: bool = False) -> str:
    """Describe what a session does, or since when it has been idle, and what waits in it."""
    activity = summary.activity
    parts = [describe_activity_briefly(activity, now_ms)]
    if activity.name == "idle":
        parts = [*(["done"] if unread else []), format_ago(summary.updated_at, now_ms)]
    if summary.open_requests > (activity.name == "awaiting_permission"):
        parts.append(format_count(summary.open_requests, "question"))
    if summary.queued:
        parts.append(f"{summary.queued} queued")
    if summary.wakeups:
        parts.append(f"{summary.wakeups} scheduled")
    return ", ".join(parts)


def draw_line(line: Line, colours: Mapping[str, str]) -> Text:
    """Draw a line; `colours` are the theme's."""
    if isinstance(line, SidebarHeading):
        return Text(line.text, "dim" if line.dim else "bold", no_wrap=True, overflow="ellipsis")
    colour = colours.get(line.colour, "")
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append("▸ " if line.viewed else "* " if line.unread else "  ")
    text.append("  " * line.depth)
    text.append(f"{line.glyph} ", colour if colour.startswith("#") else "")
    text.append(line.name, "bold" if line.viewed or line.unread else "")
    text.append("\n" + " " * _MARGIN + "  " * line.depth)
    text.append(line.about, "dim")
    return text
