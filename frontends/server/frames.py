"""What readers are sent, as bytes: each event and each batch is written once, however many read it.

A frame is one line. A batch that would make a long one is sent as several, so that a reply can go in between.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

import session_core as sc

FRAME_BYTES: Final = 256 * 1024
"""A frame of events is not made longer than this, unless a single event is."""
_REMEMBERED: Final = 64
_REMEMBERED_BYTES: Final = 16 * 1024 * 1024

_Key = tuple[object, ...]


@attrs.frozen
class Piece:
    """Some items as they are sent, without the envelope, and where a reader stands after them."""

    data: bytes
    cursor: sc.Cursor


class Encodings:
    """Remembers what was written lately, for others who read the same."""

    def __init__(self) -> None:
        self._known: OrderedDict[_Key, bytes] = OrderedDict()
        self._bytes = 0
        self.made = 0

    def pieces(self, items: Sequence[sc.FeedItem], epoch: sc.Epoch) -> Iterator[Piece]:
        """Cut a batch into pieces of a fair length."""
        taken: list[sc.FeedItem] = []
        size = 0
        for item in items:
            length = len(self._item(item))
            if taken and size + length > FRAME_BYTES:
                yield self._piece(taken, epoch)
                taken, size = [], 0
            taken.append(item)
            size += length
        if taken:
            yield self._piece(taken, epoch)

    def _piece(self, items: list[sc.FeedItem], epoch: sc.Epoch) -> Piece:
        last = items[-1]
        cursor = sc.Cursor(epoch=epoch, seq=last.seq) if isinstance(last, sc.SessionEvent) else last.cursor
        if len(items) == 1:
            return Piece(self._item(last), cursor)
        # Of each item: a reader far behind has some merged, and so room for others between the same two ends.
        key = tuple(map(_key, items))
        known = self._recall(key)
        return Piece(known or self._keep(key, b",".join(map(self._item, items))), cursor)

    def _item(self, item: sc.FeedItem) -> bytes:
        if isinstance(item, sc.SessionEvent):
            return sc.encode_event(item)  # an event remembers its own
        return self._recall(_key(item)) or self._keep(_key(item), sc.encode(item))

    def _recall(self, key: _Key) -> bytes | None:
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
        return known

    def _keep(self, key: _Key, data: bytes) -> bytes:
        self.made += 1
        self._known[key] = data
        self._bytes += len(data)
        while len(self._known) > _REMEMBERED or (self._bytes > _REMEMBERED_BYTES and len(self._known) > 1):
            self._bytes -= len(self._known.popitem(last=False)[1])
        return data


def _key(item: sc.FeedItem) -> _Key:
    if isinstance(item, sc.SessionEvent):
        return (item.session_id, item.seq, item.merged)
    return (item.session_id if isinstance(item, sc.SessionSnapshot) else None, "snapshot", item.cursor.seq)


def feed_frame(feed: int, piece: Piece, cursor: sc.Cursor, resync: sc.Resync | None) -> bytes:
    """Return the notification that carries a `FeedBatch`."""
    batch = batch_json(feed, piece, cursor, resync)
    return b'{"jsonrpc":"2.0","method":"feed","params":%s}\n' % batch


def batch_json(feed: int, piece: Piece, cursor: sc.Cursor, resync: sc.Resync | None) -> bytes:
    """Return a `FeedBatch` around items that are written already; `resync` says why it begins with a snapshot."""
    told = b""
    if resync is not None:
        told = b',"resync":%s' % sc.encode(resync.reason)
        if resync.missed is not None:
            told += b',"missed":%d' % resync.missed
    return b'{"type":"feed_batch","feed":%d,"items":[%s],"cursor":%s%s}' % (feed, piece.data, sc.encode(cursor), told)
