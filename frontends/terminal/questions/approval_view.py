"""An approval in the terminal: what is requested, what each answer covers, and what a typed answer means."""

from __future__ import annotations

from collections.abc import Mapping

import session_core as sc
from frontends.commands.run.approval_answers import TypedApprovalAnswer, parse_answer
from frontends.commands.run.approval_text import command_of
from frontends.shared.conversation.tool_calls import pretty_json
from frontends.shared.conversation.work_lines import NAME_CHARS, subagent_name
from frontends.terminal.questions.answers import (
    AnswerChoice,
    AnswerMeaning,
    ScreenQuestion,
    as_visible_line,
    exceeds_line,
)
from frontends.terminal.questions.untrusted_view import ForeignPassage

_DECISION_HINTS: dict[sc.Decision, str] = {
    "allow_once": "Enter: yes, this once",
    "allow_session": "Enter: yes, and for the rest of this session",
    "allow_always": "Enter: yes, and always when it is exactly this",
    "deny": "Enter: no",
}
_HOW = "y, s, a or n, then Enter; a sentence means no, and is sent to the model"
_HOW_ONCE = "y or n, then Enter; a sentence means no, and is sent to the model"
_UNCLEAR = 'not clear yet: y or n; to tell the model something, begin with "no"'


def approval_question(approval: sc.Approval, subagent_names: Mapping[sc.SessionId, str]) -> ScreenQuestion:
    """Turn an approval into a question."""
    name = as_visible_line(approval.tool_name, NAME_CHARS)
    command = command_of(approval)
    facts = [] if command is not None or not approval.summary else [as_visible_line(approval.summary)]
    if approval.reason:
        facts.append(f"asked for because {as_visible_line(approval.reason)}")
    return ScreenQuestion(
        title=f"{_asker(approval, subagent_names)}Allow {name}?",
        facts=tuple(facts),
        passages=(*_requested_passages(approval, command), *_overlong_passages(approval, command)),
        choices=tuple(_choice(each, approval, name, command) for each in sc.possible_decisions(approval.rights)),
        expires_at=approval.expires_at,
    )


def _choice(decision: sc.Decision, approval: sc.Approval, name: str, command: str | None) -> AnswerChoice:
    match decision:
        case "allow_once":
            return AnswerChoice(key="y", label="yes, this once")
        case "allow_session":
            return AnswerChoice(key="s", label=f"yes, and {_describe_grant(approval, name, command)}")
        case "allow_always":
            return AnswerChoice(key="a", label="yes, and always when it is exactly this, in every session")
        case "deny":
            return AnswerChoice(key="n", label="no")


def approval_meaning(approval: sc.Approval, typed: str, chosen: int | None) -> AnswerMeaning:
    """Return the meaning of a typed answer, or of the choice if nothing was typed."""
    if not typed.strip():
        if chosen is None:
            return AnswerMeaning(hint=_HOW if "unconfined" not in approval.rights else _HOW_ONCE)
        decision = sc.possible_decisions(approval.rights)[chosen]
        return AnswerMeaning(hint=_DECISION_HINTS[decision], answer=TypedApprovalAnswer(decision=decision))
    answer = parse_answer(typed, rights=approval.rights)
    if answer.unclear:
        return AnswerMeaning(hint=_UNCLEAR)
    if answer.message:
        return AnswerMeaning(hint="Enter: no, and the model is told what you wrote", answer=answer)
    return AnswerMeaning(hint=_DECISION_HINTS[answer.decision], answer=answer)


def parse_choice(approval: sc.Approval, typed: str) -> int | None:
    """Return the choice that a typed answer names."""
    answer = parse_answer(typed, rights=approval.rights) if typed.strip() else None
    if answer is None or answer.unclear:
        return None
    return sc.possible_decisions(approval.rights).index(answer.decision)


def _asker(approval: sc.Approval, subagent_names: Mapping[sc.SessionId, str]) -> str:
    if approval.session_id is None:
        return ""
    known = subagent_names.get(approval.session_id)
    said = (
        f'"{as_visible_line(known)}"'
        if known is not None
        else as_visible_line(subagent_name(approval.session_id, None))
    )
    return f"{said} asks. "


def _requested_passages(approval: sc.Approval, command: str | None) -> list[ForeignPassage]:
    """Return what would happen; facts about a command stand apart from it, since the command could fake them."""
    if command is not None:
        how = approval.shown.removeprefix(command).strip("\n")
        return [ForeignPassage(text=command), *([ForeignPassage(text=how, label="how it would run:")] if how else [])]
    if approval.shown:
        return [ForeignPassage(text=approval.shown, diff=approval.shown.startswith("--- "))]
    return [
        ForeignPassage(text=pretty_json(approval.arguments) if approval.arguments else "(none)", label="its arguments:")
    ]


def _overlong_passages(approval: sc.Approval, command: str | None) -> list[ForeignPassage]:
    long = [
        ("what it would do, in short:", approval.summary if command is None else ""),
        ("asked for because:", approval.reason),
        ("approval for this session covers:", approval.grant if command is None else ""),
    ]
    return [ForeignPassage(text=text, label=label) for label, text in long if exceeds_line(text)]


def _describe_grant(approval: sc.Approval, name: str, command: str | None) -> str:
    """Describe what an approval for the whole session would cover."""
    if approval.grant in {"", approval.tool_name}:
        return f"for every {name} of this session"
    if command is not None:
        return "for this command whenever it occurs in this session"
    return f"for this session: {as_visible_line(approval.grant)}"
