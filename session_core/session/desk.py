"""The narrow view of one session that a turn works at: it can read, record, ask and end, and knows nobody else."""

from collections.abc import Iterable

from session_core import limits
from session_core.ids import MessageId, RequestId, TurnId, new_id
from session_core.session.session import Session, Work
from session_core.session.state import SessionState
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import Message, ToolCallPart
from session_core.vocabulary.sessions import Approval, Decision, DeliverAs, QueueItem, TurnStatus


class TurnDesk:
    """Bound to one session and one turn."""

    def __init__(self, session: Session, work: Work, *, approval_timeout_ms: int) -> None:
        self._session = session
        self._work = work
        self._approval_timeout_ms = approval_timeout_ms

    @property
    def turn_id(self) -> TurnId:
        """The turn being worked on."""
        return self._work.turn_id

    @property
    def state(self) -> SessionState:
        """The session's state, to read."""
        return self._session.state

    @property
    def stop_requested(self) -> bool:
        """Whether somebody asked this turn to stop."""
        return self._work.stop_requested

    def now(self) -> int:
        """The service's clock."""
        return self._session.now()

    def record(self, event: ev.Event) -> None:
        """Make an event of this session true."""
        self._session.record(event)

    async def until_durable(self) -> None:
        """Wait until everything recorded so far would survive a crash."""
        await self._session.until_durable()

    async def conversation(self) -> tuple[Message, ...]:
        """Return the messages that lead to the head, from the newest summary on if there is one.

        A long conversation reaches further back than the state: the rest is read from the store, once while the
        session is in memory.
        """
        path = self._session.path
        newer = path.newer(self.state)
        if newer is not None:
            return path.extend(newer)
        recent = self.state.transcript
        missing = missing_before(self.state, recent)
        older = await self._session.load_path(missing) if missing is not None else ()
        return path.begin(older + recent)

    def deliver_waiting(self, kinds: Iterable[DeliverAs]) -> bool:
        """Move waiting messages of these kinds into the conversation, in order; returns whether there were any."""
        if self.stop_requested:
            return False  # what waits survives a stop
        due = [item for item in self.state.queue if item.deliver_as in kinds]
        for item in due:
            self._session.record(message_from_queue(self.state, item, self.turn_id, self.now()), item.client_id)
        return bool(due)

    def finish_unless_more(self, status: TurnStatus, *, error: str | None = None) -> bool:
        """End the turn, or go on with messages that have come meanwhile: one step, so that none is left behind.

        Returns whether the turn has ended.
        """
        if self.stop_requested:
            status = "stopped"
        elif status == "completed" and self.deliver_waiting(("steer", "follow_up")):
            return False
        self._session.close_work(status, error=error)
        return True

    async def ask_approval(self, call: ToolCallPart, summary: str) -> Decision:
        """Ask people whether a tool call may run; no answer in time means no.

        Cancellation: the approval stays open until the turn's work is closed, which denies it.
        """
        if len(self.state.approvals) >= limits.MAX_OPEN_REQUESTS:
            return "deny"
        now = self.now()
        approval = Approval(
            request_id=RequestId(new_id("req")),
            call_id=call.call_id,
            tool_name=call.name,
            summary=summary,
            arguments=call.arguments,
            requested_at=now,
            expires_at=now + self._approval_timeout_ms,
        )
        self.record(ev.ApprovalRequested(approval=approval))
        resolved = await self._session.wait_resolved(approval.request_id, self._approval_timeout_ms)
        return resolved.resolution.decision if isinstance(resolved.resolution, ev.ApprovalResolved) else "deny"


def missing_before(state: SessionState, path: tuple[Message, ...]) -> MessageId | None:
    """Return the message that a path of the state lacks at its beginning; None when it has all that matters."""
    if not state.earlier or any(message.role == "summary" for message in reversed(path)):
        return None
    return path[0].parent_id if path else state.head


def message_from_queue(state: SessionState, item: QueueItem, turn_id: TurnId, now: int) -> ev.MessageAdded:
    """Return the event that moves a waiting message to the end of the conversation."""
    message = Message(
        message_id=MessageId(new_id("msg")),
        parent_id=state.head,
        role="user",
        parts=item.parts,
        created_at=now,
        turn_id=turn_id,
    )
    return ev.MessageAdded(message=message, queue_item_id=item.item_id)
