"""Unified diffs with line numbers; changed words within a line are stressed."""

import re
from collections.abc import Iterator
from typing import Final, Literal

import attrs
from textual.strip import Strip

from frontends.terminal.look.sanitised_text import sanitise_text
from frontends.terminal.look.styles import Look
from frontends.terminal.transcript.rendering.lines import MOST_ROWS, WHOLE_CHARS, Span, cut_row, omission, wrap

SHORT: Final = 14
"""Lines of a collapsed diff."""
_HUNK: Final = re.compile(r"@@ -(\d{1,9})(?:,\d{1,9})? \+(\d{1,9})(?:,\d{1,9})? @@")
_LINE_ROWS: Final = 40
_PAIRS: Final = 20
"""The most lines removed and added in one place that are compared with each other."""

Kind = Literal["added", "removed", "same", "remark", "between"]


@attrs.define
class _DiffLine:
    kind: Kind
    text: str
    number: int | None = None
    stressed: tuple[int, int] | None = None


def diff_rows(patch: str, width: int, look: Look, *, expanded: bool) -> list[Strip]:
    """Draw a diff; collapsed, its first lines and the number of the rest."""
    whole, patch = len(patch), patch[:WHOLE_CHARS]
    lines = list(_read(patch))
    visible_lines = lines if expanded or len(lines) <= SHORT + 1 else lines[:SHORT]
    visible_lines = visible_lines[:MOST_ROWS]
    _stress(visible_lines)
    digits = len(str(max((line.number or 0 for line in visible_lines), default=0)))
    rows = [row for line in visible_lines for row in _draw_line(line, digits, width, look)]
    rows += omission(len(lines) - len(visible_lines), look, width)
    return rows + omission(whole - len(patch), look, width, noun="character")


def _read(patch: str) -> Iterator[_DiffLine]:
    old = new = 0
    hunks = 0
    for raw in sanitise_text(patch).rstrip("\n").split("\n"):
        head = _HUNK.match(raw)
        if head is not None:
            old, new = int(head[1]), int(head[2])
            if hunks:
                yield _DiffLine("between", "")
            hunks += 1
        elif not hunks:
            if not raw.startswith(("--- ", "+++ ")):
                yield _DiffLine("remark", raw)
        elif raw.startswith("+"):
            yield _DiffLine("added", raw[1:], new)
            new += 1
        elif raw.startswith("-"):
            yield _DiffLine("removed", raw[1:], old)
            old += 1
        elif raw.startswith(" ") or not raw:
            yield _DiffLine("same", raw[1:], new)
            old, new = old + 1, new + 1
        elif raw.startswith("\\"):
            yield _DiffLine("remark", raw[1:].strip().lower())
        else:
            yield _DiffLine("remark", raw)


def _stress(lines: list[_DiffLine]) -> None:
    """Find the changed words where as many lines were added as were removed just before."""
    place = 0
    while place < len(lines):
        removed = _run(lines, place, "removed")
        added = _run(lines, place + removed, "added")
        if 0 < removed == added <= _PAIRS:
            for number in range(removed):
                before, after = lines[place + number], lines[place + removed + number]
                before.stressed, after.stressed = _find_difference(before.text, after.text)
        place += max(1, removed + added)


def _run(lines: list[_DiffLine], start: int, kind: Kind) -> int:
    count = 0
    while start + count < len(lines) and lines[start + count].kind == kind:
        count += 1
    return count


def _find_difference(old: str, new: str) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """Return where two lines differ; None where they have too little in common for it to help."""
    shorter = min(len(old), len(new))
    head = next((index for index in range(shorter) if old[index] != new[index]), shorter)
    tail = next((index for index in range(shorter - head) if old[-1 - index] != new[-1 - index]), shorter - head)
    if len(old[:head].strip()) + len(old[len(old) - tail :].strip()) < 4:
        return None, None
    return (head, len(old) - tail), (head, len(new) - tail)


def _draw_line(line: _DiffLine, digits: int, width: int, look: Look) -> list[Strip]:
    number = str(line.number) if line.number is not None else ""
    gutter: Span = (f"{number:>{digits}} ", look.dim)
    empty: Span = (" " * (digits + 3), look.dim)
    match line.kind:
        case "added":
            return _draw_marked_line(line, gutter, ("+ ", look.added), width, look)
        case "removed":
            return _draw_marked_line(line, gutter, ("- ", look.removed), width, look)
        case "same":
            return _draw_marked_line(line, gutter, ("  ", look.text), width, look)
        case "between":
            return [cut_row([(f"{'':>{digits}} {look.glyph('more')}", look.dim)], width)]
        case "remark":
            return wrap([(line.text, look.dim)], width, first=[empty], most=_LINE_ROWS)


def _draw_marked_line(line: _DiffLine, gutter: Span, mark: Span, width: int, look: Look) -> list[Strip]:
    style = mark[1]
    spans: list[Span] = [(line.text, style)]
    if line.stressed is not None and line.stressed[0] < line.stressed[1]:
        start, stop = line.stressed
        text = line.text
        spans = [(text[:start], style), (text[start:stop], style + look.changed), (text[stop:], style)]
    rest: Span = (" " * (len(gutter[0]) + 2), look.dim)
    return wrap(spans, width, first=[gutter, mark], rest=[rest], words=False, most=_LINE_ROWS)
