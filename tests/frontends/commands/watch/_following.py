"""Feeding screens from a service in this process."""

from collections.abc import Callable

import trio

import session_core as sc
from frontends.commands.watch.screen import WatchScreen
from frontends.commands.watch.session_lines import SessionListView
from session_core.testing.scripted import ScriptedProvider


def config(provider: ScriptedProvider, *tools: sc.Tool) -> sc.ServiceConfig:
    """A service that keeps nothing; whatever writes needs a yes."""
    return sc.ServiceConfig(models={"scripted": provider}, store=sc.MemoryStore(), tools=tools, cwd="/")


class Watcher:
    """Reads a feed into something that shows it."""

    def __init__(self, feed: sc.Feed, take: Callable[[sc.FeedItem], str]) -> None:
        self.said = ""
        self._feed = feed
        self._take = take

    async def run(self) -> None:
        """Read until the end."""
        while True:
            try:
                items = await self._feed.receive_batch()
            except trio.EndOfChannel:
                return
            for item in items:
                self.said += self._take(item)


def of_screen(screen: WatchScreen) -> Callable[[sc.FeedItem], str]:
    """Show one session."""

    def take(item: sc.FeedItem) -> str:
        screen.apply_item(item, None)
        return screen.text()

    return take


def of_session_list(session_list: SessionListView) -> Callable[[sc.FeedItem], str]:
    """Show the list of all."""
    return lambda item: "".join(f"{line}\n" for line in session_list.apply_item(item, None))
