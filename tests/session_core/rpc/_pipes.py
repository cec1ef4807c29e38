"""Connections over real pipes, with the other end in the hands of the test."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from session_core.rpc.connection import RpcConnection, open_connection


@attrs.frozen(kw_only=True)
class Wire:
    """The connection, and the two ends its peer has."""

    connection: RpcConnection
    reads: trio.lowlevel.FdStream
    writes: trio.lowlevel.FdStream

    async def lines(self, count: int) -> list[bytes]:
        """Read so many lines of what the connection has written."""
        data = b""
        while data.count(b"\n") < count:
            piece = await self.reads.receive_some()
            assert piece, "the connection has closed its end"
            data += piece
        assert data.count(b"\n") == count
        return data.splitlines()

    async def say(self, data: bytes) -> None:
        """Write to the connection."""
        await self.writes.send_all(data)


@asynccontextmanager
async def open_wire(**settings: Any) -> AsyncGenerator[Wire]:
    """Open a connection over two pipes."""
    their_in, our_out = os.pipe()
    our_in, their_out = os.pipe()
    async with (
        trio.lowlevel.FdStream(their_in) as reads,
        trio.lowlevel.FdStream(their_out) as writes,
        trio.lowlevel.FdStream(our_in) as source,
        trio.lowlevel.FdStream(our_out) as sink,
        open_connection(source, sink, **settings) as connection,
    ):
        yield Wire(connection=connection, reads=reads, writes=writes)
