"""Full-text search in all sessions while typing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from rich.text import Text
from textual import on
from textual.timer import Timer
from textual.widgets import Input
from textual.widgets.option_list import Option

import session_core as sc
from frontends.shared.figures import format_ago, format_count
from frontends.terminal.look.clock import now_ms
from frontends.terminal.look.sanitised_text import sanitise_line
from frontends.terminal.screens.picker import ListScreen

PAUSE_S: Final = 0.15
"""Seconds without typing before a search starts."""
LONG_S: Final = 1.0
"""Seconds after which a running search is mentioned."""
_KEYS: Final = "Enter opens the session there, Esc leaves"

Search = Callable[[str], Awaitable[Sequence[sc.SearchHit]]]


class SearchScreen(ListScreen[sc.SearchHit]):
    """Type words, choose a message."""

    DEFAULT_CSS = """
    SearchScreen Box { width: 100; }
    SearchScreen OptionList { min-height: 6; }
    """
    page = 5

    def __init__(self, search: Search, words: str = "") -> None:
        hint = f"type words to search for; {_KEYS}"
        super().__init__("Search in all sessions", hint, placeholder="words to search for", typed=words)
        self._search = search
        self._searched = ""
        self._pause: Timer | None = None

    def on_mount(self) -> None:
        """Search for the initial words."""
        if self.field.value:
            self._begin()

    @on(Input.Changed)
    def _typed(self) -> None:
        if self._pause is not None:
            self._pause.stop()
        self._pause = self.set_timer(PAUSE_S, self._begin)

    def _begin(self) -> None:
        words = self.field.value.strip()
        self.run_worker(self._find(words), group="search", exclusive=True, exit_on_error=False)

    async def _find(self, words: str) -> None:
        long = self.set_timer(LONG_S, lambda: self.hint.say("searching…"))
        try:
            hits = await self.load(self._search(words)) if words else ()
        finally:
            long.stop()
        if hits is None:
            return
        self._searched = words
        now = now_ms()
        self.fill([Option(_line(hit, now)) for hit in hits], hits)
        self.options.highlighted = 0 if hits else None
        found = f"{format_count(len(hits), 'message')} found" if hits else "nothing found"
        self.hint.say(f"{found if words else 'type words to search for'}; {_KEYS}")

    def accept(self, typed: str) -> None:
        """Choose the marked message, unless the list still belongs to other words."""
        if typed.strip() == self._searched:
            super().accept(typed)
        else:
            self._begin()


def _line(hit: sc.SearchHit, now_ms: int) -> Text:
    who = {"user": "you", "assistant": "the model"}.get(hit.role, f"a {hit.role}")
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(sanitise_line(hit.session_name, 60) or "new session", "bold")
    line.append(f"  {who}, {format_ago(hit.created_at, now_ms)}\n  ", "dim")
    line.append(sanitise_line(hit.excerpt, 400))
    return line
