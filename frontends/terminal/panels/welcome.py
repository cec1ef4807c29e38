"""The screen before a conversation: what this is, where it works, and how to begin."""

from rich.text import Text
from textual.widgets import Static

from frontends.shared.figures import format_path
from frontends.terminal.feeds import ViewedSession
from frontends.terminal.look.sanitised_text import sanitise_line, sanitise_text
from frontends.terminal.options import NewSession


class WelcomeView(Static):
    """A few lines in the middle."""

    DEFAULT_CSS = """
    WelcomeView { height: 1fr; content-align: center middle; color: $foreground 75%; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._lines: list[str] = []

    def show(
        self,
        viewed: ViewedSession | None,
        failure: str | None,
        *,
        here: str,
        draft: NewSession,
        default_model: str = "",
        embedded: bool = False,
    ) -> None:
        """Show the current state; `default_model` answers if none was chosen, as far as it is known yet."""
        if failure is not None:
            lines = ["The service is not running.", sanitise_text(failure), "", "Enter tries again, Ctrl+D closes."]
        elif viewed is not None and viewed.is_deleted:
            lines = ["This session was deleted.", "", "Alt+N begins a new one."]
        elif viewed is not None and viewed.refused is not None:
            lines = [
                "This session cannot be shown.",
                sanitise_text(viewed.refused),
                "",
                "F2 shows the others, Alt+N begins one.",
            ]
        elif viewed is not None and viewed.state is None:
            lines = ["loading…"]
        else:
            begun = viewed.state.settings if viewed is not None and viewed.state is not None else None
            folder = sanitise_line(format_path((begun.cwd if begun is not None else draft.cwd) or here))
            chosen = begun.model if begun is not None else draft.model
            lines = [
                "session-core",
                f"a new session in {folder}",
                *describe_model(chosen, default_model),
                "",
                *_HINTS,
                _CLOSING[embedded],
            ]
        if lines != self._lines:
            self._lines = lines
            self.update(Text("\n".join(lines)))  # one piece, which Textual centres as a whole


def describe_model(chosen: str | None, default: str) -> list[str]:
    """Describe the model that will answer, or how to set up a real one; nothing until that is known."""
    model = sanitise_line(chosen or default, _MODEL_CHARS)
    if not model:
        return []
    if model == _DEMO and default == _DEMO:
        return ["the demo model answers, a script that works offline", "", _REAL_ONE]
    return [f"{model} answers, F4 chooses another"]


_DEMO = "demo"
_MODEL_CHARS = 100
_REAL_ONE = "For a real model, see: session-core models --all"
_HINTS = (
    "Type what you want and press Enter.",
    "/ for commands   @ for files   ! for the shell   F1 for help",
)
_CLOSING = ("Closing the terminal leaves the work running.", "Closing the terminal ends the work.")
