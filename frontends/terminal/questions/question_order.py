"""Which questions are for this terminal, in what order, and which are already answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

import session_core as sc

Request = sc.Approval | sc.Dialog

ANSWER_MS: Final = 10_000
"""A question still open after this time is asked again: its answer must have been lost."""


@attrs.define(eq=False)
class RequestQueue:
    """The open questions, as reported by the service.

    Attributes:
        other_dialogs: Dialogs that only another client may answer.
        names: The names of subagents.
    """

    other_dialogs: list[sc.Dialog] = attrs.field(factory=list)
    names: Mapping[sc.SessionId, str] = attrs.field(factory=dict)
    _ours: list[Request] = attrs.field(factory=list)
    _answered: dict[sc.RequestId, int] = attrs.field(factory=dict)
    _last_update: tuple[object, ...] = ()

    def update(
        self,
        approvals: tuple[sc.Approval, ...],
        dialogs: tuple[sc.Dialog, ...],
        client_id: sc.ClientId,
        names: Mapping[sc.SessionId, str],
    ) -> bool:
        """Update the open questions; False if nothing has changed."""
        update = approvals, dialogs, client_id, names
        if update == self._last_update:
            return False
        self._last_update, self.names = update, names
        self.other_dialogs = find_other_dialogs(dialogs, client_id)
        self._ours = open_requests(approvals, dialogs, client_id)
        # Answered questions expire by age alone: another session may be shown now, and this one again later.
        return True

    @property
    def pending(self) -> list[Request]:
        """Return the unanswered questions, oldest first."""
        return [each for each in self._ours if each.request_id not in self._answered]

    def request_to_show(self, current: Request | None) -> Request | None:
        """Return the question to show: the current one while it is open, else the oldest."""
        pending = self.pending
        here = current.request_id if current is not None else None
        return next((each for each in pending if each.request_id == here), pending[0] if pending else None)

    def position(self, request: Request) -> int:
        """Return the position of a question among the unanswered ones."""
        return next((n for n, each in enumerate(self.pending) if each.request_id == request.request_id), 0)

    def mark_answered(self, request: Request, now_ms: int) -> None:
        """Record that an answer has been sent."""
        self._answered[request.request_id] = now_ms

    def reopen(self, request_id: sc.RequestId) -> None:
        """Record that the answer could not be delivered."""
        self._answered.pop(request_id, None)

    def reopen_lost(self, now_ms: int) -> bool:
        """Forget answers sent long ago, so questions still open are asked again. False if there were none."""
        lost = [request_id for request_id, answered_at in self._answered.items() if answered_at <= now_ms - ANSWER_MS]
        for request_id in lost:
            del self._answered[request_id]
        return bool(lost)


def open_requests(
    approvals: Iterable[sc.Approval], dialogs: Iterable[sc.Dialog], client_id: sc.ClientId
) -> list[Request]:
    """Return the questions this client may answer, oldest first."""
    ours = (each for each in dialogs if each.to is None or each.to == client_id)
    return sorted((*approvals, *ours), key=_asked_at)


def find_other_dialogs(dialogs: Iterable[sc.Dialog], client_id: sc.ClientId) -> list[sc.Dialog]:
    """Return the dialogs that only another client may answer."""
    return [each for each in dialogs if each.to is not None and each.to != client_id]


def _asked_at(request: Request) -> int:
    return request.requested_at if isinstance(request, sc.Approval) else request.opened_at
