"""Runs the peer's host: `python host.py FOLDER`, driven by `bench.peer_host`.

It loads the extensions in the folder and reports that in a line. Each line it then reads names a request (`op`), the
number of concurrent tasks (`at_once`) and of requests per task (`times`). The answer is the time taken, as wall-clock
time and as CPU time. It exits at the end of its input.
"""

import asyncio  # noqa: TID251 - the host that is measured here is written for it
import gc
import importlib
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any


async def main(folder: Path) -> None:
    """Load the extensions in a folder, and measure on command."""
    sep: Any = importlib.import_module("smooth_operator_core.extension")
    found, failures = sep.discover(folder, None)
    host, more = await sep.ExtensionHost.load(
        found,
        sep.HostInfo("bench", "1"),
        sep.WorkspaceInfo(str(folder), trusted=True),
        "headless",
        [],
        sep.DefaultHostDelegate(),
    )
    try:
        say({"loaded": host.names(), "failed": [str(each) for each in (*failures, *more)]})
        while line := await asyncio.to_thread(sys.stdin.readline):
            task = json.loads(line)
            say(await measured(works(host, sep, task)[task["op"]], task["at_once"], task["times"]))
    finally:
        await host.shutdown_all()


def works(host: Any, sep: Any, task: Mapping[str, Any]) -> Mapping[str, Callable[[], Awaitable[object]]]:
    """Return a function for each kind of request, made as the peer's own agent makes it."""
    tools, arguments, tool = host.tools(), task["arguments"], task["tool"]
    process = host._extensions[0].process  # noqa: SLF001 - there is no other way to ping one

    async def ping() -> None:
        if not await process.ping_health(60):
            raise RuntimeError("a ping was not answered")

    async def execute() -> None:
        if await tools[0].execute(arguments) != arguments["text"]:
            raise RuntimeError("the tool gave another answer")

    async def hook() -> None:
        if (await host.run_hook(sep.HookType.TOOL_CALL, {"tool": tool, "arguments": arguments})).blocked:
            raise RuntimeError("the hook was not answered")

    return {"ping": ping, "tool": execute, "hook": hook}


async def measured(work: Callable[[], Awaitable[object]], at_once: int, times: int) -> Mapping[str, float]:
    """Run `at_once` tasks that each do the work `times` times; return how long that took."""

    async def one_after_the_other() -> None:
        for _ in range(times):
            await work()

    gc.collect()
    gc.disable()
    try:
        wall, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(one_after_the_other() for _ in range(at_once)))
        return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    finally:
        gc.enable()


def say(plain: Mapping[str, Any]) -> None:
    """Write a line."""
    print(json.dumps(plain), flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
