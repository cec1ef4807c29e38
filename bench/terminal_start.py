"""The time from starting `session-core` to its first screen, compared with a minimal Textual app.

Each round starts like that of a new user: an empty home, and no service. The terminal starts one in the background
while it draws its first picture, so the measurement includes that.
"""

import math
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import attrs
import trio

from bench.measure import Result
from bench.server_driver import PATIENCE_S, check_there_is, idle
from bench.store_material import scratch_directory
from bench.terminal_window import SESSION_CORE, Window, opened
from frontends.server.daemon.attached_client import open_talk
from frontends.server.daemon.discovery import find_service
from frontends.server.daemon.runtime_paths import service_process

ROUNDS = 7
FIRST_PICTURE = 2.5
"""Textual and Python are two fifths of a start; our screen and the queries to the service are the rest."""

COMPOSER = "─" * 40
HINT = "Type what you want and press Enter."
LISTED = "no sessions yet"
BARE_TEXT = "This is all that there is to see."
_BARE = f"from bench.terminal_bare import main; main({BARE_TEXT!r})"
_PYTHON = f"print({BARE_TEXT!r}, flush=True); input()"
_STARTING_S = 5.0


def measure_terminal_start() -> Result:
    """The terminal starts about as fast as Textual allows."""
    check_there_is("textual")
    return _terminal_start(ROUNDS)


@attrs.define
class _Least:
    """The shortest time until something was drawn, in seconds of wall-clock time and of CPU."""

    wall: float = math.inf
    cpu: float = math.inf

    def note(self, window: Window, when: float) -> None:
        """Record that a window has just shown something."""
        self.wall = min(self.wall, when - window.began)
        self.cpu = min(self.cpu, window.cpu_s)


def _terminal_start(rounds: int) -> Result:
    python, bare, composer, hint, listed = (_Least() for _ in range(5))
    with scratch_directory() as place:
        for number in range(rounds):
            home = place / f"home-{number}"
            for program, least in ((_PYTHON, python), (_BARE, bare)):
                with opened(home, "-c", program) as window:
                    least.note(window, window.until_shown(BARE_TEXT))
            with terminal_and_service(home) as window:
                for least, when in zip((composer, hint), window.until_all_shown(COMPOSER, HINT), strict=True):
                    least.note(window, when)
                listed.note(window, window.until_shown(LISTED))
    return Result(
        name="terminal_start",
        title="session-core in a window until it shows how to begin / a bare Textual app with a text and an input",
        ratio=hint.wall / bare.wall,
        target=FIRST_PICTURE,
        comparison="at most",
        details={
            "session-core, a place to type, ms": composer.wall * 1e3,
            "session-core, how to begin, ms": hint.wall * 1e3,
            "session-core, CPU until then, ms": hint.cpu * 1e3,
            "session-core, list of the service that it had to start, ms": listed.wall * 1e3,
            "a bare Textual app, ms": bare.wall * 1e3,
            "a bare Textual app, CPU until then, ms": bare.cpu * 1e3,
            "Python alone, ms": python.wall * 1e3,
            "CPU of session-core / of a bare Textual app": hint.cpu / bare.cpu,
        },
    )


@contextmanager
def terminal_and_service(home: Path) -> Generator[Window]:
    """Open a terminal that must start its service; both have ended after the block."""
    with opened(home, "-c", SESSION_CORE) as window:
        try:
            yield window
        finally:
            window.end()  # or it would start another one
            end_service(home)


def end_service(home: Path) -> None:
    """End the service that a terminal started for a home, and wait until it is gone."""
    give_up_at = (
        time.monotonic() + _STARTING_S
    )  # a terminal that ended early may leave a service that is still starting
    while (holder := service_process(home)) is None and time.monotonic() < give_up_at:
        idle(0.02)
    if holder is not None:
        trio.run(_end_service, home, holder.pid)


async def _end_service(home: Path, pid: int) -> None:
    process = os.pidfd_open(pid)
    try:
        with trio.fail_after(PATIENCE_S):
            await find_service(home)  # it answers once it accepts connections
            async with open_talk(home, name="bench") as talk:
                await talk.shutdown(force=True)
            await trio.lowlevel.wait_readable(process)
    finally:
        os.close(process)
