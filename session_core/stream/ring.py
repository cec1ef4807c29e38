"""A bounded run of numbered events, oldest first. Pure and synchronous; it knows no tasks and no subscribers.

Every event has an index that never changes: the number of events that came before it. The list is trimmed in one go
when it has grown to twice its capacity, so appending costs the same on average as to a plain list and a slice never
wraps around. Readers see only the last `capacity` events whatever the list happens to hold.
"""

from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING

from session_core.ids import SessionId
from session_core.vocabulary.events import SessionEvent

if TYPE_CHECKING:
    from session_core.stream.subscription import Subscription

_seq_of = attrgetter("seq")

SharedBatch = tuple[tuple[int, int, int | None, int | None], tuple[SessionEvent, ...]]
"""A batch and what it depends on: start, end, the threshold for merging, the limit in bytes."""


class Ring:
    """The last `capacity` events of one session, or of all sessions."""

    __slots__ = (
        "base",
        "capacity",
        "closed",
        "dirty",
        "head",
        "items",
        "numbered_from",
        "readers",
        "session_id",
        "shared_batch",
        "trimmed_seq",
        "waiting",
    )

    def __init__(self, capacity: int, *, session_id: SessionId | None = None) -> None:
        self.session_id = session_id
        self.items: list[SessionEvent] = []
        self.base = 0  # index of items[0]
        self.head = 0  # index of the next event to come
        self.numbered_from = 0  # the session's number of the last event before this ring began
        self.trimmed_seq = 0  # global seq of the last event that is no longer held
        self.capacity = capacity
        self.closed = False
        self.dirty = False  # passed to the pump, which has not processed it yet
        self.readers = 0
        self.shared_batch: SharedBatch | None = None  # by the last sharing reader, for others at the same position
        self.waiting: dict[Subscription, None] = {}

    @property
    def oldest(self) -> int:
        """Index of the oldest event a reader can still get."""
        return max(self.base, self.head - self.capacity)

    def append(self, event: SessionEvent) -> None:
        """Add the newest event."""
        items = self.items
        items.append(event)
        self.head += 1
        if len(items) >= 2 * self.capacity:
            surplus = len(items) - self.capacity
            self.trimmed_seq = items[surplus - 1].seq
            del items[:surplus]
            self.base += surplus

    def find_index_after(self, seq: int) -> int | None:
        """Return the index of the first event after `seq`, or None when some of those events are gone."""
        if seq < self.trimmed_seq:
            return None
        index = self.base + bisect_right(self.items, seq, key=_seq_of)
        return index if index >= self.oldest else None

    def events_from(self, index: int) -> list[SessionEvent]:
        """Return all events from `index` on."""
        return self.items[index - self.base :]
