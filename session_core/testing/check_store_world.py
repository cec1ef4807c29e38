"""The basis of the store checks: where stores come from, and a small service that hands events to one.

`LiveSessions` does what the real service does with a store, and nothing else: it numbers events, hands them over before
it folds them, and answers the store's questions from the folded state. It also keeps its own record of what it handed
over, so a check compares what comes back with that, and not with another store.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import trio

from session_core.errors import StorageFailed
from session_core.ids import CallId, Cursor, Epoch, MessageId, SessionId, TurnId, new_id, new_session_id
from session_core.session.restore import restore
from session_core.session.session_list import SessionListState
from session_core.session.state import SessionState
from session_core.storage.base import OpenedStore, SessionStore, StoredSession, StoreReader
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import TRANSIENT_EVENTS, SessionEvent
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message, Role, TextPart, ToolCallPart, ToolResultPart, count_message_chars
from session_core.vocabulary.sessions import Settings
from session_core.vocabulary.snapshots import SessionSnapshot, SessionSummary

NOWHERE = Cursor(epoch=Epoch("run_check"), seq=0)
"""The cursor of compared states: it depends on when a state was read, not on its content."""
HALF_A_CHARACTER = "\ud83d"
"""Text that cannot be encoded."""
_START_MS = 1_700_000_000_000
_SETTINGS = Settings(model="check-model", cwd="/check")


class StoreHarness(ABC):
    """One place, empty at first, where stores of the kind under test keep their data.

    Attributes:
        exclusive: Whether a second opener gets `StoreInUse`; only a store that no other process can reach may set it
            to false.
        patience_s: How long it may take until the text of an unfinished answer is stored.
    """

    exclusive: bool = True
    patience_s: float = 10.0

    @abstractmethod
    def make_store(self) -> SessionStore:
        """Make a store on this place, not opened yet; each call returns one that shares no state with the others."""

    def make_reader(self) -> AbstractAsyncContextManager[StoreReader] | None:
        """Open a second view of the place, as another process would; None if the store has none."""
        return None

    async def crash(self, store: SessionStore) -> SessionStore | None:
        """Simulate a crash of the process that runs this store, and return a new store on what is left.

        The check leaves the old store's block afterwards. What the old store writes then must not reach the new one,
        and it may fail. Return None if crashes cannot be simulated: then the store is closed and opened again instead.
        """
        return None


@asynccontextmanager
async def open_live_sessions(store: SessionStore) -> AsyncGenerator["LiveSessions"]:
    """Open a store and run it for the length of the block, as the service does."""
    live = LiveSessions(store)
    failure: Exception | None = None
    try:
        async with store.open() as opened:
            live.opened = opened
            live.session_list.load(opened.summaries)
            async with trio.open_nursery() as nursery:
                await nursery.start(store.run, live)
                try:
                    yield live
                except Exception as error:  # noqa: BLE001 - raised again below, without the group of a nursery
                    failure = error
                nursery.cancel_scope.cancel(reason="the check is done")
    except StorageFailed:
        if not live.crashed and failure is None:
            raise
    except ExceptionGroup as group:
        raise AssertionError(f"the store's own task ended by an error: {group.exceptions}") from group
    while isinstance(failure, ExceptionGroup) and len(failure.exceptions) == 1:
        failure = failure.exceptions[0]
    if failure is not None:
        raise failure


class LiveSessions:
    """Sessions that live in memory and are handed to a store event by event."""

    def __init__(self, store: SessionStore) -> None:
        self.store = store
        self.opened = OpenedStore()
        self.seq = 0
        self.session_list = SessionListState()
        self.states: dict[SessionId, SessionState] = {}
        self.recorded: dict[SessionId, list[SessionEvent]] = {}
        self.messages: dict[SessionId, list[Message]] = {}
        self.failures: list[StorageFailed] = []
        self.crashed = False

    # --- questions of the store ---------------------------------------------------------------------------------------

    def summary_of(self, session_id: SessionId) -> SessionSummary | None:
        """Return a session's summary for the list."""
        return self.session_list.sessions.get(session_id)

    def state_of(self, session_id: SessionId) -> SessionSnapshot | None:
        """Return a session's state."""
        state = self.states.get(session_id)
        return state.snapshot(Cursor(epoch=NOWHERE.epoch, seq=self.seq)) if state is not None else None

    def storage_failed(self, failure: StorageFailed) -> None:
        """Record that nothing more will be written."""
        self.failures.append(failure)

    # --- actions of the checks ----------------------------------------------------------------------------------------

    def record(self, session_id: SessionId | None, event: ev.Event) -> SessionEvent:
        """Hand an event over and fold it, in one step without a checkpoint."""
        state = self.states.get(session_id) if session_id is not None else None
        sseq = state.sseq + 1 if state is not None else 0
        envelope = SessionEvent(self.seq + 1, sseq, session_id, _START_MS + self.seq, event)
        self.store.append(envelope)  # first: if it refuses, nothing has changed
        self.seq += 1
        before = state.activity if state is not None else None
        if state is not None and session_id is not None:
            state.apply(envelope)
            self.recorded[session_id].append(envelope)
        self.session_list.apply(envelope)
        if state is not None and state.activity is not before:
            self.record(session_id, ev.ActivityChanged(activity=state.activity))
        return envelope

    async def load_session(self, session_id: SessionId, before: "LiveSessions | None" = None) -> SessionState:
        """Continue a session that is only in the store; `before` is its writer, whose records are taken over."""
        stored = await self.store.load(session_id)
        assert stored is not None, f"session {session_id} is in the list, but nothing of it can be loaded"
        self.states[session_id] = state = restore(session_id, stored)
        self.recorded[session_id] = list(before.recorded[session_id]) if before is not None else []
        self.messages[session_id] = list(before.messages[session_id]) if before is not None else []
        return state

    async def crash(self, harness: StoreHarness) -> SessionStore | None:
        """Simulate a crash; return a store on the remaining data, if the harness supports that."""
        survivor = await harness.crash(self.store)
        self.crashed = survivor is not None
        return survivor

    async def wait_durable(self) -> None:
        """Wait until everything handed over is durable."""
        await self.store.wait_durable(self.seq)

    def create(self, name: str = "check", session_id: SessionId | None = None) -> SessionId:
        """Create a session."""
        session_id = session_id or new_session_id()
        self.states[session_id] = SessionState(session_id=session_id)
        self.recorded[session_id], self.messages[session_id] = [], []
        self.record(session_id, ev.SessionCreated(name=name, settings=_SETTINGS))
        return session_id

    def delete(self, session_id: SessionId) -> None:
        """Delete a session, as the service does."""
        self.record(session_id, ev.SessionDeleted())
        for books in (self.states, self.recorded, self.messages):
            books.pop(session_id)
        self.store.forget(session_id)

    def say(self, session_id: SessionId, text: str, *, role: Role = "user", message_id: str | None = None) -> Message:
        """Add a message after the head: a person's, or the summary that ends a compaction."""
        head = self.states[session_id].head
        message = _message(role, head, self.now, TextPart(text=text), message_id=message_id)
        self.messages[session_id].append(message)
        if role == "summary":
            self.record(session_id, ev.CompactionFinished(status="completed", summary=message))
        else:
            self.record(session_id, ev.MessageAdded(message=message))
        return message

    def start_answer(self, session_id: SessionId) -> MessageId:
        """Start a model's answer."""
        message_id, turn_id = MessageId(new_id("msg")), TurnId(new_id("turn"))
        self.record(session_id, ev.TurnStarted(turn_id=turn_id))
        head = self.states[session_id].head
        self.record(
            session_id, ev.MessageStarted(message_id=message_id, parent_id=head, turn_id=turn_id, model="check-model")
        )
        self.record(session_id, ev.PartStarted(message_id=message_id, kind="text"))
        return message_id

    def answer(
        self, session_id: SessionId, text: str, *, calls: Iterable[str] = (), message_id: str | None = None
    ) -> Message:
        """Add a model's answer, with tool calls if there are any."""
        parts = [ToolCallPart(call_id=CallId(call), name="look", arguments=JsonObject({"at": call})) for call in calls]
        head = self.states[session_id].head
        message = _message("assistant", head, self.now, TextPart(text=text), *parts, message_id=message_id)
        self.messages[session_id].append(message)
        self.record(session_id, ev.MessageCompleted(message=message))
        return message

    def finish_call(self, session_id: SessionId, call: str, text: str) -> ToolResultPart:
        """End a tool call with this result."""
        result = ToolResultPart(call_id=CallId(call), name="look", status="success", text=text)
        self.record(session_id, ev.ToolCallFinished(result=result))
        return result

    def commit_results(self, session_id: SessionId, results: Iterable[ToolResultPart]) -> Message:
        """Add tool results to the conversation, as one message after the head."""
        parts = tuple(results)
        message = _message("tool", self.states[session_id].head, self.now, *parts)
        self.messages[session_id].append(message)
        call_ids = tuple(part.call_id for part in parts)
        self.record(
            session_id,
            ev.ToolResultsCommitted(
                message_id=message.message_id, parent_id=message.parent_id, turn_id=None, call_ids=call_ids
            ),
        )
        return message

    def bring_back(self, session_id: SessionId, messages: tuple[Message, ...]) -> None:
        """Append older messages again, or those of another session."""
        self.messages[session_id] += messages
        self.record(session_id, ev.MessagesImported(messages=messages, head=messages[-1].message_id))

    def go_to(self, session_id: SessionId, message_id: MessageId | None) -> None:
        """Move the head to another message."""
        self.record(session_id, ev.BranchSwitched(head=message_id))

    # --- expected results ---------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """Return the time of the next event."""
        return _START_MS + self.seq

    def expected_journal(self, session_id: SessionId) -> tuple[SessionEvent, ...]:
        """Return what the journal of a session must hold."""
        return tuple(event for event in self.recorded[session_id] if not isinstance(event.event, TRANSIENT_EVENTS))

    def snapshot(self, session_id: SessionId) -> SessionSnapshot:
        """Return the state that must come back."""
        return self.states[session_id].snapshot(NOWHERE)

    def path(self, session_id: SessionId, message_id: MessageId, max_chars: int) -> tuple[Message, ...]:
        """Return the path to a message, found by going from parent to parent."""
        everything, wanted, end = self.messages[session_id], message_id, len(self.messages[session_id])
        way: list[Message] = []
        while (place := _find_last_index(everything[:end], wanted)) is not None:
            message = everything[place]
            max_chars -= count_message_chars(message)
            if way and max_chars < 0:
                break
            way.insert(0, message)
            if message.role == "summary" or message.parent_id is None:
                break
            wanted, end = message.parent_id, place
        return tuple(way)

    def newest_leaf(self, session_id: SessionId, message_id: MessageId) -> MessageId | None:
        """Return the newest of a message and all its descendants."""
        everything = self.messages[session_id]
        parents = {message.message_id: message.parent_id for message in everything}
        for message in reversed(everything):
            each = message.parent_id
            while each is not None and each != message_id:
                each = parents.get(each)
            if each is not None:
                return message.message_id
        return message_id if message_id in parents else None


