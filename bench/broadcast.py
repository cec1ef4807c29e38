"""Publishing, delivering and stalls of `EventStream`, against one memory channel per reader."""

import statistics
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Protocol

import trio
import trio.testing

from bench.limits_of_trio import Audience, NaiveBroadcast, checkpoints
from bench.material import DELTA
from bench.measure import Result, best_times, collector_off
from session_core.ids import SessionId
from session_core.stream.event_stream import EventStream
from session_core.stream.subscription import Subscription

SESSION = SessionId("ses_measured")


class Broadcast(Protocol):
    """A publisher with waiting readers."""

    audience: Audience

    def publish(self) -> None:
        """Publish one event to all readers."""
        ...


class NaiveHall:
    """Readers of memory channels."""

    def __init__(self, size: int) -> None:
        self.audience = Audience(size)
        self._naive = NaiveBroadcast()

    def open(self, nursery: trio.Nursery) -> None:
        for _ in range(self.audience.size):
            nursery.start_soon(self._naive.read, self._naive.open_reader(), self.audience)

    def publish(self) -> None:
        self._naive.publish(DELTA)


class StreamHall:
    """Readers of one session of an `EventStream` whose pump runs."""

    def __init__(self, size: int, *, one_by_one: bool = False) -> None:
        self.audience = Audience(size)
        self._stream = EventStream()
        self._read = self._read_events if one_by_one else self._read_batches

    async def open(self, nursery: trio.Nursery) -> None:
        await nursery.start(self._stream.run)
        for _ in range(self.audience.size):
            nursery.start_soon(self._read, self._stream.subscribe(SESSION))

    def publish(self) -> None:
        self._stream.publish(SESSION, DELTA)

    async def _read_batches(self, subscription: Subscription) -> None:
        while True:
            self.audience.took(len(await subscription.receive_batch()))

    async def _read_events(self, subscription: Subscription) -> None:
        async for _ in subscription:
            self.audience.took(1)


@asynccontextmanager
async def open_halls(*halls: NaiveHall | StreamHall) -> AsyncGenerator[None]:
    """Run the readers during the block; all of them are waiting when it starts."""
    async with trio.open_nursery() as nursery:
        for hall in halls:
            if isinstance(hall, StreamHall):
                await hall.open(nursery)
            else:
                hall.open(nursery)
        await trio.testing.wait_all_tasks_blocked()
        yield
        nursery.cancel_scope.cancel()


async def deliver(hall: Broadcast, *, bursts: int, burst: int) -> None:
    """Publish bursts; each one starts when all readers have taken the previous one and wait again."""
    audience = hall.audience
    for _ in range(bursts):
        audience.expect(audience.size * burst)
        for _ in range(burst):
            hall.publish()
        await audience.caught_up()


async def deliver_running_ahead(hall: Broadcast, *, events: int) -> None:
    """Publish one event per tick without waiting for the readers; return when they have read everything."""
    audience = hall.audience
    audience.expect(audience.size * events)
    for _ in range(events):
        hall.publish()
        await trio.lowlevel.checkpoint()
    await audience.caught_up()


# --- publishing -------------------------------------------------------------------------------------------------------


def measure_publish() -> Result:
    """Publishing costs the same whether one reader waits or ten thousand."""
    return trio.run(_publish)


async def _publish() -> Result:
    one, many, warm = StreamHall(1), StreamHall(10_000), StreamHall(1)
    async with open_halls(one, many, warm):
        single = await _publish_times(25, 1, one, many, warm)
        burst = await _publish_times(15, 64, one, many, warm)
    return Result(
        name="publish",
        title="publish to 10,000 waiting readers / to 1",
        ratio=single[1] / single[0],
        target=2,
        comparison="at most",
        details={
            "publish to 1 waiting reader, µs": single[0],
            "publish to 10,000 waiting readers, µs": single[1],
            "publish to 1, in bursts of 64, µs": burst[0],
            "publish to 10,000, in bursts of 64, µs": burst[1],
        },
    )


async def _publish_times(rounds: int, burst: int, one: StreamHall, many: StreamHall, warm: StreamHall) -> list[float]:
    """Return the median time of a publish in µs, for one reader and for many.

    Ten thousand readers sweep the processor's caches. A publish to a third stream goes before each measured one, so
    both find the code in the cache, as a busy publisher does.
    """
    halls = (one, many)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for hall, taken in zip(halls, times, strict=True):
            with collector_off():
                await deliver(warm, bursts=20, burst=burst)
                hall.audience.expect(hall.audience.size * burst)
                started = time.perf_counter()
                for _ in range(burst):
                    hall.publish()
                taken.append((time.perf_counter() - started) / burst * 1e6)
                await hall.audience.caught_up()
    return [statistics.median(taken) for taken in times]


