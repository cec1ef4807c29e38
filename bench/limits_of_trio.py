"""The baselines: the same work done in plain trio, and the cost of trio itself."""

import math
from collections.abc import Callable

import trio


class Audience:
    """Readers that report what they have read, and a publisher that can wait until they have read everything.

    Waiting after each burst makes all designs do the same work: a publisher that runs ahead would hand out larger
    batches, and the faster design would be measured on easier work.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.taken = 0
        self._behind = 0
        self._caught_up = trio.Event()

    def expect(self, deliveries: int) -> None:
        """Set how many deliveries the next `caught_up` waits for."""
        self._behind += deliveries
        self._caught_up = trio.Event()

    def took(self, count: int) -> None:
        """Report deliveries."""
        self.taken += count
        self._behind -= count
        if not self._behind:
            self._caught_up.set()

    async def caught_up(self) -> None:
        """Wait until all expected deliveries are read; the readers are then waiting for more."""
        await self._caught_up.wait()


class NaiveBroadcast:
    """One memory channel per reader, and a loop over all of them to publish."""

    def __init__(self) -> None:
        self._channels: list[trio.MemorySendChannel[object]] = []

    def open_reader(self) -> trio.MemoryReceiveChannel[object]:
        """Add a reader that never loses anything."""
        send, receive = trio.open_memory_channel[object](math.inf)
        self._channels.append(send)
        return receive

    def publish(self, event: object) -> None:
        """Send the event to every reader."""
        for channel in self._channels:
            channel.send_nowait(event)

    async def read(self, channel: trio.MemoryReceiveChannel[object], audience: Audience) -> None:
        """Run a reader: a plain loop over its channel."""
        async for _ in channel:
            audience.took(1)


async def checkpoints(tasks: int, each: int) -> None:
    """Run tasks that do nothing but checkpoints."""

    async def give_way() -> None:
        for _ in range(each):
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for _ in range(tasks):
            nursery.start_soon(give_way)


class PingPong:
    """Two tasks that wake each other in turns: the minimal cost of a request to another task and its reply."""

    def __init__(self) -> None:
        self._server: trio.lowlevel.Task | None = None
        self._client: trio.lowlevel.Task | None = None

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Answer every ping; runs until cancelled."""
        self._server = trio.lowlevel.current_task()
        task_status.started()
        while True:
            await trio.lowlevel.wait_task_rescheduled(_may_be_cancelled)
            assert self._client is not None
            trio.lowlevel.reschedule(self._client)

    async def ping(self) -> None:
        """Wake the server and sleep until it answers; only one task may do so at a time."""
        assert self._server is not None
        self._client = trio.lowlevel.current_task()
        trio.lowlevel.reschedule(self._server)
        await trio.lowlevel.wait_task_rescheduled(_may_be_cancelled)


def _may_be_cancelled(_: Callable[[], None]) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.SUCCEEDED
