"""For tests with real servers: how to start them, call their tools, and watch them."""

import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from session_core.ids import CallId
from session_core.mcp.client import McpServers
from session_core.mcp.config import HttpServer, StdioServer
from session_core.mcp.connection import ConnectionTiming
from session_core.tools.base import Tool, ToolContext, ToolFailed, ToolOutput
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import SandboxPolicy

HERE = Path(__file__).parent
PATIENCE = 300
"""Seconds after which a test gives up; on a good day nothing here takes more than three."""
QUICK = ConnectionTiming(
    first_pause=0.01, longest_pause=0.02, attempts=3, connecting=PATIENCE, patience=PATIENCE, listing=0
)


def rude(*modes: str, **more: Any) -> StdioServer:
    """Return the server without manners."""
    args = (str(HERE / "_rude_server.py"), *modes)
    return StdioServer(name=more.pop("name", "rude"), command=sys.executable, args=args, cwd=str(HERE), **more)


def workshop(**more: Any) -> StdioServer:
    """Return the server written with the SDK."""
    return StdioServer(
        name="workshop", command=sys.executable, args=(str(HERE / "_servers.py"),), cwd=str(HERE), **more
    )


def time_server() -> StdioServer:
    """Return a server that others wrote."""
    return StdioServer(name="time", command=sys.executable, args=("-m", "mcp_server_time"), cwd=str(HERE))


def tool_named(servers: McpServers, name: str) -> Tool:
    """Return one of the tools on offer now."""
    return {tool.spec.name: tool for tool in servers.tools()}[name]


async def call(
    servers: McpServers, name: str, report: Callable[[str], None] = lambda _text: None, **arguments: Any
) -> ToolOutput:
    """Call a tool as a turn does."""
    context = ToolContext(call_id=CallId("call_1"), cwd=str(HERE), sandbox=SandboxPolicy(), report=report)
    with trio.fail_after(PATIENCE):
        return await tool_named(servers, name).run(JsonObject(arguments), context)


async def failure(servers: McpServers, name: str, **arguments: Any) -> str:
    """Call a tool that must fail, and return what the model is told."""
    try:
        output = await call(servers, name, **arguments)
    except ToolFailed as error:
        return str(error)
    raise AssertionError(output)


async def ready(servers: McpServers, name: str) -> None:
    """Wait for a server to be ready; a failure is shown as it is."""
    with trio.fail_after(PATIENCE):
        status = await servers.wait_for_state(name, "ready", "failed")
    assert "ready" == status.state, (status, servers.diagnostics(name))


async def gone(pid: int) -> None:
    """Wait for the end of a process that is not our child."""
    import os

    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with trio.fail_after(PATIENCE):
            await trio.lowlevel.wait_readable(descriptor)
    finally:
        os.close(descriptor)


class Called:
    """A report function that tells when it was first called."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.happened = trio.Event()

    def __call__(self, text: str) -> None:
        self.texts.append(text)
        self.happened.set()


@asynccontextmanager
async def http_workshop(*words: str) -> AsyncGenerator[tuple[trio.Process, int]]:
    """Serve the workshop over HTTP; gives the process and the port."""
    process = await trio.lowlevel.open_process(
        [sys.executable, str(HERE / "_servers.py"), "http", *words], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with process.stdout:
            with trio.fail_after(PATIENCE):
                port = int(await process.stdout.receive_some())
            yield process, port
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


def far(port: int, **more: Any) -> HttpServer:
    """Return the workshop behind a port."""
    return HttpServer(name="far", url=f"http://127.0.0.1:{port}/mcp", **more)
