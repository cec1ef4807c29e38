"""What a check has to say."""

from typing import Literal

import attrs

State = Literal["ok", "warning", "problem"]


@attrs.frozen(kw_only=True)
class DoctorFinding:
    """One line of the report: what was looked at, how it is, and what to do about it.

    A `problem` keeps something from working; a `warning` is worth knowing.
    """

    area: str
    state: State
    what: str
    hint: str = ""


def ok(area: str, what: str) -> DoctorFinding:
    """Say that something is as it should be."""
    return DoctorFinding(area=area, state="ok", what=what)


def warning(area: str, what: str, hint: str = "") -> DoctorFinding:
    """Say that something is worth knowing."""
    return DoctorFinding(area=area, state="warning", what=what, hint=hint)


def problem(area: str, what: str, hint: str = "") -> DoctorFinding:
    """Say that something does not work."""
    return DoctorFinding(area=area, state="problem", what=what, hint=hint)
