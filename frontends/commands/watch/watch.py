"""`session-core watch`: the sessions of a service, live, until the viewer leaves."""

import math
import signal
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import attrs
import trio

import session_core as sc
from frontends.commands.watch.screen import WatchScreen
from frontends.commands.watch.session_lines import SessionListView
from frontends.server.daemon.attached_client import connect_if_running, nothing_runs
from frontends.server.daemon.presence import Presence
from frontends.shared.conversation.view import ends_line
from frontends.shared.output import encode_item
from frontends.shared.parser import UsageError
from frontends.shared.sanitise import one_line
from frontends.shared.session_lookup import find_all, last_used, short_ids
from frontends.shared.signals import LEAVING_SIGNALS
from frontends.shared.streams import StandardStreams

if TYPE_CHECKING:
    from frontends.client import RemoteFeed, SessionClient

EXIT_ENDED: Final = 1
MOST_SESSIONS: Final = 32
_WHY_CHARS: Final = 200
_LAST_WORDS_S: Final = 1.0


@attrs.frozen(kw_only=True)
class WatchOptions:
    """The options of `watch`; without any session it is the last used one of `directory`."""

    home: Path
    directory: str = "/"
    sessions: tuple[str, ...] = ()
    everything: bool = False
    until_idle: bool = False
    json: bool = False


def watch(options: WatchOptions) -> int:
    """Run `watch` and return the exit code."""
    if len(options.sessions) > MOST_SESSIONS:
        raise UsageError(f"at most {MOST_SESSIONS} sessions can be watched at once; --all shows what all of them do")
    return trio.run(_watch, options, StandardStreams.standard())


async def _watch(options: WatchOptions, streams: StandardStreams) -> int:
    watching = _Watching(options, streams)
    with trio.open_signal_receiver(signal.SIGINT, *LEAVING_SIGNALS) as signals:
        async with (
            connect_if_running(options.home, name="watch", role="observer", on_state=watching.presence.note) as client,
            trio.open_nursery() as nursery,
        ):
            if client is None:
                raise UsageError(nothing_runs(options.home, "watch"))

            async def leave() -> None:
                await anext(signals)
                watching.limit_remaining_output()
                nursery.cancel_scope.cancel(reason="the viewer leaves")

            nursery.start_soon(leave)
            await watching.run(client, nursery)
            watching.limit_remaining_output()
            nursery.cancel_scope.cancel(reason="there is nothing more to see")
    await watching.finish()
    return watching.code


