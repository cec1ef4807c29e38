"""Clocks, best-of-several timing of interleaved work, and `Result`.

Rules:
1. Compared functions alternate within one run, so a busy neighbour affects both sides.
2. The best round counts: noise only ever adds time.
3. Throughput is CPU time of this process; latencies are wall-clock time.
4. The garbage collector runs before a timed section, never in it, as with the standard `timeit`.
"""

import gc
import math
import shutil
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Literal

import attrs

Comparison = Literal["at most", "at least"]
Clock = Callable[[], float]


class NotMeasured(Exception):
    """A requirement of the case is missing; the message names it."""


@attrs.frozen(kw_only=True)
class Result:
    """One measured target.

    Attributes:
        name: Short name, also for `--only`.
        title: What was measured against what, in words.
        ratio: The measured ratio.
        target: The limit for the ratio.
        comparison: Whether the ratio must be at most or at least the target.
        details: Figures behind the ratio; their names end with the unit.
        attempts: How often the case ran until it met its target or was given up; the result is its best run.
    """

    name: str
    title: str
    ratio: float
    target: float
    comparison: Comparison
    details: Mapping[str, float] = attrs.field(factory=dict)
    attempts: int = 1

    @property
    def margin(self) -> float:
        """How many times better than its target the result is; less than 1 is a miss."""
        better, worse = (self.ratio, self.target) if self.comparison == "at least" else (self.target, self.ratio)
        return better / worse if worse else math.inf

    @property
    def passed(self) -> bool:
        """Whether the target is met."""
        return self.margin >= 1


@contextmanager
def collector_off() -> Generator[None]:
    """Collect garbage now and not again until the end of the block."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def best_times(
    rounds: int, *works: Callable[[], Awaitable[object]], clock: Clock = time.process_time
) -> list[float]:
    """Run async pieces of work in turns and return the shortest time of each, in seconds."""
    best = [math.inf] * len(works)
    for _ in range(rounds):
        for place, work in enumerate(works):
            with collector_off():
                started = clock()
                await work()
                best[place] = min(best[place], clock() - started)
    return best


def best_calls(
    rounds: int, calls: int, *functions: Callable[[], object], clock: Clock = time.process_time
) -> list[float]:
    """Call functions in turns, `calls` times per round, and return the shortest time of one call of each, in µs."""
    best = [math.inf] * len(functions)
    with collector_off():
        for _ in range(rounds):
            for place, function in enumerate(functions):
                started = clock()
                for _ in range(calls):
                    function()
                best[place] = min(best[place], clock() - started)
    return [seconds / calls * 1e6 for seconds in best]


def needing(program: str, case: Callable[[], Result]) -> Callable[[], Result]:
    """Return a case that raises `NotMeasured` if the program is not installed."""

    def run() -> Result:
        if shutil.which(program) is None:
            raise NotMeasured(f"{program} is not installed")
        return case()

    return run


def run_case(case: Callable[[], Result], attempts: int) -> Result:
    """Run a case until it meets its target, at most `attempts` times, and return its best run."""
    best = case()
    attempt = 1
    while not best.passed and attempt < attempts:
        attempt += 1
        again = case()
        if again.margin > best.margin:
            best = again
    return attrs.evolve(best, attempts=attempt)
