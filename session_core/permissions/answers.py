"""Which answers to a question count, by what is asked for and by who answers: `possible_decisions`, and its table.

A guest is a client with a scoped token. What it answers must never give it, or the session's model, more
than it could have without asking: not the home (no sandbox), not what runs later in the owner's name (protected files),
and nothing that lasts longer than one call once that call reaches beyond the sandbox.
"""

from collections.abc import Collection
from typing import Final, Literal

from session_core.permissions.decision import RIGHT_WORDS
from session_core.vocabulary.sessions import Decision, ExtraRight

AnswerRole = Literal["owner", "guest"]

_EVERY: Final[tuple[Decision, ...]] = ("allow_once", "allow_session", "allow_always", "deny")
ANSWERS: Final[dict[ExtraRight | None, dict[AnswerRole, tuple[Decision, ...]]]] = {
    None: {"owner": _EVERY, "guest": ("allow_once", "allow_session", "deny")},
    "network": {"owner": _EVERY, "guest": ("allow_once", "deny")},
    "sockets": {"owner": _EVERY, "guest": ("deny",)},
    "protected": {"owner": _EVERY, "guest": ("deny",)},
    "unconfined": {"owner": ("allow_once", "deny"), "guest": ("deny",)},
}
"""What may be answered to a call that wants this right; None is every call."""


def possible_decisions(rights: Collection[ExtraRight], role: AnswerRole = "owner") -> tuple[Decision, ...]:
    """Return the answers that count for a call that wants these rights; `deny` always does."""
    wanted: tuple[ExtraRight | None, ...] = (None, *rights)
    return tuple(each for each in _EVERY if all(each in ANSWERS[right][role] for right in wanted))


def explain_refused_decision(
    decision: Decision, rights: Collection[ExtraRight], role: AnswerRole = "owner"
) -> str | None:
    """Explain why an answer does not count; None if it does."""
    possible = possible_decisions(rights, role)
    if decision in possible:
        return None
    if role == "owner":
        return f"this would run without a sandbox, which can be allowed once only: answer allow_once, not {decision}"
    if possible == ("deny",):
        what = next(words for right, words in RIGHT_WORDS.items() if right in rights and right != "network")
        return f"a client with a scoped token may not allow a call to {what}: the owner of the service can"
    return (
        f"a client with a scoped token may not answer {decision} here, as that reaches beyond this session "
        "or this call: the owner of the service can"
    )
