"""Blocks that extensions describe: Markdown, pairs, tables, diffs, progress, stacks; and entries by their template."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from textual.strip import Strip

import session_core as sc
from frontends.terminal.look.sanitised_text import sanitise_line
from frontends.terminal.look.styles import Look
from frontends.terminal.look.text_width import width_of
from frontends.terminal.transcript.rendering.diffs import diff_rows
from frontends.terminal.transcript.rendering.lines import (
    Span,
    cut_row,
    cut_spans,
    indent_rows,
    indented_width,
    limit_rows,
    omission,
    spans_width,
    wrap,
)
from frontends.terminal.transcript.rendering.markdown import markdown
from frontends.terminal.transcript.rendering.tables import table

_MOST_DEPTH: Final = 8
_MOST_BLOCKS: Final = 200
_MOST_PAIRS: Final = 1_000
_CELL_CHARS: Final = 2_000
_VALUE_CHARS: Final = 20_000
_PLACE: Final = re.compile(r"\{\{\s*([^{}]{1,200}?)\s*\}\}")


def entry_rows(entry: sc.extensions.ExtensionEntry, template: sc.JsonObject, width: int, look: Look) -> list[Strip]:
    """Draw an entry of an extension by its template."""
    block = _fill_template(template, entry.entry, 0)
    head = cut_row([(f"{look.glyph('dot')} {sanitise_line(entry.extension, 60)}", look.accent)], width)
    rows = render_block_rows(block, indented_width(width), look)
    return limit_rows([head, *indent_rows(rows, width)], look, width)


def render_block_rows(block: Mapping[str, object], width: int, look: Look, *, depth: int = 0) -> list[Strip]:
    """Draw a block; for an unknown kind, its fallback text."""
    match block.get("kind"):
        case "markdown":
            return markdown(_text(block.get("text"), _VALUE_CHARS), width, look)
        case "keyvalue":
            return _pairs(block, width, look)
        case "table":
            return _table(block, width, look)
        case "diff":
            return diff_rows(_text(block.get("patch"), _VALUE_CHARS), width, look, expanded=True)
        case "progress":
            return [_progress(block, width, look)]
        case "stack" if depth < _MOST_DEPTH:
            children = [each for each in _items(block.get("children")) if isinstance(each, Mapping)]
            rows = [
                row for each in children[:_MOST_BLOCKS] for row in render_block_rows(each, width, look, depth=depth + 1)
            ]
            return limit_rows([*rows, *omission(len(children) - _MOST_BLOCKS, look, width, noun="part")], look, width)
        case "widget" if depth < _MOST_DEPTH and isinstance(body := block.get("body"), Mapping):
            return render_block_rows(body, width, look, depth=depth + 1)
        case _:
            return wrap([(sanitise_line(_text(block.get("text"), _CELL_CHARS)), look.text)], width)


def _pairs(block: Mapping[str, object], width: int, look: Look) -> list[Strip]:
    rows: list[Strip] = []
    title = sanitise_line(_text(block.get("title"), _CELL_CHARS))
    if title:
        rows += wrap([(title, look.text + look.strong)], width)
    pairs = [each for each in _items(block.get("rows")) if isinstance(each, Mapping)][:_MOST_PAIRS]
    names = [sanitise_line(_text(each.get("key"), _CELL_CHARS)) for each in pairs]
    column = min(max(map(width_of, names), default=0), max(4, width // 3))
    for name, each in zip(names, pairs, strict=True):
        value = sanitise_line(_text(each.get("value"), _CELL_CHARS))
        label = cut_spans([(name, look.dim)], column)
        space: Span = (" " * (column - spans_width(label) + 2), look.dim)
        rows += wrap([(value, look.text)], width, first=[*label, space])
    return rows


def _table(block: Mapping[str, object], width: int, look: Look) -> list[Strip]:
    def cell(value: object) -> list[Span]:
        return [(sanitise_line(_text(value, _CELL_CHARS)), look.text)]

    head = [cell(each) for each in _items(block.get("columns"))]
    body = [[cell(each) for each in _items(row)] for row in _items(block.get("rows"))]
    return table(head, body, width, look)


def _progress(block: Mapping[str, object], width: int, look: Look) -> Strip:
    share = _share(block.get("value"))
    label = sanitise_line(_text(block.get("label"), _CELL_CHARS))
    if share is None:
        return cut_row([(label or look.glyph("more"), look.text)], width)
    length = max(1, min(20, width // 3))
    full = round(share * length)
    bar = [(look.glyph("full") * full, look.accent), (look.glyph("empty") * (length - full), look.dim)]
    return cut_row([*bar, (f" {share:.0%}", look.text), (f" {label}" if label else "", look.dim)], width)


def _share(value: object) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return min(1.0, max(0.0, float(value))) if value == value else None  # noqa: PLR0124 - NaN is not a fraction


def _items(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else ()


def _text(value: object, most: int) -> str:
    match value:
        case None:
            return ""
        case str():
            return value if len(value) <= most else f"{value[:most]}…"
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return str(value)
        case _:
            return "…"


# --- templates --------------------------------------------------------------------------------------------------------


def _fill_template(template: sc.JsonObject, entry: sc.JsonObject, depth: int) -> dict[str, object]:
    """Fill an entry's values into a template: `{{path}}` stands for a value, with dots for nested ones."""
    return {key: _fill(value, entry, depth) for key, value in template.items()}


def _fill(value: sc.JsonValue, entry: sc.JsonObject, depth: int) -> object:
    if isinstance(value, str):
        return _PLACE.sub(lambda place: _text(_look_up(entry, place[1]), _VALUE_CHARS), value)
    if depth > 2 * _MOST_DEPTH:
        return None
    if isinstance(value, sc.JsonObject):
        return _fill_template(value, entry, depth + 1)
    if isinstance(value, tuple):
        return tuple(_fill(each, entry, depth + 1) for each in value)
    return value


def _look_up(entry: sc.JsonObject, path: str) -> object:
    value: object = entry
    for name in path.split("."):
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, tuple) and name.isdecimal() and int(name[:9]) < len(value):
            value = value[int(name[:9])]
        else:
            return None
    return value
