"""The stage of the tour, and its followers: each folds what it receives into its own state, and counts."""

import shutil
import textwrap
from collections.abc import Callable

import attrs
import trio

import session_core as sc
from frontends.shared.conversation.view import View
from frontends.shared.output import Output
from frontends.shared.sanitise import one_line


class Stage:
    """Prints lines, claims and what a visible follower sees, and lets the tour wait for something to become visible.

    `checked` claims were made, of which `broken` did not hold.
    """

    def __init__(self, output: Output) -> None:
        self.style = output.style
        self.view = View(self.style, self.style, shared=True, live=self.live)
        self.checked = 0
        self.broken = 0
        self._output = output
        self._waiting = trio.lowlevel.ParkingLot()

    @property
    def live(self) -> bool:
        """Whether somebody watches on a terminal, so that a follower's view is worth showing."""
        return self.style.colours

    def folded(self, text: str, *, indent: int) -> str:
        """Wrap a text that begins at column `indent` between words, where the terminal is too narrow."""
        if not self.live:
            return text
        width = max(20, shutil.get_terminal_size().columns - 1 - indent)
        return textwrap.fill(text, width).replace("\n", "\n" + " " * indent)

    async def say(self, text: str = "") -> None:
        """Print a line; `text` is safe to print."""
        self.view.line(text)
        await self.show()

    async def check(self, claim: str, *, holds: bool) -> None:
        """Print a claim with a tick if it holds; otherwise report and remember the failure."""
        self.checked += 1
        self.broken += not holds
        style = self.style
        mark = style.green(style.symbol("✓")) if holds else style.red(f"{style.symbol('✗')} NOT TRUE:")
        await self.say(f"   {mark} {self.folded(claim, indent=5)}")

    async def show(self) -> None:
        """Print what the view has collected."""
        await self._output.write("".join(text for _, text in self.view.take_pieces()))

    async def keep_showing(self) -> None:
        """Print what a visible follower sees, until cancelled; in a task of its own, as a terminal may be slow."""
        while True:
            await self._waiting.park()
            await self.show()

    def changed(self) -> None:
        """Make every waiting task check its condition again."""
        self._waiting.unpark_all()

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds; it still holds when this returns."""
        while not condition():
            await self._waiting.park()


class Viewer:
    """One follower of one session, such as a frontend has; what a visible one sees is shown on a terminal."""

    def __init__(self, feed: sc.Feed, stage: Stage, *, visible: bool = False) -> None:
        self.state: sc.SessionState | None = None
        self.delivered = 0
        self.missed = 0
        self.resyncs = 0
        self.retries = 0
        self.skipped = 0
        """Events that the newest snapshot skipped for this viewer, whether reported as missed or not."""
        self._feed = feed
        self._stage = stage
        self._view = stage.view if visible and stage.live else None
        self._reading = trio.Event()
        self._reading.set()

    @property
    def place(self) -> int:
        """The number of the last event of the session that this viewer knows."""
        return self.state.sseq if self.state is not None else 0

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
                if self._view is not None:
                    self._view.catch_up(item, self.missed)
            self.state = sc.SessionState.from_snapshot(item)
        elif isinstance(item, sc.SessionEvent) and self.state is not None:
            self.state.apply(item)
            self.delivered += item.merged
            self.retries += isinstance(item.event, sc.events.ModelCallFailed)
            if self._view is not None:
                self._view.event(item)


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


def last_words(text: str) -> str:
    """Return the last few words of a text as one safe line."""
    return one_line(" ".join(text[-100:].split()[-5:]))
