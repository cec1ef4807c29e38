"""A server that is killed: a service on a real home behind its unix listener, with a model that never tires.

    python -m tests.chaos._chaos_server HOME

It says `ready` on standard output when clients may come. Its streams are short, so that slow readers fall behind.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

import session_core as sc
from frontends.server.server import Server, ServerSettings
from frontends.server.unix_listener import serve_unix
from frontends.shared.socket_path import socket_path_of_home
from session_core import limits
from session_core.providers.base import ModelFinished, ModelRequest, ProviderEvent, TextChunk

WORDS = 40
PACE_S = 0.01
LONG = "." * 500
"""What a socket holds is soon full of these, so that a reader that stalls falls behind."""


class Talkative:
    """Answers each message with some words, one after the other."""

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ProviderEvent]]:
        """Answer."""
        yield self._words()

    async def _words(self) -> AsyncIterator[ProviderEvent]:
        for number in range(WORDS):
            await trio.sleep(PACE_S)
            yield TextChunk(text=f"word {number} of many{LONG}")
        yield ModelFinished(stop_reason="end")


async def main(home: Path) -> None:
    """Serve until killed."""
    limits.RPC_WAIT_BYTES = 4_096  # type: ignore[misc]
    config = sc.ServiceConfig(
        models={"m": Talkative()},
        tools=(),
        cwd="/",
        store=sc.SqliteStore(home),
        stream_capacity=128,
        session_stream_capacity=48,
    )
    async with sc.open_session_service(config) as service, trio.open_nursery() as nursery:
        server = Server(service, ServerSettings(home=str(home), heartbeat_ms=4_000))
        await nursery.start(serve_unix, server, socket_path_of_home(home))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]))
