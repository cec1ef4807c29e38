"""The JSON schema of the vocabulary, for authors of clients in other languages.

It is generated from the same classes that the codec reads and writes, and kept in `vocabulary.schema.json` next to this
module, so a change of the wire shows in a review. `python -m session_core.wire.schema` writes the file; with `--check`
it only reports whether the file is up to date.

The schema is a little more lenient than the codec: it cannot forbid `1.0` where an integer is expected, equal keys, or
lone surrogates.
"""

import argparse
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import attrs
import msgspec

from session_core import limits
from session_core.vocabulary.commands import Command
from session_core.vocabulary.events import Event
from session_core.vocabulary.frozen import JsonObject, JsonValue, Rope
from session_core.vocabulary.messages import Part, UserPart
from session_core.wire.catalogue import (
    TAG,
    alternatives,
    is_list,
    is_literal,
    is_optional,
    is_value_class,
    wire_classes,
    wire_fields,
    wire_tag,
    without_none,
)
from session_core.wire.codec import to_json

SCHEMA_FILE = Path(__file__).with_name("vocabulary.schema.json")

Schema = dict[str, Any]

_NAMED_UNIONS: dict[str, Any] = {"Command": Command, "Event": Event, "Part": Part, "UserPart": UserPart}

_PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    Rope: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "minimum": -limits.MAX_INTEGER, "maximum": limits.MAX_INTEGER},
    float: {"type": "number"},
    JsonObject: {"type": "object"},
    JsonValue: {},
}


def vocabulary_schema() -> Schema:
    """Return one schema with a definition per class and per named union; the schema itself accepts any class."""
    definitions = {cls.__name__: _schema_of_class(cls) for cls in wire_classes()}
    unions = {name: _schema_of_alternatives(union) for name, union in _NAMED_UNIONS.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The vocabulary of session-core",
        "description": "Commands, events, replies and snapshots as they travel; the type tells which one it is.",
        "anyOf": [_reference(name) for name in definitions],
        "$defs": definitions | unions,
    }


def schema_text() -> str:
    """Return the schema as the text of its file."""
    compact = msgspec.json.encode(vocabulary_schema())
    return msgspec.json.format(compact, indent=2).decode() + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write or check the schema file; return an exit code."""
    parser = argparse.ArgumentParser(prog="python -m session_core.wire.schema", description="Write the JSON schema.")
    parser.add_argument("--check", action="store_true", help="only check whether the file is up to date")
    parser.add_argument("--file", type=Path, default=SCHEMA_FILE, help="write or check this file instead")
    options = parser.parse_args(arguments)
    file: Path = options.file
    if not options.check:
        file.write_text(schema_text(), encoding="utf-8")
        return 0
    if file.exists() and file.read_text(encoding="utf-8") == schema_text():
        return 0
    sys.stderr.write(f"{file.name} is out of date; run `python -m session_core.wire.schema`\n")
    return 1


def _schema_of_class(cls: type) -> Schema:
    fields = wire_fields(cls)
    required = [TAG, *(field.name for field in fields if field.default is attrs.NOTHING)]
    properties = {TAG: {"const": wire_tag(cls)}} | {field.name: _schema_of_field(field) for field in fields}
    return {
        "description": inspect.cleandoc(cls.__doc__ or ""),
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _schema_of_field(field: "attrs.Attribute[Any]") -> Schema:
    schema = _schema_of(field.type)
    if field.default is attrs.NOTHING:
        return schema
    return schema | {"default": to_json(field.default)}


def _schema_of(hint: Any) -> Schema:
    hint = getattr(hint, "__supertype__", hint)
    for plain, schema in _PLAIN.items():
        if hint == plain:
            return schema
    if is_value_class(hint):
        return _reference(hint.__name__)
    if is_literal(hint):
        return {"enum": list(get_args(hint))}
    if is_list(hint):
        return {"type": "array", "items": _schema_of(get_args(hint)[0])}
    if is_optional(hint):
        return {"anyOf": [_schema_of(without_none(hint)), {"type": "null"}]}
    for name, union in _NAMED_UNIONS.items():
        if alternatives(hint) == alternatives(union):
            return _reference(name)
    return _schema_of_alternatives(hint)


def _schema_of_alternatives(hint: Any) -> Schema:
    return {"oneOf": [_reference(cls.__name__) for cls in alternatives(hint)]}


def _reference(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
