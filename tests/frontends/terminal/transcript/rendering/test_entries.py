"""Blocks and entries of extensions."""

from typing import Any

import session_core as sc
from frontends.shared.conversation.blocks import EntryBlock
from frontends.terminal.transcript.rendering.entries import render_block_rows
from tests.frontends.terminal._drawing import LOOK, drawn, texts


def rows(block: dict[str, Any], width: int = 40) -> list[str]:
    """Draw a block of an extension."""
    return texts(render_block_rows(sc.JsonObject(block), width, LOOK))


def entry(said: dict[str, Any], template: dict[str, Any]) -> list[str]:
    """Draw an entry with a template."""
    kept = sc.extensions.ExtensionEntry(extension="notes", entry=sc.JsonObject(said), at=0)
    return drawn(EntryBlock(key="e", entry=kept, template=sc.JsonObject(template)), 40)


def test_every_kind_of_block_is_drawn() -> None:
    """Markdown, pairs, tables, diffs, progress, and stacks and widgets of them."""
    assert rows({"kind": "markdown", "text": "**hi**"}) == ["hi"]
    pairs = [{"key": "name", "value": "x"}, {"key": "n", "value": 3}, {"key": "ok", "value": True}]
    assert rows({"kind": "keyvalue", "title": "About", "rows": pairs}) == ["About", "name  x", "n     3", "ok    yes"]
    assert rows({"kind": "table", "columns": ["a", "b"], "rows": [[1, None], ["x"]]}) == [
        "a │ b",
        "──┼──",
        "1 │ ",
        "x │ ",
    ]
    assert rows({"kind": "diff", "patch": "@@ -1 +1 @@\n-a\n+b"}) == ["1 - a", "1 + b"]
    assert rows({"kind": "progress", "value": 0.5, "label": "half"}) == ["██████░░░░░░░ 50% half"]
    stack = {"kind": "stack", "children": [{"kind": "markdown", "text": "one"}, {"kind": "markdown", "text": "two"}]}
    assert rows(stack) == ["one", "two"]
    assert rows({"kind": "widget", "widget_id": "w", "body": stack}) == ["one", "two"]


def test_a_kind_that_nobody_knows_shows_its_text() -> None:
    """What it brings for frontends like this one is drawn."""
    assert rows({"kind": "hologram", "text": "plain\x1b[2J words"}) == ["plain words"]


def test_an_entry_fills_its_template() -> None:
    """Paths reach into objects and lists; what is not there is empty."""
    template = {
        "kind": "stack",
        "children": [
            {"kind": "markdown", "text": "**{{ title }}** by {{who.0.name}}{{missing}}"},
            {"kind": "progress", "value": "{{share}}"},
        ],
    }
    said = {"tag": "note", "title": "Hi", "who": [{"name": "me"}], "share": 1}
    assert entry(said, template) == ["· notes", "  Hi by me", "  ████████████ 100%"]


def test_stacks_are_bounded() -> None:
    """Very deep and very long ones end with a remark or with nothing, never with an error."""
    deep: dict[str, Any] = {"kind": "markdown", "text": "x"}
    for _ in range(50):
        deep = {"kind": "stack", "children": [deep]}
    assert rows(deep) == [""]
    long = {"kind": "stack", "children": [{"kind": "markdown", "text": "x"}] * 300}
    assert rows(long)[-1] == "… 100 more parts"


def test_nonsense_is_drawn_as_little_as_possible() -> None:
    """Blocks come checked, but a wrong one must not end the screen."""
    for block in (
        {},
        {"kind": 3},
        {"kind": "table"},
        {"kind": "keyvalue", "rows": "x"},
        {"kind": "stack", "children": 1},
    ):
        assert "".join(rows(block)) == ""
    assert rows({"kind": "progress", "value": "soon", "label": "x"}) == ["x"]
