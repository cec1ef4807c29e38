"""A feed from a server: the same items as from a feed in the same process.

Rules:
1. Numbers decide, using `sc.Follower`: items that were received before are skipped, and a gap, whatever its cause,
   makes the feed restart with a snapshot.
2. A feed continues over any number of connections: after the last received item, or with one snapshot.
3. A bounded number of items waits for the reader. When the buffer is full, the client unfollows, and follows again from
   there once the reader has caught up.
4. Nothing is lost silently: the reader gets the next item, a snapshot, the end, or an error.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import anyio
import anyio.lowlevel
import attrs

import session_core as sc
from frontends.client.change_signal import ChangeSignal
from frontends.client.link import ServerLink
from frontends.client.remote_methods import error_of

if TYPE_CHECKING:
    from frontends.client.client import SessionClient

MAX_WAITING_ITEMS: Final = 4_096
"""Items that wait for the reader of a feed; a batch beyond that is left to the server."""
MAX_WAITING_BYTES: Final = 4 * 1024 * 1024
"""The same in bytes as received; a single batch may be larger."""


@attrs.frozen(kw_only=True)
class _Batch:
    """Items that were received and not read yet; all of one epoch."""

    items: list[sc.FeedItem]
    epoch: sc.Epoch
    cursor: sc.Cursor | None
    resyncs: tuple[sc.Resync, ...]
    size: int


class RemoteFeed:
    """An async iterator of snapshots and events; created by `SessionClient.follow`.

    Attributes:
        session_id: The followed session; None means the list of all sessions.
        resyncs: How many snapshots were read, including the first.
        last_resync: The reason for the latest snapshot.
        gaps: How often events were missing that the server should have sent.
        cuts: How often the server was told to stop because the reader was too slow.
    """

    def __init__(self, client: "SessionClient", session_id: sc.SessionId | None, after: sc.Cursor | None) -> None:
        self.session_id = session_id
        self.resyncs = 0
        self.last_resync: sc.Resync | None = None
        self.gaps = 0
        self.cuts = 0
        self._client = client
        self._follower = sc.Follower(session_id, after=after)
        self._due: sc.Resync | None = None  # why a snapshot is needed, if this side noticed it
        self._resume = after  # the follower's position, or a later one with no events for us in between
        self._read_up_to = after
        self._waiting: deque[_Batch] = deque()
        self._waiting_items = self._waiting_bytes = 0
        self._current: _Batch | None = None  # the batch that the iterator delivers
        self._rest: list[sc.FeedItem] = []  # the undelivered rest of it, newest first
        self._changed = ChangeSignal()
        self._asked: object = None  # the current request to follow; replies to older ones are ignored
        self._number: int | None = None  # the server's number of this feed
        self._resting = False  # do not follow again before the reader wants more
        self._failures = 0  # since the last useful data
        self._error: sc.SessionCoreError | None = None  # to be raised once
        self._end: Callable[[], Exception] | None = None

    # --- for readers --------------------------------------------------------------------------------------------------

    @property
    def cursor(self) -> sc.Cursor | None:
        """The cursor to resume from: everything up to it was read. None while a snapshot is due."""
        if self._rest or self._waiting:
            return self._read_up_to
        return None if self._follower.needed_resync is not None else self._resume

    async def receive_batch(self) -> list[sc.FeedItem]:
        """Wait for items, then return all that are ready, in order.

        Raises:
            anyio.EndOfStream: The session was deleted, and everything was received.
            Disconnected: The client has ended; the message gives the reason.
            SessionCoreError: The server refuses, or its data is invalid; the next read tries again.

        Cancellation: atomic; a cancelled call has taken nothing.
        """
        await anyio.lowlevel.checkpoint()
        if self._rest:  # taken by the iterator, but not delivered yet
            assert self._current is not None
            items, self._rest = self._rest[::-1], []
            self._read_up_to = self._current.cursor
            return items
        await self._until_ready()
        items = []
        while self._waiting:
            batch = self._take()
            self._read_up_to = batch.cursor
            items += batch.items
        return items

    async def _until_ready(self) -> None:
        while not self._waiting:
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            if self._end is not None:
                raise self._end()
            if self._resting:
                await self._ask_again()
            else:
                await self._changed.wait()

    async def _ask_again(self) -> None:
        if self._failures:
            await anyio.sleep(self._client.pause_before(self._failures))
        if self._resting and self._end is None:
            self._resting = False
            self.begin()

    def _take(self) -> _Batch:
        batch = self._waiting.popleft()
        self._waiting_items -= len(batch.items)
        self._waiting_bytes -= batch.size
        self.resyncs += len(batch.resyncs)
        if batch.resyncs:
            self.last_resync = batch.resyncs[-1]
        return batch

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> sc.FeedItem:
        if not self._rest:
            try:
                await self._until_ready()
            except anyio.EndOfStream:
                raise StopAsyncIteration from None
            self._current = self._take()
            self._rest = self._current.items[::-1]
        return self._hand_out()

    def take_ready(self) -> sc.FeedItem | None:
        """Return the next item that the iterator has already taken, if any; never blocks."""
        return self._hand_out() if self._rest else None

    def _hand_out(self) -> sc.FeedItem:
        assert self._current is not None
        item = self._rest.pop()
        if not self._rest:
            self._read_up_to = self._current.cursor
        elif isinstance(item, sc.SessionEvent):
            self._read_up_to = sc.Cursor(epoch=self._current.epoch, seq=item.seq)
        else:
            self._read_up_to = item.cursor
        return item

    def close(self) -> None:
        """Stop following."""
        self.finish(lambda: sc.ServiceClosed("this feed is closed"))
        self._waiting.clear()
        self._rest.clear()
        self._client.forget(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- asking the server --------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Follow on the server, if there is a connection and the reader does not have to catch up first."""
        link = self._client.link
        if link is None or self._resting or self._end is not None:
            return
        self._asked = token = object()
        follow = sc.wire.Follow(
            session_id=self.session_id, after=None if self._follower.needed_resync else self._resume
        )
        link.ask("follow", sc.wire.to_json(follow), partial(self._on_follow_reply, link, token))

    def lose_link(self) -> None:
        """Handle a lost connection; `begin` is called on the next one."""
        self._asked = self._number = None

    def finish(self, make_error: Callable[[], Exception]) -> None:
        """End the feed; received items can still be read, and then this error is raised."""
        if self._end is None:
            self._unfollow()
            self._end = make_error
            self._changed.notify()

    def _on_follow_reply(
        self, link: ServerLink, token: object, reply: sc.wire.SuccessReply | sc.wire.FailureReply | None
    ) -> None:
        if reply is None:
            return  # the link has ended; the client calls `lose_link`
        try:
            if isinstance(reply, sc.wire.FailureReply):
                raise error_of("follow", reply)
            followed = sc.wire.from_json(reply.result, sc.wire.Followed)
        except sc.SessionCoreError as error:
            if token is self._asked:
                self._on_refusal(error)
            return
        if token is not self._asked:  # a newer request replaced it
            link.ask("unfollow", sc.wire.to_json(sc.wire.Unfollow(feed=followed.feed)), _ignore)
            return
        self._number = followed.feed
        self._client.feeds_by_number[followed.feed] = self
        if followed.answer == "replaying" and self._follower.needed_resync is not None:
            self._give_up(None, sc.ProtocolError("the server resumes a feed that was never begun", field="$.answer"))
        elif followed.answer == "snapshot" and self._follower.needed_resync is None:
            self._forget_place(sc.Resync(reason=followed.reason or "gap"))

    def _forget_place(self, why: sc.Resync) -> None:
        """Require a snapshot, with a new follower: the events that the old one holds may never have happened."""
        self._due = self._due or why
        self._follower = sc.Follower(self.session_id)

    def _on_refusal(self, error: sc.SessionCoreError) -> None:
        self._asked = None
        if isinstance(error, sc.NotFound) and (self.resyncs or self._waiting):
            self.finish(anyio.EndOfStream)  # deleted while we were away
        else:
            self._rest_after(None if isinstance(error, sc.ServiceClosed) else error)

    def _give_up(self, why: sc.Resync | None, error: sc.SessionCoreError | None = None) -> None:
        """Unfollow, because the server's data is invalid; requires a snapshot, and the reader gets the error."""
        self._unfollow()
        if why is not None:
            self._forget_place(why)
        self._rest_after(error)

    def _rest_after(self, error: sc.SessionCoreError | None) -> None:
        self._failures += 1
        self._resting = True
        self._error = error or self._error
        self._changed.notify()

    def _unfollow(self) -> None:
        self._asked = None
        number, self._number = self._number, None
        if number is not None:
            self._client.feeds_by_number.pop(number, None)
            if self._client.link is not None:
                self._client.link.ask("unfollow", sc.wire.to_json(sc.wire.Unfollow(feed=number)), _ignore)

    # --- incoming batches ---------------------------------------------------------------------------------------------

    def take_batch(self, plain: dict[str, Any], size: int) -> None:
        """Take a batch from the server, or leave it to the server if there is no room."""
        full = self._waiting_items >= MAX_WAITING_ITEMS or self._waiting_bytes + size > MAX_WAITING_BYTES
        if self._waiting and full:
            self.cuts += 1
            self._unfollow()
            self._resting = True
            return
        try:
            self._add_batch(sc.wire.from_json(plain, sc.wire.FeedBatch), size)
        except sc.ProtocolError as error:
            self._give_up(sc.Resync(reason="gap"), error)

    def take_end(self, ended: sc.wire.FeedEnded) -> None:
        """Handle the end of the feed: there is nothing more, or the server is about to end."""
        self._client.feeds_by_number.pop(ended.feed, None)
        self._number = None
        if ended.reason == "deleted":
            self.finish(anyio.EndOfStream)
        else:
            self._rest_after(None)

    def move_on(self, cursor: sc.Cursor) -> None:
        """Resume from this cursor after a reconnect: there are no events for this feed before it.

        The follower is not told. If this were wrong, the numbers of the next events would show it.
        """
        if self._follower.needed_resync is None and self._resume is not None and cursor.epoch == self._resume.epoch:
            self._resume = max(self._resume, cursor, key=lambda each: each.seq)

    def _add_batch(self, batch: sc.wire.FeedBatch, size: int) -> None:
        follower, epoch = self._follower, batch.cursor.epoch
        items: list[sc.FeedItem] = []
        events: list[sc.SessionEvent] = []
        resyncs: list[sc.Resync] = []
        for item in batch.items:
            if isinstance(item, sc.SessionEvent):
                events.append(item)
                continue
            items += follower.on_events(events, epoch)
            events = []
            server_resync = sc.Resync(reason=batch.resync or "initial", missed=batch.missed)
            due, self._due = self._due, None
            items += follower.on_snapshot(item)
            resyncs.append(due or server_resync)
        items += follower.on_events(events, epoch)
        if follower.needed_resync is None and follower.cursor is not None:
            self._failures = 0
            if resyncs:
                self._resume = follower.cursor
            self.move_on(follower.cursor)
            self.move_on(batch.cursor)
        if items:
            place = None if follower.needed_resync is not None else self._resume
            self._waiting.append(_Batch(items=items, epoch=epoch, cursor=place, resyncs=tuple(resyncs), size=size))
            self._waiting_items += len(items)
            self._waiting_bytes += size
            self._changed.notify()
        if follower.needed_resync is not None and batch.items:
            self.gaps += 1
            self._give_up(follower.needed_resync)


def _ignore(_: object) -> None:
    """Ignore an outcome that changes nothing."""
