"""What a frontend in another process and a server exchange besides commands, replies, snapshots and events.

A client sends `Hello` and receives `Welcome`. It then sends `Execute` for each command, and `Follow` to read a feed.
The answer says whether the feed resumes where the client left off or begins with a snapshot. Events arrive in
`FeedBatch`es.
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

CONTRACT: Final = 2
"""The version of this contract; a server refuses clients of any other version."""

ResyncReason = Literal["initial", "lagged", "gap", "expired", "foreign_epoch", "future"]
"""Why a reader gets a snapshot: it just started, it fell behind, events were missing, or its cursor is unusable."""
FeedAnswer = Literal["replaying", "snapshot"]
FeedEnd = Literal["deleted", "closing", "left", "token_ended"]


@checked_value
class Hello:
    """The first message of a client.

    Attributes:
        contract: The contract version that the client speaks.
        client_id: Its id in events; if empty, the server chooses one.
        name: Its name for people, such as the name of a machine.
        kind: The kind of frontend.
        role: Whether it acts or only watches.
        ui: What it can display and ask on behalf of extensions.
        instance: A secret of this program run. A client that reconnects with the same secret replaces its own lost
            connection; another client of the same name is refused.
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
        contract: The contract version used from now on.
        version: The program version of the server.
        epoch: The run of the service; cursors of other runs are unusable.
        client_id: The id of the client on this server.
        role: What the client may do.
        heartbeat_ms: How often the server sends a heartbeat; a client that hears nothing for twice as long should
            reconnect.
    """

    contract: int
    version: str
    epoch: Epoch
    client_id: ClientId
    role: ClientRole
    heartbeat_ms: int


@checked_value
class Execute:
    """Run a command; with the same key it is safe to send twice, even after a reconnect."""

    command: Command[Any]
    idempotency_key: str | None = None


@checked_value
class Follow:
    """Read one session, or all (`session_id` is null) after a snapshot of their list, from now on or after a cursor."""

    session_id: SessionId | None = None
    after: Cursor | None = None


@checked_value
class Unfollow:
    """Stop following this feed."""

    feed: int


@attrs.frozen(kw_only=True)
class Followed:
    """How a feed begins: right after the client's cursor, or with a snapshot and the reason for it."""

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
        cursor: Where to resume after a reconnect: everything up to here has been sent.
        resync: Why there is a snapshot.
        missed: How many events were lost before they could be sent, if known.
    """

    feed: int
    items: tuple[SessionSnapshot | ServiceSnapshot | SessionEvent, ...]
    cursor: Cursor
    resync: ResyncReason | None = None
    missed: int | None = None


@attrs.frozen(kw_only=True)
class FeedEnded:
    """The feed is over: the session was deleted, the service closes, the client has left, or its token has expired."""

    feed: int
    reason: FeedEnd


@attrs.frozen(kw_only=True)
class FeedPlace:
    """The current position of a feed in which nothing happened."""

    feed: int
    cursor: Cursor


@attrs.frozen(kw_only=True)
class Heartbeat:
    """The server is alive; feeds that are up to date may be resumed from here."""

    at: int
    feeds: tuple[FeedPlace, ...] = ()


@attrs.frozen(kw_only=True)
class Goodbye:
    """The server ends the connection and says why; `retry` says whether reconnecting makes sense."""

    reason: str
    retry: bool = True


@attrs.frozen(kw_only=True)
class ErrorInfo:
    """A typed error as it travels.

    `code` is stable. `kinds` are the codes of the more general errors it belongs to, nearest first, for clients that do
    not know the code. `message` is for people, `details` depend on the code.
    """

    code: str
    message: str
    field: str | None = None
    details: JsonObject | None = None
    kinds: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class ServiceStatus:
    """The status of a server.

    Attributes:
        version, pid, epoch: Which server this is.
        started_at: When it started.
        home: The home directory it serves.
        sessions, running: How many sessions there are, and how many of them are working right now.
        clients: How many clients are attached.
        address: Where it listens for HTTP from its own machine, if it does.
        open_to_others: The same for other machines; 0.0.0.0 and [::] mean all of its addresses.
        ends_at: When it will exit if nothing happens until then; None while a client is connected or a session works.
        idle_ms: How long it keeps running while idle; None means for ever.
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
