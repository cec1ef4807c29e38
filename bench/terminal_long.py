"""The terminal with very long conversations: its memory, and the time until the end of one is shown."""

import math
from collections.abc import Mapping
from pathlib import Path

from bench.measure import Result
from bench.server_driver import Program, check_there_is
from bench.store_material import scratch_directory
from bench.terminal_service import last_words
from bench.terminal_streaming import SETTLE_S, serving, viewing
from bench.terminal_window import SESSION_CORE, Window, opened

MESSAGES = 10_000
FEW = 10
MEMORY_ROUNDS = 3
OPEN_ROUNDS = 5
MEMORY = 1.3
"""A terminal holds the newest messages of a session, from its snapshot, and the rendered screen."""
OPENING = 2.0
"""The service sends more of a long session than of a short one, but at most its window of newest messages."""


# --- memory -----------------------------------------------------------------------------------------------------------


def measure_terminal_memory() -> Result:
    """A terminal needs little more memory for a very long session than for a short one, even if it watched it grow."""
    check_there_is("textual")
    return _memory(MESSAGES, FEW, MEMORY_ROUNDS)


def _memory(many: int, few: int, rounds: int) -> Result:
    """Take the best of some rounds; of a long session opened late and one watched from its start, the larger counts."""
    kib = {"short": math.inf, "long": math.inf, "grown": math.inf}
    with scratch_directory() as home, serving(home) as service:
        sessions = {name: _talk(service, name, count) for name, count in (("short", few), ("long", many))}
        for number in range(rounds):
            for name, session in sessions.items():
                with viewing(home, session, name) as window:
                    kib[name] = min(kib[name], window.memory_kib)
            kib["grown"] = min(kib["grown"], _grown(service, home, f"grown-{number}", few, many))
    return Result(
        name="terminal_memory",
        title=f"memory of a terminal that shows the end of a session with {many:,} messages / with {few}",
        ratio=max(kib["long"], kib["grown"]) / kib["short"],
        target=MEMORY,
        comparison="at most",
        details={
            f"{few} messages, MB": _mb(kib["short"]),
            f"{many:,} messages, MB": _mb(kib["long"]),
            f"{many:,} messages, most of which came while it was viewed, MB": _mb(kib["grown"]),
        },
    )


def _grown(service: Program, home: Path, name: str, few: int, many: int) -> float:
    """Let a session grow while a terminal shows it; return the terminal's memory afterwards."""
    session = _talk(service, name, few)
    with viewing(home, session, name) as window:
        service.tell(op="talk", session=session, name=f"{name}, now long,", messages=many - few)
        window.until_shown(last_words(f"{name}, now long,"))
        service.hear()
        window.look_on(SETTLE_S)
        return window.memory_kib


def _talk(service: Program, name: str, messages: int) -> str:
    session: str = service.ask(op="talk", name=name, messages=messages)["session"]
    return session


def _mb(kib: float) -> float:
    return kib * 1.024 / 1000


# --- choosing one -----------------------------------------------------------------------------------------------------


def measure_terminal_opening() -> Result:
    """The end of a very long session is shown about as soon as that of a short one."""
    check_there_is("textual")
    return _opening(MESSAGES, FEW, OPEN_ROUNDS)


def _opening(many: int, few: int, rounds: int) -> Result:
    """Choose each session twice: the first time, the service must read it from its store.

    Another session is chosen before, so neither measurement includes one-time work.
    """
    first, again = ({"short": math.inf, "long": math.inf} for _ in range(2))
    with scratch_directory() as home:
        with serving(home) as service:
            for name, count in (("first", few), ("short", few), ("long", many)):
                _talk(service, name, count)
        for number in range(rounds):
            order = ("short", "long") if number % 2 else ("long", "short")
            with serving(home), opened(home, "-c", SESSION_CORE, "terminal", "--new") as window:
                window.until_shown("first")  # in the list of sessions
                _choose(window, "first")
                for best in (first, again):
                    for name in order:
                        best[name] = min(best[name], _choose(window, name))
    return Result(
        name="terminal_opening",
        title=f"choosing a session in memory until its end is on the screen, with {many:,} messages / with {few}",
        ratio=again["long"] / again["short"],
        target=OPENING,
        comparison="at most",
        details={
            f"{few} messages, ms": again["short"] * 1e3,
            f"{many:,} messages, ms": again["long"] * 1e3,
            f"{few} messages, the service reads them first, ms": first["short"] * 1e3,
            f"{many:,} messages, the service reads them first, ms": first["long"] * 1e3,
            f"{many:,} messages / {few}, the service reads them first": first["long"] / first["short"],
        },
    )


_KEYS: Mapping[str, bytes] = {"long": b"\x1b[49;3u", "short": b"\x1b[50;3u", "first": b"\x1b[51;3u"}
"""Alt+1 to Alt+3 in the extended keyboard protocol; the newest session is first."""
_NEW = b"\x1b[110;3u"


def _choose(window: Window, name: str) -> float:
    """Choose a session by its key while none is shown; return the seconds until its end is on the screen."""
    window.press(_NEW)
    window.look_on(SETTLE_S)
    pressed = window.press(_KEYS[name])
    return window.until_shown(last_words(name)) - pressed
