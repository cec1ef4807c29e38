"""What is on the screen while there is no conversation: what this is, where it works, and how to begin."""

from rich.text import Text
from textual.widgets import Static

from frontends.console.figures import place
from frontends.terminal.desk import Viewed
from frontends.terminal.inert import inert, inert_line
from frontends.terminal.options import Draft


class Welcome(Static):
    """A few lines in the middle."""

    DEFAULT_CSS = """
    Welcome { height: 1fr; content-align: center middle; color: $text-muted; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._lines: list[str] = []

    def show(self, viewed: Viewed | None, failure: str | None, *, here: str, draft: Draft) -> None:
        """Say what is the case."""
        if failure is not None:
            lines = ["The service is not there.", inert(failure), "", "Enter tries again, Ctrl+D closes."]
        elif viewed is not None and viewed.gone:
            lines = ["This session was deleted.", "", "Alt+N begins a new one."]
        elif viewed is not None and viewed.refused is not None:
            lines = [
                "This session cannot be shown.",
                inert(viewed.refused),
                "",
                "F2 shows the others, Alt+N begins one.",
            ]
        elif viewed is not None and viewed.state is None:
            lines = ["loading…"]
        else:
            cwd = viewed.state.settings.cwd if viewed is not None and viewed.state is not None else draft.cwd
            folder = inert_line(place(cwd or here))
            lines = ["session-core", f"a new session in {folder}", "", *_HINTS]
        if lines != self._lines:
            self._lines = lines
            self.update(Text("\n".join(lines), justify="center"))


_HINTS = (
    "Type what you want and press Enter.",
    "/ for commands   @ for files   ! for the shell   F1 for help",
    "Closing this leaves the work running.",
)
