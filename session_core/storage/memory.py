"""A store that lives as long as the process: for tests, scripts and demos."""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any, NoReturn

import trio

from session_core import limits
from session_core.errors import StorageFailed
from session_core.ids import CallId, MessageId, SessionId
from session_core.storage.base import LiveState, MessagePage, OpenedStore, StoredReply, StoredSession
from session_core.storage.executor_state import check_leaves, retained_digests
from session_core.storage.kv import decode_value, encode_value, quota_error, validate_key, validate_owner
from session_core.storage.partial_text import ended_message_id, unfinished_message_id
from session_core.vocabulary.added_messages import collect_added_messages, collect_results
from session_core.vocabulary.events import TRANSIENT_EVENTS, SessionEvent
from session_core.vocabulary.messages import Message, ToolResultPart, count_message_chars
from session_core.vocabulary.replies import SearchHit
from session_core.vocabulary.snapshots import SessionSummary


class MemoryStore:
    """Keeps every durable event in a list per session; an event counts as durable as soon as it is handed over."""

    failure: StorageFailed | None = None
    backlog = 0

    def __init__(self) -> None:
        self.durable_seq = 0
        self._events: dict[SessionId, list[SessionEvent]] = {}
        self._unfinished: dict[SessionId, list[SessionEvent]] = {}
        self._replies: dict[tuple[str, str], StoredReply] = {}
        self._values: dict[str, dict[str, bytes]] = {}
        self._leaves: dict[SessionId, dict[str, bytes]] = {}
        self._live: LiveState | None = None
        self._summaries: dict[SessionId, SessionSummary] = {}

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[OpenedStore]:
        """Return the data stored by an earlier service of this process."""
        self.durable_seq = 0
        try:
            yield OpenedStore(summaries=self._list(), replies=tuple(self._replies.values()))
        finally:
            self._summaries = {each.session_id: each for each in self._list()}
            self._live = None

    async def run(self, live: LiveState, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> NoReturn:
        """Do nothing until cancelled."""
        self._live = live
        task_status.started()
        await trio.sleep_forever()
        raise AssertionError

    def append(self, event: SessionEvent) -> None:
        """Take an event over."""
        self.durable_seq = event.seq
        session_id = event.session_id
        if session_id is None:
            return
        if isinstance(event.event, TRANSIENT_EVENTS):
            if unfinished_message_id(event.event) is not None:
                self._unfinished.setdefault(session_id, []).append(event)
            return
        self._events.setdefault(session_id, []).append(event)
        if ended_message_id(event.event) is not None:
            self._unfinished.pop(session_id, None)
        if session_id in self._leaves and (staying := retained_digests(event.event)) is not None:
            stored_leaves = self._leaves[session_id]
            self._leaves[session_id] = {digest: data for digest, data in stored_leaves.items() if digest in staying}

    def remember(self, reply: StoredReply) -> None:
        """Keep a reply."""
        self._replies.pop((reply.client_id, reply.key), None)
        self._replies[reply.client_id, reply.key] = reply
        if len(self._replies) > limits.IDEMPOTENCY_CAPACITY:
            del self._replies[next(iter(self._replies))]

    def forget(self, session_id: SessionId) -> None:
        """Remove a session's events."""
        self._events.pop(session_id, None)
        self._unfinished.pop(session_id, None)
        self._leaves.pop(session_id, None)
        self._replies = {key: each for key, each in self._replies.items() if each.session_id != session_id}

    def keep_leaves(self, session_id: SessionId, leaves: Mapping[str, bytes]) -> None:
        """Store leaves of an executor's state."""
        checked = check_leaves(session_id, leaves)
        if session_id in self._events:
            self._leaves.setdefault(session_id, {}).update(checked.leaves)

    async def wait_durable(self, seq: int) -> None:
        """Return at once."""
        await trio.lowlevel.checkpoint()

    # --- values -------------------------------------------------------------------------------------------------------

    async def kv_get(self, owner: str, key: str) -> Any:
        """Return an owner's value for a key."""
        owner, key = validate_key(owner, key)
        await trio.lowlevel.checkpoint()
        raw = self._values.get(owner, {}).get(key)
        return None if raw is None else decode_value(raw)

    async def kv_set(self, owner: str, key: str, value: Any) -> None:
        """Store a value under a key."""
        (owner, key), raw = validate_key(owner, key), encode_value(value)
        await trio.lowlevel.checkpoint()
        stored_values = self._values.setdefault(owner, {})
        if refused := quota_error({each: len(old) for each, old in stored_values.items()}, key, len(raw)):
            raise refused
        stored_values[key] = raw

    async def kv_delete(self, owner: str, key: str) -> None:
        """Delete a value."""
        owner, key = validate_key(owner, key)
        await trio.lowlevel.checkpoint()
        self._values.get(owner, {}).pop(key, None)

    async def kv_list(self, owner: str, prefix: str = "") -> tuple[str, ...]:
        """Return the keys of an owner that start with `prefix`, in order."""
        validate_owner(owner)
        await trio.lowlevel.checkpoint()
        return tuple(sorted(key for key in self._values.get(owner, {}) if key.startswith(prefix)))

    # --- reading ------------------------------------------------------------------------------------------------------

    def events_of(self, session_id: SessionId) -> tuple[SessionEvent, ...]:
        """Return the kept events of a session, oldest first."""
        return tuple(self._events.get(session_id, ()))

    async def list_sessions(self) -> tuple[SessionSummary, ...]:
        """Return the list of sessions, oldest first."""
        await trio.lowlevel.checkpoint()
        return self._list()

    def _list(self) -> tuple[SessionSummary, ...]:
        live = self._live
        known = [self._summaries.get(each) if live is None else live.summary_of(each) for each in sorted(self._events)]
        return tuple(summary for summary in known if summary is not None)

    async def load(self, session_id: SessionId) -> StoredSession | None:
        """Return all events of a session."""
        await trio.lowlevel.checkpoint()
        if session_id not in self._events:
            return None
        events = [*self._events[session_id], *self._unfinished.get(session_id, ())]
        return StoredSession(snapshot=None, events=tuple(sorted(events, key=lambda event: event.sseq)))

    async def load_messages(self, session_id: SessionId, *, before: int, limit: int) -> MessagePage:
        """Return messages that came right before message number `before`."""
        await trio.lowlevel.checkpoint()
        messages = self._messages(session_id)[: max(0, before)]
        first = max(0, len(messages) - limit)
        return MessagePage(first=first, messages=tuple(messages[first:]))

    async def load_path(self, session_id: SessionId, message_id: MessageId, *, max_chars: int) -> tuple[Message, ...]:
        """Return the path to this message, back to a summary or as far as `max_chars` allows."""
        await trio.lowlevel.checkpoint()
        wanted: MessageId | None = message_id
        path: list[Message] = []
        for message in reversed(self._messages(session_id)):
            if message.message_id != wanted:
                continue
            max_chars -= count_message_chars(message)
            if path and max_chars < 0:
                break
            path.append(message)
            wanted = message.parent_id
            if message.role == "summary":
                break
        return tuple(reversed(path))

    async def newest_leaf(self, session_id: SessionId, message_id: MessageId) -> MessageId | None:
        """Return the newest message that descends from this one, or itself."""
        await trio.lowlevel.checkpoint()
        messages = self._messages(session_id)
        if not any(message.message_id == message_id for message in messages):
            return None
        family, newest = {message_id}, message_id
        for message in messages:
            if message.parent_id in family:
                family.add(message.message_id)
                newest = message.message_id
        return newest

    async def search(self, text: str, *, limit: int) -> tuple[SearchHit, ...]:
        """Return messages that contain all words of `text`, newest first."""
        words = text.casefold().split()
        names = {summary.session_id: summary.name for summary in await self.list_sessions()}
        return tuple(
            SearchHit(
                session_id=session_id,
                session_name=name,
                message_id=message.message_id,
                role=message.role,
                created_at=message.created_at,
                excerpt=message.text[:200],
            )
            for session_id, name in reversed(names.items())
            for message in reversed(self._messages(session_id))
            if words and all(word in message.text.casefold() for word in words)
        )[:limit]

    async def journal(self, session_id: SessionId) -> AsyncIterator[tuple[SessionEvent, ...]]:
        """Yield all events of a session at once."""
        await trio.lowlevel.checkpoint()
        yield self.events_of(session_id)

    async def load_leaves(self, session_id: SessionId, digests: Collection[str]) -> Mapping[str, bytes]:
        """Return those of these leaves of an executor's state that exist."""
        await trio.lowlevel.checkpoint()
        stored_leaves = self._leaves.get(session_id, {})
        return {digest: stored_leaves[digest] for digest in digests if digest in stored_leaves}

    def _messages(self, session_id: SessionId) -> list[Message]:
        messages: list[Message] = []
        results: dict[CallId, ToolResultPart] = {}
        for event in self._events.get(session_id, ()):
            messages += collect_added_messages(event.event, results, event.at)
            collect_results(results, event.event)
        return messages
