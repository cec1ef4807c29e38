"""The whole terminal without a terminal: the real app, its real client, a real service behind its real socket."""

import socket
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
from textual.pilot import Pilot

import session_core as sc
from frontends.shared.socket_path import socket_path_of_home
from frontends.terminal.app import TerminalApp
from frontends.terminal.options import TerminalOptions
from session_core.testing.scripted import ScriptedAnswer, ScriptedProvider
from tests.frontends.client._real import RealServer, real_server
from tests.frontends.terminal._idle import PATIENCE_S, until


@attrs.define(eq=False)
class ServedPlace:
    """A service that runs already; `opened` counts how often somebody looked for it."""

    home: Path
    opened: int = 0
    let_in: threading.Event = attrs.field(factory=threading.Event)

    def open(self) -> Path:
        """Return its socket, as soon as the test lets us in."""
        self.opened += 1
        assert self.let_in.wait(PATIENCE_S)
        return socket_path_of_home(self.home)

    def find(self) -> Path | None:
        """Return its socket if something listens there."""
        place = socket_path_of_home(self.home)
        with socket.socket(socket.AF_UNIX) as probe:
            return place if probe.connect_ex(str(place)) == 0 else None

    def close(self) -> None:
        """Leave it."""


@attrs.define(eq=False)
class Terminal:
    """A terminal that is open, and the service behind it."""

    app: TerminalApp
    pilot: Pilot[None]
    server: RealServer
    provider: ScriptedProvider
    place: ServedPlace

    @property
    def text(self) -> str:
        """What is on the screen."""
        return "\n".join(self.app.lines_on_screen())

    async def until(self, holds: Callable[[], object], what: str = "") -> None:
        """Wait until something is so; fails with the screen if it never is."""
        await until(holds, what or "it", lambda: self.text)

    async def until_shown(self, text: str) -> None:
        """Wait until the screen shows a text."""
        await self.until(lambda: text in self.text, repr(text))

    async def until_gone(self, text: str) -> None:
        """Wait until the screen shows a text no more."""
        await self.until(lambda: text not in self.text, f"the end of {text!r}")

    async def until_said(self, *texts: str) -> None:
        """Wait until this, and nothing else, is the conversation; an answer is on the screen before it is whole."""

        def said() -> list[str]:
            return [each.text for each in self.state().transcript]

        await until(lambda: said() == list(texts), f"the conversation {texts}", said)

    async def type(self, text: str, *keys: str) -> None:
        """Type a text, and press keys after it."""
        names = {" ": "space", "\n": "ctrl+j", "/": "slash", "!": "exclamation_mark", "@": "at", ".": "full_stop"}
        await self.pilot.press(*(names.get(each, each) for each in text), *keys)

    async def say(self, text: str) -> None:
        """Say something to the agent."""
        await self.type(text, "enter")

    def state(self) -> sc.SessionSnapshot:
        """The viewed session, as the service knows it."""
        session_id = self.app.current.session_id
        assert session_id is not None
        return self.server.snapshot(session_id)

    def release(self, pause: str) -> None:
        """Let the model go on that waits at a pause."""
        self.server.call(self.provider.release, pause)


@asynccontextmanager
async def open_terminal(
    home: Path,
    *answers: ScriptedAnswer,
    size: tuple[int, int] = (110, 36),
    tools: Sequence[sc.Tool] = (),
    config: dict[str, Any] | None = None,
    **options: Any,
) -> AsyncGenerator[Terminal]:
    """Open a terminal on a service whose model gives these answers, for the length of the block."""
    provider = ScriptedProvider(*answers)
    settings = {"store": sc.MemoryStore(), "tools": tuple(tools), "models": {"m": provider}, **(config or {})}
    with real_server(home, sc.ServiceConfig(**settings)) as server:
        async with attach_terminal(server, provider, size=size, **options) as terminal:
            yield terminal


@asynccontextmanager
async def attach_terminal(
    server: RealServer,
    provider: ScriptedProvider,
    *,
    size: tuple[int, int] = (110, 36),
    slow: bool = False,
    **options: Any,
) -> AsyncGenerator[Terminal]:
    """Open another terminal on a service that runs; a `slow` one is let in when the test says so."""
    place = ServedPlace(server.home)
    if not slow:
        place.let_in.set()
    app = TerminalApp(place, TerminalOptions(**{"home": server.home, "cwd": str(server.home), **options}))
    app.connection.look_every_s = 0.01
    async with app.run_test(size=size, notifications=True) as pilot:
        terminal = Terminal(app, pilot, server, provider, place)
        if not slow:
            await terminal.until(lambda: app.feeds.session_list is not None, "the list of sessions")
        yield terminal
