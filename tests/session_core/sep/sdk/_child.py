"""An extension for a process of its own; its first argument is a file for notes of what happens at its end."""

import logging
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import trio

from session_core.sep.sdk import Extension, ToolCallContext

notes = Path(sys.argv[1])
ext = Extension("child")
cancelled, observed = threading.Event(), threading.Event()


def note(text: str) -> None:
    """Write a line."""
    with notes.open("a") as file:
        file.write(text + "\n")


@ext.tool
async def say(text: str) -> str:
    """Print in every way there is, and return it."""
    print(text)  # noqa: T201 - what authors do
    sys.stdout.write(f"{text}\n")
    sys.__stdout__.write(f"{text}\n")  # type: ignore[union-attr]  # it is there
    subprocess.run([sys.executable, "-c", f"print({text!r})"], check=True)  # noqa: ASYNC221, TID251 - what authors do
    logging.getLogger("author").warning(text)
    return f"{text} {sys.stdin.read()!r}"


@ext.tool
async def sleep(ctx: ToolCallContext) -> None:
    """Wait for ever."""
    ctx.progress(0.1)
    await trio.sleep_forever()


@ext.tool
def block(ctx: ToolCallContext) -> None:
    """Wait in a thread until nobody waits."""
    ctx.progress(0.2)
    while not ctx.cancelled:
        time.sleep(0.001)  # noqa: TID251 - a thread that waits, as authors write it
    cancelled.set()


@ext.tool
def until_cancelled() -> str:
    """Wait until the other tool has seen that it was cancelled, and the observer its last event."""
    cancelled.wait()
    observed.wait()
    return "it has"


@ext.on("turn_end")
def observe(ctx: Any) -> None:
    """Fail."""
    note(f"observed {ctx.seq}")
    if ctx.seq:
        observed.set()
    raise ValueError("an observer that fails")


@ext.on_shutdown
async def later() -> None:
    """Take a moment for the end."""
    await trio.sleep(0.05)
    note("cleaned up async")


@ext.on_shutdown
def first() -> None:
    """Be called first."""
    note("cleaned up plain")


@ext.on_shutdown
def broken() -> None:
    """Fail."""
    raise OSError("a broken cleanup")


ext.serve()
