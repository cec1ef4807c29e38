"""What the terminal is compared with: the least that Textual itself can show, a text and a place to type.

It is started as `session-core` is, by `-c`, and imported by nobody else: Textual is heavy.
"""

from textual.app import App, ComposeResult
from textual.widgets import Input, Static


class BareApp(App[None]):
    """A text and an input."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """Put the screen together."""
        yield Static(self._text)
        yield Input()


def main(text: str) -> None:
    """Show it, until somebody ends the process."""
    BareApp(text).run()
