"""The baseline for the terminal: a minimal Textual app with a text and an input.

It is started with `-c`, as `session-core` is, and not imported elsewhere, because Textual is heavy.
"""

from textual.app import App, ComposeResult
from textual.widgets import Input, Static


class BareApp(App[None]):
    """A text and an input."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """Compose the screen."""
        yield Static(self._text)
        yield Input()


def main(text: str) -> None:
    """Show it until the process is ended."""
    BareApp(text).run()
