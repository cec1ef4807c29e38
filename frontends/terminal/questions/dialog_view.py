"""A dialog of an extension in the terminal: the question, and what a typed or chosen answer means."""

from __future__ import annotations

from collections.abc import Sequence

import session_core as sc
from frontends.commands.run.dialogs import Reply, describe_asker
from frontends.terminal.look.sanitised_text import reveal_hidden
from frontends.terminal.questions.answers import (
    AnswerChoice,
    AnswerMeaning,
    ScreenQuestion,
    as_visible_line,
    exceeds_line,
)
from frontends.terminal.questions.untrusted_view import ForeignPassage

MAX_ANSWER_CHARS = 20_000
"""The limit of an answer: more than extensions may suggest; longer text does not belong in a line."""
_YES = {"y", "yes"}
_NO = {"n", "no"}
_CONFIRM = (AnswerChoice(key="y", label="yes"), AnswerChoice(key="n", label="no"))


def dialog_question(dialog: sc.Dialog) -> ScreenQuestion:
    """Turn a dialog into a question."""
    passages = [ForeignPassage(text=dialog.message)] if dialog.message else []
    if exceeds_line(dialog.title):
        passages.insert(0, ForeignPassage(text=dialog.title))
    prefilled = _fits_a_line(dialog.default)
    if dialog.kind == "input" and not prefilled:
        passages.append(ForeignPassage(text=dialog.default, label="suggested (Enter alone takes it):"))
    return ScreenQuestion(
        title=f"{as_visible_line(describe_asker(dialog))}: {as_visible_line(dialog.title)}",
        passages=tuple(passages),
        choices=_choices(dialog),
        typed=dialog.default if dialog.kind == "input" and prefilled else "",
        filters=dialog.kind == "select",
        expires_at=dialog.expires_at,
    )


def dialog_meaning(dialog: sc.Dialog, typed: str, chosen: int | None) -> AnswerMeaning:
    """Return the meaning of an answer, complete or not; `chosen` is the number of a choice."""
    match dialog.kind:
        case "confirm":
            choice = parse_confirmation(typed) if typed.strip() else chosen
            if choice is None:
                return AnswerMeaning(hint="y or n, then Enter")
            return AnswerMeaning(hint=f"Enter: {_CONFIRM[choice].label}", answer=Reply(value=choice == 0))
        case "select":
            if chosen is None or chosen >= len(dialog.choices):
                hint = "no choice matches" if typed.strip() else "choose one"
                return AnswerMeaning(hint=hint)
            label = as_visible_line(dialog.choices[chosen]) or "(empty)"
            return AnswerMeaning(hint=f"Enter: {label}", answer=Reply(value=dialog.choices[chosen]))
        case "input":
            if not typed and not _fits_a_line(dialog.default):
                return AnswerMeaning(hint="Enter: take the suggestion", answer=Reply(value=dialog.default))
            hint = "Enter: answer with this" if typed else "Enter: answer with an empty text"
            return AnswerMeaning(hint=hint, answer=Reply(value=typed))
        case _:
            return AnswerMeaning(hint="Enter: seen", answer=Reply())


def parse_confirmation(typed: str) -> int | None:
    """Return which of yes and no was typed."""
    word = typed.strip().lower()
    return 0 if word in _YES else 1 if word in _NO else None


def filter_choices(choices: Sequence[AnswerChoice], typed: str) -> list[int]:
    """Return the numbers of the choices that contain all typed words, in order."""
    words = typed.casefold().split()
    return [number for number, each in enumerate(choices) if all(word in each.label.casefold() for word in words)]


def describe_other_dialog(dialog: sc.Dialog) -> str:
    """Describe a dialog that is for another client."""
    return f"{as_visible_line(describe_asker(dialog))} another client: {as_visible_line(dialog.title)}"


def _choices(dialog: sc.Dialog) -> tuple[AnswerChoice, ...]:
    if dialog.kind == "confirm":
        return _CONFIRM
    if dialog.kind != "select":
        return ()
    return tuple(AnswerChoice(label=" ".join(reveal_hidden(each).split()) or "(empty)") for each in dialog.choices)


def _fits_a_line(default: str) -> bool:
    """Return whether a suggestion can be edited in one line unchanged."""
    return "\n" not in default and "\t" not in default and reveal_hidden(default) == default
