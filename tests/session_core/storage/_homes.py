"""Homes as others see them: modes, descriptors, and processes of their own that want the lock."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

ROOT = Path(__file__).resolve().parents[3]

START = """
import json, os, signal, subprocess, sys
from pathlib import Path
from session_core.errors import StoreInUse
from session_core.storage.home_lock import HomeLock, lock_holder
home = Path(sys.argv[1])
def say(value): print(json.dumps(value), flush=True)
"""
HOLD = "sys.argv = ['bin/session-core', 'run', 'my secret']\nlock = HomeLock.acquire(home)\n"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def open_descriptors() -> set[str]:
    return set(os.listdir("/dev/fd"))  # noqa: PTH208 - bare numbers are wanted


@attrs.frozen
class Child:
    """A Python of its own that talks JSON lines."""

    process: trio.Process
    _rest: bytearray = attrs.field(factory=bytearray)

    async def heard(self) -> object:
        """Return the next value it says; nothing once it and all that share its output have ended."""
        assert self.process.stdout is not None
        while b"\n" not in self._rest:
            chunk = await self.process.stdout.receive_some()
            if not chunk:
                return None
            self._rest.extend(chunk)
        line, _, rest = bytes(self._rest).partition(b"\n")
        self._rest[:] = rest
        value: object = json.loads(line)
        return value

    async def tell(self, value: object) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send_all(json.dumps(value).encode() + b"\n")

    async def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()


@asynccontextmanager
async def child(home: Path, code: str) -> AsyncIterator[Child]:
    """Run code in a process of its own; on leaving, its input ends and so must all that read it."""
    with trio.fail_after(300):
        process = await trio.lowlevel.open_process(
            [sys.executable, "-W", "error", "-c", START + code, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Child(process)
        finally:
            with trio.move_on_after(300, shield=True):
                await process.stdin.aclose()
                process.kill()
                await process.wait()
                await process.stdout.aclose()
