"""Lists of sessions and of search results as lines for a terminal. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import session_core as sc
from frontends.shared.activity_words import paint_activity, state_word
from frontends.shared.figures import format_ago, format_path
from frontends.shared.sanitise import one_line
from frontends.shared.session_lookup import newest_first
from frontends.shared.style import Style
from frontends.shared.text_width import Column, cut, pad, table, text_width

_COLUMNS = (
    Column(title="ID"),
    Column(title="STATE"),
    Column(title="USED"),
    Column(title="NAME", share=3, least=12),
    Column(title="FOLDER", share=2, least=9, from_end=True),
)
_STATE = 1
_ROLES: Mapping[str, str] = {"user": "you", "assistant": "model", "tool": "tool", "summary": "summary"}
_NAME_CHARS = 200
_EXCERPT_CHARS = 400

ShortIds = Mapping[sc.SessionId, str]


def session_lines(
    style: Style, sessions: Sequence[sc.SessionSummary], ids: ShortIds, *, now: int, width: int
) -> list[str]:
    """Return a table with one line per session, none wider than `width`."""
    rows = [
        (
            ids[each.session_id],
            state_word(each),
            format_ago(each.updated_at, now),
            one_line(each.name, _NAME_CHARS),
            one_line(format_path(each.cwd), _NAME_CHARS),
        )
        for each in sessions
    ]

    def paint(row: int, column: int, text: str) -> str:
        if row < 0:
            return style.dim(text)
        if column == _STATE:
            each = sessions[row]
            return style.dim(text) if each.archived else paint_activity(style, each.activity, text)
        return style.cyan(text) if column == 0 else text if column == 3 else style.dim(text)

    return table(_COLUMNS, rows, width, paint, style.symbol("…"))


def find_named_sessions(sessions: Sequence[sc.SessionSummary], words: Sequence[str]) -> list[sc.SessionSummary]:
    """Return the sessions whose name has a word beginning with each of these words, last used first."""
    patterns = [re.compile(rf"(?<!\w){re.escape(word)}", re.IGNORECASE) for word in words]
    return [each for each in newest_first(sessions) if all(pattern.search(each.name) for pattern in patterns)]


def hit_lines(
    style: Style,
    hits: Sequence[sc.replies.SearchHit],
    sessions: Mapping[sc.SessionId, sc.SessionSummary],
    ids: ShortIds,
    words: Sequence[str],
    *,
    named: Sequence[sc.SessionSummary] = (),
    now: int,
    width: int,
) -> list[str]:
    """Return the search results, best first, grouped by session, with the words in context.

    Sessions matched by name (`named`) come first, even without a message to show.
    """
    by_session: dict[sc.SessionId, list[sc.replies.SearchHit]] = {each.session_id: [] for each in named}
    for hit in hits:
        by_session.setdefault(hit.session_id, []).append(hit)
    lines: list[str] = []
    margin = max((text_width(ids.get(each, each)) for each in by_session), default=0) + 2
    more = style.symbol("…")
    for session_id, found in by_session.items():
        summary = sessions.get(session_id)
        archived = " (archived)" if summary is not None and summary.archived else ""
        used_at = found[0].created_at if found else summary.updated_at if summary is not None else now
        tail = f"  {format_ago(used_at, now)}{archived}"
        called = summary.name if summary is not None else found[0].session_name
        name = cut(one_line(called, _NAME_CHARS), max(8, width - margin - len(tail)), more=more)
        lines.append(f"{style.cyan(pad(ids.get(session_id, session_id), margin))}{style.bold(name)}{style.dim(tail)}")
        for hit in found:
            who = f"{' ' * margin}{_ROLES.get(hit.role, hit.role)}: "
            excerpt = cut(one_line(hit.excerpt, _EXCERPT_CHARS), max(8, width - len(who)), more=more)
            lines.append(style.dim(who) + _stress(style, excerpt, words))
    return lines


def _stress(style: Style, text: str, words: Sequence[str]) -> str:
    if not style.colours or not words:
        return text
    pattern = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return re.sub(pattern, lambda found: style.yellow(found[0]), text, flags=re.IGNORECASE)