class _Watching:
    """The sessions being watched, and why watching ended."""

    def __init__(self, options: WatchOptions, streams: StandardStreams) -> None:
        self.code = 0
        self._options = options
        self._streams = streams
        self._screens: dict[sc.SessionId, WatchScreen] = {}
        self._following = 0
        self._over = trio.Event()
        self._writing = trio.Lock()
        self._shared = streams.out.same_place(streams.err)
        self._line_open = False  # whether the last line on the terminal is unfinished
        self._items: list[sc.FeedItem] = []
        self._printing = trio.CancelScope()
        self._give_up_at = math.inf
        self.presence = Presence(options.home)

    async def report_connection_changes(self) -> None:
        """Report when the connection is lost and restored, until the service is gone for good."""
        while True:
            await self.presence.change()
            lost = self.presence.lost
            await self._remark(
                "reconnected to the service"
                if lost is None
                else f"the connection is lost: {one_line(lost, _WHY_CHARS)}"
            )

    async def wait_for_service_end(self) -> None:
        """End the watch when the service is gone, as there is nothing left to see."""
        await self.presence.run()
        await self._remark("the service has ended")
        self.code = EXIT_ENDED
        self._over.set()

    async def _remark(self, sentence: str) -> None:
        """Print a remark about the watch on a line of its own, even in the middle of an answer."""
        async with self._writing:
            begun, self._line_open = "\n" if self._line_open else "", False
            await self._streams.remark(begun + self._streams.err.style.dim(f"({sentence})"))

    # --- watching -----------------------------------------------------------------------------------------------------

    async def run(self, client: "SessionClient", nursery: trio.Nursery) -> None:
        """Show what happens until there is nothing left to see."""
        nursery.start_soon(self.report_connection_changes)
        nursery.start_soon(self.wait_for_service_end)
        if self._options.everything:
            nursery.start_soon(self._follow_all, client)
        else:
            with suppress(sc.Disconnected, sc.ServiceClosed):  # reported elsewhere
                await self._choose(client)
            self._following = len(self._screens)
            for session_id, screen in self._screens.items():
                nursery.start_soon(self._follow_one, client, session_id, screen)
        await self._over.wait()

    async def _choose(self, client: "SessionClient") -> None:
        sessions, home = (await client.load_service()).sessions, self._options.home
        if self._options.sessions:
            chosen = find_all(self._options.sessions, sessions, home)
        else:
            chosen = [last_used(sessions, self._options.directory, home)]
        ids, style = short_ids(sessions), self._streams.out.style
        width = max(len(ids[each.session_id]) for each in chosen)
        for each in chosen:
            short = ids[each.session_id]
            label = short.ljust(width) if len(chosen) > 1 else None
            self._screens[each.session_id] = WatchScreen(style, short, live=style.colours, label=label, home=home)

    async def _follow_one(self, client: "SessionClient", session_id: sc.SessionId, screen: WatchScreen) -> None:
        async with self._open_feed(client, session_id) as feed:
            while (items := await _receive_next(feed)) is not None:
                for item in items:
                    screen.apply_item(item, _missed(feed))
                await self._write(items, screen.text)
                if self._options.until_idle and all(each.at_rest for each in self._screens.values()):
                    self._over.set()
            screen.line("The session was deleted.")
            await self._write([], screen.text)
        self._following -= 1
        if not self._following:
            self._over.set()

    async def _follow_all(self, client: "SessionClient") -> None:
        session_list = SessionListView(self._streams.out.style, self._options.home)
        async with self._open_feed(client, None) as feed:
            while (items := await _receive_next(feed)) is not None:
                said = "".join(f"{line}\n" for item in items for line in session_list.apply_item(item, _missed(feed)))
                await self._write(items, partial(str, said))
                if self._options.until_idle and session_list.at_rest:
                    break
        self._over.set()

    @asynccontextmanager
    async def _open_feed(
        self, client: "SessionClient", session_id: sc.SessionId | None
    ) -> "AsyncGenerator[RemoteFeed]":
        """Follow something; the end of the client is reported elsewhere, and only ends the reading."""
        try:
            async with client.follow(session_id) as feed:
                yield feed
        except (sc.Disconnected, sc.ServiceClosed):
            await self._over.wait()

    async def _write(self, items: Sequence[sc.FeedItem], text: Callable[[], str]) -> None:
        """Print the items; once taken they are printed, even if the end has come meanwhile."""
        self._items += items  # at once: the next line may be cancelled
        async with self._writing:
            said: str | bytes = text()
            if self._options.json:
                said = b"".join(encode_item(item) for item in self._items)
            self._items.clear()
            if said and self._shared:
                self._line_open = isinstance(said, str) and not ends_line(said)
            with trio.CancelScope(shield=True, deadline=self._give_up_at) as self._printing:
                if isinstance(said, bytes):
                    await self._streams.out.write_json(said)
                else:
                    await self._streams.out.write(said)

    def limit_remaining_output(self) -> None:
        """Leave soon: a terminal that accepts no output must not delay the end."""
        self._give_up_at = self._printing.deadline = trio.current_time() + _LAST_WORDS_S

    async def finish(self) -> None:
        """Print the rest, and end the last lines."""
        await self._write([], str)
        for screen in self._screens.values():
            await self._write([], partial(screen.text, end=True))


async def _receive_next(feed: "RemoteFeed") -> list[sc.FeedItem] | None:
    """Read the next items; None when the session was deleted."""
    try:
        return await feed.receive_batch()
    except anyio.EndOfStream:
        return None


def _missed(feed: "RemoteFeed") -> int | None:
    return feed.last_resync.missed if feed.last_resync is not None else None
