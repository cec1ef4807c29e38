"""The session list at the side: the live activity of each session, and the actions on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, Literal

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

import session_core as sc
from frontends.terminal.panels.panel import ThemedWidget
from frontends.terminal.panels.session_lines import WIDTH, Line, SessionLines, SidebarHeading, draw_line
from frontends.terminal.panels.session_order import FolderRows, group_by_folder, matches_words

SidebarAction = Literal["view", "rename", "archive", "delete", "stop", "stop_subtree"]

KEYS: Final[tuple[tuple[str, str], ...]] = (
    ("Up / Down", "choose a session"),
    ("Enter", "view it"),
    ("s / S", "stop its turn / with its subagents"),
    ("r", "rename it"),
    ("a", "archive it"),
    ("d", "delete it"),
    ("n", "begin a new one"),
    ("/", "search by name, folder or id"),
)


class SessionList(OptionList):
    """The list itself.

    Attributes:
        near: Where to continue if the marked session is gone.
    """

    near: int | None = None

    def action_cursor_down(self) -> None:
        """Mark the next session."""
        if not self._mark_near():
            super().action_cursor_down()

    def action_cursor_up(self) -> None:
        """Mark the previous session."""
        if not self._mark_near():
            super().action_cursor_up()

    def _mark_near(self) -> bool:
        near, self.near = self.near, None
        there = [index for index in range(self.option_count) if not self.get_option_at_index(index).disabled]
        if near is None or self.highlighted is not None or not there:
            return False
        self.highlighted = min(there, key=lambda index: abs(index - near))
        return True

    def redraw(self, index: int, prompt: Text) -> None:
        """Redraw one row with an unchanged number of lines; Textual's own method would measure all rows again."""
        self.get_option_at_index(index)._set_prompt(prompt)  # noqa: SLF001 - see above
        self._option_render_cache.clear()
        self.refresh()


