"""Who takes part: watchers that fold what they read, and a writer that remembers what was acknowledged."""

from collections import Counter
from pathlib import Path
from random import Random

import attrs
import trio

import session_core as sc
from frontends.client import open_client

_PATIENCE_S = 600.0


def _quickly(attempt: int) -> float:
    return min(0.02 * attempt, 0.2)


@attrs.define
class Tempo:
    """How long everybody lives and rests, as a multiple of what is enough on an idle machine.

    On busy cores a program needs most of a short life to start: nothing would ever happen in it.
    """

    factor: float = 1.0

    def slow_down(self) -> None:
        """Give everybody more time from now on."""
        self.factor = min(2 * self.factor, 20.0)


@attrs.define(eq=False)
class Watcher:
    """Follows one session, or the list of all, through any number of programs that come and go.

    What it has folded and its cursor stay when a program is killed; the next one goes on from there.
    """

    proxied: Path
    session_id: sc.SessionId | None
    random: Random
    tempo: Tempo
    longest_life_s: float = 6.0
    state: sc.SessionState | sc.SessionListState | None = None
    cursor: sc.Cursor | None = None
    calm: trio.Event = attrs.field(factory=trio.Event)
    programs: int = 0
    reasons: Counter[str] = attrs.field(factory=Counter)
    replayed: int = 0

    async def run(self) -> None:
        """Live several lives until it is calm, and then one more that goes on."""
        while not self.calm.is_set():
            with trio.move_on_after(self.random.uniform(0.5, self.longest_life_s) * self.tempo.factor) as life:
                await self._live(restless=True)
            assert life.cancelled_caught or self.calm.is_set()
        await self._live(restless=False)

    async def _live(self, *, restless: bool) -> None:
        self.programs += 1
        async with open_client(
            address=self.proxied, kind="script", role="observer", wait_s=_PATIENCE_S, pause_before=_quickly
        ) as client:
            before = self.cursor
            async with client.follow(self.session_id, after=before) as feed:
                first = True
                while not (restless and self.calm.is_set()):
                    items = await feed.receive_batch()
                    if first and before is not None and isinstance(items[0], sc.SessionEvent):
                        self.replayed += 1
                    first = False
                    for item in items:
                        self._take(item)
                    if not isinstance(items[0], sc.SessionEvent) and feed.last_resync is not None:
                        self.reasons[feed.last_resync.reason] += 1
                    self.cursor = feed.cursor or self.cursor
                    if restless and self.random.random() < 0.05:
                        await trio.sleep(self.random.uniform(0.2, 2.0) * self.tempo.factor)  # reads nothing for a while

    def _take(self, item: sc.FeedItem) -> None:
        match item:
            case sc.SessionSnapshot():
                assert item.session_id == self.session_id, "a snapshot of another session"
                self.state = sc.SessionState.from_snapshot(item)
            case sc.ServiceSnapshot():
                assert self.session_id is None, "a snapshot of the list in the feed of a session"
                self.state = sc.SessionListState.from_snapshot(item)
            case sc.SessionEvent():
                assert self.session_id in {None, item.session_id}, "an event of another session"
                assert self.state is not None, "an event before any snapshot"
                self.state.apply(item)

    def seen(self, cursor: sc.Cursor) -> object:
        """What a frontend would show at this cursor."""
        assert self.state is not None
        return self.state.snapshot(cursor)


@attrs.define(eq=False)
class Writer:
    """Sends messages to a session as long as it may, and remembers which ones were acknowledged."""

    proxied: Path
    session_id: sc.SessionId
    acknowledged: list[str] = attrs.field(factory=list)
    calm: trio.Event = attrs.field(factory=trio.Event)

    async def run(self) -> None:
        """Send one message after the other; each is tried until there is an answer."""
        async with open_client(
            address=self.proxied, kind="script", wait_s=_PATIENCE_S, patience_s=_PATIENCE_S, pause_before=_quickly
        ) as client:
            number = 0
            while not self.calm.is_set():
                text = f"message {number} to {self.session_id}"
                await client.send_user_message(self.session_id, text, deliver_as="follow_up")
                self.acknowledged.append(text)
                number += 1
                await trio.sleep(0.2)
