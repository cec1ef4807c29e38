"""The same fan-out as a plain app on uvicorn: `python -m bench.peers.uvicorn_app`, driven by `bench.server_driver`.

Each client has a queue; a published text, encoded in advance, is put into all of them. It prints its address in a
line. Then it reads lines: `load` sets the text, `publish` sends it once to every client. It exits at the end of its
input.
"""

import asyncio  # noqa: TID251 - the server that is measured here is written for it
import contextlib
import json
import socket
import sys
from collections.abc import Mapping
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

_LONGEST_ORDER = 16 * 1024 * 1024


class Hall:
    """All connected clients."""

    def __init__(self) -> None:
        self._text = ""
        self._queues: set[asyncio.Queue[str]] = set()
        self._published = 0

    async def attend(self, websocket: WebSocket) -> None:
        """Send published texts to a client until it disconnects."""
        await websocket.accept()
        queue: asyncio.Queue[str] = asyncio.Queue(1_024)
        self._queues.add(queue)
        try:
            await websocket.send_text("ready")
            while True:
                await websocket.send_text(await queue.get())
        except WebSocketDisconnect:
            pass
        finally:
            self._queues.discard(queue)

    def do(self, task: Mapping[str, Any]) -> Mapping[str, object]:
        """Run one task and return its answer."""
        if task["op"] == "load":
            self._text = task["text"]
        else:
            self._published += 1
            for queue in self._queues:
                queue.put_nowait(self._text)
        return {"seq": self._published}


async def main() -> None:
    """Serve until the driver closes the input."""
    hall = Hall()
    app = Starlette(routes=[WebSocketRoute("/v1/ws", hall.attend)])
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", ws_ping_interval=None))
    with socket.create_server(("127.0.0.1", 0), backlog=1_024) as listening:
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        orders = asyncio.StreamReader(_LONGEST_ORDER)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(orders), sys.stdin.buffer
        )
        say({"url": f"http://127.0.0.1:{listening.getsockname()[1]}", "token": ""})
        while line := await orders.readline():
            say(hall.do(json.loads(line)))
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


def say(what: Mapping[str, object]) -> None:
    """Send the driver one line."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
