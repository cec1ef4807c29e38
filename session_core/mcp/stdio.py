"""Servers that are child processes: one JSON message per line, in on stdin and out on stdout.

The SDK's own transport does not fit: it adds variables to the environment, sends stderr to a file or to our terminal,
and collects an endless line until memory is full. Here:

1. The child gets only the variables given to it; its stderr goes to `Diagnostics`.
2. A line that is not a message is noted and skipped. A message that is too large ends the request it answers.
3. The end of the process ends the link at once, even if a leftover process still holds its pipes.
4. When the link is closed, stdin is closed; if that does not end the server in time, its group is ended.
"""

import os
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import trio

from session_core.limits import KILL_GRACE_MS
from session_core.mcp.config import StdioServer
from session_core.mcp.diagnostics import Diagnostics
from session_core.mcp.transport import (
    MAX_MESSAGE_BYTES,
    McpFailed,
    OnTransportEnd,
    TransportStreams,
    as_json,
    build_failure,
    parse_message,
)
from session_core.mcp.variables import plain_environment
from session_core.processes.child import Child, ChildOptions, Launch, ProcessNotStarted, describe_exit, open_child
from session_core.sandbox.secrets import clean_environment

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

_GRACE: Final = KILL_GRACE_MS / 1000
_CHUNK: Final = 65_536
_OUTGOING: Final = 64
"""Messages that may wait for a server that does not read: enough that cancelling a request never blocks."""
_ANSWER: Final = re.compile(rb'\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d{1,15})\s*,')


@asynccontextmanager
async def open_stdio(
    config: StdioServer, diagnostics: Diagnostics, on_end: OnTransportEnd
) -> AsyncGenerator[TransportStreams]:
    """Start the server and connect to its pipes.

    Raises:
        McpFailed: The program could not be started.

    Cancellation: the process group is gone when this returns; it takes at most six grace periods.
    """
    import anyio
    from mcp.shared.message import SessionMessage

    # The plain variables undo what only a sandbox needs, such as another TMPDIR.
    env = {**clean_environment(os.environ), **plain_environment(os.environ), **config.env}
    launch = Launch(argv=(config.command, *config.args), cwd=config.cwd, env=env)
    try:
        async with open_child(launch, ChildOptions(on_stderr=diagnostics.feed, exit_patience=_GRACE)) as child:
            incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
            write, outgoing = anyio.create_memory_object_stream[SessionMessage](_OUTGOING)
            with incoming, read, write, outgoing:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(child.read_stderr)
                    nursery.start_soon(_write_messages, child, outgoing)
                    nursery.start_soon(_read_until_the_end, child, incoming, diagnostics, on_end)
                    yield TransportStreams(read=read, write=write, pid=child.pid)
                    nursery.cancel_scope.cancel()
    except ProcessNotStarted as error:
        raise McpFailed(str(error)) from error
    finally:
        diagnostics.finish()


async def _read_until_the_end(
    child: Child,
    incoming: "MemoryObjectSendStream[SessionMessage | Exception]",
    diagnostics: Diagnostics,
    on_end: OnTransportEnd,
) -> None:
    reason = ""
    async with incoming:  # closing it ends the open requests
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_after_exit, child, nursery.cancel_scope)
            reason = await _read_messages(child, incoming, diagnostics)
            # A process that closes stdout is about to exit; its status is the better reason.
            with trio.move_on_after(_GRACE):
                await child.wait()
            nursery.cancel_scope.cancel()
        if child.exit_code is not None:
            reason = describe_exit(child.exit_code)
        on_end(reason)


async def _cancel_after_exit(child: Child, reading: trio.CancelScope) -> None:
    await child.wait()
    # What it wrote before its end may still be in the pipe.
    reading.deadline = trio.current_time() + _GRACE


async def _read_messages(
    child: Child, incoming: "MemoryObjectSendStream[SessionMessage | Exception]", diagnostics: Diagnostics
) -> str:
    import anyio

    lines = _Lines()
    try:
        while chunk := await child.stdout.receive_some(_CHUNK):
            for line in lines.feed(chunk):
                message = _parse_line(line, diagnostics)
                if message is not None:
                    await incoming.send(message)
            if lines.too_long:
                refused = lines.refuse()
                if refused is None:
                    return f"it sent a message of more than {MAX_MESSAGE_BYTES:,} bytes"
                await incoming.send(refused)
    except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
        diagnostics.note(f"its stdout could not be read: {error}")
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return "the connection was closed"
    return "it closed its output"


class _Lines:
    """Splits a stream into lines without reading any byte twice; a line that is too long is skipped."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._skipping = False

    @property
    def too_long(self) -> bool:
        return len(self._buffer) > MAX_MESSAGE_BYTES

    def feed(self, chunk: bytes | bytearray) -> list[bytes]:
        *ends, rest = chunk.split(b"\n")
        lines = []
        for end in ends:
            if not self._skipping:
                lines.append(bytes(self._buffer + end))
            self._buffer.clear()
            self._skipping = False
        if not self._skipping:
            self._buffer += rest
        return lines

    def refuse(self) -> "SessionMessage | None":
        """Abandon the current line; returns an error for the request it answers, if that can be seen."""
        from mcp_types import INTERNAL_ERROR

        answer = _ANSWER.match(bytes(self._buffer[:200]))
        if answer is None:
            return None
        self._buffer.clear()
        self._skipping = True
        return build_failure(int(answer[1]), INTERNAL_ERROR, f"the answer has more than {MAX_MESSAGE_BYTES:,} bytes")


def _parse_line(line: bytes, diagnostics: Diagnostics) -> "SessionMessage | None":
    from mcp.shared.message import SessionMessage

    if not line.strip():
        return None
    if (message := parse_message(line)) is not None:
        return SessionMessage(message)
    # Many servers greet people on stdout.
    diagnostics.note(f"not a message: {line[:1_000].decode('utf-8', errors='replace')}")
    return None


async def _write_messages(child: Child, outgoing: "MemoryObjectReceiveStream[SessionMessage]") -> None:
    async with outgoing:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):  # the reader notices its end
            async for item in outgoing:
                await child.stdin.send_all(as_json(item.message) + b"\n")
