"""What the service needs of a store. Handing something over never waits; knowing that it is durable may.

A store keeps, for each session, an append-only journal of events: the truth. Whatever else it keeps (the newest state,
the list of sessions, an index of messages, a search index) is derived from that and can be made again.

Rules:
1. Everything handed over between two checkpoints (`append`, `remember`, `forget`, `keep_leaves`) becomes durable
   together or not at all: a crash never finds half a step.
2. `wait_durable` returns when what it was asked for would survive the loss of power, and raises `StorageFailed` when it
   never will. After the first failure nothing more is written, and `failure` says why.
3. `open` takes the exclusive right to write, by a lock, a lease or whatever the store has, and raises `StoreInUse`
   naming the one who has it. A store that loses this right later fails (rule 2), so two writers never mix.
4. Beside sessions, a store keeps small values that an owner, such as an extension, puts under keys of its own (`kv_*`).
   A change has returned when it is durable. They belong to no session, and what one owner keeps is bounded by
   `limits.MAX_KV_KEYS` and its neighbours.
5. The large parts of what an executor keeps (`keep_leaves`) belong to their session, each by the SHA-256 of its bytes.
   With every `ExecutorStateSaved`, those that it does not name are dropped, and with every `FrameOpened` and
   `FrameEntered` all of them: the executor begins anew there.
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
    """The reply to a command with an idempotency key; `fingerprint` tells commands apart.

    One that repeats what was said in a session names it as `session_id`, and is forgotten with it.
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
    """What a session goes on from: the newest kept state, if there is one, and the events after it."""

    snapshot: SessionSnapshot | None
    events: tuple[SessionEvent, ...]


@attrs.frozen(kw_only=True)
class MessagePage:
    """A run of messages in order of creation; the first one is number `first` of the session, counting from 0."""

    first: int
    messages: tuple[Message, ...]


class LiveState(Protocol):
    """What a store may ask of the service, in the step in which it takes over what was handed to it."""

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
        """Learn that nothing more will be written."""
        ...


class StoreReader(Protocol):
    """Reading what is kept. Every call sees at least what was durable when it was made."""

    async def list_sessions(self) -> tuple[SessionSummary, ...]:
        """Return the list of sessions, oldest first."""
        ...

    async def load(self, session_id: SessionId) -> StoredSession | None:
        """Return what a session goes on from; None when there is none of that id.

        Raises:
            StoreDamaged: Something of it cannot be read back; other sessions are not concerned.
        """
        ...

    async def load_messages(self, session_id: SessionId, *, before: int, limit: int) -> MessagePage:
        """Return up to `limit` messages that came right before the message number `before`, in order of creation."""
        ...

    async def load_path(self, session_id: SessionId, message_id: MessageId, *, max_chars: int) -> tuple[Message, ...]:
        """Return the messages on the way to this one, oldest first, back to a summary or as far as `max_chars` goes.

        The message itself is always there; the result is empty when the session has no such message.
        """
        ...

    async def newest_leaf(self, session_id: SessionId, message_id: MessageId) -> MessageId | None:
        """Return the newest message that descends from this one, or itself; None when there is no such message."""
        ...

    async def search(self, text: str, *, limit: int) -> tuple[SearchHit, ...]:
        """Return messages that hold all words of `text`, best first."""
        ...

    def journal(self, session_id: SessionId) -> AsyncIterator[tuple[SessionEvent, ...]]:
        """Read all events of a session in order, a handful at a time."""
        ...

    async def load_leaves(self, session_id: SessionId, digests: Collection[str]) -> Mapping[str, bytes]:
        """Return those of these parts of an executor's state that are there; the caller checks their digests."""
        ...


class SessionStore(StoreReader, Protocol):
    """A place where one service keeps its sessions."""

    @property
    def durable_seq(self) -> int:
        """The number, in this run, of the last event that will survive anything."""
        ...

    @property
    def failure(self) -> StorageFailed | None:
        """Why nothing more is written, once that is so."""
        ...

    @property
    def backlog(self) -> int:
        """How many bytes wait to be written."""
        ...

    def open(self) -> AbstractAsyncContextManager[OpenedStore]:
        """Take the right to write; leaving the block writes what is left and gives the right back.

        Raises:
            StoreInUse: Somebody else has it.
            StoreUnusable: The place cannot be used.
            StoreDamaged: What is there cannot be read.
        """
        ...

    async def run(self, live: LiveState, *, task_status: trio.TaskStatus[None]) -> NoReturn:
        """Write what is handed over, until cancelled; started by the service with `nursery.start`."""
        ...

    def append(self, event: SessionEvent) -> None:
        """Take an event over, in order. Of passing events only what a crash would lose is kept, and not for long.

        Raises:
            ProtocolError: The event cannot be written down; nothing was taken over.
        """
        ...

    def remember(self, reply: StoredReply) -> None:
        """Keep a reply together with the events of its command.

        Raises:
            ProtocolError: It cannot be written down; nothing was taken over.
        """
        ...

    def forget(self, session_id: SessionId) -> None:
        """Remove a session and everything that is kept of it."""
        ...

    def keep_leaves(self, session_id: SessionId, leaves: Mapping[str, bytes]) -> None:
        """Keep parts of an executor's state together with the event that names them; see rule 5.

        Those that the session has already are not written again. Of a session that there is not, nothing is kept.

        Raises:
            ProtocolError: A digest is not that of its bytes, or a part is too large; nothing was taken over.
        """
        ...

    async def wait_durable(self, seq: int) -> None:
        """Wait until the event `seq` and all before it are durable.

        Raises:
            StorageFailed: They never will be.
        """
        ...

    async def kv_get(self, owner: str, key: str) -> Any:
        """Return what an owner keeps under a key, as plain JSON; nothing when there is none.

        Raises:
            InvalidInput: This cannot be a key.
            StoreDamaged: The value cannot be read back.
        """
        ...

    async def kv_set(self, owner: str, key: str, value: Any) -> None:
        """Keep a value under a key in place of the one before; returns when it is durable.

        Raises:
            InvalidInput: This cannot be a key or a value, or the owner keeps too much already; nothing has changed.
            StorageFailed: It will never be durable.
            Overloaded: Too much waits for the disk; nothing has changed.

        Cancellation: it may be kept all the same.
        """
        ...

    async def kv_delete(self, owner: str, key: str) -> None:
        """Let go of a value, if there is one; returns when that is durable. Raises and is cancelled like `kv_set`."""
        ...

    async def kv_list(self, owner: str, prefix: str = "") -> tuple[str, ...]:
        """Return the keys of an owner that begin so, in order."""
        ...
