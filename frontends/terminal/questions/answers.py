"""A question to the person at the terminal, as shown on screen: pure values."""

from __future__ import annotations

from typing import Final

import attrs

from frontends.commands.run.approval_answers import TypedApprovalAnswer
from frontends.commands.run.dialogs import Reply
from frontends.terminal.look.sanitised_text import reveal_hidden
from frontends.terminal.questions.untrusted_view import ForeignPassage

FACT_CHARS: Final = 200
"""The most foreign text within a line of ours; longer text is shown whole among the passages."""


def as_visible_line(text: str, limit: int = FACT_CHARS) -> str:
    """Return the beginning of a text as one line, with invisible characters shown by number."""
    line = " ".join(reveal_hidden(text[: limit * 20]).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def exceeds_line(text: str) -> bool:
    """Return whether a text, made visible, is too long for a line of ours and has to be shown whole."""
    return len(text) > FACT_CHARS or len(reveal_hidden(text)) > FACT_CHARS


@attrs.frozen(kw_only=True)
class AnswerChoice:
    """One of the answers to choose from; `key` is its shortcut, if it has one."""

    label: str
    key: str = ""


@attrs.frozen(kw_only=True)
class ScreenQuestion:
    """A question in words that are safe to display.

    Attributes:
        title: The question itself, in our words.
        facts: Context: why it is asked, and by whom.
        passages: The foreign text to judge.
        typed: The initial text of the answer.
        filters: Whether typing narrows the choices.
    """

    title: str
    facts: tuple[str, ...] = ()
    passages: tuple[ForeignPassage, ...] = ()
    choices: tuple[AnswerChoice, ...] = ()
    typed: str = ""
    filters: bool = False
    expires_at: int


@attrs.frozen(kw_only=True)
class AnswerMeaning:
    """What Enter would do with the typed text or choice; without an `answer` it does nothing, and `hint` says why."""

    hint: str
    answer: TypedApprovalAnswer | Reply | None = None


def describe_time_left(expires_at: int, now_ms: int) -> str:
    """Describe how long a question stays open."""
    seconds = (expires_at - now_ms) // 1000
    if seconds < 0:
        return "time is up"
    if seconds < 60:
        return f"{seconds} s left"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes}:{seconds:02} min left"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min left" if hours < 48 else f"{hours // 24} days left"
