"""Extensions with one fault each: the check finds it in its step, and tells the author what to change."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest
import trio

from session_core.sep.conformance.report import ConformanceReport
from session_core.sep.conformance.runner import check_extension
from tests.session_core.sep.conformance._broken import BROKEN, SLOW_TO_HEAR, TRUSTING, Broken, in_folder

AT_ONCE = 6
SECONDS = 30.0
"""Far longer than any of them takes for an answer that comes at all."""
IN_VAIN = 2.0
"""The same for those that leave something unanswered, as the test waits for it."""


async def checked(broken: Broken, folder: Path) -> ConformanceReport:
    in_folder(folder, broken.source())
    return await check_extension(folder, seconds=IN_VAIN if broken.hangs else SECONDS)


@pytest.mark.slow
@pytest.mark.parametrize("faults", [BROKEN[::4], pytest.param(BROKEN, marks=pytest.mark.slow)], ids=["some", "all"])
async def test_each_fault_is_found_where_it_is(tmp_path: Path, faults: Sequence[Broken]) -> None:
    """Each broken extension fails in exactly the steps that its fault concerns, with a sentence that names it."""
    reports: dict[str, ConformanceReport] = {}
    turn = trio.CapacityLimiter(AT_ONCE)

    async def check(broken: Broken) -> None:
        async with nullcontext() if broken.hangs else turn:  # those are idle most of the time
            reports[broken.name] = await checked(broken, tmp_path / broken.name.replace(" ", "_"))

    async with trio.open_nursery() as nursery:
        for broken in faults:
            nursery.start_soon(check, broken)

    assert {broken.name: broken.steps for broken in faults} == {
        broken.name: tuple(step.name for step in reports[broken.name].failures) for broken in faults
    }
    said = {broken.name: reports[broken.name].failures[0].seen for broken in faults}
    assert {} == {broken.name: said[broken.name] for broken in faults if broken.says not in said[broken.name]}


async def test_an_extension_that_hears_late_is_warned(tmp_path: Path) -> None:
    """An extension that answers nothing while it waits for the host, and everything afterwards, gets a warning."""
    report = await check_extension(in_folder(tmp_path / "slow", SLOW_TO_HEAR.source()), seconds=IN_VAIN)

    assert () == report.failures
    assert ["while it waits"] == [step.name for step in report.steps if step.outcome == "warned"]


async def test_what_no_host_does_is_advice(tmp_path: Path) -> None:
    """An extension that fails only at what no host sends follows the protocol, and is told how to be more robust."""
    report = await check_extension(in_folder(tmp_path / "trusting", TRUSTING.source()))

    advice = {step.name: step.seen for step in report.steps if step.outcome == "warned"}
    assert (True, (), TRUSTING.steps) == (report.good, report.failures, tuple(advice))
    assert advice["bad input: a bare null"].startswith("it did not survive this: its process ended")
    assert "no host does this" in advice["bad input: a bare null"]


def test_there_are_enough_of_them() -> None:
    """There are more than twenty faults, each of another name, and each makes another program."""
    assert len(BROKEN) >= 20
    assert len(BROKEN) == len({broken.name for broken in BROKEN}) == len({broken.source() for broken in BROKEN})


def test_a_fault_that_fits_nowhere_is_noticed() -> None:
    """A fault whose place is not in the whole extension is no fault, and says so."""
    with pytest.raises(AssertionError, match="must stand there once"):
        Broken(name="none", place="not there", fault="", steps=(), says="").source()
