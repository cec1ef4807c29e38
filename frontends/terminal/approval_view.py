"""An approval in the terminal: what is asked for, what each answer covers, and what a typed answer means."""

from __future__ import annotations

import json
from collections.abc import Mapping

import session_core as sc
from frontends.cli.asking import helper_name
from frontends.cli.consent import Answer, answer_of
from frontends.cli.wording import NAME_CHARS
from frontends.terminal.foreign import Passage
from frontends.terminal.questions import AnswerChoice, Meaning, Question, in_a_line, is_cut_in_a_line

_DECISIONS: tuple[sc.Decision, ...] = ("allow_once", "allow_session", "allow_always", "deny")
_TOLD: dict[sc.Decision, str] = {
    "allow_once": "Enter: yes, this once",
    "allow_session": "Enter: yes, and for the rest of this session",
    "allow_always": "Enter: yes, and always when it is exactly this",
    "deny": "Enter: no",
}
_HOW = "y, s, a or n, then Enter; a sentence is a no, and the model is told it"
_UNCLEAR = 'not clear yet: y or n; to tell the model something, begin with "no"'


def approval_question(approval: sc.Approval, helper_names: Mapping[sc.SessionId, str]) -> Question:
    """Put an approval into words."""
    name = in_a_line(approval.tool_name, NAME_CHARS)
    command = _command(approval)
    facts = [] if command is not None or not approval.summary else [in_a_line(approval.summary)]
    if approval.reason:
        facts.append(f"asked for because {in_a_line(approval.reason)}")
    return Question(
        request_id=approval.request_id,
        title=f"{_asker(approval, helper_names)}Allow {name}?",
        facts=tuple(facts),
        passages=(*_asked_for(approval, command), *_too_long_for_a_line(approval, command)),
        choices=(
            AnswerChoice(key="y", label="yes, this once"),
            AnswerChoice(key="s", label=f"yes, and {_covered(approval, name, command)}"),
            AnswerChoice(key="a", label="yes, and always when it is exactly this, in every session"),
            AnswerChoice(key="n", label="no"),
        ),
        expires_at=approval.expires_at,
    )


def approval_meaning(typed: str, chosen: int | None) -> Meaning:
    """Say what a typed answer means, or the choice if nothing was typed."""
    if not typed.strip():
        if chosen is None:
            return Meaning(told=_HOW)
        decision = _DECISIONS[chosen]
        return Meaning(told=_TOLD[decision], answer=Answer(decision=decision))
    answer = answer_of(typed)
    if answer.unclear:
        return Meaning(told=_UNCLEAR)
    if answer.message:
        return Meaning(told="Enter: no, and the model is told what you wrote", answer=answer)
    return Meaning(told=_TOLD[answer.decision], answer=answer)


def chosen_by(typed: str) -> int | None:
    """Return which of the choices a typed answer is."""
    answer = answer_of(typed) if typed.strip() else None
    return None if answer is None or answer.unclear else _DECISIONS.index(answer.decision)


def _asker(approval: sc.Approval, helper_names: Mapping[sc.SessionId, str]) -> str:
    if approval.session_id is None:
        return ""
    known = helper_names.get(approval.session_id)
    said = f'"{in_a_line(known)}"' if known is not None else in_a_line(helper_name(approval.session_id, None))
    return f"{said} asks. "


def _command(approval: sc.Approval) -> str | None:
    """Return the command line, if that is what is asked about and what is shown first."""
    command = approval.arguments.get("command")
    if not isinstance(command, str) or not command:
        return None
    return command if approval.shown.startswith(f"{command}\n\n") else None


def _asked_for(approval: sc.Approval, command: str | None) -> list[Passage]:
    """Return what would happen; what is said of a command is apart from it, since it could say the same of itself."""
    if command is not None:
        how = approval.shown.removeprefix(command).strip("\n")
        return [Passage(text=command), *([Passage(text=how, label="how it would run:")] if how else [])]
    if approval.shown:
        return [Passage(text=approval.shown, diff=approval.shown.startswith("--- "))]
    return [Passage(text=_arguments(approval.arguments), label="its arguments:")]


def _too_long_for_a_line(approval: sc.Approval, command: str | None) -> list[Passage]:
    long = [
        ("what it would do, in short:", approval.summary if command is None else ""),
        ("asked for because:", approval.reason),
        ("a yes for this session covers:", approval.grant if command is None else ""),
    ]
    return [Passage(text=text, label=label) for label, text in long if is_cut_in_a_line(text)]


def _covered(approval: sc.Approval, name: str, command: str | None) -> str:
    """Say what a yes for the whole session would cover."""
    if approval.grant in {"", approval.tool_name}:
        return f"for every {name} of this session"
    if command is not None:
        return "for this command whenever it comes again in this session"
    return f"for this session: {in_a_line(approval.grant)}"


def _arguments(arguments: sc.JsonObject) -> str:
    return json.dumps(arguments, default=_plain, ensure_ascii=False, indent=2) if arguments else "(none)"


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)
