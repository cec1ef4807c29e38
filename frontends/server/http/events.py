"""Server-sent events: a feed for clients that speak only HTTP.

Rules:
1. Room first: the server takes the next batch from the stream when the network has accepted the one before. So a client
   that stops reading holds one batch, falls behind like any slow reader, and gets a snapshot on the same feed.
2. The first event is `followed`; the id of each `feed` event is the cursor to resume from, and so is the id of each
   `heartbeat` of a feed that has sent everything.
3. When the token ends, one last event is sent: `ended`, with the reason.
4. Only receiving is ever cancelled from within: half an event would garble the ones after it.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from math import inf
from typing import Any, Final

import trio

import session_core as sc
from frontends.server.feeds import BEHIND_BYTES
from frontends.server.frames import format_server_sent_event
from frontends.server.http.command_endpoint import refuse_for
from frontends.server.http.served_clients import ServedClient
from frontends.server.server import Server

_NUMBER: Final = 1  # of the only feed on its connection
_RETRY_MS: Final = 2_000


class EventsAnswer:
    """The response to a request for events; starts when called, as an ASGI app."""

    def __init__(
        self,
        server: Server,
        session_id: sc.SessionId | None,
        after: sc.Cursor | None,
        feeding: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self._server = server
        self._session_id = session_id
        self._after = after
        self._feeding = feeding
        self._receiving = trio.CancelScope()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send events until the client leaves or the feed ends."""
        with self._feeding():
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            feed = self._server.service.follow(self._session_id, after=self._after, max_bytes=BEHIND_BYTES)
        except sc.SessionCoreError as refusal:
            await refuse_for(refusal)(scope, receive, send)
            return
        scope["state"]["write_timeout"].write_s = inf
        served: ServedClient = scope["state"]["served"]
        served.reserve_goodbye()
        async with feed, trio.open_nursery() as nursery:
            nursery.start_soon(_until_gone, receive, nursery.cancel_scope)
            nursery.start_soon(self._until_ending)
            nursery.start_soon(self._until_token_ends, served)
            headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._send_all(feed, served, send)
            nursery.cancel_scope.cancel(reason="the feed has ended")

    async def _send_all(self, feed: sc.Feed, served: ServedClient, send: Any) -> None:
        if feed.needed_resync is not None:
            followed = sc.wire.Followed(feed=_NUMBER, answer="snapshot", reason=feed.needed_resync.reason)
        else:
            followed = sc.wire.Followed(feed=_NUMBER, answer="replaying", after=self._after)
        await _send(send, b"retry: %d\n" % _RETRY_MS + format_server_sent_event("followed", sc.wire.encode(followed)))
        every = self._server.settings.heartbeat_ms / 1000
        beat_at = trio.current_time() + every
        while not (self._server.closing or served.has_ended):
            resyncs, items = feed.resyncs, None
            self._receiving = trio.CancelScope(deadline=beat_at)
            with self._receiving:
                try:
                    items = await feed.receive_shared()
                except trio.EndOfChannel:
                    break
            if items:
                resync = feed.last_resync if feed.resyncs > resyncs else None
                await self._send_batch(send, served, feed.cursor, items, resync)
            if trio.current_time() >= beat_at and not served.has_ended:
                await self._beat(send, feed.cursor)
                beat_at = trio.current_time() + every
        reason: sc.wire.FeedEnd = "closing" if self._server.closing else "deleted"
        ended = sc.wire.FeedEnded(feed=_NUMBER, reason="token_ended" if served.has_ended else reason)
        await _send(send, format_server_sent_event("ended", sc.wire.encode(ended)))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_batch(
        self,
        send: Any,
        served: ServedClient,
        cursor: sc.Cursor | None,
        items: Sequence[sc.FeedItem],
        resync: sc.Resync | None,
    ) -> None:
        pieces = await self._server.encodings.encode_pieces(items, self._server.epoch)
        for piece in pieces:
            if served.has_ended:  # may be true before the waiting task is woken
                return
            reached = cursor if piece is pieces[-1] and cursor is not None else piece.cursor
            await _send(send, piece.event(_NUMBER, reached, resync))
            resync = None

    async def _beat(self, send: Any, cursor: sc.Cursor | None) -> None:
        places = () if cursor is None else (sc.wire.FeedPlace(feed=_NUMBER, cursor=cursor),)
        beat = sc.wire.Heartbeat(at=self._server.now(), feeds=places)
        await _send(send, format_server_sent_event("heartbeat", sc.wire.encode(beat), cursor))

    async def _until_token_ends(self, served: ServedClient) -> None:
        await served.wait_ended()
        self._receiving.cancel(reason="the token has ended")

    async def _until_ending(self) -> None:
        await self._server.ending.wait()
        self._receiving.cancel(reason="the server ends")


async def _send(send: Any, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})


async def _until_gone(receive: Any, scope: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel(reason="the client has gone")