# --- delivering -------------------------------------------------------------------------------------------------------


def measure_burst() -> Result:
    """A burst of events reaches a thousand readers many times faster than through channels."""
    return trio.run(_burst)


async def _burst() -> Result:
    size, burst, naive_bursts, bursts = 1_000, 64, 2, 20
    naive, stream, singly = NaiveHall(size), StreamHall(size), StreamHall(size, one_by_one=True)
    async with open_halls(naive, stream, singly):
        seconds = await best_times(
            4,
            lambda: deliver(naive, bursts=naive_bursts, burst=burst),
            lambda: deliver(stream, bursts=bursts, burst=burst),
            lambda: deliver(singly, bursts=bursts, burst=burst),
        )
    per_naive = seconds[0] / (size * burst * naive_bursts) * 1e6
    per_event, per_single = (each / (size * burst * bursts) * 1e6 for each in seconds[1:])
    return Result(
        name="burst",
        title="events delivered per second, 1,000 readers, bursts of 64 / memory channels",
        ratio=per_naive / per_event,
        target=40,
        comparison="at least",
        details={
            "memory channels, µs per delivery": per_naive,
            "receive_batch, µs per delivery": per_event,
            "async for over a subscription, µs per delivery": per_single,
            "async for over a subscription, times faster than channels": per_naive / per_single,
        },
    )


def measure_single() -> Result:
    """Single events reach a hundred readers at least as fast as trio can switch between a hundred tasks."""
    return trio.run(_single)


async def _single() -> Result:
    size, events = 100, 200
    naive, stream = NaiveHall(size), StreamHall(size)
    async with open_halls(naive, stream):
        seconds = await best_times(
            15,
            lambda: checkpoints(size, events),
            lambda: deliver_running_ahead(stream, events=events),
            lambda: deliver_running_ahead(naive, events=events),
            lambda: deliver(stream, bursts=events, burst=1),
        )
    bare, per_event, per_naive, in_step = (each / (size * events) * 1e6 for each in seconds)
    return Result(
        name="single",
        title="events delivered per second, 100 readers, one event per tick / bare checkpoints of 100 tasks",
        ratio=bare / per_event,
        target=1,
        comparison="at least",
        details={
            "bare checkpoint, µs": bare,
            "receive_batch, µs per delivery": per_event,
            "memory channels, µs per delivery": per_naive,
            "times faster than channels": per_naive / per_event,
            "receive_batch, publisher waits for all readers each time, µs per delivery": in_step,
        },
    )


# --- stalls -----------------------------------------------------------------------------------------------------------


def measure_stall() -> Result:
    """Waking ten thousand readers does not keep the other tasks from running."""
    return trio.run(_stall)


async def _stall() -> Result:
    size = 10_000
    naive, stream = NaiveHall(size), StreamHall(size)
    halls: tuple[Broadcast, Broadcast] = (naive, stream)
    stalls: tuple[list[float], list[float]] = ([], [])
    async with open_halls(naive, stream):
        for _ in range(7):
            for hall, found in zip(halls, stalls, strict=True):
                with collector_off():
                    found.append(await _worst_stall(hall))
    worst_naive, worst_stream = (min(found) for found in stalls)
    return Result(
        name="stall",
        title="longest time no other task runs, one event to 10,000 readers / memory channels",
        ratio=worst_stream / worst_naive,
        target=1 / 15,
        comparison="at most",
        details={
            "memory channels, best round, ms": worst_naive * 1e3,
            "event stream, best round, ms": worst_stream * 1e3,
            "memory channels, median round, ms": statistics.median(stalls[0]) * 1e3,
            "event stream, median round, ms": statistics.median(stalls[1]) * 1e3,
        },
    )


async def _worst_stall(hall: Broadcast) -> float:
    """Deliver one event while another task runs as often as it can, and return its longest wait in seconds."""
    worst, before = 0.0, time.perf_counter()

    def runs_now() -> None:
        nonlocal worst, before
        now = time.perf_counter()
        worst, before = max(worst, now - before), now

    async def other_task() -> None:
        try:
            while True:
                runs_now()
                await trio.lowlevel.checkpoint()
        finally:
            runs_now()  # the last wait counts too

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other_task)
        await trio.lowlevel.checkpoint()
        await deliver(hall, bursts=1, burst=1)
        nursery.cancel_scope.cancel()
    return worst
