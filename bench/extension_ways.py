"""Three hosts for the same extension: ours, a naive one, and the peer's.

The extension is `peers/extension.mjs`. Our host is called as the agent does: `ExtensionTool.run` for a tool call,
`run_hook` for a hook. The naive host takes a lock, sends one line per request, and wakes each caller with an event. It
checks nothing, issues no contexts and has no limits.
"""

import json
import shutil
import subprocess
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Literal, Protocol

import trio

from bench.measure import collector_off
from bench.peer_host import PeerHost
from session_core.ids import CallId, SessionId
from session_core.rpc.messages import Notification, Request
from session_core.sep.host.calls.contexts import Contexts
from session_core.sep.host.calls.hooks import HookBlocked, run_hook
from session_core.sep.host.catalogue.consent import digest_of
from session_core.sep.host.catalogue.discovery import DiscoveredExtension
from session_core.sep.host.extension import HostedExtension
from session_core.sep.host.process.extension_log import ExtensionLog
from session_core.sep.host.tools.tools import ExtensionToolSource
from session_core.sep.protocol.manifest import read_manifest
from session_core.tools.base import ToolContext
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import SandboxPolicy

Op = Literal["ping", "tool", "hook"]
OPS: tuple[Op, ...] = ("ping", "tool", "hook")
Ask = Callable[[], Awaitable[object]]

SCRIPT = Path(__file__).parent / "peers" / "extension.mjs"
SESSION = SessionId("ses_measured")
TOOL = "read"
ARGUMENTS = {"text": "x = 1\n" * 20, "path": "src/some/module.py", "lines": 400}
_PATIENCE = 60


class Way(Protocol):
    """One host of an extension, ready to be measured."""

    async def take(self, op: Op, at_once: int, times: int) -> tuple[float, float]:
        """Run `at_once` tasks that each make `times` requests; return the seconds of wall-clock time and of CPU."""
        ...


class InThisProcess:
    """A host in this process, given by a function for each `op`."""

    def __init__(self, asks: Mapping[Op, Ask]) -> None:
        self.asks = asks

    async def take(self, op: Op, at_once: int, times: int) -> tuple[float, float]:
        """Do it."""
        ask = self.asks[op]

        async def one_after_the_other() -> None:
            for _ in range(times):
                await ask()

        with collector_off():
            wall, cpu = time.perf_counter(), time.process_time()
            async with trio.open_nursery() as nursery:
                for _ in range(at_once):
                    nursery.start_soon(one_after_the_other)
            return time.perf_counter() - wall, time.process_time() - cpu


class ThePeers:
    """The peer's host, which runs in its own process."""

    def __init__(self, host: PeerHost) -> None:
        self._host = host

    async def take(self, op: Op, at_once: int, times: int) -> tuple[float, float]:
        """Run the requests in the peer's process."""
        return await self._host.take(op, at_once, times, tool=TOOL, arguments=ARGUMENTS)


def add_extension(folder: Path, name: str, *hooks: str) -> DiscoveredExtension:
    """Create an extension that declares these hooks in a folder of extensions."""
    node = shutil.which("node")
    place = folder / name
    place.mkdir(parents=True)
    (place / "extension.toml").write_text(
        f'name = "{name}"\nversion = "1"\n'
        f"[run]\ncommand = {json.dumps(node)}\nargs = {json.dumps([str(SCRIPT), *hooks])}\n",
        encoding="utf-8",
    )
    return DiscoveredExtension(
        name=name, folder=place, scope="user", manifest=read_manifest(place), digest=digest_of(place)
    )


class _Host:
    """A host whose extension sends nothing on its own."""

    def initialize_params(self, found: DiscoveredExtension) -> dict[str, Any]:
        return {"protocol_version": 1, "host": {"name": "bench", "version": "1"}, "mode": "headless"}

    async def on_request(self, extension: HostedExtension, generation: int, request: Request) -> Any:
        return {}

    def on_notification(self, extension: HostedExtension, generation: int, notification: Notification) -> None:
        pass

    def on_changed(self, extension: HostedExtension) -> None:
        pass


@asynccontextmanager
async def running(*found: DiscoveredExtension) -> AsyncGenerator[tuple[HostedExtension, ...]]:
    """Run extensions in our host during the block."""
    extensions = tuple(HostedExtension(each, _Host(), ExtensionLog()) for each in found)
    async with trio.open_nursery() as nursery:
        with trio.fail_after(_PATIENCE):
            for each in extensions:
                await nursery.start(each.run)
        for each in extensions:
            if not each.running:
                raise RuntimeError(f"the extension {each.name} does not run: {each.problem}")
        yield extensions
        for each in extensions:
            await each.stop()


def our_way(extension: HostedExtension) -> InThisProcess:
    """Return our host, called as the agent does."""
    contexts, arguments = Contexts(), JsonObject(ARGUMENTS)
    value = JsonObject({"tool": TOOL, "arguments": arguments})
    (echo,) = ExtensionToolSource(lambda _: (extension,), contexts).tools(SESSION)
    context = ToolContext(
        call_id=CallId("call_measured"),
        cwd="/",
        sandbox=SandboxPolicy(),
        report=lambda _text: None,
        session_id=SESSION,
    )

    async def ping() -> None:
        await extension.request("ping", {}, timeout=_PATIENCE)

    async def tool() -> None:
        if (await echo.run(arguments, context)).text != ARGUMENTS["text"]:
            raise RuntimeError("the tool gave another answer")

    async def hook() -> None:
        if isinstance(await run_hook((extension,), "tool_call", SESSION, value, contexts=contexts), HookBlocked):
            raise RuntimeError("the hook was not answered")

    return InThisProcess({"ping": ping, "tool": tool, "hook": hook})


@asynccontextmanager
async def obvious_way(found: DiscoveredExtension) -> AsyncGenerator[InThisProcess]:
    """Open the naive host."""
    run = found.manifest.run
    process = await trio.lowlevel.open_process(
        [run.command, *run.args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=found.folder
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout
    lock, numbers = trio.Lock(), count(1)
    waiting: dict[int, tuple[trio.Event, list[Any]]] = {}

    async def request(method: str, params: Mapping[str, Any]) -> Any:
        number = next(numbers)
        done, answer = waiting[number] = trio.Event(), []
        frame = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        async with lock:
            await stdin.send_all(json.dumps(frame).encode() + b"\n")
        await done.wait()
        return answer[0]

    async def read() -> None:
        kept = b""
        async for piece in stdout:
            *lines, kept = (kept + piece).split(b"\n")
            for line in lines:
                message = json.loads(line)
                done, answer = waiting.pop(message["id"])
                answer.append(message["result"])
                done.set()

    context = {"token": "t", "tier": "command"}
    tool = {"call_id": "c", "tool": "echo", "arguments": ARGUMENTS, "context": context}
    hook = {"hook": "tool_call", "context": context, "input": {"tool": TOOL, "arguments": ARGUMENTS}}
    async with stdout, trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await request("initialize", {"protocol_version": 1})
        yield InThisProcess(
            {
                "ping": lambda: request("ping", {}),
                "tool": lambda: request("tool/execute", tool),
                "hook": lambda: request("hook", hook),
            }
        )
        await request("shutdown", {})
        await stdin.aclose()
        await process.wait()
        nursery.cancel_scope.cancel()
