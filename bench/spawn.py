"""The time from the start of a minimal extension to its handshake, compared with simpler processes.

Four programs in turns: an extension with the Python SDK, a bare Python process that answers one line, another one that
loads trio first, and a bare Node peer. All are started the same way, get the same line, and end when their input does.
"""

import math
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import trio

from bench.measure import NotMeasured, Result
from bench.store_material import scratch_directory

ROUNDS: Final = 15
MOST: Final = 2.0
"""Most of a start is loading trio; the SDK may add as much again."""

_HELLO: Final = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocol_version":1,'
    b'"host":{"name":"bench","version":"1"},"workspace":{"root":"/","trusted":true},"mode":"headless"}}\n'
)
_ANSWER: Final = (
    '{"jsonrpc":"2.0","id":1,"result":{"protocol_version":1,"extension":{"name":"bare","version":"1"},'
    '"registrations":{}}}'
)
_WITH_SDK: Final = """
from session_core.sep.sdk import Extension

ext = Extension("bare", "1")

@ext.tool
def echo(text: str) -> str:
    "Say it again."
    return text

ext.serve()
"""
_BARE_PYTHON: Final = f"import sys\nfor line in sys.stdin:\n    print({_ANSWER!r}, flush=True)\n"
_BARE_NODE: Final = f"process.stdin.on('data', () => console.log({_ANSWER!r}))\n"


def measure_spawn() -> Result:
    """A Python extension takes at most twice as long to start as a Python process that only loads trio."""
    node = shutil.which("node")
    if node is None:
        raise NotMeasured("node is not installed")
    with scratch_directory() as folder:
        best = trio.run(measure_starts, programs_in(folder, node), ROUNDS)
    return Result(
        name="spawn",
        title="start to handshake of a minimal Python extension / a Python process that loads trio",
        ratio=best["sdk"] / best["trio"],
        target=MOST,
        comparison="at most",
        details={
            "an extension with the SDK, ms": best["sdk"] * 1e3,
            "a Python process that loads trio, ms": best["trio"] * 1e3,
            "a bare Python process, ms": best["python"] * 1e3,
            "a bare Node peer, ms": best["node"] * 1e3,
            "an extension with the SDK / a bare Python process": best["sdk"] / best["python"],
            "an extension with the SDK / a bare Node peer": best["sdk"] / best["node"],
        },
    )


def programs_in(folder: Path, node: str) -> Mapping[str, Sequence[str]]:
    """Write the programs and return their command lines."""
    trio_first = f"import trio\n{_BARE_PYTHON}"
    files = {"sdk.py": _WITH_SDK, "bare.py": _BARE_PYTHON, "with_trio.py": trio_first, "bare.mjs": _BARE_NODE}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return {
        "sdk": (sys.executable, str(folder / "sdk.py")),
        "trio": (sys.executable, str(folder / "with_trio.py")),
        "python": (sys.executable, str(folder / "bare.py")),
        "node": (node, str(folder / "bare.mjs")),
    }


async def measure_starts(programs: Mapping[str, Sequence[str]], rounds: int) -> Mapping[str, float]:
    """Start the programs in turns; return the shortest time until the answer of each, in seconds."""
    best = dict.fromkeys(programs, math.inf)
    for _ in range(rounds):
        for name, argv in programs.items():
            best[name] = min(best[name], await _start(argv))
    return best


async def _start(argv: Sequence[str]) -> float:
    began = time.perf_counter()
    process = await trio.lowlevel.open_process(list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    answer, took = b"", math.inf
    async with process.stdout:
        async with process.stdin:
            await process.stdin.send_all(_HELLO)
            while not answer.endswith(b"\n"):
                piece = await process.stdout.receive_some()
                if not piece:
                    raise RuntimeError(f"{argv[-1]} ended without an answer")
                answer += piece
            took = time.perf_counter() - began
        await process.wait()
    if b'"result"' not in answer:
        raise RuntimeError(f"{argv[-1]} answered something else: {answer!r}")
    return took
