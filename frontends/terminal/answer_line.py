"""The line in which a question is answered: foreign text never gets into it unseen, and no stray key does."""

from collections.abc import Callable
from typing import Final

from textual import events
from textual.widgets import Input

from frontends.console.sanitise import one_line
from frontends.terminal.dialog_view import MAX_ANSWER_CHARS

_ANSWERING: Final = frozenset({"enter", "up", "down", "backspace", "delete", "ctrl+g"})


class AnswerLine(Input):
    """A line to type in; `counts` says whether what was typed at a moment is meant for the question."""

    DEFAULT_CSS = """
    AnswerLine { height: 1; border: none; padding: 0; }
    AnswerLine:focus { border: none; }
    """

    def __init__(self, counts: Callable[[float], bool], *, id: str | None = None) -> None:
        super().__init__(id=id, compact=True, max_length=MAX_ANSWER_CHARS, select_on_focus=False)
        self._counts = counts

    def start(self, text: str) -> None:
        """Begin another answer."""
        self.value = text
        self.cursor_position = len(text)

    async def _on_key(self, event: events.Key) -> None:
        if (event.is_printable or event.key in _ANSWERING) and not self._counts(event.time):
            event.stop()
            event.prevent_default()
            return
        await super()._on_key(event)

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        if self._counts(event.time):
            self.insert_text_at_cursor(one_line(event.text, MAX_ANSWER_CHARS))
