"""Blocks to show are checked all the way down before any frontend meets them."""

from typing import Any

import pytest

from session_core.sep.protocol.fields import InvalidDocumentField
from session_core.sep.protocol.render_blocks import BLOCK_KINDS, MAX_BLOCK_DEPTH, read_render_block
from session_core.vocabulary.frozen import thaw_json

TEXT: dict[str, Any] = {"kind": "markdown", "text": "*hello*"}
GOOD: list[dict[str, Any]] = [
    TEXT,
    {"kind": "keyvalue", "title": "Stock", "rows": [{"key": "seeds", "value": "few"}, {"key": "pots", "value": 3}]},
    {"kind": "table", "columns": ["a", "b"], "rows": [["x", 1.5], [None, True]], "text": "a b"},
    {"kind": "diff", "patch": "-a\n+b"},
    {"kind": "progress", "value": 0.5, "label": "half"},
    {"kind": "progress", "value": 1},
    {"kind": "stack", "children": [TEXT, {"kind": "stack", "children": []}]},
    {"kind": "widget", "widget_id": "w", "body": TEXT, "keybindings": [{"key": "q", "description": "quit"}]},
    {"kind": "hologram", "text": "plain"},
]


def stacked(levels: int) -> dict[str, Any]:
    block: dict[str, Any] = TEXT
    for _ in range(levels):
        block = {"kind": "stack", "children": [block]}
    return block


def test_every_kind_has_a_good_example() -> None:
    """The examples below leave no kind out."""
    assert set(BLOCK_KINDS) < {block["kind"] for block in GOOD}


@pytest.mark.parametrize("block", GOOD, ids=lambda block: block["kind"])
def test_good_blocks_pass_unchanged(block: dict[str, Any]) -> None:
    """A block of any kind comes back as it was given, also as a template, and unknown keys stay."""
    given = {**block, "colour": "red"}
    assert given == thaw_json(read_render_block(given))
    assert given == thaw_json(read_render_block(given, template=True))


@pytest.mark.parametrize(
    ("block", "path"),
    [
        (None, "w"),
        ([], "w"),
        ({}, "w.kind"),
        ({"kind": 3}, "w.kind"),
        ({"kind": "hologram"}, "w.kind"),
        ({"kind": "markdown"}, "w.text"),
        ({"kind": "markdown", "text": 3}, "w.text"),
        ({"kind": "diff"}, "w.patch"),
        ({"kind": "keyvalue"}, "w.rows"),
        ({"kind": "keyvalue", "rows": [[]]}, "w.rows[0]"),
        ({"kind": "keyvalue", "rows": [{"value": ""}]}, "w.rows[0].key"),
        ({"kind": "keyvalue", "rows": [{"key": "a", "value": []}]}, "w.rows[0].value"),
        ({"kind": "keyvalue", "rows": [{"key": "a", "value": 20_000 * "x"}]}, "w.rows[0].value"),
        ({"kind": "table", "rows": []}, "w.columns"),
        ({"kind": "table", "columns": []}, "w.rows"),
        ({"kind": "table", "columns": [], "rows": ["x"]}, "w.rows[0]"),
        ({"kind": "table", "columns": [], "rows": [["x", {}]]}, "w.rows[0][1]"),
        ({"kind": "table", "columns": [], "rows": [2_000 * [""]]}, "w.rows[0]"),
        ({"kind": "progress"}, "w.value"),
        ({"kind": "progress", "value": 1.1}, "w.value"),
        ({"kind": "progress", "value": True}, "w.value"),
        ({"kind": "progress", "value": "{{done}}"}, "w.value"),
        ({"kind": "stack"}, "w.children"),
        ({"kind": "stack", "children": [TEXT, {"kind": "x"}]}, "w.children[1].kind"),
        ({"kind": "stack", "children": 1_001 * [TEXT]}, "w.children"),
        ({"kind": "widget", "body": TEXT}, "w.widget_id"),
        ({"kind": "widget", "widget_id": "w"}, "w.body"),
        ({"kind": "widget", "widget_id": "w", "body": {"kind": "diff"}}, "w.body.patch"),
        ({"kind": "widget", "widget_id": "w", "body": TEXT, "keybindings": [{}]}, "w.keybindings[0].key"),
        ({"kind": "markdown", "text": "", "more": float("inf")}, "w.more"),
        ({"kind": "markdown", "text": "", "more": 11 * [10_000 * "x"]}, "w"),
        (stacked(MAX_BLOCK_DEPTH + 1), "w" + (MAX_BLOCK_DEPTH + 1) * ".children[0]"),
    ],
)
def test_bad_blocks_are_refused_with_the_place(block: object, path: str) -> None:
    """What no frontend could show is refused, and the error leads to it."""
    with pytest.raises(InvalidDocumentField) as caught:
        read_render_block(block, "w")
    assert path == caught.value.path


def test_a_template_may_fill_in_numbers() -> None:
    """In a template a placeholder stands for a number, and other text does not."""
    block = {"kind": "progress", "value": "{{done}}"}
    assert block == thaw_json(read_render_block(block, template=True))
    with pytest.raises(InvalidDocumentField):
        read_render_block({"kind": "progress", "value": "much"}, template=True)


def test_blocks_may_be_nested_up_to_the_bound() -> None:
    """The deepest stack that is allowed passes."""
    assert stacked(MAX_BLOCK_DEPTH) == thaw_json(read_render_block(stacked(MAX_BLOCK_DEPTH)))
