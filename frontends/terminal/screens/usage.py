"""The usage and cost of a session, by model and purpose."""

from __future__ import annotations

from typing import ClassVar, Final

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

import session_core as sc
from frontends.shared.figures import dollars
from frontends.terminal.look.sanitised_text import sanitise_line
from frontends.terminal.screens.picker import Box, Hint

_SMALL_MICROS: Final = 100_000
"""If any cost is below this, all costs are shown in hundredths of a cent."""


class UsageScreen(ModalScreen[None]):
    """A table."""

    DEFAULT_CSS = """
    UsageScreen { align: center middle; }
    UsageScreen Box { width: 96; }
    UsageScreen VerticalScroll { height: auto; max-height: 60vh; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss(None)", "close", show=False)]

    def __init__(self, state: sc.SessionState) -> None:
        super().__init__()
        self._usage = state.usage
        self._lines = state.usage_by
        self._before_model = state.context_tokens

    def compose(self) -> ComposeResult:
        """Build the table."""
        with Box("Usage"):
            with VerticalScroll():
                yield Static(usage_table(self._lines, self._usage), markup=False)
            yield Hint(f"context: {self._before_model:,} tokens at the newest answer; Esc closes")


def usage_table(lines: tuple[sc.UsageLine, ...], whole: sc.Usage) -> Table:
    """Return the figures, one row per model and purpose."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in ("model", "for"):
        table.add_column(head, header_style="bold", overflow="fold")
    for head in ("calls", "read", "from cache", "written", "cost"):
        table.add_column(head, justify="right", header_style="bold", no_wrap=True)
    costs = [each.cost_micros for each in (whole, *(line.usage for line in lines)) if each.cost_micros]
    digits = 4 if any(each < _SMALL_MICROS for each in costs) else 2
    for line in lines:
        figures = _figures(line.usage, digits)
        table.add_row(Text(sanitise_line(line.model)), Text(sanitise_line(line.source)), f"{line.calls:,}", *figures)
    table.add_row(Text("all", "bold"), "", f"{sum(line.calls for line in lines):,}", *_figures(whole, digits))
    return table


def _figures(usage: sc.Usage, digits: int) -> list[str]:
    about = "~" if usage.estimated else ""
    read = usage.input_tokens + usage.cache_write_tokens
    figures = [f"{about}{read:,}", f"{usage.cache_read_tokens:,}", f"{about}{usage.output_tokens:,}"]
    return [*figures, about + dollars(usage.cost_micros, digits) if usage.cost_micros else "unknown"]
