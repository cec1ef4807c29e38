"""What a terminal knows: all sessions, the one that is viewed, and how it is connected. No widgets here.

Rules:
1. What is shown is folded from what the feeds bring, and from nothing else.
2. Whoever shows it is told what has changed, not how; it looks when it is ready to, so that a flood of events costs
   folding but no drawing.
3. A feed that is refused is tried again while it is wanted; the reason is kept for the screen.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, Literal

import anyio
import anyio.abc
import attrs

import session_core as sc
from frontends.client import ConnectionState, RemoteFeed, SessionClient, open_client
from frontends.terminal.blocks import Blocks

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
PATIENCE_S: Final = 30.0
"""How long what people want waits for a service that is being started."""
_PAUSE_S: Final = 1.0


@attrs.define(eq=False)
class Viewed:
    """The session on the screen.

    Attributes:
        state: None until the first snapshot is there.
        refused: Why it cannot be shown.
        gone: It was deleted.
        following: Ends the feed.
        older_left: Whether messages older than `blocks.older` may be had.
    """

    session_id: sc.SessionId
    state: sc.SessionState | None = None
    blocks: Blocks = attrs.field(factory=Blocks)
    refused: str | None = None
    gone: bool = False
    older_left: bool = True
    following: anyio.CancelScope = attrs.field(factory=anyio.CancelScope)


class Desk:
    """Keeps a client and two feeds: the list of all sessions, and the session that is viewed.

    Attributes:
        client: None until the service has let us in for the first time.
        fleet: None until the list is there.
        viewed: None while nothing is viewed, as before the first message of a new session.
        lag: How many events the last resync has skipped; None if that is not known.
    """

    def __init__(
        self, changed: Callable[[Topic], object], happened: Callable[[sc.SessionEvent], object] = lambda _: None
    ) -> None:
        self.client: SessionClient | None = None
        self.connection: ConnectionState | None = None
        self.fleet: sc.FleetState | None = None
        self.viewed: Viewed | None = None
        self.lag: int | None = 0
        self._changed = changed
        self._happened = happened
        self._tasks: anyio.abc.TaskGroup | None = None
        self._there = anyio.Event()

    async def connected(self) -> SessionClient:
        """Wait until the service has let us in for the first time.

        Raises:
            Disconnected: It takes too long.
        """
        with anyio.move_on_after(PATIENCE_S):
            await self._there.wait()
        if self.client is None:
            raise sc.Disconnected("the service is not there yet; try again in a moment")
        return self.client

    async def run(self, address: Path) -> None:
        """Be a client of the service at this socket, until cancelled.

        Raises:
            SessionCoreError: The service does not let us in, or has ended for good.
        """
        async with AsyncExitStack() as stack:
            self.client = await stack.enter_async_context(
                open_client(
                    address=address, name=NAME, kind="terminal", ui=UI, wait_s=10, on_state=self._connection_changed
                )
            )
            self._there.set()
            self._tasks = await stack.enter_async_context(anyio.create_task_group())
            self._tasks.start_soon(self._follow_fleet, self.client)
            if self.viewed is not None:
                self._tasks.start_soon(self._follow, self.client, self.viewed)
            known = self.client.state
            while known.phase != "ended":
                known = await self.client.state_change(known)
            self._tasks.cancel_scope.cancel()
            self._tasks = None
        raise sc.Disconnected(known.reason)

    def view(self, session_id: sc.SessionId | None) -> None:
        """View another session, or none."""
        if self.viewed is not None:
            if self.viewed.session_id == session_id:
                return
            self.viewed.following.cancel()
        self.viewed = None if session_id is None else Viewed(session_id)
        if self.viewed is not None and self._tasks is not None and self.client is not None:
            self._tasks.start_soon(self._follow, self.client, self.viewed)
        self._changed("session")

    async def load_older(self, viewed: Viewed) -> None:
        """Have more messages from before those that are known."""
        if self.client is None or viewed.state is None or not viewed.older_left:
            return
        before = viewed.state.earlier - len(viewed.blocks.older)
        if before <= 0:
            viewed.older_left = False
            return
        reply = await self.client.load_messages(viewed.session_id, before=before, limit=OLDER_AT_ONCE)
        viewed.blocks.older[:0] = reply.messages
        viewed.older_left = bool(reply.messages)
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

    async def _follow(self, client: SessionClient, viewed: Viewed) -> None:
        with viewed.following:
            async with client.follow(viewed.session_id) as feed:
                while await self._read(feed, viewed):
                    pass

    async def _read(self, feed: RemoteFeed, viewed: Viewed) -> bool:
        try:
            batch = await feed.receive_batch()
        except anyio.EndOfStream:
            viewed.gone = True
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
        self._fold(batch, viewed, feed)
        self._changed("session")
        return True

    def _fold(self, batch: list[sc.FeedItem], viewed: Viewed, feed: RemoteFeed) -> None:
        for item in batch:
            if isinstance(item, sc.SessionSnapshot):
                self._begin_anew(item, viewed, feed)
            elif isinstance(item, sc.SessionEvent) and viewed.state is not None:
                viewed.state.apply(item)
                self._happened(item)

    def _begin_anew(self, snapshot: sc.SessionSnapshot, viewed: Viewed, feed: RemoteFeed) -> None:
        before = viewed.state
        viewed.state = sc.SessionState.from_snapshot(snapshot)
        if before is not None:
            self.lag = feed.last_resync.missed if feed.last_resync is not None else None
            if before.earlier != snapshot.earlier:  # the window has moved on, and left a hole after what we have
                viewed.blocks.older.clear()
                viewed.older_left = True
