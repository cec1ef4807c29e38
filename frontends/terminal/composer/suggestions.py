"""The suggestions above an input: from completers while typing a word, and from the history during a search.

Completers run in the background. A result counts only if the query is still the same, so the newest wins. During a
search the input holds the search words, and the draft is kept aside until the search ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import attrs

import session_core as sc
from frontends.shared.sanitise import one_line
from frontends.terminal.composer.completion import (
    Completer,
    CompletionQuery,
    Suggestion,
    completed_text,
    find_completion_query,
)
from frontends.terminal.composer.editor import Editor
from frontends.terminal.composer.paste import Prompt
from frontends.terminal.composer.popup import Popup
from frontends.terminal.composer.prompt_history import HistoryWalk, search_prompts

_MOST_FOUND: Final = 100
_LINE_CHARS: Final = 300


@attrs.frozen(kw_only=True)
class SuggestionResult:
    """An accepted suggestion.

    Attributes:
        complete: Whether the input is complete and may be sent.
        prompt: The prompt found by a search.
        walk: The walk through the history that goes on from there.
    """

    complete: bool = False
    prompt: Prompt | None = None
    walk: HistoryWalk | None = None


class SuggestionController:
    """Queries completers, and shows their suggestions.

    Attributes:
        completers: By mark, `/` and `@`.
        searched_from: The draft from before a search; None outside a search.
    """

    def __init__(self, editor: Editor, popup: Popup, start: Callable[[Callable[[], Awaitable[None]]], object]) -> None:
        self.completers: dict[str, Completer] = {}
        self.searched_from: Prompt | None = None
        self._editor = editor
        self._popup = popup
        self._start = start
        self._question: CompletionQuery | None = None
        self._row = 0
        self._quiet = False  # while a change comes from us, and not from the keyboard
        self._answered = False
        self._closed: tuple[str, int, int] | None = None
        self._past: Sequence[Prompt] = ()  # the prompts to search
        self._found: Sequence[int] = ()

    # --- input events -------------------------------------------------------------------------------------------------

    def handle_text_change(self) -> None:
        """Query the completers again after a change of the text."""
        if self._quiet:
            self._closed = None  # another text: the closed suggestions no longer apply
            self._clear_suggestions()
        elif self.searched_from is not None:
            self._search_history()
        else:
            self._ask()

    def handle_cursor_move(self) -> None:
        """Close the suggestions of a word that the cursor has left."""
        if self._question is not None and self.searched_from is None and self._query_at_cursor() != self._question:
            self._ask()

    def move(self, by: int) -> bool:
        """Choose another suggestion; False if there are none."""
        if self._popup.chosen is None:
            return False
        self._popup.move(by)
        return True

    def close(self) -> bool:
        """Close the suggestions, and end a search by restoring the draft; False if there was nothing to close."""
        if self.searched_from is not None:
            draft, self.searched_from = self.searched_from, None
            self._clear_suggestions()
            self.replace_text(draft)
            return True
        if not self._popup.is_open:
            return False
        if self._question is not None:
            self._closed = (self._question.mark, self._row, self._question.column)
        self._clear_suggestions()
        return True

    def replace_text(self, prompt: Prompt) -> None:
        """Replace the text of the input; text that was not typed gets no suggestions."""
        self._quiet = True
        self._editor.set_prompt(prompt)
        self._quiet = False

    @property
    def has_current_suggestion(self) -> bool:
        """Whether there is a suggestion for the current text."""
        if self.searched_from is not None:
            return True
        return self._popup.chosen is not None and self._answered and self._query_at_cursor() == self._question

    @property
    def is_taken_by_enter(self) -> bool:
        """Whether Enter accepts the suggestion: not for an empty word, unless the user has moved the choice."""
        if not self.has_current_suggestion:
            return False
        question = self._question
        if self._popup.touched or question is None or self.searched_from is not None:
            return True
        return not question.query.endswith(" ") and (question.query != "" or question.mark == "/")

    def take(self) -> SuggestionResult | None:
        """Put the chosen suggestion into the text; None if there is none for the current text."""
        if not self.has_current_suggestion:
            return None
        chosen = self._popup.chosen
        if self.searched_from is not None:
            return self._take_search_result(chosen)
        question, editor = self._question, self._editor
        assert chosen is not None
        assert question is not None
        row, column = editor.cursor_location
        text = completed_text(question, chosen.value)
        written = f"{question.mark}{question.query}"
        complete = question.mark == "/" and (not text.endswith(" ") or written.rstrip() == text.rstrip())
        self._quiet = text.endswith(" ") and question.mark == "@"
        editor.replace_range((row, question.column), (row, column), text)
        self._quiet = False
        if complete:
            self._clear_suggestions()
        return SuggestionResult(complete=complete)

    # --- completers ---------------------------------------------------------------------------------------------------

    def _query_at_cursor(self) -> CompletionQuery | None:
        before, row = self._editor.before_cursor()
        self._row = row
        return find_completion_query(before, row) if self._editor.selection.is_empty else None

    def _ask(self) -> None:
        question = self._query_at_cursor()
        place = None if question is None else (question.mark, self._row, question.column)
        if place != self._closed:
            self._closed = None
        completer = None if question is None else self.completers.get(question.mark)
        if question is None or completer is None or self._closed is not None:
            self._clear_suggestions()
            return
        self._question = question
        self._answered = False
        self._start(partial(self._complete, question, completer))

    async def _complete(self, question: CompletionQuery, completer: Completer) -> None:
        note = ""
        try:
            suggestions = await completer(question.query)
        except (sc.SessionCoreError, OSError) as error:
            suggestions, note = [], one_line(getattr(error, "message", None) or str(error), _LINE_CHARS)
        if self._question == question and self._query_at_cursor() == question:
            self._answered = True
            written = question.query.strip()
            known = all(each.value.strip() == written for each in suggestions)
            self._popup.show([] if known and question.query != written else suggestions, note=note)

    def _clear_suggestions(self) -> None:
        self._question = None
        self._answered = False
        if self._popup.is_open:
            self._popup.show(())

    # --- the search ---------------------------------------------------------------------------------------------------

    def search(self, past: Sequence[Prompt]) -> None:
        """Begin a search, or go to the next match."""
        if self.searched_from is not None:
            self._popup.move(1)
            return
        self._past = past
        self.searched_from = self._editor.prompt
        self._clear_suggestions()
        self._editor.set_prompt(Prompt())
        self._search_history()

    def _search_history(self) -> None:
        self._found = search_prompts(self._past, self._editor.prompt.text, most=_MOST_FOUND)
        self._popup.show(
            [Suggestion(value=one_line(self._past[index].text, _LINE_CHARS)) for index in self._found],
            note="" if self._found else "no such prompt; Esc goes back",
        )

    def _take_search_result(self, chosen: Suggestion | None) -> SuggestionResult:
        if chosen is None:
            return SuggestionResult()
        index = self._found[self._popup.index]
        walk = HistoryWalk.from_search(self._past, index, self.searched_from or Prompt())
        self.searched_from = None
        self._clear_suggestions()
        return SuggestionResult(prompt=self._past[index], walk=walk)