def restore_snapshot(session_id: SessionId, stored: StoredSession | None) -> SessionSnapshot:
    """Return the state that a service would continue from."""
    assert stored is not None, f"session {session_id} was kept, but nothing of it can be loaded"
    return restore(session_id, stored).snapshot(NOWHERE)


def expect(found: object, wanted: object, promise: str) -> None:
    """Fail with a sentence that states the promise, and both values."""
    assert found == wanted, f"{promise}; expected {_abbreviate(wanted)}, found {_abbreviate(found)}"


def _abbreviate(value: object) -> str:
    text = repr(value)
    return text if len(text) < 2_000 else f"{text[:2_000]}… ({len(text)} characters)"


def _message(
    role: Role,
    parent_id: MessageId | None,
    created_at: int,
    *parts: TextPart | ToolCallPart | ToolResultPart,
    message_id: str | None = None,
) -> Message:
    name = MessageId(message_id or new_id("msg"))
    return Message(message_id=name, parent_id=parent_id, role=role, parts=parts, created_at=created_at)


def _find_last_index(messages: list[Message], message_id: MessageId) -> int | None:
    places = [place for place, message in enumerate(messages) if message.message_id == message_id]
    return places[-1] if places else None


async def read_journal(store: StoreReader, session_id: SessionId) -> tuple[SessionEvent, ...]:
    """Read all events of a session."""
    return tuple([event async for handful in store.journal(session_id) for event in handful])


