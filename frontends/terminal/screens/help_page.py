"""All keys and commands on one screen, built from the tables that define them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

import session_core as sc
from frontends.terminal.actions.slash_commands import SLASH
from frontends.terminal.composer import keys
from frontends.terminal.look.sanitised_text import sanitise_line
from frontends.terminal.panels import message_queue, sidebar
from frontends.terminal.questions import panel
from frontends.terminal.transcript import view

Rows = Sequence[tuple[str, str]]

KEYS: Final = (
    ("Enter", "send; while the agent works, the message waits in the queue"),
    ("Esc", "stop the viewed session's turn; twice: its subagents too"),
    ("Ctrl+C", "copy the selection, else clear the input; twice: close"),
    ("Ctrl+D", "close, if the input is empty"),
    ("F1", "this help"),
    ("F2", "the list of sessions; again: hide it"),
    ("F3", "search in all sessions"),
    ("F4 / F5", "choose the model / what needs approval"),
    ("F6", "the conversation"),
    ("F7 / F8", "the queue / the open question"),
    ("F9", "focus the widgets of extensions, to use their keys"),
    ("Alt+P", "the whole plan, or its current step"),
    ("Alt+N", "new session"),
    ("Alt+Up / Alt+Down", "previous / next session, also Ctrl+PageUp / Ctrl+PageDown"),
    ("Alt+1 ... Alt+9", "a session by its position in the list"),
    ("Ctrl+O", "expand or collapse everything"),
    ("PageUp / PageDown", "scroll the conversation"),
    ("Ctrl+Home / Ctrl+End", "its beginning / its end"),
)
"""The keys that work anywhere."""
_TABLES: Final[tuple[tuple[str, Rows], ...]] = (
    ("Anywhere", KEYS),
    ("Commands", tuple((f"/{each.name} {each.hint}".strip(), each.help) for each in SLASH)),
    ("Writing", keys.KEYS),
    ("When you are asked (F8)", panel.KEYS),
    ("In the conversation (F6)", view.KEYS),
    ("In the list of sessions (F2)", sidebar.KEYS),
    ("In the queue (F7)", message_queue.KEYS),
)
_SAID_CHARS: Final = 200
_WIDEST_KEY: Final = 34


class HelpScreen(ModalScreen[None]):
    """Shows the tables."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen VerticalScroll { width: 100; max-width: 96%; height: 90%; background: $surface; border: round $primary;
                                padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,f1,enter", "dismiss(None)", "close", show=False)]

    def __init__(self, brought: Iterable[sc.extensions.ExtensionCommand] = ()) -> None:
        super().__init__()
        self._brought = tuple(brought)

    def compose(self) -> ComposeResult:
        """Build the tables."""
        with VerticalScroll() as scroll:
            scroll.border_title = "Help"
            scroll.border_subtitle = "Up and Down scroll, Esc closes"
            for title, rows in tables(self._brought):
                yield Static(_draw_table(title, rows), markup=False)


def tables(brought: Sequence[sc.extensions.ExtensionCommand]) -> list[tuple[str, Rows]]:
    """Return all keys and commands, section by section; those of extensions come after our commands."""
    theirs = tuple(
        (
            f"/{sanitise_line(each.name, 60)}",
            f"{sanitise_line(each.description, _SAID_CHARS)} ({sanitise_line(each.extension)})",
        )
        for each in brought
    )
    ours: list[tuple[str, Rows]] = [*_TABLES]
    return [*ours[:2], ("Commands of extensions", theirs), *ours[2:]] if theirs else ours


def _draw_table(title: str, rows: Rows) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), title=Text(title, "bold underline"))
    table.title_justify = "left"
    table.add_column(width=min(_WIDEST_KEY, max(len(key) for key, _ in rows)), overflow="fold")
    table.add_column(overflow="fold")
    for key, what in rows:
        table.add_row(Text(key, "bold"), Text(what))
    table.add_row("", "")
    return table
