"""Blocks that an extension wants shown: plain data of a few kinds, which each frontend draws in its own way.

An unknown kind is accepted if it has a plain `text` to show instead. In the template of a renderer, `{{path}}` may
stand in place of a number.
"""

from typing import Final, Literal, get_args

from session_core.limits import MAX_SHOWN_CHARS
from session_core.sep.protocol.fields import DocumentFields, InvalidDocumentField, frozen_object
from session_core.vocabulary.frozen import JsonObject
from session_core.wire.error_text import mismatch, quote_text

BlockKind = Literal["markdown", "keyvalue", "table", "diff", "progress", "stack", "widget"]
BLOCK_KINDS: Final[tuple[BlockKind, ...]] = get_args(BlockKind)
MAX_BLOCK_DEPTH: Final = 8
"""The deepest nesting of stacks and widgets; no screen shows more."""
MAX_BLOCK_ITEMS: Final = 1_000
"""Rows, cells of a row, children and keys of one block."""

_MAX_CELL_CHARS: Final = 10_000


def read_render_block(plain: object, path: str = "", *, template: bool = False) -> JsonObject:
    """Check a block all the way down, and return it unchanged.

    Raises:
        InvalidDocumentField: It is not a block that a frontend could show.
    """
    frozen = frozen_object(plain, path, most=MAX_SHOWN_CHARS)
    _check(DocumentFields(plain, path), 0, template=template)
    return frozen


def _check(block: DocumentFields, depth: int, *, template: bool) -> None:
    if depth > MAX_BLOCK_DEPTH:
        raise InvalidDocumentField(block.path, "blocks are nested too deeply")
    kind = block.text("kind")
    fallback = block.text_or_none("text", most=MAX_SHOWN_CHARS, empty=True)
    match kind:
        case "markdown":
            block.text("text", most=MAX_SHOWN_CHARS, empty=True)
        case "keyvalue":
            _check_keyvalue(block)
        case "table":
            _check_table(block)
        case "diff":
            block.text("patch", most=MAX_SHOWN_CHARS, empty=True)
        case "progress":
            _check_progress(block, template=template)
        case "stack":
            for each in block.objects(_required(block, "children"), most=MAX_BLOCK_ITEMS):
                _check(each, depth + 1, template=template)
        case "widget":
            _check_widget(block)
            _check(DocumentFields(block.require("body"), block.field_path("body")), depth + 1, template=template)
        case _ if fallback is None:
            known = ", ".join(BLOCK_KINDS)
            why = f"there is no kind {quote_text(kind)}, and it has no text to show instead; known: {known}"
            raise InvalidDocumentField(block.field_path("kind"), why)
        case _:
            pass


def _check_keyvalue(block: DocumentFields) -> None:
    block.text_or_none("title", most=_MAX_CELL_CHARS, empty=True)
    for row in block.objects(_required(block, "rows"), most=MAX_BLOCK_ITEMS):
        row.text("key", most=_MAX_CELL_CHARS, empty=True)
        _check_cell(row.plain.get("value"), row.field_path("value"))


def _check_table(block: DocumentFields) -> None:
    block.texts(_required(block, "columns"), most=MAX_BLOCK_ITEMS, chars=_MAX_CELL_CHARS, empty=True)
    for row, path in block.items(_required(block, "rows"), most=MAX_BLOCK_ITEMS):
        if not isinstance(row, list):
            raise InvalidDocumentField(path, mismatch("a list", row))
        if len(row) > MAX_BLOCK_ITEMS:
            raise InvalidDocumentField(path, f"has {len(row):,} cells, and the limit is {MAX_BLOCK_ITEMS:,}")
        for number, cell in enumerate(row):
            _check_cell(cell, f"{path}[{number}]")


def _check_progress(block: DocumentFields, *, template: bool) -> None:
    block.text_or_none("label", most=_MAX_CELL_CHARS, empty=True)
    value = block.require("value")
    if not (template and isinstance(value, str) and "{{" in value):
        block.number("value", least=0, most=1)


def _check_widget(block: DocumentFields) -> None:
    block.text("widget_id")
    for binding in block.objects("keybindings", most=MAX_BLOCK_ITEMS):
        binding.text("key")
        binding.text_or_none("description", most=_MAX_CELL_CHARS, empty=True)


def _required(block: DocumentFields, key: str) -> str:
    block.require(key)
    return key


def _check_cell(value: object, path: str) -> None:
    """Check that a cell is a string, a number, a boolean or null."""
    if not isinstance(value, str | int | float | bool | None):
        raise InvalidDocumentField(path, mismatch("text or a number", value))
    if isinstance(value, str) and len(value) > _MAX_CELL_CHARS:
        raise InvalidDocumentField(path, f"is longer than {_MAX_CELL_CHARS:,} characters")
