"""Feed items as bytes: each batch and each snapshot is encoded once, however many clients read it.

A frame is one line. A batch that would make a long line is split into several, so a reply can go in between. Nothing is
ever cut: an event fits into a line by the bounds of what is recorded, and a snapshot by those of what a state holds.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs
import trio

import session_core as sc

FRAME_BYTES: Final = 256 * 1024
"""The longest frame of events, unless a single event is longer."""
MANY_SESSIONS: Final = 5_000
MANY_CHARS: Final = 4_000_000
"""More than this takes some hundredths of a second to encode."""
_REMEMBERED: Final = 64
_REMEMBERED_BYTES: Final = 16 * 1024 * 1024


@attrs.define(eq=False)
class Piece:
    """Some encoded items, without the envelope, and the cursor after them."""

    data: bytes
    cursor: sc.Cursor
    _framed: tuple[int, sc.Cursor, bytes] | None = None
    _event: tuple[int, sc.Cursor, bytes] | None = None

    def frame(self, feed: int, cursor: sc.Cursor, resync: sc.Resync | None) -> bytes:
        """Return the notification that carries it; cached for other clients, whose feed number is mostly the same."""
        if resync is not None:
            return _feed_frame(feed, self, cursor, resync)
        framed = self._framed
        if framed is None or framed[0] != feed or framed[1] != cursor:
            framed = self._framed = (feed, cursor, _feed_frame(feed, self, cursor, None))
        return framed[2]

    def event(self, feed: int, cursor: sc.Cursor, resync: sc.Resync | None) -> bytes:
        """Return the server-sent event that carries it; cached too."""
        known = self._event
        if resync is None and known is not None and known[:2] == (feed, cursor):
            return known[2]
        data = format_server_sent_event("feed", batch_json(feed, self, cursor, resync), cursor)
        if resync is None:
            self._event = (feed, cursor, data)
        return data


@attrs.frozen
class _CachedPieces:
    """The pieces of an encoded batch. It also holds the batch, so no other one can be mistaken for it."""

    items: Sequence[sc.FeedItem]
    pieces: tuple[Piece, ...]
    size: int


class Encodings:
    """Caches recent encodings for other clients that read the same batch, or a snapshot of the same moment."""

    def __init__(self) -> None:
        self._known: OrderedDict[object, _CachedPieces] = OrderedDict()
        self._bytes = 0
        self._one_at_a_time = trio.Lock()
        self.made = 0

    def pieces(self, items: Sequence[sc.FeedItem], epoch: sc.Epoch) -> Sequence[Piece]:
        """Split a batch into pieces of moderate length; a tuple is assumed to be shared with other readers."""
        if not items:  # for example from a reader that has noticed a gap
            return ()
        key = _key(items)
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return known.pieces
        return self._add(key, items, tuple(_split_into_pieces(items, epoch)))

    async def encode_pieces(self, items: Sequence[sc.FeedItem], epoch: sc.Epoch) -> Sequence[Piece]:
        """Do the same as `pieces`, in a thread if it may be slow, so other clients are served meanwhile."""
        key = _key(items)
        if key in self._known or not any(map(is_slow_to_encode, items)):
            return self.pieces(items, epoch)
        async with self._one_at_a_time:  # waiting tasks mostly wait for the same batch
            if key not in self._known:
                made = await trio.to_thread.run_sync(
                    lambda: tuple(_split_into_pieces(items, epoch)), abandon_on_cancel=True
                )
                return self._add(key, items, made)
            return self.pieces(items, epoch)

    def _add(self, key: object, items: Sequence[sc.FeedItem], pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
        self.made += 1
        if key is not None:
            self._keep(key, _CachedPieces(items, pieces, sum(len(piece.data) for piece in pieces)))
        return pieces

    def _keep(self, key: object, known: _CachedPieces) -> None:
        self._known[key] = known
        self._bytes += known.size
        while len(self._known) > _REMEMBERED or (self._bytes > _REMEMBERED_BYTES and len(self._known) > 1):
            self._bytes -= self._known.popitem(last=False)[1].size


def is_slow_to_encode(value: object) -> bool:
    """Return whether encoding this may be too slow for the event loop: do it in a thread, or all other clients wait."""
    held: Iterable[sc.Message | sc.QueueItem]
    match value:
        case sc.ServiceSnapshot():
            return len(value.sessions) > MANY_SESSIONS
        case sc.SessionSnapshot():
            held = (*value.messages, *value.queue)
        case sc.replies.MessagesReply(messages=held) | sc.replies.QueueReply(items=held):
            pass
        case _:
            return False
    parts = (part for each in held for part in each.parts)
    return sum(len(getattr(part, "text", "")) + len(getattr(part, "data", "")) for part in parts) > MANY_CHARS


def _key(items: Sequence[sc.FeedItem]) -> object:
    """Return the cache key of a batch; None if no other client can have it."""
    if isinstance(items, tuple):
        return id(items)
    if len(items) != 1 or isinstance(first := items[0], sc.SessionEvent):
        return None
    return (first.session_id if isinstance(first, sc.SessionSnapshot) else None, first.cursor)


def _split_into_pieces(items: Sequence[sc.FeedItem], epoch: sc.Epoch) -> Iterator[Piece]:
    taken: list[bytes] = []
    size = 0
    cursor: sc.Cursor | None = None
    for item in items:
        data = sc.wire.encode_event(item) if isinstance(item, sc.SessionEvent) else sc.wire.encode(item)
        if cursor is not None and size + len(data) > FRAME_BYTES:
            yield Piece(b",".join(taken), cursor)
            taken, size = [], 0
        taken.append(data)
        size += len(data)
        cursor = sc.Cursor(epoch=epoch, seq=item.seq) if isinstance(item, sc.SessionEvent) else item.cursor
    if cursor is not None:
        yield Piece(b",".join(taken), cursor)


def _feed_frame(feed: int, piece: Piece, cursor: sc.Cursor, resync: sc.Resync | None) -> bytes:
    batch = batch_json(feed, piece, cursor, resync)
    return b'{"jsonrpc":"2.0","method":"feed","params":%s}\n' % batch


def format_server_sent_event(name: str, data: bytes, cursor: sc.Cursor | None = None) -> bytes:
    """Return one server-sent event as it is sent; JSON never holds a line break."""
    place = b"" if cursor is None else f"id: {cursor.epoch}:{cursor.seq}\n".encode()
    return b"%sevent: %s\ndata: %s\n\n" % (place, name.encode(), data)


def batch_json(feed: int, piece: Piece, cursor: sc.Cursor, resync: sc.Resync | None) -> bytes:
    """Return a `FeedBatch` around items that are already encoded; `resync` says why it begins with a snapshot."""
    resync_fields = b""
    if resync is not None:
        resync_fields = b',"resync":%s' % sc.wire.encode(resync.reason)
        if resync.missed is not None:
            resync_fields += b',"missed":%d' % resync.missed
    return b'{"type":"feed_batch","feed":%d,"items":[%s],"cursor":%s%s}' % (
        feed,
        piece.data,
        sc.wire.encode(cursor),
        resync_fields,
    )
