"""A minimal server on hypercorn, trio and starlette: `python -m bench.server_bare`, driven by `server_driver`.

With `reading` it accepts WebSockets and reads from them until they end. With `sending` each of them has a channel; a
published text, encoded in advance, is put into all of them. It prints its address in a line. Then it reads lines:
`load` sets the text, `publish` sends it once to every client. It exits at the end of its input.
"""

import json
import os
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import hypercorn.trio
import trio
from hypercorn.config import Config
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

_HELD = 1_024  # messages for a reader that is behind


class Hall:
    """All connected clients."""

    def __init__(self) -> None:
        self._text = ""
        self._channels: set[trio.MemorySendChannel[str]] = set()
        self._published = 0

    async def read(self, websocket: WebSocket) -> None:
        """Accept a client, and wait until it disconnects."""
        await websocket.accept()
        while (await websocket.receive())["type"] != "websocket.disconnect":
            pass

    async def send(self, websocket: WebSocket) -> None:
        """Send published texts to a client until the server ends; the driver's clients stay that long."""
        await websocket.accept()
        channel, published = trio.open_memory_channel[str](_HELD)
        self._channels.add(channel)
        await websocket.send_text("ready")
        async for text in published:
            await websocket.send_text(text)

    def do(self, task: Mapping[str, Any]) -> Mapping[str, object]:
        """Run one task and return its answer."""
        if task["op"] == "load":
            self._text = task["text"]
        else:
            self._published += 1
            for channel in self._channels:
                channel.send_nowait(self._text)
        return {"seq": self._published}


async def _work(hall: Hall) -> None:
    """Run the driver's tasks until its input ends."""
    rest = b""
    async with trio.lowlevel.FdStream(os.dup(0)) as orders:
        async for data in orders:
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                print(json.dumps(hall.do(json.loads(line))), flush=True)


async def main(way: str) -> None:
    """Serve until the driver closes the input."""
    config, hall = Config(), Hall()
    config.bind = ["127.0.0.1:0"]
    config.backlog = 1_024
    config.errorlog = None
    config.graceful_timeout = 0
    app = Starlette(routes=[WebSocketRoute("/v1/ws", hall.send if way == "sending" else hall.read)])
    async with trio.open_nursery() as nursery:
        working = partial(_work, hall)
        serve = partial(hypercorn.trio.serve, app, config, shutdown_trigger=working)  # type: ignore[arg-type]
        (url,) = await nursery.start(serve)
        print(json.dumps({"url": url, "token": ""}), flush=True)


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
