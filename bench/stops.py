"""How many ticks of the scheduler a stop takes while two hundred other sessions are busy.

A tick is one round of trio's loop, in which every task that can run does so once. Its length depends on the
load, so only ticks give a target that holds on any machine. Ticks are counted from the step in which
`request_stop` is called to the step in which the model stream gets `Cancelled`, and to that in which the turn's end is
recorded.
"""

import statistics
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Literal

import attrs
import trio

from bench.measure import Result
from session_core.ids import SessionId
from session_core.providers.base import ModelRequest, Provider, ProviderEvent, TextChunk
from session_core.service.config import ServiceConfig
from session_core.service.service import SessionService, open_session_service
from session_core.storage.memory import MemoryStore
from session_core.vocabulary.events import SessionEvent, TurnEnded

BUSY_SESSIONS = 200
TRIALS = 25

Way = Literal["blocked", "streaming"]
Happening = Literal["model cancelled", "turn ended"]


class TickCounter(trio.abc.Instrument):
    """Counts the rounds of the scheduler."""

    ticks = 0

    def before_io_wait(self, timeout: float) -> None:
        self.ticks += 1


@attrs.frozen
class Moment:
    """A point in time, in ticks and on the wall clock."""

    tick: int
    seconds: float


class Stopwatch:
    """Notes when the watched session's model stream is cancelled and when its turn is recorded as ended."""

    def __init__(self, counter: TickCounter) -> None:
        self._counter = counter
        self._seen: dict[Happening, Moment] = {}

    def start(self) -> Moment:
        """Forget the last stop and return the current moment."""
        self._seen.clear()
        return self._now()

    def note(self, happening: Happening) -> None:
        """Record that something happens now."""
        self._seen[happening] = self._now()

    def seen(self, happening: Happening) -> Moment:
        """Return when it happened; raises `KeyError` if it did not."""
        return self._seen[happening]

    def _now(self) -> Moment:
        return Moment(self._counter.ticks, time.perf_counter())


class WatchedModel:
    """A model that never finishes, and tells the stopwatch when it is cancelled."""

    def __init__(self, way: Way, watch: Stopwatch) -> None:
        self._way = way
        self._watch = watch
        self.started = trio.Event()

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncGenerator[ProviderEvent, None]]:
        """Stream an endless answer, or hang after the first word."""
        async with aclosing(self._answer()) as answer:
            yield answer

    async def _answer(self) -> AsyncGenerator[ProviderEvent, None]:
        try:
            yield TextChunk(text="begun ")
            self.started.set()
            if self._way == "blocked":
                await trio.sleep_forever()
            while True:
                await trio.lowlevel.checkpoint()
                yield TextChunk(text="more ")
        except trio.Cancelled:
            self._watch.note("model cancelled")
            raise


class BusyModel:
    """A model that sends a word at every tick."""

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncGenerator[ProviderEvent, None]]:
        """Stream an endless answer."""
        async with aclosing(self._answer()) as answer:
            yield answer

    async def _answer(self) -> AsyncGenerator[ProviderEvent, None]:
        while True:
            await trio.lowlevel.checkpoint()
            yield TextChunk(text="busy ")


class WatchingStore(MemoryStore):
    """Sees the end of a turn in the very step in which it is recorded."""

    def __init__(self, watch: Stopwatch) -> None:
        super().__init__()
        self._watch = watch
        self.watched: SessionId | None = None

    def append(self, event: SessionEvent) -> None:
        """Take an event over."""
        super().append(event)
        if event.session_id == self.watched and isinstance(event.event, TurnEnded):
            self._watch.note("turn ended")


@attrs.frozen
class Trial:
    """How long one stop took."""

    ticks_to_cancelled: int
    ticks_to_ended: int
    microseconds: float


def measure_stop() -> Result:
    """A stop takes at most two ticks, whatever the model does and however busy other sessions are."""
    return trio.run(_stop)


async def _stop() -> Result:
    trials: dict[Way, list[Trial]] = {"blocked": [], "streaming": []}
    counter = TickCounter()
    watch = Stopwatch(counter)
    store = WatchingStore(watch)
    watched = {way: WatchedModel(way, watch) for way in trials}
    models: dict[str, Provider] = {"busy": BusyModel(), **{str(way): model for way, model in watched.items()}}
    trio.lowlevel.add_instrument(counter)
    async with open_session_service(ServiceConfig(models=models, store=store, cwd="/")) as service:
        for _ in range(BUSY_SESSIONS):
            await _start(service, "busy")
        for count in range(TRIALS):
            for way, found in trials.items():
                found.append(await _one_stop(service, watched[way], way, store, watch, delay=count % 5))
    trio.lowlevel.remove_instrument(counter)
    worst = {way: max(trial.ticks_to_ended for trial in found) for way, found in trials.items()}
    return Result(
        name="stop",
        title="ticks from request_stop to the recorded end of the turn, 200 other sessions busy",
        ratio=max(worst.values()),
        target=2,
        comparison="at most",
        details={
            f"{way}, {what}": figure
            for way, found in trials.items()
            for what, figure in {
                "most ticks until the model stream is cancelled": max(trial.ticks_to_cancelled for trial in found),
                "most ticks until the end is recorded": worst[way],
                "median until the end is recorded, µs": statistics.median(trial.microseconds for trial in found),
            }.items()
        },
    )


async def _start(service: SessionService, model: str) -> SessionId:
    session_id = (await service.create_session(model=model)).session_id
    await service.send_user_message(session_id, "begin")
    return session_id


async def _one_stop(
    service: SessionService, model: WatchedModel, way: Way, store: WatchingStore, watch: Stopwatch, *, delay: int
) -> Trial:
    model.started = trio.Event()
    store.watched = await _start(service, way)
    await model.started.wait()
    for _ in range(delay):
        await trio.lowlevel.checkpoint()
    asked = watch.start()
    await service.request_stop(store.watched)
    cancelled, ended = watch.seen("model cancelled"), watch.seen("turn ended")
    return Trial(cancelled.tick - asked.tick, ended.tick - asked.tick, (ended.seconds - asked.seconds) * 1e6)
