"""What a terminal knows: all sessions, the one that is viewed, and how it is connected. No widgets here.

Rules:
1. What is shown is folded from what the feeds bring, and from nothing else.
2. Whoever shows it is told what has changed, not how; it looks when it is ready to, so that a flood of events costs
   folding but no drawing.
3. A feed that is refused is tried again while it is wanted; the reason is kept for the screen.
4. That something was skipped is kept for the screen too, for a while.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import anyio
import anyio.abc
import anyio.to_thread
import attrs

import session_core as sc
from frontends.terminal.look.clock import now_ms
from frontends.terminal.transcript.blocks import BlockBuilder
from frontends.terminal.transcript.older_messages import OlderMessages

if TYPE_CHECKING:
    from frontends.client import ConnectionState, RemoteFeed, SessionClient

Topic = Literal["connection", "fleet", "session"]

NAME: Final = "terminal"
UI: Final[tuple[sc.UiKind, ...]] = (
    "select",
    "confirm",
    "input",
    "notify",
    "set_status",
    "set_widget",
    "set_title",
)
OLDER_AT_ONCE: Final = 200
NOT_YET: Final = "the service is not there yet; try again in a moment"
PATIENCE_S: Final = 30.0
"""How long what people want waits for a service that is being started."""
LAG_MS: Final = 10_000
"""How long people are told that something was skipped."""
_PAUSE_S: Final = 1.0


@attrs.frozen(kw_only=True)
class Lag:
    """That what is shown was behind: events were skipped, or more came at once than may wait.

    Attributes:
        at: When that was noticed.
        missed: How many were skipped; None if that is not known.
        waited: Nothing was skipped, but the service had to wait for us.
    """

    noticed_at: int
    missed: int | None = None
    waited: bool = False


@attrs.define(eq=False)
class ViewedSession:
    """The session on the screen.

    Attributes:
        state: None until the first snapshot is there.
        refused: Why it cannot be shown.
        gone: It was deleted.
        lag: The last time that it was behind.
        following: Ends the feed.
        older: The messages from before its window; the blocks are made of them too.
        older_left: Whether messages older than those may be had.
        loading: Older ones are on their way.
    """

    session_id: sc.SessionId
    state: sc.SessionState | None = None
    blocks: BlockBuilder = attrs.field(factory=BlockBuilder)
    refused: str | None = None
    is_deleted: bool = False
    lag: Lag | None = None
    has_older: bool = True
    loading: bool = False
    following: anyio.CancelScope = attrs.field(factory=anyio.CancelScope)
    older: OlderMessages = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.older = OlderMessages(self.blocks.older)

    def recent_lag(self, now: int) -> Lag | None:
        """Return the lag that people are to be told of at this time."""
        return self.lag if self.lag is not None and now - self.lag.noticed_at < LAG_MS else None

    def keep_moved_messages(self, messages: sc.Vector[sc.Message], earlier: int) -> None:
        """Keep what has left the window, which was at `earlier` with these messages."""
        if self.state is not None and self.older.take_from_window(messages, earlier, self.state):
            self.has_older = True


class TerminalState:
    """Keeps a client and two feeds: the list of all sessions, and the session that is viewed.

    Attributes:
        client: None until the service has let us in for the first time.
        fleet: None until the list is there.
        viewed: None while nothing is viewed, as before the first message of a new session.
    """

    def __init__(
        self, changed: Callable[[Topic], object], handle_event: Callable[[sc.SessionEvent], object] = lambda _: None
    ) -> None:
        self.client: SessionClient | None = None
        self.connection: ConnectionState | None = None
        self.fleet: sc.FleetState | None = None
        self.viewed: ViewedSession | None = None
        self._changed = changed
        self._handle_event = handle_event
        self._tasks: anyio.abc.TaskGroup | None = None
        self._client_ready = anyio.Event()

    async def wait_connected(self) -> SessionClient:
        """Wait until the service has let us in for the first time.

        Raises:
            Disconnected: It takes too long.
        """
        with anyio.move_on_after(PATIENCE_S):
            await self._client_ready.wait()
        if self.client is None:
            raise sc.Disconnected(NOT_YET)
        return self.client

    async def run(self, address: Path) -> None:
        """Be a client of the service at this socket, until cancelled.

        Raises:
            SessionCoreError: The service does not let us in, or has ended for good.
        """
        reason = ""
        await anyio.to_thread.run_sync(_import_client)
        from frontends.client import open_client

        async with (
            open_client(
                address=address, name=NAME, kind="terminal", ui=UI, wait_s=10, on_state=self._connection_changed
            ) as client,
            anyio.create_task_group() as tasks,
        ):
            self.client, self._tasks = client, tasks
            self._client_ready.set()
            try:
                tasks.start_soon(self._follow_fleet, client)
                self._begin_following()
                while (known := client.state).phase != "ended":
                    await client.state_change(known)
                reason = known.reason
                tasks.cancel_scope.cancel()
            finally:  # a fault in a feed ends this too, and then nothing can be started here any more
                self.client, self._tasks = None, None
                self._client_ready = anyio.Event()
        raise sc.Disconnected(reason)

    def view(self, session_id: sc.SessionId | None) -> None:
        """View another session, or none."""
        if self.viewed is not None:
            if self.viewed.session_id == session_id:
                return
            self.viewed.following.cancel()
        self.viewed = None if session_id is None else ViewedSession(session_id)
        self._begin_following()
        self._changed("session")

    def _begin_following(self) -> None:
        viewed = self.viewed
        if viewed is not None and self._tasks is not None and self.client is not None:
            viewed.following = anyio.CancelScope()  # one can be used once, and this may be another service
            self._tasks.start_soon(self._follow, self.client, viewed, viewed.following)

    async def load_older(self, viewed: ViewedSession) -> None:
        """Have more messages from before those that are known; nothing happens while some are on their way.

        Raises:
            InvalidInput: There are as many as can be shown.
        """
        if self.client is None or viewed.state is None or not viewed.has_older or viewed.loading:
            return
        before = viewed.older.first_index(viewed.state)
        if before <= 0:
            viewed.has_older = False
            return
        if viewed.older.is_full:
            raise sc.InvalidInput("older messages than these are not shown here; /export writes all of them")
        viewed.loading = True
        try:
            reply = await self.client.load_messages(viewed.session_id, before=before, limit=OLDER_AT_ONCE)
        finally:
            viewed.loading = False
        if viewed.older.take(reply, viewed.state):
            viewed.has_older = bool(reply.messages)
        self._changed("session")

    # --- the feeds ----------------------------------------------------------------------------------------------------

    def _connection_changed(self, state: ConnectionState) -> None:
        self.connection = state
        self._changed("connection")

    async def _follow_fleet(self, client: SessionClient) -> None:
        async with client.follow(None) as feed:
            while True:
                try:
                    batch = await feed.receive_batch()
                except sc.Disconnected:
                    return
                except sc.SessionCoreError:
                    await anyio.sleep(_PAUSE_S)
                    continue
                self._fold_fleet(batch)
                self._changed("fleet")

    def _fold_fleet(self, batch: list[sc.FeedItem]) -> None:
        for item in batch:
            if isinstance(item, sc.ServiceSnapshot):
                self.fleet = sc.FleetState.from_snapshot(item)
            elif isinstance(item, sc.SessionEvent) and self.fleet is not None:
                self.fleet.apply(item)

    async def _follow(self, client: SessionClient, viewed: ViewedSession, following: anyio.CancelScope) -> None:
        with following:
            async with client.follow(viewed.session_id) as feed:
                while await self._read(feed, viewed):
                    pass

    async def _read(self, feed: RemoteFeed, viewed: ViewedSession) -> bool:
        cuts = feed.cuts
        try:
            batch = await feed.receive_batch()
        except anyio.EndOfStream:
            viewed.is_deleted = True
            self._changed("session")
            return False
        except sc.SessionCoreError as error:
            viewed.refused = error.message
            self._changed("session")
            if isinstance(error, sc.Disconnected | sc.NotFound):
                return False
            await anyio.sleep(_PAUSE_S)
            return True
        viewed.refused = None
        if feed.cuts > cuts:
            viewed.lag = Lag(noticed_at=now_ms(), waited=True)
        self._fold(batch, viewed, feed)
        self._changed("session")
        return True

    def _fold(self, batch: list[sc.FeedItem], viewed: ViewedSession, feed: RemoteFeed) -> None:
        for item in batch:
            if isinstance(item, sc.SessionSnapshot):
                self._load_snapshot(item, viewed, feed)
            elif isinstance(item, sc.SessionEvent) and viewed.state is not None:
                messages, earlier = viewed.state.messages, viewed.state.earlier
                viewed.state.apply(item)
                viewed.keep_moved_messages(messages, earlier)
                self._handle_event(item)

    def _load_snapshot(self, snapshot: sc.SessionSnapshot, viewed: ViewedSession, feed: RemoteFeed) -> None:
        before = viewed.state
        viewed.state = sc.SessionState.from_snapshot(snapshot)
        if before is not None:
            missed = feed.last_resync.missed if feed.last_resync is not None else None
            viewed.lag = Lag(noticed_at=now_ms(), missed=missed)
            viewed.keep_moved_messages(before.messages, before.earlier)


def _import_client() -> None:
    """Take the time that it takes in a thread, while there is already something to see."""
    import frontends.client.factory  # noqa: F401
