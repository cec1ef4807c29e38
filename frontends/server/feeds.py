"""The feeds of one connection.

Rules:
1. Room first: the server takes nothing from the stream until the client has read enough of what it was sent. So a
   client that stops reading costs a bounded number of bytes, falls behind like any slow reader, and is told so.
2. The reply to `follow` comes before the first batch of its feed.
"""

from collections.abc import Callable

import attrs
import trio

import session_core as sc
from frontends.server.frames import Encodings

MAX_FEEDS = 256
"""Feeds per connection; each may hold one unsent batch."""
BEHIND_BYTES = 4 * 1024 * 1024
"""How far a feed may lag before its client gets a snapshot instead of all missed events."""


@attrs.define(eq=False)
class _OpenFeed:
    feed: sc.Feed
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    sending: bool = False  # items taken from the feed have not been sent yet


class Feeds:
    """The feeds of one client.

    Args:
        follow: Starts following a session, or all of them.
        connection: Sends the items.
        nursery: Runs one task per feed.
        encodings: Shared with all other connections.
        closing: Returns whether the service is shutting down.
    """

    def __init__(
        self,
        follow: Callable[..., sc.Feed],
        connection: sc.wire.RpcConnection,
        nursery: trio.Nursery,
        encodings: Encodings,
        closing: Callable[[], bool],
    ) -> None:
        self._follow = follow
        self._connection = connection
        self._nursery = nursery
        self._encodings = encodings
        self._closing = closing
        self._open: dict[int, _OpenFeed] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._open)

    def open(self, asked: sc.wire.Follow, epoch: sc.Epoch) -> sc.wire.Followed:
        """Start a feed; there is no checkpoint between this and the reply.

        Raises:
            NotFound: There is no such session.
            Overloaded: The client has too many feeds.
        """
        if len(self._open) >= MAX_FEEDS:
            raise sc.Overloaded(f"a connection may have {MAX_FEEDS} feeds; leave one of them first")
        feed = self._follow(asked.session_id, after=asked.after, max_bytes=BEHIND_BYTES)
        self._last += 1
        number = self._last
        opened = self._open[number] = _OpenFeed(feed)
        self._nursery.start_soon(self._pump, number, opened, epoch, name=f"feed {number}")
        if feed.needed_resync is not None:
            return sc.wire.Followed(feed=number, answer="snapshot", reason=feed.needed_resync.reason)
        return sc.wire.Followed(feed=number, answer="replaying", after=asked.after)

    def close(self, number: int) -> None:
        """End a feed: nothing more of it is sent.

        Raises:
            NotFound: There is no such feed.
        """
        opened = self._open.pop(number, None)
        if opened is None:
            raise sc.NotFound(f"there is no feed {number}", field="feed")
        opened.scope.cancel(reason="the client has left the feed")

    def places(self) -> tuple[sc.wire.FeedPlace, ...]:
        """Return the positions of the feeds that have sent everything."""
        stand = {number: opened.feed.cursor for number, opened in self._open.items() if not opened.sending}
        return tuple(
            sc.wire.FeedPlace(feed=number, cursor=cursor) for number, cursor in stand.items() if cursor is not None
        )

    async def _pump(self, number: int, opened: _OpenFeed, epoch: sc.Epoch) -> None:
        try:
            with opened.scope:
                async with opened.feed:
                    await self._send_all(number, opened, epoch)
                if self._open.pop(number, None) is not None:
                    reason: sc.wire.FeedEnd = "closing" if self._closing() else "deleted"
                    ended = sc.wire.FeedEnded(feed=number, reason=reason)
                    await self._connection.notify("feed_ended", sc.wire.to_json(ended))
        except sc.wire.RpcClosed:
            pass  # the client has gone

    async def _send_all(self, number: int, opened: _OpenFeed, epoch: sc.Epoch) -> None:
        """Send all items until the end of the followed stream."""
        feed = opened.feed
        while True:
            if not self._connection.has_room:
                await self._connection.wait_for_room()
            resyncs = feed.resyncs
            try:
                items = await feed.receive_shared()
            except trio.EndOfChannel:
                return
            resync = feed.last_resync if feed.resyncs > resyncs else None
            cursor = feed.cursor
            opened.sending = True
            pieces = await self._encodings.encode_pieces(items, epoch)
            for piece in pieces:
                reached = cursor if piece is pieces[-1] and cursor is not None else piece.cursor
                frame = piece.frame(number, reached, resync)
                while not self._connection.send_now(frame):
                    await self._connection.wait_for_room()
                resync = None
            opened.sending = False
