"""Stand-ins for the world around one turn of `session-core run`."""

import trio

import session_core as sc
from frontends.shared.output import Output
from frontends.shared.streams import StandardStreams


class Paper(Output):
    """An output that keeps what is written; a full one makes writers wait until it is emptied."""

    def __init__(self) -> None:
        super().__init__(None)
        self.text = ""
        self.blocked = trio.Event()
        self._gate = trio.Event()
        self._gate.set()

    def fill(self) -> None:
        self._gate = trio.Event()

    def empty(self) -> None:
        self._gate.set()

    async def write(self, data: str | bytes) -> None:
        if data and not self._gate.is_set():
            self.blocked.set()
            await self._gate.wait()
        await trio.lowlevel.checkpoint()
        self.text += data if isinstance(data, str) else data.decode()


class NoSignals:
    """Signals that never come."""

    def __aiter__(self) -> "NoSignals":
        return self

    async def __anext__(self) -> int:
        await trio.sleep_forever()


def config(provider: sc.Provider, *tools: sc.Tool, capacity: int = 2048) -> sc.ServiceConfig:
    return sc.ServiceConfig(
        models={"m": provider},
        tools=tools,
        store=sc.MemoryStore(),
        session_stream_capacity=capacity,
        now=lambda: int(trio.current_time() * 1000),
    )


def written(streams: StandardStreams) -> tuple[str, str]:
    assert isinstance(streams.out, Paper)
    assert isinstance(streams.err, Paper)
    return streams.out.text, streams.err.text
