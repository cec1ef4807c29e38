"""Answering approvals: by asking a person, by `--yes`, or by saying no where nobody can be asked."""

from __future__ import annotations

import re

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
    """What a person said: a decision, with what the model should know about it, or the wish to see everything.

    With `unclear` it may have been meant as a yes, so that neither a yes nor a no can be made of it.
    """

    decision: sc.Decision = "deny"
    message: str = ""
    wants_all: bool = False
    unclear: bool = False


def parse_answer(typed: str, *, cut: bool = False) -> TypedApprovalAnswer:
    """Read a typed answer: a letter or its word, or a sentence, which is a no and goes to the model.

    A single other word, and a sentence that begins like a yes, are unclear. Nothing at all is a no. With `cut`
    something was left out of what was shown, and may be asked for.
    """
    said = typed.strip()
    if cut and said.lower() in _WHOLE:
        return TypedApprovalAnswer(wants_all=True)
    decision = _WORDS.get(said.lower())
    if decision is not None:
        return TypedApprovalAnswer(decision=decision)
    if len(said.split()) < 2 or _AGREEING.match(said.lower()):
        return TypedApprovalAnswer(unclear=True)
    return TypedApprovalAnswer(message=said)


@attrs.define
class HandledRequests:
    """Remembers which requests were taken care of, so that each is answered once."""

    _handled: set[sc.RequestId] = attrs.field(factory=set)

    def new_approvals(self, state: sc.SessionState) -> list[sc.Approval]:
        """Return the open approvals nobody has taken care of yet."""
        new = [each for each in state.approvals if each.request_id not in self._handled]
        self._handled.update(each.request_id for each in new)
        return new

    def new_dialogs(self, state: sc.SessionState) -> list[sc.Dialog]:
        """Return the open dialogs nobody has taken care of yet."""
        new = [each for each in state.dialogs if each.request_id not in self._handled]
        self._handled.update(each.request_id for each in new)
        return new
