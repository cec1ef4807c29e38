"""The interface between service and store. Handing data over never waits; waiting for durability is separate.

A store keeps an append-only journal of events for each session: the source of truth. Everything else (the newest state,
the list of sessions, an index of messages, a search index) is derived from it and can be rebuilt.

Rules:
1. Everything handed over between two checkpoints (`append`, `remember`, `forget`, `keep_leaves`) becomes durable
   together or not at all: a crash never leaves half a step. Example: an event and the reply recorded with it.
2. `wait_durable` returns when the given events would survive a power loss, and raises `StorageFailed` if they never
   will. After the first failure nothing more is written, and `failure` says why.
3. `open` takes the exclusive right to write, by a lock, a lease or another means, and raises `StoreInUse` naming the
   current holder. A store that loses this right later fails (rule 2), so two writers never mix.
4. Besides sessions, a store keeps small values that an owner, such as an extension, stores under its own keys (`kv_*`).
   A change returns when it is durable. The values belong to no session, and `limits.MAX_KV_KEYS` and its neighbours
   bound what one owner may store.
5. The leaves of an executor's state (`keep_leaves`) belong to their session, each named by the SHA-256 of its bytes.
   Every `ExecutorStateSaved` drops the leaves that it does not name; every `FrameOpened` and `FrameEntered` drops all
   of them, because the executor starts from scratch there.
"""

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, NoReturn, Protocol

import attrs
import trio

from session_core.errors import StorageFailed
from session_core.ids import ClientId, MessageId, SessionId
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.messages import Message
from session_core.vocabulary.replies import SearchHit
from session_core.vocabulary.snapshots import SessionSnapshot, SessionSummary


@attrs.frozen(kw_only=True)
class StoredReply:
    """The reply to a command with an idempotency key; `fingerprint` distinguishes commands.

    A reply that repeats content of a session names it as `session_id`, and is forgotten with it.
    """

    client_id: ClientId
    key: str
    fingerprint: bytes
    reply: object
    session_id: SessionId | None = None


@attrs.frozen(kw_only=True)
class OpenedStore:
    """What a service starts from: the list of sessions, oldest first, and the newest replies, oldest first."""

    summaries: tuple[SessionSummary, ...] = ()
    replies: tuple[StoredReply, ...] = ()


@attrs.frozen(kw_only=True)
class StoredSession:
    """The data from which a session resumes: its newest saved state, if any, and the events after it."""

    snapshot: SessionSnapshot | None
    events: tuple[SessionEvent, ...]


@attrs.frozen(kw_only=True)
class MessagePage:
    """A run of messages in order of creation; the first one is number `first` of the session, counting from 0."""

    first: int
    messages: tuple[Message, ...]


class LiveState(Protocol):
    """What a store may ask the service, in the step in which it takes over the data handed to it."""

    @property
    def seq(self) -> int:
        """The number of the newest event."""
        ...

    def summary_of(self, session_id: SessionId) -> SessionSummary | None:
        """Return a session's line in the list; None when it was deleted."""
        ...

    def state_of(self, session_id: SessionId) -> SessionSnapshot | None:
        """Return a session's state with all events so far; None when it was deleted."""
        ...

    def storage_failed(self, failure: StorageFailed) -> None:
        """Handle a storage failure: nothing more will be written."""
        ...


