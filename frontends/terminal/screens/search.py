"""Full-text search in all sessions while typing."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar, Final

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

import session_core as sc
from frontends.shared.figures import format_ago, format_count
from frontends.terminal.look.clock import now_ms
from frontends.terminal.look.sanitised_text import sanitise_line
from frontends.terminal.screens.picker import Box, Hint

log = logging.getLogger(__name__)

PAUSE_S: Final = 0.15
"""Seconds without typing before a search starts."""
LONG_S: Final = 1.0
"""Seconds after which a running search is mentioned."""
_KEYS: Final = "Enter opens the session there, Esc leaves"

Search = Callable[[str], Awaitable[Sequence[sc.SearchHit]]]


class SearchScreen(ModalScreen[sc.SearchHit | None]):
    """Type words, choose a message."""

    DEFAULT_CSS = """
    SearchScreen { align: center middle; }
    SearchScreen Box { width: 100; }
    SearchScreen OptionList { min-height: 6; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "leave", show=False),
        Binding("up,ctrl+p", "move(-1)", show=False),
        Binding("down,ctrl+n", "move(1)", show=False),
        Binding("pageup", "move(-5)", show=False),
        Binding("pagedown", "move(5)", show=False),
    ]

    def __init__(self, search: Search, words: str = "") -> None:
        super().__init__()
        self._search = search
        self._words = words
        self._hits: Sequence[sc.SearchHit] = ()
        self._searched = ""
        self._pause: Timer | None = None

    def compose(self) -> ComposeResult:
        """Build the field and the list."""
        with Box("Search in all sessions"):
            yield Input(self._words, placeholder="words to search for", compact=True)
            yield OptionList(markup=False)
            yield Hint(f"type words to search for; {_KEYS}")

    def on_mount(self) -> None:
        """Search for the initial words."""
        self.query_one(OptionList).can_focus = False
        if self._words:
            self._begin()

    @on(Input.Changed)
    def _typed(self) -> None:
        if self._pause is not None:
            self._pause.stop()
        self._pause = self.set_timer(PAUSE_S, self._begin)

    def _begin(self) -> None:
        words = self.query_one(Input).value.strip()
        self.run_worker(self._find(words), group="search", exclusive=True, exit_on_error=False)

    async def _find(self, words: str) -> None:
        hint = self.query_one(Hint)
        long = self.set_timer(LONG_S, lambda: hint.say("searching…"))
        try:
            hits = await self._search(words) if words else ()
        except sc.SessionCoreError as error:
            hint.say(error.message)
            return
        except Exception as error:
            log.exception("a search failed")
            hint.say(f"unexpected error: {type(error).__name__}: {error}")
            return
        finally:
            long.stop()
        self._hits, self._searched = hits, words
        options = self.query_one(OptionList)
        now = now_ms()
        options.clear_options()
        options.add_options([Option(_line(hit, now)) for hit in self._hits])
        options.highlighted = 0 if self._hits else None
        found = f"{format_count(len(self._hits), 'message')} found" if self._hits else "nothing found"
        hint.say(f"{found if words else 'type words to search for'}; {_KEYS}")

    def action_move(self, step: int) -> None:
        """Move up or down in the list."""
        options = self.query_one(OptionList)
        if self._hits:
            options.highlighted = max(0, min(len(self._hits) - 1, (options.highlighted or 0) + step))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        index = self.query_one(OptionList).highlighted
        if event.value.strip() != self._searched:  # the list still belongs to other words
            self._begin()
        elif index is not None and index < len(self._hits):
            _ = self.dismiss(self._hits[index])

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        _ = self.dismiss(self._hits[event.option_index])


def _line(hit: sc.SearchHit, now_ms: int) -> Text:
    who = {"user": "you", "assistant": "the model"}.get(hit.role, f"a {hit.role}")
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(sanitise_line(hit.session_name, 60) or "new session", "bold")
    line.append(f"  {who}, {format_ago(hit.created_at, now_ms)}\n  ", "dim")
    line.append(sanitise_line(hit.excerpt, 400))
    return line
