"""Answers to approvals: from a person, from `--yes`, or a denial without a terminal to ask on."""

from __future__ import annotations

import re
from collections.abc import Collection

import attrs

import session_core as sc

_WORDS: dict[str, sc.Decision] = {
    "y": "allow_once",
    "yes": "allow_once",
    "s": "allow_session",
    "session": "allow_session",
    "a": "allow_always",
    "always": "allow_always",
    "": "deny",
    "n": "deny",
    "no": "deny",
}
_WHOLE = {"v", "view"}
_AGREEING = re.compile(
    r"(?:y|ye|yes|yep|yeah|yup|ok|okay|sure|fine|alright|allow|agreed|go (?:ahead|on|for it)|(?:please )?do|"
    r"(?:looks|sounds) good)\b(?! not\b)"
)


@attrs.frozen(kw_only=True)
class TypedApprovalAnswer:
    """A typed answer: a decision with a note for the model, or a request to see everything.

    With `unclear` it may have been meant as an approval, so it counts as neither approval nor denial.
    """

    decision: sc.Decision = "deny"
    message: str = ""
    wants_all: bool = False
    unclear: bool = False


def parse_answer(typed: str, *, cut: bool = False, rights: Collection[sc.ExtraRight] = ()) -> TypedApprovalAnswer:
    """Parse a typed answer: a letter or its word, or a sentence, which denies the call and goes to the model.

    Any other single word, and a sentence that begins like a yes, are unclear, and so is an answer that does not count
    for a call with these `rights`. An empty answer denies. With `cut`, something was left out of the question, and the
    user may ask to see it.
    """
    said = typed.strip()
    if cut and said.lower() in _WHOLE:
        return TypedApprovalAnswer(wants_all=True)
    decision = _WORDS.get(said.lower())
    if decision is not None and decision not in sc.possible_decisions(rights):
        return TypedApprovalAnswer(unclear=True)
    if decision is not None:
        return TypedApprovalAnswer(decision=decision)
    if len(said.split()) < 2 or _AGREEING.match(said.lower()):
        return TypedApprovalAnswer(unclear=True)
    return TypedApprovalAnswer(message=said)
