"""The judging of measurements: a miss is a miss, a retry is told, and the best run counts."""

import gc
from collections.abc import Callable

import attrs
import pytest

from bench.measure import Comparison, Result, best_calls, best_times, collector_off, run_case


def result(ratio: float, comparison: Comparison = "at most", *, target: float = 2) -> Result:
    return Result(name="case", title="this / that", ratio=ratio, target=target, comparison=comparison)


def played(*ratios: float) -> Callable[[], Result]:
    """A case that gives these ratios one after the other."""
    left = iter(ratios)
    return lambda: result(next(left))


@pytest.mark.parametrize(
    ("ratio", "comparison", "margin", "passed"),
    [
        (2.0, "at most", 1.0, True),
        (2.5, "at most", 0.8, False),
        (0.5, "at most", 4.0, True),
        (0.0, "at most", float("inf"), True),
        (2.0, "at least", 1.0, True),
        (8.0, "at least", 4.0, True),
        (1.0, "at least", 0.5, False),
    ],
)
def test_margin(ratio: float, comparison: Comparison, margin: float, passed: bool) -> None:  # noqa: FBT001
    """A result passes from exactly its target on, in the direction its comparison says."""
    judged = result(ratio, comparison)

    assert (margin, passed) == (judged.margin, judged.passed)


@pytest.mark.parametrize(
    ("ratios", "best", "attempts"),
    [((1.0,), 1.0, 1), ((3.0, 1.5), 1.5, 2), ((3.0, 2.5, 4.0), 2.5, 3), ((2.5, 3.0, 1.0), 1.0, 3)],
)
def test_retries_are_counted(ratios: tuple[float, ...], best: float, attempts: int) -> None:
    """A missed case is run again at most twice, the best run is kept, and the result says how many there were."""
    assert attrs.evolve(result(best), attempts=attempts) == run_case(played(*ratios), 3)


def test_the_collector_comes_back() -> None:
    """Garbage collection is off within the block and on after it, even when the block fails."""
    seen = []

    def fail() -> None:
        with collector_off():
            seen.append(gc.isenabled())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert ([False], True) == (seen, gc.isenabled())


@pytest.mark.slow
async def test_works_take_turns_and_the_best_counts() -> None:
    """Pieces of work run in turns, and the shortest time of each is returned."""
    log: list[str] = []
    clock = iter([0, 5, 10, 11, 20, 22, 30, 37])

    async def one() -> None:
        log.append("one")

    async def other() -> None:
        log.append("other")

    best = await best_times(2, one, other, clock=lambda: next(clock))

    assert (["one", "other"] * 2, [2, 1]) == (log, best)


def test_calls_are_counted_into_the_time_of_one() -> None:
    """The time of one call is the best round's time over its calls, in microseconds."""
    clock = iter([0.0, 0.4, 1.0, 1.2])
    calls: list[None] = []

    (best,) = best_calls(2, 100, lambda: calls.append(None), clock=lambda: next(clock))

    assert len(calls) == 200
    assert best == pytest.approx(2_000)
