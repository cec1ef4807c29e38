"""The display order of sessions: by folder, newest first, subagents beneath their parents. Pure.

The order does not depend on activity: a session that the user is about to choose or stop stays in place.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

import session_core as sc

DEEPEST: Final = 8
"""The deepest indentation; subagents nested deeper are shown at this depth."""


@attrs.frozen(kw_only=True)
class FamilyRow:
    """One session in the list; `depth` is 0 for sessions without a parent."""

    summary: sc.SessionSummary
    depth: int


@attrs.frozen(kw_only=True)
class FolderRows:
    """The sessions of one folder."""

    folder: str
    rows: tuple[FamilyRow, ...]


def group_by_folder(sessions: Iterable[sc.SessionSummary], *, here: str, query: str = "") -> list[FolderRows]:
    """Arrange the sessions: the folder `here` first, the others by their newest session; archived ones are left out.

    With a `query`, only sessions whose name, id or folder contains all its words, and their parents.
    """
    known = {each.session_id: each for each in sessions if not each.archived}
    displayed = _filter_sessions(known, query.lower().split())
    children: dict[sc.SessionId | None, list[sc.SessionSummary]] = {}
    for each in displayed.values():
        parent = each.parent_id if each.parent_id in displayed else None
        children.setdefault(parent, []).append(each)
    for siblings in children.values():
        siblings.sort(key=lambda each: each.created_at, reverse=True)
    folders: dict[str, list[FamilyRow]] = {}
    for root in children.get(None, ()):
        folders.setdefault(root.cwd, []).extend(_family(root, children))
    order = sorted(folders, key=lambda folder: folder != here)  # stable: the others stay by their newest session
    return [FolderRows(folder=folder, rows=tuple(folders[folder])) for folder in order]


def matches_words(summary: sc.SessionSummary, words: Iterable[str]) -> bool:
    """Return whether the name, id or folder of a session contains all of these lowercase words."""
    text = f"{summary.name} {summary.session_id} {summary.cwd}".lower()
    return all(word in text for word in words)


def _filter_sessions(
    known: dict[sc.SessionId, sc.SessionSummary], words: list[str]
) -> dict[sc.SessionId, sc.SessionSummary]:
    if not words:
        return known
    wanted: set[sc.SessionId] = set()
    for each in known.values():
        if matches_words(each, words):
            ancestor_id: sc.SessionId | None = each.session_id
            while ancestor_id is not None and ancestor_id in known and ancestor_id not in wanted:
                wanted.add(ancestor_id)
                ancestor_id = known[ancestor_id].parent_id
    return {session_id: each for session_id, each in known.items() if session_id in wanted}


def _family(
    root: sc.SessionSummary, children: dict[sc.SessionId | None, list[sc.SessionSummary]]
) -> Iterable[FamilyRow]:
    waiting = [(root, 0)]
    seen: set[sc.SessionId] = set()
    while waiting:
        each, depth = waiting.pop()
        if each.session_id in seen:
            continue
        seen.add(each.session_id)
        yield FamilyRow(summary=each, depth=min(depth, DEEPEST))
        waiting.extend((child, depth + 1) for child in reversed(children.get(each.session_id, ())))
