"""What a check of a store reports."""

import re
from collections.abc import Callable
from typing import Literal

import attrs

from session_core.ids import SessionId

Progress = Callable[[str], None]
"""Receives descriptions of the current step."""

REBUILD = "make a copy of the home, then run `session-core store rebuild`: it saves what can still be read"
REBUILD_DERIVED = "run `session-core store rebuild`: nothing is lost; it is derived from the records"
LOG_CUT_OFF = "the end of the write-ahead log is damaged or was cut off by a power loss: later changes are ignored"
LEAVES_MISSING = "parts of its saved code state are missing"
MAX_FINDINGS = 1_000


_ADVICE = re.compile(r"(?:try|run|move|update|put|choose) |.*`session-core ")


def strip_advice(message: str) -> str:
    """Return the fault from an error message without its advice: a finding has its own advice."""
    first, *clauses = re.split(r"(?<=[;.]) ", message)
    retained = [first]
    for clause in clauses:
        if _ADVICE.match(clause):
            break
        retained.append(clause)
    return " ".join(retained).rstrip(";.") if len(retained) <= len(clauses) else message


@attrs.frozen(kw_only=True)
class StoreFinding:
    """A fault; with a session id it concerns that session alone."""

    severity: Literal["error", "warning"]
    session_id: SessionId | None
    what: str
    advice: str


@attrs.frozen(kw_only=True)
class VerifyReport:
    """What was read, and what was found."""

    sessions: int
    events: int
    blobs: int
    bytes: int
    findings: tuple[StoreFinding, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return all(finding.severity != "error" for finding in self.findings)


@attrs.define(kw_only=True)
class StoreFindings:
    """A report in the making."""

    found: list[StoreFinding] = attrs.field(factory=list)
    sessions: int = 0
    events: int = 0
    blobs: int = 0

    def add_error(self, what: str, advice: str = REBUILD, *, session_id: SessionId | None = None) -> None:
        """Note that something is wrong."""
        self._note(StoreFinding(severity="error", session_id=session_id, what=what, advice=advice))

    def add_warning(self, what: str, advice: str, *, session_id: SessionId | None = None) -> None:
        """Note that something is odd but harmless."""
        self._note(StoreFinding(severity="warning", session_id=session_id, what=what, advice=advice))

    def _note(self, finding: StoreFinding) -> None:
        finding = attrs.evolve(finding, what=strip_advice(finding.what))
        if len(self.found) < MAX_FINDINGS and finding not in self.found:
            self.found.append(finding)

    def build_report(self, size: int) -> VerifyReport:
        """Build the final report."""
        return VerifyReport(
            sessions=self.sessions, events=self.events, blobs=self.blobs, bytes=size, findings=tuple(self.found)
        )


def ignore_progress(_: str) -> None:
    """Ignore progress."""
