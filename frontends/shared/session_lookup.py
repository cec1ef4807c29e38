"""Finds a session by what was typed: the beginning or the end of an id, or a name.

Rules:
1. A session matches by its whole id, by at least 4 characters at the start or end of the id (with or without `ses_`,
   in any case), or by its exact name. For example, `7k2f` matches `ses_...7k2f`.
2. The match must be unique: anything that fits several sessions, in whatever way, is rejected with a list of them.
   Only a whole id is always unambiguous.
3. Ids begin with a time, so new ones begin alike but end differently. The short form is therefore the shortest end
   that rule 2 currently accepts.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import session_core as sc
from frontends.shared.figures import format_path
from frontends.shared.home import format_command
from frontends.shared.parser import UsageError
from frontends.shared.sanitise import one_line

SHORTEST = 4
_KIND = "ses_"
_MOST_CANDIDATES = 10


def find_session(typed: str, sessions: Sequence[sc.SessionSummary], home: Path | None = None) -> sc.SessionSummary:
    """Return the one session that matches; `home` is for commands in advice.

    Raises:
        UsageError: None or several match; the candidates are named.
    """
    fitting = [each for each in sessions if _matches_session(typed, each)]
    exact = [each for each in fitting if each.session_id == typed]
    if len(exact or fitting) == 1:
        return (exact or fitting)[0]
    safe_text = one_line(typed, 60)
    if fitting and all(each.name == typed for each in fitting):
        ids = short_ids(sessions)
        raise UsageError(
            f"{len(fitting)} sessions are called {safe_text!r}; use an id", details=_candidates(fitting, ids)
        )
    # Whole ids, as the short forms would not show where the typed text matches.
    if fitting:
        whole = {each.session_id: str(each.session_id) for each in fitting}
        raise UsageError(
            f"{safe_text!r} matches {len(fitting)} sessions; type more of the one you mean",
            details=_candidates(fitting, whole),
        )
    if 0 < len(_body(typed)) < SHORTEST:
        raise UsageError(f"there is no session {safe_text!r}; of an id, type at least {SHORTEST} characters")
    raise UsageError(f"there is no session {safe_text!r} (see: {format_command(home, 'sessions', '--all')})")


def newest_first(sessions: Sequence[sc.SessionSummary]) -> list[sc.SessionSummary]:
    """Sort sessions, last used first."""
    return sorted(sessions, key=lambda each: (each.updated_at, each.session_id), reverse=True)


def last_used(sessions: Sequence[sc.SessionSummary], directory: str, home: Path | None = None) -> sc.SessionSummary:
    """Return the last used session of a directory, or if it has none, of the nearest directory above it.

    Archived sessions and those of other agents do not count. A folder's own sessions come first, however old: work
    elsewhere beneath the same root must not get in between.

    Raises:
        UsageError: There is none.
    """
    here = Path(os.path.realpath(directory))
    newest: dict[str, sc.SessionSummary] = {}
    for summary in newest_first(sessions):
        if not summary.archived and summary.parent_id is None:
            newest.setdefault(os.path.realpath(summary.cwd), summary)
    for each in (here, *here.parents):
        if str(each) in newest:
            return newest[str(each)]
    see = format_command(home, "sessions", "")
    raise UsageError(f"there is no session in {format_path(directory)!r} or a folder above it (see: {see})")


def find_or_last_used(
    typed: str | None, sessions: Sequence[sc.SessionSummary], directory: str, home: Path | None = None
) -> sc.SessionSummary:
    """Return the session that matches, or if nothing was typed, the last used one of a directory.

    Raises:
        UsageError: There is none, or several match.
    """
    return last_used(sessions, directory, home) if typed is None else find_session(typed, sessions, home)


def find_all(
    typed: Sequence[str], sessions: Sequence[sc.SessionSummary], home: Path | None = None
) -> list[sc.SessionSummary]:
    """Return the sessions that match, without duplicates, in the order typed."""
    return list({found.session_id: found for found in (find_session(each, sessions, home) for each in typed)}.values())


def _matches_session(typed: str, summary: sc.SessionSummary) -> bool:
    part, body = _body(typed), _body(summary.session_id)
    at_an_end = body.startswith(part) or (body.endswith(part) and not _names_kind(typed))
    return typed in {summary.session_id, summary.name} or (len(part) >= SHORTEST and at_an_end)


def _names_kind(typed: str) -> bool:
    """Return whether the typed text begins as ids do and so cannot be the end of one."""
    return typed.lower().startswith(_KIND)


def _body(session_id: str) -> str:
    return session_id.lower().removeprefix(_KIND)


def _candidates(fitting: Sequence[sc.SessionSummary], ids: Mapping[sc.SessionId, str]) -> tuple[str, ...]:
    newest = sorted(fitting, key=lambda each: each.updated_at, reverse=True)
    lines = [f"{ids[each.session_id]}  {one_line(each.name, 40)}" for each in newest[:_MOST_CANDIDATES]]
    left_out = len(newest) - len(lines)
    return (*lines, *([f"and {left_out} more"] if left_out else []))


def short_ids(sessions: Sequence[sc.SessionSummary]) -> Mapping[sc.SessionId, str]:
    """Return the shortest unambiguous end of each session's id, or the whole id; safe to print."""
    bodies = {each.session_id: _body(each.session_id) for each in sessions}
    names = {each.name.lower() for each in sessions}
    shortened: dict[sc.SessionId, str] = {}
    waiting = list(bodies)
    for length in range(SHORTEST, max(map(len, bodies.values()), default=0)):
        if not waiting:
            break
        starts = Counter(body[:length] for body in bodies.values())
        ends = Counter(body[-length:] for body in bodies.values())
        for session_id in waiting:
            body = bodies[session_id]
            end = body[-length:]
            by_start = starts[end] - (body[:length] == end)
            doubtful = ends[end] > 1 or by_start or end in names or _names_kind(end)
            if len(body) > length and not doubtful:
                shortened[session_id] = end
        waiting = [each for each in waiting if each not in shortened]
    return {each: one_line(shortened.get(each, each), len(each)) for each in bodies}  # imported ids may be odd


def short_id(session_id: sc.SessionId, sessions: Sequence[sc.SessionSummary]) -> str:
    """Return the shortest form of one id."""
    return short_ids(sessions).get(session_id, session_id)
