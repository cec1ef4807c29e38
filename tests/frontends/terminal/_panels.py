"""Panels in an app of their own: what they show, and what they tell."""

from collections.abc import Iterable

from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Label

from frontends.terminal.look.styles import Look

PLAIN = Look.from_theme(App().current_theme, colour=False)
ASCII = Look.from_theme(App().current_theme, colour=False, symbols=False)


class PanelApp(App[None]):
    """Holds panels between a conversation and a line to type in, and keeps what they tell."""

    CSS = "#above { height: 1fr; } #column { height: 1fr; }"

    def __init__(self, *panels: Widget, keep: Iterable[type[Message]] = ()) -> None:
        super().__init__()
        self._panels = panels
        self._keep = tuple(keep)
        self.told: list[Message] = []

    def compose(self) -> ComposeResult:
        """Put them below one another."""
        with Vertical(id="column"):
            yield Label(id="above")
            yield from self._panels
            yield Input(id="composer", compact=True)

    def on_mount(self) -> None:
        """Begin where people type."""
        self.query_one("#composer").focus()

    async def _dispatch_message(self, message: Message) -> None:
        if isinstance(message, self._keep):
            self.told.append(message)
        await super()._dispatch_message(message)

    @property
    def lines(self) -> list[str]:
        """The text on the screen, row by row."""
        return [strip.text.rstrip() for strip in self.screen._compositor.render_strips()]

    @property
    def picture(self) -> str:
        """The text on the screen."""
        return "\n".join(self.lines)