class Sidebar(ThemedWidget, Vertical):
    """The sessions by folder, subagents beneath their parents.

    Attributes:
        order: The sessions from top to bottom, without subagents: those that keys switch between.
    """

    DEFAULT_CSS = f"""
    Sidebar {{ width: {WIDTH}; height: 1fr; border-right: solid $panel; }}
    Sidebar OptionList {{ height: 1fr; border: none; padding: 0; background: $background; scrollbar-size-vertical: 1;
                          text-wrap: nowrap; text-overflow: ellipsis; }}
    Sidebar OptionList:focus {{ border: none; }}
    Sidebar OptionList > .option-list--option-highlighted {{ color: $foreground; background: $primary 12%; }}
    Sidebar OptionList:focus > .option-list--option-highlighted {{ color: $foreground; background: $primary 20%; }}
    Sidebar OptionList > .option-list--option-disabled {{ color: $foreground 80%; }}
    Sidebar Input {{ height: 1; border: none; padding: 0 1; display: none; }}
    Sidebar Input.open {{ display: block; }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "want('stop')", "stop", show=False),
        Binding("S", "want('stop_subtree')", "stop with subagents", show=False),
        Binding("r", "want('rename')", "rename", show=False),
        Binding("a", "want('archive')", "archive", show=False),
        Binding("d,delete", "want('delete')", "delete", show=False),
        Binding("n", "new", "new", show=False),
        Binding("slash", "filter", "search", show=False),
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
    ]

    class ActionWanted(Message):
        """The user wants something done with a session."""

        def __init__(self, action: SidebarAction, session_id: sc.SessionId) -> None:
            super().__init__()
            self.action: SidebarAction = action
            self.session_id = session_id

    class NewWanted(Message):
        """Begin a new session."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.order: list[sc.SessionId] = []
        self._summaries: tuple[sc.SessionSummary, ...] | None = None
        self._asked: tuple[object, ...] = ()
        self._here = ""
        self._now = 0
        self._viewed: sc.SessionId | None = None
        self._folders: list[FolderRows] = []
        self._lines = SessionLines()
        self._displayed_lines: list[Line] = []
        self._unread: set[sc.SessionId] = set()
        self._busy: set[sc.SessionId] = set()

    def compose(self) -> ComposeResult:
        """Build the list and its search field."""
        yield Input(placeholder="search sessions", id="filter", compact=True)
        yield SessionList(id="sessions", markup=False)

    # --- showing ------------------------------------------------------------------------------------------------------

    def show(self, session_list: sc.SessionListState, viewed: sc.SessionId | None, *, here: str, now_ms: int) -> None:
        """Show the current sessions; nearly free while they are unchanged within the same second."""
        summaries = tuple(session_list.sessions.values())
        asked = (viewed, here, now_ms // 1_000)
        if asked == self._asked and summaries == self._summaries:
            return
        moved = viewed != self._viewed
        self._asked, self._summaries = asked, summaries
        self._viewed, self._here, self._now = viewed, here, now_ms
        self._note_endings(summaries)
        self._refill()
        if moved and not self.has_focus_within:
            self._highlight(viewed)

    def _note_endings(self, summaries: Sequence[sc.SessionSummary]) -> None:
        """Record which sessions finished unseen; subagents do not count, as they report to their parents."""
        own = [each for each in summaries if each.parent_id is None]
        busy = {each.session_id for each in own if not each.activity.is_at_rest}
        self._unread |= self._busy - busy
        self._busy = busy
        self._unread -= busy
        self._unread -= {self._viewed}
        self._unread &= {each.session_id for each in own}

    def _refill(self) -> None:
        if self._summaries is None or not self.is_mounted:
            return
        query = self.query_one(Input).value
        self._folders = group_by_folder(self._summaries, here=self._here, query=query)
        self.order = [row.summary.session_id for each in self._folders for row in each.rows if row.depth == 0]
        lines = self._lines.build_lines(
            self._folders,
            viewed=self._viewed,
            unread=self._unread,
            now_ms=self._now,
        )
        self._show_lines(lines or [SidebarHeading(text="no match" if query.strip() else "no sessions yet", dim=True)])

    def _show_lines(self, lines: list[Line]) -> None:
        """Show these lines; if the same sessions are in the same places, only changed ones are redrawn."""
        before, self._displayed_lines = self._displayed_lines, lines
        if lines == before:
            return
        sessions = self.query_one(SessionList)
        colours = self.app.theme_variables
        if list(map(_id_of, before)) == list(map(_id_of, lines)):
            for index, (old, new) in enumerate(zip(before, lines, strict=True)):
                if old != new:
                    sessions.redraw(index, draw_line(new, colours))
            return
        chosen, place, scrolled = _id_at(before, sessions.highlighted), sessions.highlighted, sessions.scroll_offset.y
        sessions.clear_options()
        sessions.add_options(
            [
                Option(draw_line(each, colours), id=_id_of(each), disabled=isinstance(each, SidebarHeading))
                for each in lines
            ]
        )
        sessions.scroll_to(y=scrolled, animate=False)
        if chosen is not None and chosen not in map(_id_of, lines) and self.has_focus_within:
            # A key already on its way was meant for the session that is gone, not for its neighbour.
            sessions.highlighted, sessions.near = None, place
        else:
            self._highlight(chosen or self._viewed, near=place)

    def _highlight(self, session_id: sc.SessionId | None, near: int | None = None) -> None:
        """Mark a session; if it is gone, the one nearest to its place, if a place is given."""
        sessions = self.query_one(SessionList)
        sessions.near = None
        ids = [_id_of(each) for each in self._displayed_lines]
        if session_id is not None and session_id in ids:
            sessions.highlighted = ids.index(session_id)
        elif near is not None:
            there = [index for index, each in enumerate(ids) if each is not None]
            sessions.highlighted = min(there, key=lambda index: abs(index - near), default=None)
        else:
            sessions.highlighted = None

    def redraw(self) -> None:
        """Redraw all lines, as they have the colours of the theme."""
        displayed_lines, self._displayed_lines = self._displayed_lines, []
        self._show_lines(displayed_lines)

    # --- user actions -------------------------------------------------------------------------------------------------

    def focus_list(self) -> None:
        """Focus the list, at the viewed session or the first one."""
        self._highlight(self._viewed, near=0)
        self.screen.set_focus(self.query_one(OptionList))

    def _highlighted(self) -> sc.SessionId | None:
        return _id_at(self._displayed_lines, self.query_one(OptionList).highlighted)

    def action_move(self, step: int) -> None:
        """Move up or down in the list while searching."""
        sessions = self.query_one(OptionList)
        if step < 0:
            sessions.action_cursor_up()
        else:
            sessions.action_cursor_down()

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option_id is not None:
            self._choose(sc.SessionId(event.option_id))

    def _choose(self, session_id: sc.SessionId) -> None:
        self._close_filter()
        self.post_message(self.ActionWanted("view", session_id))

    def action_want(self, action: SidebarAction) -> None:
        """Ask for something to be done with the chosen session."""
        if (session_id := self._highlighted()) is not None:
            self.post_message(self.ActionWanted(action, session_id))

    def action_new(self) -> None:
        """Begin a new session."""
        self.post_message(self.NewWanted())

    def action_filter(self) -> None:
        """Search the list."""
        field = self.query_one(Input)
        field.add_class("open")
        field.focus()

    def _close_filter(self) -> None:
        field = self.query_one(Input)
        field.value = ""
        field.remove_class("open")

    @on(Input.Changed)
    def _filter_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._refill()
        words = event.value.lower().split()
        rows = [row.summary for each in self._folders for row in each.rows]
        if words:
            self._highlight(next((each.session_id for each in rows if matches_words(each, words)), None))

    @on(Input.Submitted)
    def _filter_done(self, event: Input.Submitted) -> None:
        event.stop()
        if (session_id := self._highlighted()) is not None:
            self._choose(session_id)

    def on_key(self, event: events.Key) -> None:
        """Leave the search on Esc, and the list on the next Esc."""
        if event.key == "escape" and self.query_one(Input).has_class("open"):
            self._close_filter()
            self.focus_list()
            event.stop()
            event.prevent_default()


def _id_of(line: Line) -> sc.SessionId | None:
    return None if isinstance(line, SidebarHeading) else line.session_id


def _id_at(lines: Sequence[Line], index: int | None) -> sc.SessionId | None:
    return None if index is None or index >= len(lines) else _id_of(lines[index])
