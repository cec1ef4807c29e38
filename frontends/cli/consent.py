"""Answering approvals: by asking a person, by `--yes`, or by saying no where nobody can be asked."""

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


@attrs.frozen(kw_only=True)
class Answer:
    """What a person said: a decision, with what the model should know about it, or the wish to see everything."""

    decision: sc.Decision = "deny"
    message: str = ""
    wants_all: bool = False


def answer_of(typed: str, *, cut: bool = False) -> Answer:
    """Read a typed answer; whatever is not clearly a yes is a no, and what it says goes to the model.

    With `cut` something was left out of what was shown, and may be asked for.
    """
    said = typed.strip()
    if cut and said.lower() in _WHOLE:
        return Answer(wants_all=True)
    decision = _WORDS.get(said.lower())
    return Answer(message=said) if decision is None else Answer(decision=decision)


@attrs.define
class Consent:
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
