"""The reader's side of the resync protocol, without any I/O.

Rules:
1. A follower either has a position in the order (`cursor`) or needs a snapshot (`needed_resync` says why). It starts
   with nothing, or with a cursor to resume after.
2. Events at or before its position are dropped, because the snapshot already contains them. An event whose number is
   not the next one means a gap. Numbers decide, never the time of arrival. Example: at 7, event 7 is dropped, 8 is
   passed on, 9 is a gap.
3. Any problem (lag, gap, refused cursor, another epoch) makes it need exactly one snapshot, however many problems
   follow before that snapshot comes. The snapshot replaces everything; nothing is merged.
4. While it needs a snapshot, it holds a bounded number of arriving events and replays them on top of the snapshot. If
   too many arrive, the numbers show the gap and there is one more resync: slower, never wrong.
"""

from collections.abc import Sequence

import attrs

from session_core.errors import CursorProblem, ProtocolError
from session_core.ids import Cursor, Epoch, SessionId
from session_core.vocabulary.client_protocol import ResyncReason
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.snapshots import Bookmark, ServiceSnapshot, SessionSnapshot

Snapshot = SessionSnapshot | ServiceSnapshot
FeedItem = Snapshot | SessionEvent

MAX_HELD = 1_024  # events kept while waiting for a snapshot


@attrs.frozen(kw_only=True)
class Resync:
    """The reason why a new snapshot is needed, and how many events were missed if that is known."""

    reason: ResyncReason
    missed: int | None = None


class Follower:
    """Follows one session, or the whole service when `session_id` is None.

    Feed it what arrives; it returns what to pass on. After each call check `needed_resync`: if it is set, fetch a
    snapshot and pass it to `on_snapshot`.
    """

    def __init__(self, session_id: SessionId | None, *, after: Cursor | None = None) -> None:
        self.session_id = session_id
        self.cursor = after
        self.needed_resync: Resync | None = Resync(reason="initial") if after is None else None
        self.resyncs = 0
        self.last_resync: Resync | None = None
        self._place: int | None = after.seq if after is not None and session_id is None else None
        self._held: list[tuple[Epoch, SessionEvent]] = []

    def on_snapshot(self, snapshot: Snapshot) -> list[FeedItem]:
        """Start over from a snapshot; return it, followed by held events that are newer."""
        if isinstance(snapshot, SessionSnapshot) != (self.session_id is not None) or (
            isinstance(snapshot, SessionSnapshot) and snapshot.session_id != self.session_id
        ):
            raise ProtocolError("this snapshot belongs to another feed", field="$.session_id")
        self.last_resync, self.needed_resync = self.needed_resync, None
        self.resyncs += 1
        self.cursor = snapshot.cursor
        self._place = snapshot.sseq if isinstance(snapshot, SessionSnapshot) else snapshot.cursor.seq
        held, self._held = self._held, []
        newer = self.on_events([event for epoch, event in held if epoch == self.cursor.epoch], self.cursor.epoch)
        return [snapshot, *newer]

    def on_events(self, batch: Sequence[SessionEvent], epoch: Epoch) -> list[SessionEvent]:
        """Take events of the run `epoch`; return those to pass on."""
        passed: list[SessionEvent] = []
        for event in batch:
            if self.session_id is not None and event.session_id != self.session_id:
                msg = f"an event of session {event.session_id} in the feed of {self.session_id}"
                raise ProtocolError(msg, field="$.session_id")
            if self.needed_resync is None:
                self._check(event, epoch)
            if self.needed_resync is not None:
                if len(self._held) < MAX_HELD:
                    self._held.append((epoch, event))
            elif self.cursor is not None and event.seq > self.cursor.seq:
                self.cursor = Cursor(epoch=epoch, seq=event.seq)
                self._place = self._number(event)
                passed.append(event)
        return passed

    def on_run(self, run: Sequence[SessionEvent], epoch: Epoch) -> Sequence[SessionEvent]:
        """Take consecutive events that are known to belong to the followed session, as a ring holds them.

        Like `on_events`, but checks only the first and the last event.
        """
        if self.needed_resync is None and self.cursor is not None and run and run[0].seq > self.cursor.seq:
            self._check(run[0], epoch)
            if self.needed_resync is None:
                self.cursor = Cursor(epoch=epoch, seq=run[-1].seq)
                self._place = self._number(run[-1])
                return run
        return self.on_events(run, epoch)

    def _check(self, event: SessionEvent, epoch: Epoch) -> None:
        assert self.cursor is not None
        if epoch != self.cursor.epoch:
            self._require_snapshot(Resync(reason="foreign_epoch"))
        elif event.seq > self.cursor.seq and self._place is not None:
            first = self._number(event) - event.merged
            if first != self._place:
                self._require_snapshot(
                    Resync(reason="gap", missed=first - self._place if first > self._place else None)
                )

    def _number(self, event: SessionEvent) -> int:
        return event.seq if self.session_id is None else event.sseq

    def on_bookmark(self, bookmark: Bookmark) -> None:
        """Advance without an event: nothing happened for this follower up to there."""
        if self.needed_resync is None and self.cursor is not None and bookmark.cursor.epoch == self.cursor.epoch:
            self.cursor = max(self.cursor, bookmark.cursor, key=lambda cursor: cursor.seq)

    def on_lagged(self, missed: int) -> None:
        """Handle lost events, reported by the stream."""
        self._require_snapshot(Resync(reason="lagged", missed=missed))

    def on_refused(self, problem: CursorProblem) -> None:
        """Handle a cursor at which the stream cannot resume."""
        self._require_snapshot(Resync(reason=problem))

    def _require_snapshot(self, resync: Resync) -> None:
        if self.needed_resync is None:
            self.needed_resync = resync
            self.cursor = self._place = None
