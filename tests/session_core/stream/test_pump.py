"""Waking many readers: everybody is woken, whoever is cancelled meanwhile, the pump included."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from session_core.stream import event_stream
from session_core.stream.event_stream import WAKE_INLINE, EventStream
from session_core.stream.subscription import Subscription
from session_core.testing.cancel_sweep import at_step
from tests.session_core.stream._events import A, B, numbers, publish, stream_of


class Readers:
    """Readers of one stream, each in a task and a cancel scope of its own, noting what they get."""

    def __init__(self, stream: EventStream, count: int, nursery: trio.Nursery) -> None:
        self.seen: list[list[int]] = [[] for _ in range(count)]
        self.scopes = [trio.CancelScope() for _ in range(count)]
        for number in range(count):
            nursery.start_soon(self._read, number, stream.subscribe(A))

    async def _read(self, number: int, reader: Subscription) -> None:
        with self.scopes[number]:
            while True:
                self.seen[number] += numbers(await reader.receive_batch())

    def cancel(self) -> None:
        for scope in self.scopes:
            scope.cancel()


@pytest.fixture(autouse=True)
def few_per_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "WAKE_PER_TICK", 2)


@pytest.mark.parametrize("count", [1, WAKE_INLINE, WAKE_INLINE + 1, 25])
@pytest.mark.parametrize("with_pump", [False, True])
async def test_every_reader_is_woken(count: int, *, with_pump: bool) -> None:
    """Few readers or many, with a pump or without, each gets each event once."""
    stream = stream_of()
    async with trio.open_nursery() as nursery:
        if with_pump:
            await nursery.start(stream.run)
        readers = Readers(stream, count, nursery)
        for _ in range(3):
            await wait_all_tasks_blocked()
            publish(stream, 1)
        await wait_all_tasks_blocked()
        assert readers.seen == [[1, 2, 3]] * count
        assert stream.statistics().waiting == count
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("step", range(1, 16))
async def test_a_pump_cancelled_while_it_wakes_leaves_nobody_asleep(step: int) -> None:
    """Whichever step of the pump is its last, every reader still gets the event, and those published later."""
    stream = stream_of()
    pump_scope = trio.CancelScope()

    async def pump() -> None:
        with pump_scope:
            await stream.run()

    async with trio.open_nursery() as nursery:
        with at_step(lambda task: task.name == "pump", step, pump_scope.cancel):
            nursery.start_soon(pump, name="pump")
            await wait_all_tasks_blocked()
            readers = Readers(stream, 20, nursery)
            await wait_all_tasks_blocked()
            publish(stream, 1)
            await wait_all_tasks_blocked()
            publish(stream, 1)
            await wait_all_tasks_blocked()
        assert readers.seen == [[1, 2]] * 20
        readers.cancel()
        pump_scope.cancel()
    assert stream.statistics().waiting == 0


@pytest.mark.parametrize("step", range(1, 8))
async def test_readers_cancelled_while_the_pump_wakes_them(step: int) -> None:
    """Readers cancelled in the middle of a round take nobody else's event and are not counted as waiting."""
    stream = stream_of()
    async with trio.open_nursery() as nursery:
        await nursery.start(stream.run, name="pump")
        readers = Readers(stream, 20, nursery)
        await wait_all_tasks_blocked()
        gone = range(0, 20, 3)

        def cancel_some() -> None:
            for number in gone:
                readers.scopes[number].cancel()

        with at_step(lambda task: task.name == "pump", step, cancel_some):
            publish(stream, 1)
            await wait_all_tasks_blocked()
            publish(stream, 1)
            await wait_all_tasks_blocked()
        assert [readers.seen[number] for number in range(20) if number not in gone] == [[1, 2]] * 13
        assert all(readers.seen[number] in ([], [1], [1, 2]) for number in gone)
        assert stream.statistics().waiting == 20 - (len(gone) if readers.scopes[0].cancelled_caught else 0)
        nursery.cancel_scope.cancel()


async def test_publishing_while_the_pump_works() -> None:
    """Events that come while the pump is on its round reach everybody, in order and once."""
    stream = stream_of()
    async with trio.open_nursery() as nursery:
        await nursery.start(stream.run)
        readers = Readers(stream, 20, nursery)
        await wait_all_tasks_blocked()
        for _ in range(10):
            publish(stream, 1)
            publish(stream, 1, B)
            await trio.lowlevel.checkpoint()
        await wait_all_tasks_blocked()
        assert readers.seen == [list(range(1, 21, 2))] * 20
        nursery.cancel_scope.cancel()


async def test_the_end_reaches_everybody_through_the_pump() -> None:
    """Closing the stream ends every waiting reader, with a pump at work."""
    stream = stream_of()
    ended: list[int] = []

    async def read_to_the_end(reader: Subscription) -> None:
        ended.extend([event.seq async for event in reader])

    async with trio.open_nursery() as nursery:
        await nursery.start(stream.run)
        async with trio.open_nursery() as readers:
            for _ in range(20):
                readers.start_soon(read_to_the_end, stream.subscribe(A))
            await wait_all_tasks_blocked()
            publish(stream, 1)
            stream.close()
        assert ended == [1] * 20
        nursery.cancel_scope.cancel()
