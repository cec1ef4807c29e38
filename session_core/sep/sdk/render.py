"""Render blocks: plain data that these functions build and each frontend draws in its own way.

Every kind may carry a plain `text` for frontends that do not know it. In the template of a renderer, `{{path}}` in a
text stands for a value of the entry.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

RenderBlock = dict[str, Any]
Cell = str | int | float | bool | None


def markdown(text: str) -> RenderBlock:
    """Text in Markdown."""
    return {"kind": "markdown", "text": text}


def keyvalue(rows: Mapping[str, Cell], *, title: str | None = None, text: str | None = None) -> RenderBlock:
    """Names and values, one pair per line."""
    listed = [{"key": key, "value": value} for key, value in rows.items()]
    return _block("keyvalue", rows=listed, title=title, text=text)


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, text: str | None = None) -> RenderBlock:
    """Rows below their column names."""
    return _block("table", columns=list(columns), rows=[list(row) for row in rows], text=text)


def diff(patch: str, *, text: str | None = None) -> RenderBlock:
    """A change to files, as a unified diff."""
    return _block("diff", patch=patch, text=text)


def progress(value: float | str, *, label: str | None = None, text: str | None = None) -> RenderBlock:
    """Progress from 0 to 1; in templates, a string with `{{path}}` in it."""
    return _block("progress", value=value, label=label, text=text)


def stack(*children: RenderBlock, text: str | None = None) -> RenderBlock:
    """Blocks below each other."""
    return _block("stack", children=list(children), text=text)


def widget(
    widget_id: str, body: RenderBlock, *, keys: Mapping[str, str] | None = None, text: str | None = None
) -> RenderBlock:
    """A block that stays visible and receives keys, each with its effect, such as `{"space": "pause"}`."""
    bindings = [{"key": key, "description": what} for key, what in (keys or {}).items()]
    return _block("widget", widget_id=widget_id, body=body, keybindings=bindings, text=text)


def _block(kind: str, **parts: Any) -> RenderBlock:
    return {"kind": kind} | {name: part for name, part in parts.items() if part is not None}