class StoreReader(Protocol):
    """Reads stored sessions. Every call sees at least what was durable when it was made."""

    async def list_sessions(self) -> tuple[SessionSummary, ...]:
        """Return the list of sessions, oldest first."""
        ...

    async def load(self, session_id: SessionId) -> StoredSession | None:
        """Return the data from which a session resumes; None if there is no session of that id.

        Raises:
            StoreDamaged: Part of it cannot be read back; other sessions are not affected.
        """
        ...

    async def load_messages(self, session_id: SessionId, *, before: int, limit: int) -> MessagePage:
        """Return up to `limit` messages that came right before the message number `before`, in order of creation."""
        ...

    async def load_path(self, session_id: SessionId, message_id: MessageId, *, max_chars: int) -> tuple[Message, ...]:
        """Return the path to this message, oldest first, back to a summary or as far as `max_chars` allows.

        The message itself is always included; the result is empty if the session has no such message.
        """
        ...

    async def newest_leaf(self, session_id: SessionId, message_id: MessageId) -> MessageId | None:
        """Return the newest message that descends from this one, or itself; None when there is no such message."""
        ...

    async def search(self, text: str, *, limit: int) -> tuple[SearchHit, ...]:
        """Return messages that contain all words of `text`, best first."""
        ...

    def journal(self, session_id: SessionId) -> AsyncIterator[tuple[SessionEvent, ...]]:
        """Read all events of a session in order, a handful at a time."""
        ...

    async def load_leaves(self, session_id: SessionId, digests: Collection[str]) -> Mapping[str, bytes]:
        """Return those of these leaves of an executor's state that exist; the caller checks their digests."""
        ...


class SessionStore(StoreReader, Protocol):
    """Stores the sessions of one service."""

    @property
    def durable_seq(self) -> int:
        """The number, in this run, of the last durable event."""
        ...

    @property
    def failure(self) -> StorageFailed | None:
        """Why nothing more is written, after a failure."""
        ...

    @property
    def backlog(self) -> int:
        """How many bytes wait to be written."""
        ...

    def open(self) -> AbstractAsyncContextManager[OpenedStore]:
        """Take the right to write; leaving the block writes the remaining data and releases the right.

        Raises:
            StoreInUse: Another process has it.
            StoreUnusable: The location cannot be used.
            StoreDamaged: The stored data cannot be read.
        """
        ...

    async def run(self, live: LiveState, *, task_status: trio.TaskStatus[None]) -> NoReturn:
        """Write the data handed over, until cancelled; the service starts it with `nursery.start`."""
        ...

    def append(self, event: SessionEvent) -> None:
        """Take over an event, in order. Transient events are kept only for crash recovery, and not for long.

        Raises:
            ProtocolError: The event cannot be encoded; nothing was taken over.
        """
        ...

    def remember(self, reply: StoredReply) -> None:
        """Keep a reply together with the events of its command.

        Raises:
            ProtocolError: It cannot be encoded; nothing was taken over.
        """
        ...

    def forget(self, session_id: SessionId) -> None:
        """Remove a session and all its stored data."""
        ...

    def keep_leaves(self, session_id: SessionId, leaves: Mapping[str, bytes]) -> None:
        """Store leaves of an executor's state together with the event that names them; see rule 5.

        Leaves that the session already has are not written again. Nothing is stored for a session that does not exist.

        Raises:
            ProtocolError: A digest does not match its bytes, or a leaf is too large; nothing was taken over.
        """
        ...

    async def wait_durable(self, seq: int) -> None:
        """Wait until the event `seq` and all before it are durable.

        Raises:
            StorageFailed: They never will be.
        """
        ...

    async def kv_get(self, owner: str, key: str) -> Any:
        """Return an owner's value for a key, as plain JSON; None if there is none.

        Raises:
            InvalidInput: The key is not valid.
            StoreDamaged: The value cannot be read back.
        """
        ...

    async def kv_set(self, owner: str, key: str, value: Any) -> None:
        """Store a value under a key, replacing the previous one; return when it is durable.

        Raises:
            InvalidInput: The key or the value is not valid, or the owner stores too much already; nothing has changed.
            StorageFailed: It will never be durable.
            Overloaded: Too much data waits for the disk; nothing has changed.

        Cancellation: the value may be stored all the same.
        """
        ...

    async def kv_delete(self, owner: str, key: str) -> None:
        """Delete a value, if there is one; return when that is durable. Raises and is cancelled like `kv_set`."""
        ...

    async def kv_list(self, owner: str, prefix: str = "") -> tuple[str, ...]:
        """Return the keys of an owner that start with `prefix`, in order."""
        ...
