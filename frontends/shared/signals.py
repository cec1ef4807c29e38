"""Signals during startup: nothing that was started may be left behind."""

import signal
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

LEAVING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
EXIT_SIGNAL = 128


@attrs.define
class StartupWatch:
    """A startup in progress; after `finish_starting`, other code handles the signals."""

    _watch: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    _ended: trio.Event = attrs.field(factory=trio.Event)
    number: int | None = None

    @property
    def exit_code(self) -> int | None:
        """The exit code if a signal has arrived, else None."""
        return None if self.number is None else EXIT_SIGNAL + self.number

    async def finish_starting(self) -> None:
        """Stop watching: a later signal waits for the next reader, who may begin as soon as this returns."""
        self._watch.cancel(reason="everything is started")
        await self._ended.wait()


@asynccontextmanager
async def cancel_on_signal(signals: AsyncIterator[int]) -> AsyncGenerator[StartupWatch]:
    """Cancel the block at the first signal before `finish_starting`; the block then ends quietly.

    Open it before anything is started, so everything that was started is closed in order.
    """
    start = StartupWatch()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_watch, signals, start, nursery.cancel_scope)
        yield start
        await start.finish_starting()


@asynccontextmanager
async def end_on_signal() -> AsyncGenerator[StartupWatch]:
    """Cancel the block at Ctrl-C, or when this program is asked to end; the block then ends quietly."""
    with trio.open_signal_receiver(signal.SIGINT, *LEAVING_SIGNALS) as signals:
        async with cancel_on_signal(signals) as start:
            yield start


async def _watch(signals: AsyncIterator[int], start: StartupWatch, whole: trio.CancelScope) -> None:
    with start._watch:  # noqa: SLF001 - this function is part of `StartupWatch`
        start.number = await anext(signals)
        whole.cancel(reason="asked to end")
    start._ended.set()  # noqa: SLF001
