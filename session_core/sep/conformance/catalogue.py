"""The schemas of the protocol by method, and plain descriptions of what is wrong with a value.

The files are read, and the validator is imported, when the first value is checked.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import attrs

from session_core.wire.error_text import child_path
from session_core.wire.json_schema import shorten_text

if TYPE_CHECKING:
    import jsonschema_rs

Sender = Literal["host", "extension", "both"]
MethodKind = Literal["request", "notification", "either"]
Part = Literal["params", "result"]

FOLDER: Final = Path(__file__).with_name("schemas")
FIXTURES: Final = Path(__file__).with_name("fixtures")
_BASE: Final = "sep:///"
_MAX_UNKNOWN: Final = 20
_MAX_DEPTH: Final = 32


@attrs.frozen(kw_only=True)
class Method:
    """One method; `file` is the name of its schema without the extension."""

    name: str
    sent_by: Sender
    kind: MethodKind
    file: str
    has_result: bool


@cache
def documents() -> Mapping[str, dict[str, Any]]:
    """Return all schemas by file name."""
    return {path.name: json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.json"))}


@cache
def methods() -> Mapping[str, Method]:
    """Return all methods by name."""
    found: dict[str, Method] = {}
    for file, document in documents().items():
        if (about := document.get("x-sep")) is not None:
            sent_by, kind = about["sent_by"], about["kind"]
            assert sent_by in get_args(Sender)
            assert kind in get_args(MethodKind)
            found[about["method"]] = Method(
                name=about["method"],
                sent_by=sent_by,
                kind=kind,
                file=file.removesuffix(".json"),
                has_result="result" in document["$defs"],
            )
    return found


def fault_of(method: str, part: Part, value: object) -> str | None:
    """Describe what is wrong with the params or the result of a method; None if nothing is."""
    return fault_at(f"{methods()[method].file}.json", part, value)


def fault_at(file: str, definition: str, value: object) -> str | None:
    """Describe how a value violates one definition of a file; None if it fits."""
    try:
        for error in _validator(file, definition).iter_errors(value):
            return _format_error(error)
    except ValueError as error:  # an unpaired surrogate
        return f"it cannot be checked: {shorten_text(str(error))}"
    return None


def unknown_keys(method: str, part: Part, value: object) -> tuple[str, ...]:
    """Return the paths of keys that the protocol does not know; they are allowed, but may be typos."""
    definition = documents()[f"{methods()[method].file}.json"]["$defs"][part]
    found: list[str] = []
    for path in _unknown(f"{methods()[method].file}.json", definition, value, "", 0):
        found.append(path.removeprefix("."))
        if len(found) >= _MAX_UNKNOWN:
            break
    return tuple(found)


@cache
def _validator(file: str, definition: str) -> "jsonschema_rs.Validator":
    import jsonschema_rs

    registry = jsonschema_rs.Registry([(_BASE + name, document) for name, document in documents().items()])
    return jsonschema_rs.validator_for({"$ref": f"{_BASE}{file}#/$defs/{definition}"}, registry=registry, offline=True)


def _format_error(error: "jsonschema_rs.ValidationError") -> str:
    path = ""
    for step in error.instance_path:
        path = child_path(path, step)
    place = path.removeprefix(".")
    said = shorten_text(error.message)
    return f"{place}: {said}" if place else said


def _unknown(file: str, schema: Mapping[str, Any], value: object, path: str, depth: int) -> Iterator[str]:
    """Walk through a value along its schema; an object whose keys no schema names may hold any."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, list):
        for place, each in _resolve_reference(file, schema):
            if isinstance(items := each.get("items"), dict):
                for number, item in enumerate(value[:_MAX_UNKNOWN]):
                    yield from _unknown(place, items, item, child_path(path, number), depth + 1)
    elif isinstance(value, dict):
        known: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
        for place, each in _applying(file, schema, value):
            if each.get("additionalProperties") is True:
                return
            for key, inner in each.get("properties", {}).items():
                known.setdefault(key, []).append((place, inner))
        for key, each in value.items():
            if known and key not in known:
                yield child_path(path, key)
            for place, inner in known.get(key, ()):
                yield from _unknown(place, inner, each, child_path(path, key), depth + 1)


def _applying(
    file: str, schema: Mapping[str, Any], value: Mapping[Any, Any]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Return the schemas that apply to an object: the schema itself, and the cases of its kind."""
    for place, each in _resolve_reference(file, schema):
        yield place, each
        for case in each.get("allOf", ()):
            chosen = case.get("if", {}).get("properties", {}).items()
            if chosen and all(value.get(key) == wanted.get("const") for key, wanted in chosen):
                yield from _resolve_reference(place, case["then"])


def _resolve_reference(file: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Follow a reference; returns the schema and the file to which its own references are relative."""
    if (reference := schema.get("$ref")) is None:
        yield file, schema
        return
    name, _, fragment = reference.partition("#")
    place, found = name or file, documents()[name or file]
    for step in fragment.strip("/").split("/"):
        found = found[step]
    yield from _resolve_reference(place, found)
