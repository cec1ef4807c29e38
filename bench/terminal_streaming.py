"""The terminal while sessions stream: the cost of background sessions, its frame rate, and the delay of words."""

import re
import statistics
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs

from bench.measure import Result
from bench.server_driver import Program, check_there_is, p99, running
from bench.store_material import scratch_directory
from bench.terminal_service import last_words
from bench.terminal_window import SESSION_CORE, Heard, Window, opened

SESSIONS = 5
PER_SECOND = 100
SECONDS = 5.0
ROUNDS = 3
SETTLE_S = 0.7  # by then, one-time drawing and reading is done
BACKGROUND = 1.5
"""Four background sessions may cost half as much as the one that is shown."""
MOST_PICTURES = 31
"""The terminal promises thirty; the blinking cursor may add one."""
LEAST_PICTURES = 10
"""With fewer, the text stutters."""

_STAMP = re.compile(rb"at(\d{8,});")
_TORN = 64


@contextmanager
def serving(home: Path) -> Generator[Program]:
    """Run the service of a measured terminal during the block."""
    with running("-m", "bench.terminal_service", str(home)) as program:
        yield program


@contextmanager
def viewing(home: Path, session: str, name: str) -> Generator[Window]:
    """Run a terminal during the block; it shows the end of this session when the block starts."""
    with opened(home, "-c", SESSION_CORE, "terminal", "--session", session) as window:
        window.until_shown(last_words(name))
        window.look_on(SETTLE_S)
        yield window


@attrs.frozen
class Watched:
    """Measurements of a terminal while sessions streamed.

    Attributes:
        cpu: Seconds of CPU for each second.
        pictures: How many it drew in each second.
        ms_per_picture: Milliseconds of CPU for each of them.
        waited: Seconds from word to picture, for the words of the shown session that contain the time.
        idle_cpu: Seconds of CPU for each second before anything streamed.
    """

    cpu: float
    pictures: float
    ms_per_picture: float
    waited: Sequence[float]
    idle_cpu: float


def watch(streaming: int, of: int, seconds: float) -> Watched:
    """Stream in the first `streaming` of `of` sessions; a terminal shows the first one, the others work silently.

    Raises:
        RuntimeError: The terminal draws none of it.
    """
    with scratch_directory() as home, serving(home) as service:
        sessions = [service.ask(op="open", name=f"watched-{number}")["session"] for number in range(of)]
        with viewing(home, sessions[0], "watched-0") as window:
            at_rest, _, _ = _weigh(window, SETTLE_S)
            waited = _Waited()
            service.tell(op="stream", sessions=sessions[:streaming], per_second=PER_SECOND, seconds=seconds)
            cpu, pictures, took = _weigh(window, seconds, waited.look)
            service.hear()
    if not (waited.seconds and pictures):
        raise RuntimeError("the terminal has shown none of the words")
    return Watched(
        cpu=cpu / took,
        pictures=pictures / took,
        ms_per_picture=cpu / pictures * 1e3,
        waited=waited.seconds,
        idle_cpu=at_rest / SETTLE_S,
    )


def _weigh(window: Window, seconds: float, look: Heard = lambda _: None) -> tuple[float, int, float]:
    """Observe a window for a while; return seconds of CPU, pictures, and the actual duration in seconds."""
    cpu, pictures, began = window.cpu_s, window.pictures, time.monotonic()
    window.look_on(seconds, look)
    return window.cpu_s - cpu, window.pictures - pictures, time.monotonic() - began


class _Waited:
    """Finds the words that contain the time, when each is drawn for the first time."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._seen: set[bytes] = set()
        self._torn = b""

    def look(self, drawn: bytes) -> None:
        """Search new output for such words."""
        now = time.monotonic_ns()
        text = self._torn + drawn
        self._torn = text[-_TORN:]
        for said_at in _STAMP.findall(text):
            if said_at not in self._seen:
                self._seen.add(said_at)
                self.seconds.append((now - int(said_at)) / 1e9)


# --- the cost of others -----------------------------------------------------------------------------------------------


def measure_terminal_background() -> Result:
    """Sessions that stream in the background cost the terminal little."""
    check_there_is("textual")
    return _background(SESSIONS, SECONDS, ROUNDS)


def _background(sessions: int, seconds: float, rounds: int) -> Result:
    alone: list[Watched] = []
    beside: list[Watched] = []
    for _ in range(rounds):
        alone.append(watch(1, sessions, seconds))
        beside.append(watch(sessions, sessions, seconds))
    least = [min(each.cpu for each in kind) for kind in (alone, beside)]
    details = {"nothing streams, % of a CPU": min(each.idle_cpu for each in (*alone, *beside)) * 100}
    for words, cpu, kind in zip(("only the viewed one streams", "all stream"), least, (alone, beside), strict=True):
        details[f"{words}, % of a CPU"] = cpu * 100
        details[f"{words}, pictures per second"] = statistics.median(each.pictures for each in kind)
        details[f"{words}, ms of CPU per picture"] = min(each.ms_per_picture for each in kind)
    return Result(
        name="terminal_background",
        title=f"CPU of a terminal while {sessions} sessions stream, {PER_SECOND} words a second each / only the viewed",
        ratio=least[1] / least[0],
        target=BACKGROUND,
        comparison="at most",
        details=details,
    )


# --- pictures ---------------------------------------------------------------------------------------------------------


def measure_terminal_pictures() -> Result:
    """The terminal draws often enough for smooth text, and not more often, however much happens."""
    check_there_is("textual")
    return _pictures_result([watch(SESSIONS, SESSIONS, SECONDS) for _ in range(ROUNDS)])


def _pictures_result(found: Sequence[Watched]) -> Result:
    """Report the worse ratio: the most pictures in a round to the maximum, or the minimum to the median round."""
    most, usual = max(each.pictures for each in found), statistics.median(each.pictures for each in found)
    waited = [each.waited for each in found]
    return Result(
        name="terminal_pictures",
        title=f"pictures per second, {SESSIONS} sessions stream: most / {MOST_PICTURES}, or {LEAST_PICTURES} / median",
        ratio=max(most / MOST_PICTURES, LEAST_PICTURES / usual),
        target=1,
        comparison="at most",
        details={
            "pictures per second, most": most,
            "pictures per second, median round": usual,
            "ms of CPU per picture": min(each.ms_per_picture for each in found),
            "word to picture, median, median round, ms": statistics.median(map(statistics.median, waited)) * 1e3,
            "word to picture, p99, median round, ms": statistics.median(map(p99, waited)) * 1e3,
            "word to picture, p99, best round, ms": min(map(p99, waited)) * 1e3,
            "words timed in a round": statistics.median(map(len, waited)),
        },
    )
