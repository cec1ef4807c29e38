"""Waiting until an app is idle: what the tests of the terminal rely on, on machines however busy."""

import threading

import anyio
import anyio.to_thread
from textual.app import App, ComposeResult
from textual.widgets import Static

from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._idle import PATIENCE_S, idle, workers_done

STEPS = 300


class BusyApp(App[None]):
    """Does many things one after the other: in messages, after pictures, beside itself, and in a thread."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = anyio.Event()
        self.in_thread = threading.Event()
        self.done: list[str] = []

    def compose(self) -> ComposeResult:
        yield Static("0")

    def count(self, left: int = STEPS) -> None:
        """Go on as long as there is something left."""
        self.query_one(Static).update(f"{STEPS - left}")
        if left:
            (self.call_later if left % 3 else self.call_after_refresh)(self.count, left - 1)

    async def in_a_thread(self) -> None:
        """Have a thread do something that the loop knows nothing of."""
        await anyio.to_thread.run_sync(self.in_thread.wait, PATIENCE_S)
        self.done.append("thread")

    async def at_the_gate(self) -> None:
        """Wait for the test."""
        await self.gate.wait()
        self.done.append("gate")

    @property
    def shown(self) -> str:
        return self.screen._compositor.render_strips()[0].text.strip()


def test_everything_is_done_and_drawn() -> None:
    """A long chain of messages and pictures is over and on the screen, after a pause as after a wait of our own."""

    async def play() -> None:
        app = BusyApp()
        async with app.run_test() as pilot:
            app.count()
            await idle(app)
            assert f"{STEPS}" == app.shown
            app.count()
            await pilot.pause()
            assert f"{STEPS}" == app.shown

    on_asyncio(play)


def test_threads_are_waited_for_and_gates_are_not() -> None:
    """What a thread does is waited for; what waits for the test is not, unless all workers are."""

    async def play() -> None:
        app = BusyApp()
        async with app.run_test():
            app.run_worker(app.at_the_gate())
            app.run_worker(app.in_a_thread())
            threading.Timer(0.05, app.in_thread.set).start()
            await idle(app)
            assert ["thread"] == app.done
            app.gate.set()
            await workers_done(app)
            assert ["thread", "gate"] == app.done

    on_asyncio(play)
