"""Followers of the tour: each folds what it receives into its own state, and counts."""

from collections.abc import Callable

import attrs
import trio

import session_core as sc


class Stage:
    """Lets the tour wait for something to become visible."""

    def __init__(self) -> None:
        self._waiting = trio.lowlevel.ParkingLot()

    def changed(self) -> None:
        """Make every waiting task check its condition again."""
        self._waiting.unpark_all()

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds; it still holds when this returns."""
        while not condition():
            await self._waiting.park()


class Viewer:
    """One follower of one session, such as a frontend has."""

    def __init__(self, label: str, feed: sc.Feed, stage: Stage) -> None:
        self.label = label
        self.state: sc.SessionState | None = None
        self.delivered = 0
        self.missed = 0
        self.resyncs = 0
        self.retries = 0
        self.skipped = 0
        """Events that the newest snapshot skipped for this viewer, whether reported as missed or not."""
        self._feed = feed
        self._stage = stage
        self._reading = trio.Event()
        self._reading.set()

    @property
    def place(self) -> int:
        """The number of the last event of the session that this viewer knows."""
        return self.state.sseq if self.state is not None else 0

    @property
    def reading(self) -> bool:
        """Whether the viewer is reading."""
        return self._reading.is_set()

    def stop_reading(self) -> None:
        """Stop reading, as a browser tab in the background does."""
        self._reading = trio.Event()

    def read_again(self) -> None:
        """Continue reading."""
        self._reading.set()

    def picture(self) -> sc.SessionSnapshot:
        """Return this viewer's view of the session, for comparison with others."""
        assert self.state is not None
        return self.state.snapshot(sc.Cursor(epoch=sc.Epoch("any"), seq=0))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow until the session or the service ends; started means that the first snapshot has arrived."""
        while True:
            await self._reading.wait()
            try:
                items = await self._feed.receive_batch()
            except trio.EndOfChannel:
                return
            for item in items:
                self._apply_item(item)
            self._stage.changed()
            task_status.started()
            task_status = trio.TASK_STATUS_IGNORED

    def _apply_item(self, item: sc.FeedItem) -> None:
        if isinstance(item, sc.SessionSnapshot):
            if self.state is not None:
                self.resyncs += 1
                self.skipped = item.sseq - self.place
                resync = self._feed.last_resync
                self.missed += (resync.missed or 0) if resync is not None else 0
            self.state = sc.SessionState.from_snapshot(item)
        elif isinstance(item, sc.SessionEvent) and self.state is not None:
            self.state.apply(item)
            self.delivered += item.merged
            self.retries += isinstance(item.event, sc.events.ModelCallFailed)


@attrs.define
class Witness:
    """Reads every raw event of every session, and only counts."""

    _stage: Stage
    delivered: int = 0
    missed: int = 0

    async def run(self, events: sc.Subscription) -> None:
        """Count until the service ends."""
        while True:
            try:
                self.delivered += len(await events.receive_batch())
            except sc.Lagged as lag:
                self.missed += lag.missed
            except trio.EndOfChannel:
                return
            self._stage.changed()


def is_same_picture(picture: sc.SessionSnapshot, snapshot: sc.SessionSnapshot) -> bool:
    """Return whether a viewer's state equals a fresh snapshot, wherever in the stream it was taken."""
    return picture == attrs.evolve(snapshot, cursor=picture.cursor)


def current_text(state: sc.SessionState) -> str:
    """Return the current text of a session: the answer being written, or the last one."""
    partial = state.build_partial()
    if partial is not None and partial.parts:
        return str(partial.parts[-1].text)
    return state.last_outcome.final_text if state.last_outcome is not None else ""
