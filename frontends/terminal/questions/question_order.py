"""Which questions are for the person at this terminal, in which order, and which of them are answered already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

import session_core as sc

Request = sc.Approval | sc.Dialog

ANSWER_MS: Final = 10_000
"""After this time a question that is still open is asked again: its answer must have been lost."""


@attrs.define(eq=False)
class RequestQueue:
    """The open questions, as the service tells them.

    Attributes:
        of_others: Questions that only another client may answer.
        names: What helpers are called.
    """

    other_dialogs: list[sc.Dialog] = attrs.field(factory=list)
    names: Mapping[sc.SessionId, str] = attrs.field(factory=dict)
    _ours: list[Request] = attrs.field(factory=list)
    _answered: dict[sc.RequestId, int] = attrs.field(factory=dict)
    _last_update: tuple[tuple[sc.Approval, ...], tuple[sc.Dialog, ...], sc.ClientId] | None = None

    def update(
        self,
        approvals: tuple[sc.Approval, ...],
        dialogs: tuple[sc.Dialog, ...],
        client_id: sc.ClientId,
        names: Mapping[sc.SessionId, str],
    ) -> bool:
        """Know what is open now; False if nothing has changed."""
        before = self._last_update
        same = before is not None and before[0] is approvals and before[1] is dialogs and before[2] == client_id
        if same and names == self.names:
            return False
        self._last_update, self.names = (approvals, dialogs, client_id), dict(names)
        self.other_dialogs = find_other_dialogs(dialogs, client_id)
        self._ours = open_requests(approvals, dialogs, client_id)
        # What was answered is forgotten by its age alone: another session may be shown now, and then this one again.
        return True

    @property
    def pending(self) -> list[Request]:
        """What waits for an answer, the oldest first."""
        return [each for each in self._ours if each.request_id not in self._answered]

    def request_to_show(self, current: Request | None) -> Request | None:
        """Return the question to show: the one that is shown while it is open, else the oldest one."""
        pending = self.pending
        here = current.request_id if current is not None else None
        return next((each for each in pending if each.request_id == here), pending[0] if pending else None)

    def position(self, request: Request) -> int:
        """Return where a question stands among those that are left."""
        return next((n for n, each in enumerate(self.pending) if each.request_id == request.request_id), 0)

    def mark_answered(self, request: Request, now_ms: int) -> None:
        """An answer is on its way."""
        self._answered[request.request_id] = now_ms

    def reopen(self, request_id: sc.RequestId) -> None:
        """The answer could not be given."""
        self._answered.pop(request_id, None)

    def reopen_lost(self, now_ms: int) -> bool:
        """Forget what was answered long ago: if it is still open, it is asked again. False if there is nothing such."""
        lost = [request_id for request_id, answered_at in self._answered.items() if answered_at <= now_ms - ANSWER_MS]
        for request_id in lost:
            del self._answered[request_id]
        return bool(lost)


def open_requests(
    approvals: Iterable[sc.Approval], dialogs: Iterable[sc.Dialog], client_id: sc.ClientId
) -> list[Request]:
    """Return what this client may answer, the oldest first."""
    ours = (each for each in dialogs if each.to is None or each.to == client_id)
    return sorted((*approvals, *ours), key=_asked_at)


def find_other_dialogs(dialogs: Iterable[sc.Dialog], client_id: sc.ClientId) -> list[sc.Dialog]:
    """Return the questions that only another client may answer."""
    return [each for each in dialogs if each.to is not None and each.to != client_id]


def _asked_at(request: Request) -> int:
    return request.requested_at if isinstance(request, sc.Approval) else request.opened_at
