"""The result of a check."""

from typing import Literal

import attrs

State = Literal["ok", "warning", "problem"]


@attrs.frozen(kw_only=True)
class DoctorFinding:
    """One line of the report: the area, its state, and what to do about it.

    A `problem` keeps something from working; a `warning` is worth knowing.
    """

    area: str
    state: State
    what: str
    hint: str = ""


def ok(area: str, what: str) -> DoctorFinding:
    """Return a finding that all is well."""
    return DoctorFinding(area=area, state="ok", what=what)


def warning(area: str, what: str, hint: str = "") -> DoctorFinding:
    """Return a finding that is worth knowing."""
    return DoctorFinding(area=area, state="warning", what=what, hint=hint)


def problem(area: str, what: str, hint: str = "") -> DoctorFinding:
    """Return a finding that something does not work."""
    return DoctorFinding(area=area, state="problem", what=what, hint=hint)
