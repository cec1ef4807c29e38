"""The real terminal without a service: it shows states that somebody has written down, and what it writes is read.

For tests of what is on the screen, and for the pictures of the documents.
"""

import threading
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import attrs
from rich.style import Style
from textual.drivers.headless_driver import HeadlessDriver
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

import session_core as sc
from frontends.client import ConnectionState
from frontends.terminal.app import TerminalApp
from frontends.terminal.feeds import ViewedSession
from frontends.terminal.options import TerminalOptions
from session_core.vocabulary.messages import Part, Role
from tests.frontends.terminal._idle import idle

NOW_MS = 1_800_000_000_000
SESSION = sc.SessionId("ses_viewed")


class Recorder(HeadlessDriver):
    """A terminal that keeps what is written to it."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.written: list[str] = []

    @property
    def is_headless(self) -> bool:
        """Whether nothing needs to be written; here it must."""
        return False

    def write(self, data: str) -> None:
        """Keep it."""
        self.written.append(data)

    def take(self) -> str:
        """Return what was written since the last time."""
        written, self.written = "".join(self.written), []
        return written


@attrs.define(eq=False)
class _Nowhere:
    """A service that is looked for as long as the terminal is open."""

    _left: threading.Event = attrs.field(factory=threading.Event)

    def open(self) -> Path:
        """Look for it."""
        self._left.wait()
        raise sc.Disconnected("the stage is closed")

    def find(self) -> Path | None:
        """Find none."""

    def close(self) -> None:
        """Look no longer."""
        self._left.set()


@attrs.define(eq=False)
class Stage:
    """A terminal that shows what it is given."""

    app: TerminalApp
    pilot: Pilot[None]
    _numbers: Iterator[int] = attrs.field(factory=count)

    def number(self) -> int:
        """Return another number each time."""
        return next(self._numbers)

    @property
    def driver(self) -> Recorder:
        """What the terminal writes to."""
        driver = self.app._driver
        assert isinstance(driver, Recorder)
        return driver

    @property
    def text(self) -> str:
        """What is on the screen."""
        return "\n".join(self.app.lines_on_screen())

    def cells(self) -> list[list[tuple[str, Style | None]]]:
        """What is on the screen, line by line, each text with its style."""
        strips = self.app.screen._compositor.render_strips()
        return [[(text, style) for text, style, _ in strip.simplify()] for strip in strips]

    async def show(self, state: sc.SessionState | None, *others: sc.SessionSummary) -> None:
        """Show a session beside others, as if the service had told of them."""
        session_list = sc.SessionListState()
        own = [] if state is None else [summary_of(state)]
        session_list.sessions = {each.session_id: each for each in (*own, *others)}
        desk = self.app.feeds
        desk.session_list = session_list
        desk.connection = ConnectionState(phase="connected")
        desk.viewed = None if state is None else ViewedSession(state.session_id, state=state)
        self.app.draw({"connection", "session_list", "session"})
        await self.settle()

    async def settle(self) -> None:
        """Wait until everything is drawn."""
        await idle(self.app)


def summary_of(state: sc.SessionState) -> sc.SessionSummary:
    """Return the line of a session in the list of all."""
    return sc.SessionSummary(
        session_id=state.session_id,
        name=state.name,
        created_at=state.created_at,
        updated_at=state.updated_at,
        archived=state.archived,
        parent_id=state.parent_id,
        cwd=state.settings.cwd,
        model=state.settings.model,
        activity=state.activity,
        queued=len(state.queue),
        open_requests=len(state.approvals) + len(state.dialogs),
    )


def summary(session_id: str, name: str, **more: Any) -> sc.SessionSummary:
    """Make a line of the list of all sessions."""
    usual: dict[str, Any] = {
        "created_at": NOW_MS,
        "updated_at": NOW_MS - 60_000,
        "archived": False,
        "parent_id": None,
        "cwd": "/projects/shop",
        "model": "demo",
        "activity": sc.Activity(name="idle"),
    }
    return sc.SessionSummary(session_id=sc.SessionId(session_id), name=name, **{**usual, **more})


def session(messages: Iterable[sc.Message] = (), **more: Any) -> sc.SessionState:
    """Make the state of the viewed session; the last message is its head."""
    said = tuple(messages)
    usual: dict[str, Any] = {
        "session_id": SESSION,
        "name": "a session",
        "created_at": NOW_MS - 600_000,
        "updated_at": NOW_MS - 30_000,
        "settings": sc.Settings(model="demo", cwd="/projects/shop"),
        "messages": sc.Vector(said),
        "head": said[-1].message_id if said else None,
    }
    return sc.SessionState(**{**usual, **more})


def conversation(*said: tuple[Role, Sequence[Part]], **more: Any) -> list[sc.Message]:
    """Make messages, each an answer to the one before."""
    messages: list[sc.Message] = []
    for number, (role, parts) in enumerate(said):
        parent = messages[-1].message_id if messages else None
        made = {"created_at": NOW_MS - 60_000 + number * 1_000, **more}
        messages.append(
            sc.Message(message_id=sc.MessageId(f"m{number}"), parent_id=parent, role=role, parts=tuple(parts), **made)
        )
    return messages


@contextmanager
def stopped_clock() -> Iterator[None]:
    """Have it be one and the same moment for all parts of the terminal."""
    with patch("frontends.terminal.look.clock.time_ns", lambda: NOW_MS * 1_000_000):
        yield


@contextmanager
def nothing_blinks() -> Iterator[None]:
    """Have cursors stay as they are, so that two looks at the same thing see the same."""
    with (
        patch.object(Input.cursor_blink, "_default", new=False),
        patch.object(TextArea.cursor_blink, "_default", new=False),
    ):
        yield


@asynccontextmanager
async def open_stage(home: Path, *, size: tuple[int, int] = (100, 30), **options: Any) -> AsyncGenerator[Stage]:
    """Open a terminal that shows what it is given, for the length of the block."""
    place = _Nowhere()
    app = TerminalApp(place, TerminalOptions(**{"home": home, "cwd": "/projects/shop", "new": True, **options}))
    app.driver_class = Recorder
    with stopped_clock(), nothing_blinks():
        async with app.run_test(headless=False, size=size, notifications=True) as pilot:
            try:
                yield Stage(app, pilot)
            finally:
                place.close()
