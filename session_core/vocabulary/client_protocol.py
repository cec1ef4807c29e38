"""What a frontend in another process and a server say to each other, beside commands, replies, snapshots and events.

A client greets with `Hello` and is welcomed. It then sends `Execute` for each command, and `Follow` to read: the answer
says whether the feed goes on where the client left off, or begins with a snapshot. What is read comes in `FeedBatch`es.
"""

from typing import Any, Final, Literal

import attrs

from session_core.ids import ClientId, Cursor, Epoch, SessionId
from session_core.vocabulary.argument_checks import checked_value
from session_core.vocabulary.commands import Command
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.extensions import UiKind
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import ClientKind, ClientRole
from session_core.vocabulary.snapshots import ServiceSnapshot, SessionSnapshot

CONTRACT: Final = 1
"""The version of this contract; a server refuses a client of another one."""

ResyncReason = Literal["initial", "lagged", "gap", "expired", "foreign_epoch", "future"]
"""Why a reader gets a snapshot: it is its first, it fell behind, events were missing, or its cursor is of no use."""
FeedAnswer = Literal["replaying", "snapshot"]
FeedEnd = Literal["deleted", "closing", "left", "token_ended"]


@checked_value
class Hello:
    """The first thing a client says.

    Attributes:
        contract: The version of the contract that it speaks.
        client_id: What it is called in events; empty lets the server choose.
        name: What people call it, such as the name of a machine.
        kind: What sort of frontend it is.
        role: Whether it acts, or only watches.
        ui: What it can show and ask for extensions.
        instance: A secret of this one program run. A client that comes back with the same one takes the place of its
            own lost connection; another client of the same name is refused.
    """

    contract: int = CONTRACT
    client_id: ClientId = ClientId("")
    name: str = ""
    kind: ClientKind = "other"
    role: ClientRole = "controller"
    ui: tuple[UiKind, ...] = ()
    instance: str = ""


@attrs.frozen(kw_only=True)
class Welcome:
    """The answer to a `Hello`.

    Attributes:
        contract: The version that is spoken from now on.
        version: The version of the server's program.
        epoch: The run of the service; cursors of another one are of no use.
        client_id: What the client is called here.
        role: What it may do.
        heartbeat_ms: How often the server says that it lives; a client that hears nothing for twice as long should
            connect again.
    """

    contract: int
    version: str
    epoch: Epoch
    client_id: ClientId
    role: ClientRole
    heartbeat_ms: int


@checked_value
class Execute:
    """Run a command; the same key makes sending it twice safe, also after a reconnect."""

    command: Command[Any]
    idempotency_key: str | None = None


@checked_value
class Follow:
    """Read one session, or all (`session_id` is null) after a snapshot of their list, from now on or after a cursor."""

    session_id: SessionId | None = None
    after: Cursor | None = None


@checked_value
class Unfollow:
    """Read no more of this."""

    feed: int


@attrs.frozen(kw_only=True)
class Followed:
    """How a feed begins: it goes on right after the client's cursor, or with a snapshot, and why with that."""

    feed: int
    answer: FeedAnswer
    after: Cursor | None = None
    reason: ResyncReason | None = None


@attrs.frozen(kw_only=True)
class FeedBatch:
    """What has happened, in order.

    Attributes:
        feed: The number of the feed.
        items: Events, with a snapshot before them if there was a resync.
        cursor: Where to go on after a reconnect: everything up to here has been sent.
        resync: Why there is a snapshot.
        missed: How many events were gone before they could be sent, where that is known.
    """

    feed: int
    items: tuple[SessionSnapshot | ServiceSnapshot | SessionEvent, ...]
    cursor: Cursor
    resync: ResyncReason | None = None
    missed: int | None = None


@attrs.frozen(kw_only=True)
class FeedEnded:
    """Nothing more comes: the session was deleted, the service closes, the client has left, or its token has ended."""

    feed: int
    reason: FeedEnd


@attrs.frozen(kw_only=True)
class FeedPlace:
    """Where a feed stands, although nothing happened in it."""

    feed: int
    cursor: Cursor


@attrs.frozen(kw_only=True)
class Heartbeat:
    """The server lives; feeds that stand at their end may be resumed from here."""

    at: int
    feeds: tuple[FeedPlace, ...] = ()


@attrs.frozen(kw_only=True)
class Goodbye:
    """The server ends the connection, and says why; `retry` tells whether connecting again makes sense."""

    reason: str
    retry: bool = True


@attrs.frozen(kw_only=True)
class ErrorInfo:
    """A typed error as it travels.

    `code` is stable, `kinds` are the codes of more general errors that it is one of, the nearest first, for those who
    do not know it. `message` is for people, `details` depend on the code.
    """

    code: str
    message: str
    field: str | None = None
    details: JsonObject | None = None
    kinds: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class ServiceStatus:
    """What a server is doing.

    Attributes:
        version, pid, epoch: Which server this is.
        started_at: When it began.
        home: The directory that it serves.
        sessions, running: How many sessions there are, and how many of them work right now.
        clients: How many clients are attached.
        address: Where it listens for HTTP, if it does, for programs of its machine.
        open_to_others: The same for other machines, if it listens for them; 0.0.0.0 and [::] are all of its addresses.
        ends_at: When it ends itself if nothing happens until then; nothing while somebody is connected or works.
        idle_ms: How long it stays with nobody and nothing to do; nothing is for ever.
        read_only: Why nothing can be changed any more.
    """

    version: str
    pid: int
    epoch: Epoch
    started_at: int
    home: str
    sessions: int
    running: int
    clients: int
    address: str | None = None
    ends_at: int | None = None
    idle_ms: int | None = None
    read_only: str | None = None
    open_to_others: str | None = None
