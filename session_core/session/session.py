"""A session: its state, its one writer, the work that runs in it, and the answers it awaits from people.

Rules:
1. `record` is the only way to change the state. It records the event and, if that changed the activity, also an
   `ActivityChanged`, in one synchronous step.
2. At most one piece of work (a turn, a compaction or an undo) runs at a time. Its `Work` holds the cancel scope (the
   force of a stop) and the stop request (its reason).
3. An approval or a dialog is open as long as it is in the state. The first call of a `resolve_*` method closes it;
   later ones learn who was first.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from typing import Literal

import attrs
import trio

from session_core import limits
from session_core.errors import StoreDamaged
from session_core.ids import ClientId, Cursor, MessageId, RequestId, TurnId
from session_core.session.deferred import Deferred
from session_core.session.finish_work import next_closing_event
from session_core.session.message_tree import find_missing_parent
from session_core.session.recorder import EventRecorder
from session_core.session.state import SessionState
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonValue
from session_core.vocabulary.messages import Message, Usage, count_message_chars
from session_core.vocabulary.sessions import (
    Decision,
    DialogAnswer,
    QueueItem,
    ResolvedBecause,
    StopScope,
    TurnOutcome,
    TurnStatus,
)
from session_core.vocabulary.snapshots import SessionSnapshot


# --- the conversation as last shown to a model; the next step only adds what is new -----------------------------------
# It reaches further back than the state, whose window holds only the newest messages. Reading the rest from the store
# is slow, so it happens once while the session is in memory.
class ConversationCache:
    """The messages that lead to a message, from the newest summary on."""

    def __init__(self) -> None:
        self._messages: tuple[Message, ...] = ()
        self.chars = 0
        """The size of all its messages."""

    def find_newer(self, state: SessionState) -> tuple[Message, ...] | None:
        """Return the messages from the end of this path to the head; None if the path does not lead there."""
        if not self._messages:
            return None
        known, wanted = self._messages[-1].message_id, state.head
        path: list[Message] = []
        for message in reversed(state.messages):
            if wanted == known:
                break
            if message.message_id == wanted:
                path.append(message)
                wanted = message.parent_id
        return tuple(reversed(path)) if wanted == known else None

    def restart(self, path: tuple[Message, ...]) -> tuple[Message, ...]:
        """Start over with a path; return the part of it that a model sees."""
        first = next((place for place, message in enumerate(path) if message.role != "tool"), len(path))
        self._messages, self.chars = (), 0
        return self.extend(path[first:])  # a model cannot use results whose calls were cut off

    def extend(self, newer: tuple[Message, ...]) -> tuple[Message, ...]:
        """Append these messages; return the whole path."""
        for count, message in enumerate(reversed(newer), start=1):
            if message.role == "summary":
                self._messages, self.chars, newer = (), 0, newer[-count:]
                break
        self._messages += newer
        self.chars += sum(map(count_message_chars, newer))
        if self.chars > limits.CONVERSATION_CHARS * 3 // 2 and len(self._messages) > 1:
            self._shorten()  # there are more than a full window plus what is read before it
        return self._messages

    def _shorten(self) -> None:
        first = 0
        while self.chars > limits.CONVERSATION_CHARS and first < len(self._messages) - 1:
            self.chars -= count_message_chars(self._messages[first])
            first += 1
        self.restart(self._messages[first:])


# --- session ----------------------------------------------------------------------------------------------------------

Resolution = ev.ApprovalResolved | DialogAnswer
REMEMBERED_OUTCOMES = 64
_WIDTH: dict[StopScope, int] = {"turn": 0, "subtree": 1, "session": 2}


@attrs.define(eq=False, kw_only=True)
class Work:
    """A running turn, compaction or undo; `stop_requested` is the reason for a stop, the scope enforces it."""

    kind: Literal["turn", "compaction", "restore"]
    turn_id: TurnId
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    stop_requested: bool = False
    ended: trio.Event = attrs.field(factory=trio.Event)
    on_end: list[Callable[[], None]] = attrs.field(factory=list)
    restart: bool = False  # whether messages that came during the stop start a turn at its end
    reserved: Usage | None = None
    """What the running model call may use; None if there is none."""
    subagents: list["Session"] = attrs.field(factory=list)
    """The child sessions whose usage is not yet part of this session's own."""
    budget_changed: trio.Event = attrs.field(factory=trio.Event)
    """Set and replaced when the budget has changed; subagents wait here for their share."""
    on_limits_changed: Callable[[], None] = lambda: None
    """Makes the turn check its limits again."""

    def notify_budget_changed(self) -> None:
        """Wake the subagents that wait for their share of the budget."""
        self.budget_changed.set()
        self.budget_changed = trio.Event()


