"""The terminal's state: all sessions, the viewed one, and the connection. No widgets here.

Rules:
1. Everything shown is folded from the feeds, and from nothing else.
2. Observers learn which topics changed, not how, and look when they are ready: a flood of events costs folding but no
   drawing.
3. A refused feed is retried while it is wanted; the reason is kept for the screen.
4. A lag is kept for the screen too, for a while.
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
from frontends.terminal.transcript.block_builder import BlockBuilder
from frontends.terminal.transcript.older_messages import OlderMessages

if TYPE_CHECKING:
    from frontends.client import ConnectionState, RemoteFeed, SessionClient

Topic = Literal["connection", "session_list", "session"]

NAME: Final = "terminal"
UI: Final[tuple[sc.extensions.UiKind, ...]] = (
    "select",
    "confirm",
    "input",
    "notify",
    "set_status",
    "set_widget",
    "set_title",
)
OLDER_AT_ONCE: Final = 200
NOT_YET: Final = "not connected to the service yet; try again in a moment"
PATIENCE_S: Final = 30.0
"""How long user actions wait for a service that is starting."""
LAG_MS: Final = 10_000
"""How long the screen mentions a lag."""
_PAUSE_S: Final = 1.0


@attrs.frozen(kw_only=True)
class Lag:
    """A lag of the display: events were skipped, or more arrived at once than the buffer holds.

    Attributes:
        noticed_at: When the lag was noticed.
        missed: How many events were skipped; None if unknown.
        waited: Nothing was skipped, but the service had to wait for us.
    """

    noticed_at: int
    missed: int | None = None
    waited: bool = False


@attrs.define(eq=False)
class ViewedSession:
    """The session on the screen.

    Attributes:
        state: None until the first snapshot arrives.
        refused: Why the session cannot be shown.
        is_deleted: Whether the session was deleted.
        lag: The most recent lag.
        following: Cancelling it ends the feed.
        older: The messages from before the window; blocks are built from them too.
        has_older: Whether the service may have messages older than those.
        loading: Whether older messages are being loaded.
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
        """Return the lag to show at this time."""
        return self.lag if self.lag is not None and now - self.lag.noticed_at < LAG_MS else None

    def keep_moved_messages(self, messages: sc.Vector[sc.Message], earlier: int) -> None:
        """Keep the messages that left the window, which held these messages and started at `earlier`."""
        if self.state is not None and self.older.take_from_window(messages, earlier, self.state):
            self.has_older = True


class TerminalState:
    """Keeps a client and two feeds: the list of all sessions, and the viewed session.

    Attributes:
        client: None until the first connection.
        failure: Why there is no service; None while there is one or the search is still on.
        session_list: None until the list has loaded.
        viewed: None while nothing is viewed, as before the first message of a new session.
        handle_event: Called for each event of the viewed session, once it is folded.
    """

    def __init__(self, changed: Callable[[Topic], object]) -> None:
        self.client: SessionClient | None = None
        self.connection: ConnectionState | None = None
        self.failure: str | None = None
        self.session_list: sc.SessionListState | None = None
        self.viewed: ViewedSession | None = None
        self._changed = changed
        self.handle_event: Callable[[sc.SessionEvent], object] = lambda _: None
        self._tasks: anyio.abc.TaskGroup | None = None
        self._client_ready = anyio.Event()

    async def wait_connected(self) -> SessionClient:
        """Wait for the first connection to the service.

        Raises:
            Disconnected: It takes too long.
        """
        with anyio.move_on_after(PATIENCE_S):
            await self._client_ready.wait()
        if self.client is None:
            raise sc.Disconnected(NOT_YET)
        return self.client

    async def run(self, address: Path) -> str:
        """Stay connected to the service at this socket; return why it has ended for good.

        Raises:
            SessionCoreError: The service refuses the connection.
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
                tasks.start_soon(self._follow_session_list, client)
                self._begin_following()
                while (known := client.state).phase != "ended":
                    await client.state_change(known)
                reason = known.reason
                tasks.cancel_scope.cancel()
            finally:  # also reached after a fault in a feed; nothing can be started then
                self.client, self._tasks = None, None
                self._client_ready = anyio.Event()
        return reason

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
            viewed.following = anyio.CancelScope()  # a scope can be used only once
            self._tasks.start_soon(self._follow, self.client, viewed, viewed.following)

    async def load_older(self, viewed: ViewedSession) -> None:
        """Load messages from before the oldest known one; does nothing while a load is in progress.

        Raises:
            InvalidInput: No more messages can be shown.
        """
        if self.client is None or viewed.state is None or not viewed.has_older or viewed.loading:
            return
        before = viewed.older.first_index(viewed.state)
        if before <= 0:
            viewed.has_older = False
            return
        if viewed.older.is_full:
            raise sc.InvalidInput("no older messages can be shown here; /export writes all of them")
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

    async def _follow_session_list(self, client: SessionClient) -> None:
        async with client.follow(None) as feed:
            while True:
                try:
                    batch = await feed.receive_batch()
                except sc.Disconnected:
                    return
                except sc.SessionCoreError:
                    await anyio.sleep(_PAUSE_S)
                    continue
                self._fold_session_list(batch)
                self._changed("session_list")

    def _fold_session_list(self, batch: list[sc.FeedItem]) -> None:
        for item in batch:
            if isinstance(item, sc.ServiceSnapshot):
                self.session_list = sc.SessionListState.from_snapshot(item)
            elif isinstance(item, sc.SessionEvent) and self.session_list is not None:
                self.session_list.apply(item)

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
                self.handle_event(item)

    def _load_snapshot(self, snapshot: sc.SessionSnapshot, viewed: ViewedSession, feed: RemoteFeed) -> None:
        before = viewed.state
        viewed.state = sc.SessionState.from_snapshot(snapshot)
        if before is not None:
            missed = feed.last_resync.missed if feed.last_resync is not None else None
            viewed.lag = Lag(noticed_at=now_ms(), missed=missed)
            viewed.keep_moved_messages(before.messages, before.earlier)


def _import_client() -> None:
    """Import the client in a thread, as it takes a while; the screen already shows something."""
    import frontends.client.factory  # noqa: F401
