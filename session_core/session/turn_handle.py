"""The narrow view of one session that a turn gets: it can read, record, ask for approvals and end.

It sees no other session. `TurnHandle.ask_approval` is where a tool call waits for a person: `agent/tool_runner` calls
it when the rules and the mode (`session_core/permissions`) require an approval.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import attrs

from session_core import limits
from session_core.ids import MessageId, RequestId, TurnId, new_id
from session_core.session.message_tree import find_missing_parent as find_missing_parent
from session_core.session.session import Session, Work
from session_core.session.state import SessionState
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonValue
from session_core.vocabulary.messages import Message, Refusal, ToolCallPart
from session_core.vocabulary.sessions import Approval, Decision, DeliverAs, ExtraRight, QueueItem, TurnStatus
from session_core.vocabulary.snapshots import SessionSnapshot
from session_core.wire.codec import encode


@attrs.frozen(kw_only=True)
class ApprovalPrompt:
    """A tool call as shown to people for approval; see `Approval`."""

    call: ToolCallPart
    summary: str
    displayed_text: str
    fingerprint: str
    reason: str
    grant: str
    rights: tuple[ExtraRight, ...] = ()


class TurnHandle:
    """Bound to one session and one turn."""

    def __init__(
        self,
        session: Session,
        work: Work,
        *,
        approval_timeout_ms: int,
        lineage: Callable[[], Sequence[Session]] | None = None,
    ) -> None:
        self._session = session
        self._work = work
        self._approval_timeout_ms = approval_timeout_ms
        self._lineage = lineage or (lambda: (session,))
        """This session, the one that waits for it, and so on up to the root session, which people watch."""

    @property
    def work(self) -> Work:
        """The running work."""
        return self._work

    @property
    def turn_id(self) -> TurnId:
        """The turn being worked on."""
        return self._work.turn_id

    @property
    def state(self) -> SessionState:
        """The session's state; read-only."""
        return self._session.state

    def snapshot(self) -> SessionSnapshot:
        """Return the session's state as it is now; it never changes."""
        return self._session.snapshot()

    @property
    def stop_requested(self) -> bool:
        """Whether a stop of this turn was requested."""
        return self._work.stop_requested

    @property
    def root_session(self) -> Session:
        """The root of the child sessions: people are asked there, and its limits apply to all its subagents."""
        return self._lineage()[-1]

    @property
    def grants(self) -> frozenset[str]:
        """The grants for this session and for the sessions that wait for it."""
        return frozenset(grant for session in self._lineage() for grant in session.state.grants)

    @property
    def remaining_ms(self) -> int | None:
        """The remaining time of this turn and of those that wait for it; None if unlimited."""
        remaining = [
            session.state.settings.limits.time_ms - (self.now() - session.state.turn.started_at)
            for session in self._lineage()
            if session.state.settings.limits.time_ms is not None and session.state.turn is not None
        ]
        return max(0, min(remaining)) if remaining else None

    def now(self) -> int:
        """Return the time of the service's clock."""
        return self._session.now()

    def record(self, event: ev.Event) -> None:
        """Record an event of this session."""
        self._session.record(event)

    async def wait_until_durable(self) -> None:
        """Wait until everything recorded so far would survive a crash."""
        await self._session.wait_until_durable()

    def keep_leaves(self, leaves: Mapping[str, bytes]) -> None:
        """Store leaves of an executor's state by their digests, in one step with the recorded events."""
        self._session.keep_leaves(leaves)

    async def load_leaves(self, digests: Collection[str]) -> Mapping[str, bytes]:
        """Read leaves of an executor's state; missing ones are left out."""
        return await self._session.load_leaves(digests)

    async def conversation(self) -> tuple[Message, ...]:
        """Return the messages that lead to the head; see `Session.conversation`."""
        return await self._session.conversation()

    @property
    def conversation_chars(self) -> int:
        """The size in characters of the most recently requested conversation."""
        return self._session.conversation_cache.chars

    def deliver_waiting(self, kinds: Iterable[DeliverAs]) -> bool:
        """Move queued messages of these kinds into the conversation, in order; return whether any wants an answer."""
        if self.stop_requested:
            return False  # queued messages survive a stop
        due = [item for item in self.state.queue if item.deliver_as in kinds]
        for item in due:
            self._session.record(message_from_queue(self.state, item, self.turn_id, self.now()), item.client_id)
        return any(not item.quiet for item in due)

    def finish_unless_more(self, status: TurnStatus, *, error: str | None = None, output: JsonValue = None) -> bool:
        """End the turn, or continue with messages that came meanwhile, in one step so none is left behind.

        Returns whether the turn has ended.
        """
        if self.stop_requested:
            status = "stopped"
        elif status == "completed" and self.deliver_waiting(("steer", "follow_up")):
            return False
        self._session.close_work(status, error=error, output=output)
        return True

    async def ask_approval(self, prompt: ApprovalPrompt) -> Decision | Refusal:
        """Ask people whether a tool call may run; return their decision to allow it, or why it may not.

        No answer in time means no. Cancellation: the approval is denied in the same step.
        """
        session = self.root_session
        if session.work is None:
            reason = "Nobody can be asked any more: the turn that this call belongs to has ended."
            return Refusal(by="nobody", reason=reason)
        if len(session.state.approvals) >= limits.MAX_OPEN_REQUESTS:
            return Refusal(by="nobody", reason="Too many calls are waiting for an answer already.")
        now = self.now()
        approval = Approval(
            request_id=RequestId(new_id("req")),
            call_id=prompt.call.call_id,
            tool_name=prompt.call.name,
            summary=prompt.summary[: limits.MAX_SUMMARY_CHARS],
            arguments=prompt.call.arguments,
            requested_at=now,
            expires_at=now + self._approval_timeout_ms,
            shown=prompt.displayed_text,
            fingerprint=prompt.fingerprint,
            reason=prompt.reason,
            grant=prompt.grant,
            rights=prompt.rights,
            session_id=self.state.session_id if session is not self._session else None,
        )
        if len(encode((*session.state.approvals, approval))) > limits.MAX_APPROVAL_BYTES:
            return Refusal(by="nobody", reason="The calls that wait for an answer are too large together.")
        session.record(ev.ApprovalRequested(approval=approval))
        try:
            resolved = await session.wait_resolved(approval.request_id, self._approval_timeout_ms)
        finally:
            if session is not self._session:  # its own are closed with its turn
                session.resolve_approval(approval.request_id, "deny", "stopped")
        match resolved.resolution:
            case ev.ApprovalResolved(decision="deny", because="answered", message=message):
                return Refusal(by="person", reason=message)
            case ev.ApprovalResolved(decision=decision) if decision != "deny":
                return decision
            case _:
                return Refusal(by="nobody")


def message_from_queue(state: SessionState, item: QueueItem, turn_id: TurnId | None, now: int) -> ev.MessageAdded:
    """Return the event that moves a queued message to the end of the conversation."""
    message = Message(
        message_id=MessageId(new_id("msg")),
        parent_id=state.head,
        role=item.role,
        parts=item.parts,
        created_at=now,
        turn_id=turn_id,
        source=item.source,
        queue_item_id=item.item_id,
    )
    return ev.MessageAdded(message=message, queue_item_id=item.item_id)