def list_ids(summaries: Iterable[SessionSummary]) -> list[SessionId]:
    """Return the ids of the listed sessions, in order."""
    return [summary.session_id for summary in summaries]


async def check_unknown(store: StoreReader, session_id: SessionId, message_id: MessageId, who: str) -> None:
    """Check that nothing is found of a session or of a message in it; `who` describes the session."""
    expect(await store.load(session_id), None, f"{who} cannot be loaded")
    expect(await read_journal(store, session_id), (), f"{who} has no events")
    expect((await store.load_messages(session_id, before=9, limit=9)).messages, (), f"{who} has no messages")
    expect(await store.load_path(session_id, message_id, max_chars=9), (), f"{who} has no paths")
    expect(await store.newest_leaf(session_id, message_id), None, f"{who} has no newest message")


async def check_journal(
    live: LiveSessions, session_id: SessionId, promise: str, *, truth: LiveSessions | None = None
) -> None:
    """Check that a session's journal holds exactly what was handed over; `truth` is its last writer."""
    expect(await read_journal(live.store, session_id), (truth or live).expected_journal(session_id), promise)


async def check_loads(
    live: LiveSessions,
    session_id: SessionId,
    truth: LiveSessions | None = None,
    *,
    promise: str = "a loaded session is the one that was left",
) -> None:
    """Check that loading a session gives the state it was left in; `truth` is its last writer."""
    found = restore_snapshot(session_id, await live.store.load(session_id))
    expect(found, (truth or live).snapshot(session_id), promise)
