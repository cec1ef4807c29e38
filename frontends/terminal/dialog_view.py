"""A question of an extension in the terminal: what is asked, and what a typed or chosen answer means."""

from __future__ import annotations

from collections.abc import Sequence

import session_core as sc
from frontends.cli.dialogs import Reply, asker
from frontends.terminal.foreign import Passage
from frontends.terminal.inert import visible
from frontends.terminal.questions import AnswerChoice, Meaning, Question, in_a_line, is_cut_in_a_line

MAX_ANSWER_CHARS = 20_000
"""More than extensions may suggest; what is longer does not belong into a line."""
_YES = {"y", "yes"}
_NO = {"n", "no"}
_CONFIRM = (AnswerChoice(key="y", label="yes"), AnswerChoice(key="n", label="no"))


def dialog_question(dialog: sc.Dialog) -> Question:
    """Put a dialog into words."""
    passages = [Passage(text=dialog.message)] if dialog.message else []
    if is_cut_in_a_line(dialog.title):
        passages.insert(0, Passage(text=dialog.title))
    prefilled = _fits_a_line(dialog.default)
    if dialog.kind == "input" and not prefilled:
        passages.append(Passage(text=dialog.default, label="suggested (Enter alone takes it):"))
    return Question(
        request_id=dialog.request_id,
        title=f"{in_a_line(asker(dialog))}: {in_a_line(dialog.title)}",
        passages=tuple(passages),
        choices=_choices(dialog),
        typed=dialog.default if dialog.kind == "input" and prefilled else "",
        filters=dialog.kind == "select",
        expires_at=dialog.expires_at,
    )


def dialog_meaning(dialog: sc.Dialog, typed: str, chosen: int | None) -> Meaning:
    """Say what was answered, as far as it goes; `chosen` is the number of a choice."""
    match dialog.kind:
        case "confirm":
            word = typed.strip().lower()
            if word in _YES or (not word and chosen == 0):
                return Meaning(told="Enter: yes", answer=Reply(value=True))
            if word in _NO or (not word and chosen == 1):
                return Meaning(told="Enter: no", answer=Reply(value=False))
            return Meaning(told="y or n, then Enter")
        case "select":
            if chosen is None or chosen >= len(dialog.choices):
                told = "none of the choices has that in it" if typed.strip() else "choose one of them"
                return Meaning(told=told)
            label = in_a_line(dialog.choices[chosen]) or "(empty)"
            return Meaning(told=f"Enter: {label}", answer=Reply(value=dialog.choices[chosen]))
        case "input":
            if not typed and not _fits_a_line(dialog.default):
                return Meaning(told="Enter: take what is suggested", answer=Reply(value=dialog.default))
            told = "Enter: answer with this" if typed else "Enter: answer with an empty text"
            return Meaning(told=told, answer=Reply(value=typed))
        case _:
            return Meaning(told="Enter: seen", answer=Reply())


def confirmed_by(typed: str) -> int | None:
    """Return which of yes and no was typed."""
    word = typed.strip().lower()
    return 0 if word in _YES else 1 if word in _NO else None


def choices_with(choices: Sequence[AnswerChoice], typed: str) -> list[int]:
    """Return the numbers of the choices that have all typed words in them, in their order."""
    words = typed.casefold().split()
    return [number for number, each in enumerate(choices) if all(word in each.label.casefold() for word in words)]


def asked_elsewhere(dialog: sc.Dialog) -> str:
    """Say that a question is for somebody else."""
    return f"{in_a_line(asker(dialog))} somebody at another frontend: {in_a_line(dialog.title)}"


def _choices(dialog: sc.Dialog) -> tuple[AnswerChoice, ...]:
    if dialog.kind == "confirm":
        return _CONFIRM
    if dialog.kind != "select":
        return ()
    return tuple(AnswerChoice(label=" ".join(visible(each).split()) or "(empty)") for each in dialog.choices)


def _fits_a_line(default: str) -> bool:
    """Whether a suggestion can be edited in a line just as it is."""
    return "\n" not in default and "\t" not in default and visible(default) == default
