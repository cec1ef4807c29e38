"""One question while it is answered: what was typed and marked so far, and what Enter would make of it."""

from __future__ import annotations

import attrs

import session_core as sc
from frontends.terminal.approval_view import approval_meaning, chosen_by
from frontends.terminal.dialog_view import choices_with, confirmed_by, dialog_meaning
from frontends.terminal.questions import Meaning, Question
from frontends.terminal.request_order import Request


@attrs.define(eq=False)
class Asked:
    """A request with its question; `chosen` is the number of the choice that was marked by hand, if any."""

    request: Request
    question: Question
    chosen: int | None = None

    def left(self, typed: str) -> list[int]:
        """Return the numbers of the choices that what was typed leaves."""
        choices = self.question.choices
        return choices_with(choices, typed) if self.question.filters else [*range(len(choices))]

    def marked(self, typed: str) -> int | None:
        """Return the number of the choice that Enter would take."""
        if self.question.filters:
            left = self.left(typed)
            return self.chosen if self.chosen in left else left[0] if left else None
        if not typed.strip():
            return self.chosen
        if isinstance(self.request, sc.Approval):
            return chosen_by(typed)
        return confirmed_by(typed) if self.request.kind == "confirm" else None

    def meaning(self, typed: str) -> Meaning:
        """Return what Enter would do."""
        if isinstance(self.request, sc.Approval):
            return approval_meaning(typed, self.chosen)
        return dialog_meaning(self.request, typed, self.marked(typed))

    def mark(self, typed: str, step: int) -> bool:
        """Mark the next or the previous choice; False if there is none."""
        left, marked = self.left(typed), self.marked(typed)
        if not left:
            return False
        if marked is None or marked not in left:
            self.chosen = left[0 if step > 0 else -1]
        else:
            self.chosen = left[max(0, min(left.index(marked) + step, len(left) - 1))]
        return True
