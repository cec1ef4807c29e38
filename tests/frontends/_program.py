"""Running the real program in a process of its own, as a user would."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import trio

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, "-m", "frontends.entry"]


_PATIENT = """
import importlib, sys
for limit in sys.argv.pop(1).split():
    module, name = limit.split(":")
    setattr(importlib.import_module(module), name, 3_600.0)
from frontends.entry import main
sys.exit(main())
"""


def patient_program(*limits: str) -> list[str]:
    """Return the command of the program that gives up after an hour where these limits (`module:NAME`) say sooner."""
    return [sys.executable, "-c", _PATIENT, " ".join(limits)]


@attrs.frozen
class Ended:
    """How a program ended, and what it wrote."""

    code: int
    out: str
    err: str


PATIENCE_S = 300
"""A program starts within a second or two, on busy cores within a minute: one that is not done by then hangs."""
LATELY = r"(?:just now|\d+ min ago)"
"""How the age of something that the test itself has just done is shown, on slow machines too."""
HOME = "SESSION_CORE_HOME"
_HOME_OUTSIDE = os.environ.get(HOME)  # this module is loaded before any test has its own
LEFT_OUT = {"NO_COLOR", "SESSION_CORE_DEBUG", "COLUMNS"}


def environment(**extra: str) -> dict[str, str]:
    """The environment of the program; its home is the one that `conftest.py` has made for this test."""
    kept = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
    assert kept.get(HOME) not in {None, _HOME_OUTSIDE}, "a test must never touch the sessions of whoever runs it"
    return {**kept, "PYTHONPATH": str(ROOT), **extra}


async def program(
    *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None, command: Sequence[str] = PROGRAM
) -> Ended:
    """Run it to its end."""
    with trio.fail_after(PATIENCE_S):
        done = await trio.run_process(
            [*command, *arguments],
            stdin=stdin,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            cwd=ROOT,
            env=environment(**(env or {})),
        )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


async def interrupted_at(text: str, *arguments: str, number: signal.Signals = signal.SIGINT) -> Ended:
    """Run it, send it a signal once its output holds a text, and wait for its end."""
    out, err = b"", b""

    async def read_all(stream: trio.abc.ReceiveStream) -> None:
        nonlocal err
        async for chunk in stream:
            err += chunk

    with trio.fail_after(PATIENCE_S):
        process = await trio.lowlevel.open_process(
            [*PROGRAM, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=environment(),
        )
        assert process.stdout is not None
        assert process.stderr is not None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read_all, process.stderr)
            sent = False
            async for chunk in process.stdout:
                out += chunk
                if text.encode() in out and not sent:
                    sent = True
                    process.send_signal(number)
        await process.wait()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())
