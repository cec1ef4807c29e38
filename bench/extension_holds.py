"""The longest time for which an extension that misbehaves holds the loop, and with it all sessions.

A hold is the CPU time of the loop's thread between two waits for input and output, in which every task that can run
does so once. CPU time is the same on a busy machine; the target is a time and no ratio, because people notice times.
"""

import json
import math
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from bench.measure import Result, collector_off
from bench.store_material import scratch_directory
from session_core.assembly.folders.files import read_user_settings
from session_core.assembly.folders.registry import open_folders
from session_core.assembly.setup import join_extensions
from session_core.assembly.surroundings import AgentEnvironment
from session_core.sep.host.catalogue.consent import CONSENT_FILE, Consents, digest_of
from session_core.service.config import ServiceConfig
from session_core.service.service import SessionService, open_session_service
from session_core.storage.memory import MemoryStore
from session_core.testing.scripted import ScriptedProvider, text, tool_call

SCRIPT = Path(__file__).parent / "peers" / "zoo.py"
WAYS: Final = (
    *("context", "long_context", "brackets", "prompt", "details", "short_details", "entries", "bus", "progress"),
    *("log", "garbage", "values"),
)
TARGET_MS = 50
ROUNDS = 2


def measure_extension_holds() -> Result:
    """No extension holds the loop for long, whatever it sends."""
    longest = {way: min(trio.run(_hold_of, way) for _ in range(ROUNDS)) * 1000 for way in ("nothing", *WAYS)}
    return Result(
        name="extension_holds",
        title="longest hold of the loop by an extension that misbehaves, ms of CPU",
        ratio=max(longest[way] for way in WAYS),
        target=TARGET_MS,
        comparison="at most",
        details={f"{way.replace('_', ' ')}, ms": held for way, held in longest.items()},
    )


class _HoldTimer(trio.abc.Instrument):
    """Measures the longest hold of the loop, in seconds of CPU."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._began = math.inf

    def after_io_wait(self, timeout: float) -> None:
        self._began = time.thread_time()

    def before_io_wait(self, timeout: float) -> None:
        self.longest = max(self.longest, time.thread_time() - self._began)


async def _hold_of(way: str) -> float:
    """Run a turn in which an extension misbehaves; return the longest hold of the loop, in seconds."""
    timer = _HoldTimer()
    with scratch_directory() as place:
        async with _open_service(place, way) as service:
            session_id = (await service.create_session(permission_mode="full")).session_id
            with collector_off():
                trio.lowlevel.add_instrument(timer)
                await service.send_user_message(session_id, "hello")
                await service.wait_for_turn(session_id)
                await service.send_user_message(session_id, "again")  # what it sent is read before it answers this
                await service.wait_for_turn(session_id)
                trio.lowlevel.remove_instrument(timer)
    return timer.longest


@asynccontextmanager
async def _open_service(place: Path, way: str) -> AsyncGenerator[SessionService]:
    home, folder = place / "home", place / "work"
    folder.mkdir()
    for name in (way, "listener"):
        _install(home, name)
    surroundings = AgentEnvironment(
        home=home, folder=str(folder), environ={"PATH": "/usr/bin:/bin", "HOME": str(place)}
    )
    settings = read_user_settings(surroundings, {})
    takes = (tool_call(f"{way}.take"), text("done"))
    async with open_folders(surroundings, settings, {}, mode="cli") as folders:
        plain = ServiceConfig(
            models={"m": ScriptedProvider(*takes, *takes)},
            cwd=str(folder),
            folders=folders,
            background_tasks=(folders.run,),
            store=MemoryStore(),
        )
        joined, extensions = await join_extensions(plain, surroundings, settings, folders, "cli")
        async with open_session_service(joined) as service:
            assert extensions.own is not None
            await extensions.own.settled.wait()
            yield service


def _install(home: Path, name: str) -> None:
    folder = home / "extensions" / name
    folder.mkdir(parents=True)
    args = json.dumps(["-I", "-S", str(SCRIPT), name])
    run = f"[run]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\n"
    (folder / "extension.toml").write_text(f"name = {json.dumps(name)}\nversion = '1'\n{run}", encoding="utf-8")
    Consents(home / CONSENT_FILE).agree(name, folder, digest_of(folder))
