"""Another host for the same extensions, to measure ours against: the Python host of the protocol's own authors.

It is written for asyncio, so it runs in its own process, `peers/host.py`, and measures the time itself. The extra
`bench` installs it; without it, the cases that need it are not measured.
"""

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from bench.measure import NotMeasured

PACKAGE = "smooai-smooth-operator-core"
_MODULE = "smooth_operator_core"
_SCRIPT = Path(__file__).parent / "peers" / "host.py"
_PATIENCE = 120  # seconds; a round takes a fraction of this


def check_there_is_a_peer() -> None:
    """Raise `NotMeasured` unless the other host can be run."""
    if shutil.which("node") is None:
        raise NotMeasured("node is not installed")
    if importlib.util.find_spec(_MODULE) is None:
        raise NotMeasured(f"{PACKAGE} is not installed; install the extra `bench`")


class PeerHost:
    """The running peer host; created by `open_peer_host`."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._kept = b""

    async def take(
        self, op: str, at_once: int, times: int, *, tool: str, arguments: Mapping[str, Any]
    ) -> tuple[float, float]:
        """Run `at_once` tasks that each make `times` requests; return the seconds of wall-clock time and of CPU."""
        assert self._process.stdin is not None
        task = {"op": op, "at_once": at_once, "times": times, "tool": tool, "arguments": dict(arguments)}
        await self._process.stdin.send_all(json.dumps(task).encode() + b"\n")
        took = await self.next_line()
        return took["wall"], took["cpu"]

    async def next_line(self) -> Mapping[str, Any]:
        """Wait for its next line.

        Raises:
            RuntimeError: It has ended, or sends nothing in time.
        """
        assert self._process.stdout is not None
        with trio.move_on_after(_PATIENCE):
            while b"\n" not in self._kept:
                piece = await self._process.stdout.receive_some()
                if not piece:
                    raise RuntimeError("the peer's host ended early; its output is above")
                self._kept += piece
            line, _, self._kept = self._kept.partition(b"\n")
            said: Mapping[str, Any] = json.loads(line)
            return said
        raise RuntimeError(f"the peer's host sent nothing for {_PATIENCE} s")


@asynccontextmanager
async def open_peer_host(folder: Path, expected: int) -> AsyncGenerator[PeerHost]:
    """Run the other host with the extensions in a folder, whose number is `expected`."""
    process = await trio.lowlevel.open_process(
        [sys.executable, str(_SCRIPT), str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    async with process.stdout:
        try:
            host = PeerHost(process)
            ready = await host.next_line()
            if len(ready["loaded"]) != expected:
                raise RuntimeError(f"the peer's host has not loaded its extensions: {ready}")
            yield host
        finally:
            with trio.CancelScope(shield=True):
                await process.stdin.aclose()
                with trio.move_on_after(10):
                    await process.wait()
                if process.returncode is None:
                    process.kill()
                    await process.wait()
