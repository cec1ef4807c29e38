"""The feeds of one connection.

Rules:
1. Room first: nothing is taken from the stream before the client has read enough of what it was sent. A client that
   stops reading so costs a bounded number of bytes, falls behind in the stream like any slow reader, and is told.
2. The answer to `follow` comes before the first batch of its feed.
"""

from collections.abc import Callable

import attrs
import trio

import session_core as sc
from frontends.server.frames import Encodings

MAX_FEEDS = 256
"""Feeds of one connection; each may hold a batch that waits to be sent."""
BEHIND_BYTES = 4 * 1024 * 1024
"""How far behind a feed may be before its client gets a snapshot instead of all that it missed."""


@attrs.define(eq=False)
class _OpenFeed:
    feed: sc.Feed
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    sending: bool = False  # something that was taken from the feed has not been sent yet


class Feeds:
    """What one client reads.

    Args:
        follow: Begins to follow something.
        connection: Where it is sent.
        nursery: Where each feed has a task.
        encodings: Shared with all other connections.
        closing: Tells whether the service is about to end.
    """

    def __init__(
        self,
        follow: Callable[..., sc.Feed],
        connection: sc.RpcConnection,
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

    def open(self, asked: sc.Follow, epoch: sc.Epoch) -> sc.Followed:
        """Begin a feed; no checkpoint comes between this and the answer.

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
        if feed.needs is not None:
            return sc.Followed(feed=number, answer="snapshot", reason=feed.needs.reason)
        return sc.Followed(feed=number, answer="replaying", after=asked.after)

    def close(self, number: int) -> None:
        """End a feed: nothing more of it is sent.

        Raises:
            NotFound: There is no such feed.
        """
        opened = self._open.pop(number, None)
        if opened is None:
            raise sc.NotFound(f"there is no feed {number}", field="feed")
        opened.scope.cancel(reason="the client has left the feed")

    def places(self) -> tuple[sc.FeedPlace, ...]:
        """Where those feeds stand that have sent all there was."""
        stand = {number: opened.feed.cursor for number, opened in self._open.items() if not opened.sending}
        return tuple(sc.FeedPlace(feed=number, cursor=cursor) for number, cursor in stand.items() if cursor is not None)

    async def _pump(self, number: int, opened: _OpenFeed, epoch: sc.Epoch) -> None:
        try:
            with opened.scope:
                async with opened.feed:
                    await self._send_all(number, opened, epoch)
                if self._open.pop(number, None) is not None:
                    reason: sc.FeedEnd = "closing" if self._closing() else "deleted"
                    ended = sc.FeedEnded(feed=number, reason=reason)
                    await self._connection.notify("feed_ended", sc.to_json(ended))
        except sc.RpcClosed:
            pass  # the client has gone

    async def _send_all(self, number: int, opened: _OpenFeed, epoch: sc.Epoch) -> None:
        """Send what happens until the end of what is followed."""
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
