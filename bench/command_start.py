"""The start of a confined command, with and without looking for what is protected.

Looking means asking the system about each folder, since one that has not changed is not read again. The target holds
for a project of ordinary size; what a large one costs is reported beside it (docs/decisions/0025 says why).
"""

import math
import shutil
import time
from typing import Final

import trio

from bench.measure import NotMeasured, Result
from bench.store_material import scratch_directory
from session_core.ids import CallId
from session_core.processes.run import run_in_group
from session_core.sandbox.bubblewrap import NoBubblewrap, find_bubblewrap
from session_core.tools.base import ToolContext
from session_core.tools.command_confinement import ShellSetup, confine, prepare_launch
from session_core.vocabulary.sessions import SandboxPolicy

FOLDERS: Final = 200
MANY_FOLDERS: Final = 2_000
ROUNDS: Final = 30
MOST: Final = 1.2
SETTLING_S: Final = 2.5
"""Folders that have just been made are read again each time."""


def measure_command_start() -> Result:
    """Guarding every folder costs a command at most a fifth of its start."""
    return trio.run(_measure)


async def _measure() -> Result:
    found = await find_bubblewrap()
    if isinstance(found, NoBubblewrap):
        raise NotMeasured(found.reason)
    unguarded, guarded = await _measure_project(FOLDERS)
    unguarded_large, guarded_large = await _measure_project(MANY_FOLDERS)
    return Result(
        name="command_start",
        title=f"start of a confined command in {FOLDERS:,} folders / without looking for protected files",
        ratio=guarded / unguarded,
        target=MOST,
        comparison="at most",
        details={
            "guarded, ms": guarded * 1e3,
            "not guarded, ms": unguarded * 1e3,
            f"guarded, {MANY_FOLDERS:,} folders, ms": guarded_large * 1e3,
            f"not guarded, {MANY_FOLDERS:,} folders, ms": unguarded_large * 1e3,
            f"ratio, {MANY_FOLDERS:,} folders": guarded_large / unguarded_large,
        },
    )


async def _measure_project(folders: int) -> tuple[float, float]:
    """Return the best times without and with looking, in a project of so many folders."""
    with scratch_directory() as folder:
        root = folder / "project"
        for number in range(folders):
            (root / f"package{number // 50}/module{number}").mkdir(parents=True)
        (root / ".git").mkdir()
        context = ToolContext(call_id=CallId("call"), cwd=str(root), sandbox=SandboxPolicy(), report=lambda _: None)
        await trio.sleep(SETTLING_S)
        best = [math.inf, math.inf]
        try:
            for _ in range(ROUNDS):
                for guarded in (False, True):
                    best[guarded] = min(best[guarded], await _start(context, guarded=guarded))
        finally:
            await trio.to_thread.run_sync(shutil.rmtree, root)  # noqa: ASYNC102 - a thread cannot be cancelled
    return best[False], best[True]


async def _start(context: ToolContext, *, guarded: bool) -> float:
    """Return the time until a command has written something, in seconds."""
    took = 0.0

    def note(_text: str) -> None:
        nonlocal took
        took = took or time.perf_counter() - began

    began = time.perf_counter()
    confinement = await confine(context, ShellSetup(), to_show=not guarded)
    async with prepare_launch("echo", confinement) as launch:
        await run_in_group(launch, on_output=note)
    return took
