"""The result of a check: one step for each thing tried, and the report with all steps."""

from collections import Counter
from collections.abc import Mapping
from typing import Final, Literal

import attrs

StepOutcome = Literal["passed", "warned", "failed", "skipped"]
OUTCOMES: Final[tuple[StepOutcome, ...]] = ("passed", "warned", "failed", "skipped")


@attrs.frozen(kw_only=True)
class ConformanceStep:
    """One thing that was tried.

    Attributes:
        name: What was tried, such as `tool shout: a required argument is missing`.
        expected: What an extension should do, in a sentence.
        seen: What it did; for a fault, also what to change.
    """

    name: str
    outcome: StepOutcome
    expected: str
    seen: str
    milliseconds: int = 0


@attrs.frozen(kw_only=True)
class ConformanceReport:
    """How well an extension conforms to the protocol.

    Attributes:
        target: What was checked: a folder, or a command line.
        name: The name it gives itself, or that of its manifest; empty if neither is known.
        stderr: The last lines it wrote to stderr.
    """

    target: str
    name: str = ""
    version: str = ""
    steps: tuple[ConformanceStep, ...] = ()
    stderr: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """Whether nothing failed; there may be warnings."""
        return all(step.outcome != "failed" for step in self.steps)

    @property
    def counts(self) -> Mapping[StepOutcome, int]:
        """The number of steps per outcome."""
        found = Counter(step.outcome for step in self.steps)
        return {outcome: found[outcome] for outcome in OUTCOMES}

    @property
    def failures(self) -> tuple[ConformanceStep, ...]:
        """The steps that failed."""
        return tuple(step for step in self.steps if step.outcome == "failed")
