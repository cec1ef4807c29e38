"""The line in which a question is answered: foreign text never gets into it unseen, and no stray key does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from textual import events
from textual.widgets import Input

import session_core as sc
from frontends.console.sanitise import one_line
from frontends.terminal.dialog_view import MAX_ANSWER_CHARS

_ANSWERING: Final = frozenset({"enter", "up", "down", "backspace", "delete", "ctrl+g"})


class AnswerLine(Input):
    """A line to type in.

    `counts` says whether what was typed at a moment is meant for the question, and `shown` which question that is.

    Attributes:
        meant_for: The question that was shown when the last key was pressed that may answer one. What a key does
            comes some steps later, and there may be another question by then.
    """

    DEFAULT_CSS = """
    AnswerLine { height: 1; border: none; padding: 0; }
    AnswerLine:focus { border: none; }
    """

    def __init__(
        self, counts: Callable[[float], bool], shown: Callable[[], sc.RequestId | None], *, id: str | None = None
    ) -> None:
        super().__init__(id=id, compact=True, max_length=MAX_ANSWER_CHARS, select_on_focus=False)
        self._counts = counts
        self._shown = shown
        self.meant_for: sc.RequestId | None = None

    def start(self, text: str) -> None:
        """Begin another answer."""
        self.value = text
        self.cursor_position = len(text)

    async def _on_key(self, event: events.Key) -> None:
        if event.is_printable or event.key in _ANSWERING:
            if not self._counts(event.time):
                event.stop()
                event.prevent_default()
                return
            self.meant_for = self._shown()
        await super()._on_key(event)

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        if self._counts(event.time):
            self.insert_text_at_cursor(one_line(event.text, MAX_ANSWER_CHARS))
