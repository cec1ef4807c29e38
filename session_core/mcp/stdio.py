"""Servers that are child processes: one JSON message per line, in on stdin and out on stdout.

The SDK's own transport does not fit: it adds variables to the environment, sends stderr to a file or to our terminal,
and collects an endless line until memory is full. Here:

1. The child leads its own process group and gets only the variables given to it; its stderr goes to `Diagnostics`.
2. A line that is not a message is noted and skipped. A message that is too large ends the request it answers.
3. The end of the process ends the link at once, even if a leftover process still holds its pipes.
4. When the link is closed, the whole group is ended: by closing stdin, then SIGTERM, then SIGKILL.
"""

import os
import re
import signal
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import trio

from session_core.limits import KILL_GRACE_MS
from session_core.mcp.config import StdioServer
from session_core.mcp.diagnostics import Diagnostics
from session_core.mcp.transport import MAX_MESSAGE_BYTES, McpFailed, TransportEndCallback, TransportStreams
from session_core.mcp.variables import plain_environment
from session_core.sandbox.secrets import clean_environment
from session_core.tools.process import explain_start_failure

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
    config: StdioServer, diagnostics: Diagnostics, on_end: TransportEndCallback
) -> AsyncGenerator[TransportStreams]:
    """Start the server and connect to its pipes.

    Raises:
        McpFailed: The program could not be started.

    Cancellation: the process group is gone when this returns; it takes at most four grace periods.
    """
    import anyio
    from mcp.shared.message import SessionMessage

    process = await _start(config)
    try:
        incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](_OUTGOING)
        with incoming, read, write, outgoing:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_read_stderr, process, diagnostics)
                nursery.start_soon(_write_messages, process, outgoing)
                nursery.start_soon(_read_until_the_end, process, incoming, diagnostics, on_end)
                yield TransportStreams(read=read, write=write, pid=process.pid)
                nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await _end(process, diagnostics)


async def _start(config: StdioServer) -> trio.Process:
    # The plain variables undo what only a sandbox needs, such as another TMPDIR.
    env = {**clean_environment(os.environ), **plain_environment(os.environ), **config.env}
    try:
        return await trio.lowlevel.open_process(
            [config.command, *config.args],
            cwd=config.cwd,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise McpFailed(await explain_start_failure(config.command, config.cwd, error, env=env)) from error


async def _read_until_the_end(
    process: trio.Process,
    incoming: "MemoryObjectSendStream[SessionMessage | Exception]",
    diagnostics: Diagnostics,
    on_end: TransportEndCallback,
) -> None:
    reason = ""
    async with incoming:  # closing it ends the open requests
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_after_exit, process, nursery.cancel_scope)
            reason = await _read_messages(process, incoming, diagnostics)
            # A process that closes stdout is about to exit; its status is the better reason.
            with trio.move_on_after(_GRACE):
                await process.wait()
            nursery.cancel_scope.cancel()
        if process.returncode is not None:
            reason = _describe_exit(process.returncode)
        on_end(reason)


async def _cancel_after_exit(process: trio.Process, reading: trio.CancelScope) -> None:
    await process.wait()
    # What it wrote before its end may still be in the pipe.
    reading.deadline = trio.current_time() + _GRACE


def _describe_exit(status: int) -> str:
    if status >= 0:
        return f"its process ended with exit status {status}"
    with suppress(ValueError):
        return f"its process was ended by {signal.Signals(-status).name}"
    return f"its process was ended by signal {-status}"


async def _read_messages(
    process: trio.Process, incoming: "MemoryObjectSendStream[SessionMessage | Exception]", diagnostics: Diagnostics
) -> str:
    import anyio

    assert process.stdout is not None
    lines = _Lines()
    try:
        while chunk := await process.stdout.receive_some(_CHUNK):
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
        from mcp.shared.message import SessionMessage
        from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError

        answer = _ANSWER.match(bytes(self._buffer[:200]))
        if answer is None:
            return None
        self._buffer.clear()
        self._skipping = True
        error = ErrorData(code=INTERNAL_ERROR, message=f"the answer has more than {MAX_MESSAGE_BYTES:,} bytes")
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=int(answer[1]), error=error))


def _parse_line(line: bytes, diagnostics: Diagnostics) -> "SessionMessage | None":
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    if not line.strip():
        return None
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        # Many servers greet people on stdout.
        diagnostics.note(f"not a message: {line[:1_000].decode('utf-8', errors='replace')}")
        return None


async def _write_messages(process: trio.Process, outgoing: "MemoryObjectReceiveStream[SessionMessage]") -> None:
    assert process.stdin is not None
    async with outgoing:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):  # the reader notices its end
            async for item in outgoing:
                data = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send_all(data.encode() + b"\n")


async def _read_stderr(process: trio.Process, diagnostics: Diagnostics) -> None:
    assert process.stderr is not None
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while chunk := await process.stderr.receive_some(_CHUNK):
            diagnostics.feed(chunk)


async def _end(process: trio.Process, diagnostics: Diagnostics) -> None:
    """End the process with its whole group; its remaining output is read, so it cannot hang on a full pipe."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    async with process.stdin, process.stdout, process.stderr, trio.open_nursery() as nursery:
        nursery.start_soon(_throw_away, process.stdout)
        nursery.start_soon(_read_stderr, process, diagnostics)
        await process.stdin.aclose()
        with trio.move_on_after(_GRACE):
            await process.wait()
        # Even if the leader is gone: its number stays taken as long as the group has a member.
        _signal_group(process, signal.SIGTERM)
        with trio.move_on_after(_GRACE):
            await process.wait()
        _signal_group(process, signal.SIGKILL)
        with trio.move_on_after(_GRACE):
            await process.wait()
        nursery.cancel_scope.deadline = trio.current_time() + _GRACE
    diagnostics.finish()


async def _throw_away(stream: trio.abc.ReceiveStream) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while await stream.receive_some(_CHUNK):
            pass


def _signal_group(process: trio.Process, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