@attrs.define(eq=False)
class SpeakerChain:
    """The extensions whose messages have followed from what a person did last, in order.

    It is held by the session, not by each message: so it spans hooks, commands, the queue and all turns that follow. It
    need not outlive the process, because nothing of an extension that could continue it does.
    """

    speakers: list[str] = attrs.field(factory=list)
    cut: bool = False
    """Whether a message was refused, and people were told."""


@attrs.frozen(kw_only=True)
class ResolvedRequest:
    """How an approval or dialog ended, and who answered."""

    resolution: Resolution
    by: ClientId | None


class Session:
    """One session in one service; commands numbered up to `stop_mark` were overtaken by a stop."""

    def __init__(self, state: SessionState, recorder: EventRecorder) -> None:
        self.state = state
        self.work: Work | None = None
        self.closing = False
        self.stop_mark = -1
        self.used_at = 0
        self.last_alive_at = 0
        """When an earlier run of the service recorded its last sign of life."""
        self.damage: StoreDamaged | None = None
        """Why it cannot be read; if set, the session is empty and can only be deleted."""
        self.conversation_cache = ConversationCache()
        self.chain = SpeakerChain()
        self.outcomes: OrderedDict[TurnId, TurnOutcome] = OrderedDict()
        if state.last_outcome is not None:
            self.outcomes[state.last_outcome.turn_id] = state.last_outcome
        self._recorder = recorder
        self._resolved: OrderedDict[RequestId, ResolvedRequest] = OrderedDict()
        self._waiting: dict[RequestId, Deferred[ResolvedRequest]] = {}

    # --- the one writer -----------------------------------------------------------------------------------------------

    def record(self, event: ev.Event, by: ClientId | None = None) -> ev.SessionEvent:
        """Record an event: journal it, fold it, publish it, in one synchronous step."""
        before = self.state.activity
        recorded = self._recorder.record_event(self.state, event, by)
        if isinstance(event, ev.DELTA_EVENTS):
            return recorded  # the vast majority of events; none of them changes the activity or ends anything
        if self.state.activity is not before:
            self._recorder.record_event(self.state, ev.ActivityChanged(activity=self.state.activity))
        self._handle_recorded_event(event, by)
        return recorded

    def _handle_recorded_event(self, event: ev.Event, by: ClientId | None) -> None:
        match event:
            case ev.ApprovalResolved(request_id=request_id):
                self._remember(request_id, ResolvedRequest(resolution=event, by=by))
            case ev.DialogClosed(answer=answer):
                self._remember(answer.request_id, ResolvedRequest(resolution=answer, by=by))
            case ev.TurnEnded(outcome=outcome):
                self.outcomes[outcome.turn_id] = outcome
                if len(self.outcomes) > REMEMBERED_OUTCOMES:
                    self.outcomes.popitem(last=False)
                self._finish_work()
            case ev.CompactionFinished():
                self._finish_work("compaction")
            case _:
                pass

    def _finish_work(self, kind: Literal["turn", "compaction"] = "turn") -> None:
        work = self.work
        if work is not None and work.kind == kind:
            self.work = None
            work.ended.set()

    @property
    def cursor(self) -> Cursor:
        """The end of the stream right now."""
        return self._recorder.stream.cursor

    def now(self) -> int:
        """Return the time of the service's clock."""
        return self._recorder.now()

    def snapshot(self) -> SessionSnapshot:
        """Take a snapshot of the whole current state."""
        return self.state.snapshot(self.cursor)

    async def wait_until_durable(self) -> None:
        """Wait until everything recorded so far is durable."""
        await self._recorder.wait_until_durable()

    async def load_path(self, message_id: MessageId) -> tuple[Message, ...]:
        """Read the path to a message that is no longer in the state, as much of it as a state would hold."""
        return await self._recorder.store.load_path(
            self.state.session_id, message_id, max_chars=limits.CONVERSATION_CHARS // 2
        )

    async def conversation(self) -> tuple[Message, ...]:
        """Return the messages that lead to the head, from the newest summary on if there is one.

        A long conversation reaches further back than the state; the rest is read from the store, once while the
        session is in memory.
        """
        path = self.conversation_cache
        newer = path.find_newer(self.state)
        if newer is not None:
            return path.extend(newer)
        recent = self.state.transcript
        missing = find_missing_parent(self.state, recent)
        older = await self.load_path(missing) if missing is not None else ()
        return path.restart(older + recent)

    def keep_leaves(self, leaves: Mapping[str, bytes]) -> None:
        """Store leaves of an executor's state, in one step with the recorded events."""
        if leaves:
            self._recorder.store.keep_leaves(self.state.session_id, leaves)

    async def load_leaves(self, digests: Collection[str]) -> Mapping[str, bytes]:
        """Read leaves of an executor's state; missing ones are left out."""
        return await self._recorder.store.load_leaves(self.state.session_id, digests) if digests else {}

    # --- ending work --------------------------------------------------------------------------------------------------

    def request_stop(self, scope: StopScope, by: ClientId | None) -> bool:
        """Set the stop flag and cancel the running work at once; return whether there was any."""
        work = self.work
        if work is None:
            return False
        known = self.state.stop
        if work.kind == "restore":
            work.stop_requested = True  # half an undo is worse than none or all: let it finish, then start nothing
        elif not work.stop_requested or (known is not None and _WIDTH[scope] > _WIDTH[known.scope]):
            work.stop_requested = True
            self.record(ev.StopRequested(scope=scope), by)
        work.scope.cancel(reason="a stop was requested")
        self.close_requests("stopped", by)
        return True

    def interrupt(self, reason: str) -> None:
        """Cancel the running work without a stop request."""
        if self.work is not None:
            self.work.scope.cancel(reason=reason)

    def close_work(
        self,
        status: TurnStatus,
        *,
        error: str | None = None,
        output: JsonValue = None,
        ended_at: int | None = None,
    ) -> None:
        """Record the events that bring the session to rest, with everything answered and nothing half-done."""
        now = self.now() if ended_at is None else ended_at
        while (event := next_closing_event(self.state, status, now=now, error=error)) is not None:
            if isinstance(event, ev.TurnEnded) and output is not None:
                event = ev.TurnEnded(outcome=attrs.evolve(event.outcome, output=output))
            self.record(event)

    def close_requests(self, because: ResolvedBecause, by: ClientId | None = None) -> None:
        """Close all open approvals and dialogs."""
        for approval in self.state.approvals:
            self.resolve_approval(approval.request_id, "deny", because, by)
        for dialog in self.state.dialogs:
            self.resolve_dialog(dialog.request_id, None, because, by)

    def take_from_queue(
        self,
        items: tuple[QueueItem, ...],
        because: Literal["removed", "taken", "returned"],
        by: ClientId | None,
    ) -> None:
        """Remove queued messages, with the reason."""
        for item in items:
            self.record(ev.QueueItemRemoved(item_id=item.item_id, because=because), by)

    # --- people's answers ---------------------------------------------------------------------------------------------

    def resolve_approval(
        self,
        request_id: RequestId,
        decision: Decision,
        because: ResolvedBecause,
        by: ClientId | None = None,
        *,
        message: str = "",
    ) -> bool:
        """Close an open approval; return whether this call closed it."""
        approval = next((each for each in self.state.approvals if each.request_id == request_id), None)
        if approval is None:
            return False
        self.record(
            ev.ApprovalResolved(
                request_id=request_id,
                tool_name=approval.tool_name,
                decision=decision,
                because=because,
                grant=approval.grant,
                message=message,
            ),
            by,
        )
        return True

    def resolve_dialog(
        self, request_id: RequestId, answer: JsonValue, because: ResolvedBecause, by: ClientId | None = None
    ) -> bool:
        """Close an open dialog; return whether this call closed it."""
        if not any(each.request_id == request_id for each in self.state.dialogs):
            return False
        self.record(
            ev.DialogClosed(answer=DialogAnswer(request_id=request_id, because=because, value=answer, by=by)), by
        )
        return True

    def find_resolved(self, request_id: RequestId) -> ResolvedRequest | None:
        """Return how a request ended, as long as it is remembered."""
        return self._resolved.get(request_id)

    async def wait_resolved(self, request_id: RequestId, timeout_ms: int) -> ResolvedRequest:
        """Wait until a request is answered; a timeout means no.

        Cancellation: the request stays open, to be answered or to be closed by the canceller.
        """
        if (known := self._resolved.get(request_id)) is not None:
            return known
        answer = self._waiting.setdefault(request_id, Deferred())
        with trio.move_on_after(timeout_ms / 1000):
            return await answer.wait()
        if not self.resolve_approval(request_id, "deny", "timed_out"):
            self.resolve_dialog(request_id, None, "timed_out")
        if (known := self._resolved.get(request_id)) is not None:
            return known  # closed just now, or answered at the very moment of the timeout
        self._waiting.pop(request_id, None)  # answered so long ago that the answer is no longer remembered
        return ResolvedRequest(resolution=DialogAnswer(request_id=request_id, because="timed_out"), by=None)

    def _remember(self, request_id: RequestId, resolved: ResolvedRequest) -> None:
        self._resolved[request_id] = resolved
        if len(self._resolved) > limits.MAX_FINISHED_REQUESTS:
            self._resolved.popitem(last=False)
        waiter = self._waiting.pop(request_id, None)
        if waiter is not None:
            waiter.set(resolved)
