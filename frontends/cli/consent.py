"""Answering approvals: by asking a person, by `--yes`, or by saying no where nobody can be asked."""

from typing import Literal

import attrs

import session_core as sc

Decision = Literal["allow_once", "allow_session", "deny"]

_WORDS: dict[str, Decision] = {
    "y": "allow_once",
    "yes": "allow_once",
    "a": "allow_session",
    "always": "allow_session",
}


def decision_of(answer: str) -> Decision:
    """Read a typed answer; whatever is not clearly a yes is a no."""
    return _WORDS.get(answer.strip().lower(), "deny")


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
