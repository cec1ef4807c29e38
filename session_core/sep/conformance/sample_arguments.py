"""Arguments made up from a tool's schema: valid ones, and ones that are invalid in one known way.

Nothing here is clever: samples may violate patterns or conditions of a schema, so callers check them against the schema
first.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from session_core.vocabulary.frozen import JsonObject, freeze_json
from session_core.wire.error_text import quote_text
from session_core.wire.json_schema import find_value_fault

_MAX_DEPTH: Final = 8
_MAX_ITEMS: Final = 8
_MAX_CHARS: Final = 10_000
_TEXT: Final = "sample"
_FORMATS: Final[Mapping[str, str]] = {
    "date": "2024-01-31",
    "date-time": "2024-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "someone@example.invalid",
    "uri": "http://127.0.0.1/",
    "url": "http://127.0.0.1/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "127.0.0.1",
    "hostname": "localhost",
}
_OTHERS: Final[tuple[Any, ...]] = (12345, "not of this type", [None], True, {"not": "of this type"})


@attrs.frozen(kw_only=True)
class WrongArguments:
    """Invalid arguments, and what is wrong with them."""

    arguments: dict[str, Any] = attrs.field(hash=False)
    what: str


def sample_arguments(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return arguments that fit the schema of a tool; None if none could be made up."""
    sample = _sample(schema, schema, 0)
    return sample if isinstance(sample, dict) and fits(schema, sample) else None


def wrong_arguments(schema: Mapping[str, Any]) -> Iterator[WrongArguments]:
    """Return arguments with one fault each: a required one is missing, or one has another type."""
    sample = sample_arguments(schema)
    if sample is None:
        return
    required = [key for key in schema.get("required", ()) if key in sample]
    for key in required[:1]:
        rest = {name: each for name, each in sample.items() if name != key}
        if not fits(schema, rest):
            yield WrongArguments(arguments=rest, what=f"without the required argument {quote_text(key)}")
    for key in [*required, *(name for name in schema.get("properties", {}) if name not in required)]:
        for other in _OTHERS:
            wrong = {**sample, key: other}
            if not fits(schema, wrong):
                yield WrongArguments(arguments=wrong, what=f"with an argument {quote_text(key)} of the wrong type")
                return


def fits(schema: Mapping[str, Any], value: dict[str, Any]) -> bool:
    """Return whether arguments fit a schema."""
    return find_value_fault(JsonObject(schema), freeze_json(value)) is None


def _sample(schema: object, whole: Mapping[str, Any], depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return _TEXT if schema is True else None
    if (reference := schema.get("$ref")) is not None:
        return _sample(_resolve_reference(reference, whole), whole, depth + 1)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("examples", "enum"):
        if isinstance(choices := schema.get(key), list | tuple) and choices:
            return choices[0]
    for key in ("anyOf", "oneOf"):
        if isinstance(choices := schema.get(key), list | tuple) and choices:
            return _sample({**{k: v for k, v in schema.items() if k != key}, **_mapping(choices[0])}, whole, depth + 1)
    if isinstance(parts := schema.get("allOf"), list | tuple) and parts:
        return _sample(_merge_all_of(schema, parts, whole), whole, depth + 1)
    return _sample_of_type(schema, whole, depth)


def _sample_of_type(schema: Mapping[str, Any], whole: Mapping[str, Any], depth: int) -> Any:
    kind = schema.get("type")
    if isinstance(kind, list | tuple):
        kind = next((each for each in kind if each != "null"), "null")
    if kind is None:
        kind = "object" if "properties" in schema or depth == 0 else "array" if "items" in schema else "string"
    match kind:
        case "object":
            properties = _mapping(schema.get("properties"))
            # All named properties, to try everything in the tool; but a recursive schema has to end somewhere.
            wanted = properties if depth < _MAX_DEPTH // 2 else schema.get("required", ())
            return {key: _sample(properties.get(key, True), whole, depth + 1) for key in wanted}
        case "array":
            count = min(max(_whole(schema, "minItems", 0), 1), _MAX_ITEMS)
            if depth >= _MAX_DEPTH // 2 and not schema.get("minItems"):
                return []
            return [_sample(schema.get("items", True), whole, depth + 1) for _ in range(count)]
        case "integer" | "number":
            return _number(schema)
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return _text(schema)


def _number(schema: Mapping[str, Any]) -> int | float:
    step = schema.get("multipleOf", 1)
    least, most = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if least is None and above is not None:
        least = above + step
    if most is None and below is not None:
        most = below - step
    if least is None:
        return 1 if most is None or most >= 1 else int(most) if schema.get("type") == "integer" else float(most)
    number = least if least % step == 0 else (least // step + 1) * step
    if most is not None and number > most and schema.get("type") != "integer":
        return float((least + most) / 2)
    return int(number) if number == int(number) else float(number)


def _text(schema: Mapping[str, Any]) -> str:
    text = _FORMATS.get(str(schema.get("format")), _TEXT)
    least, most = _whole(schema, "minLength", 0), _whole(schema, "maxLength", _MAX_CHARS)
    return text.ljust(min(least, _MAX_CHARS), "x")[:most]


def _whole(schema: Mapping[str, Any], key: str, otherwise: int) -> int:
    value = schema.get(key)
    return int(value) if isinstance(value, int | float) else otherwise


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _merge_all_of(schema: Mapping[str, Any], parts: Any, whole: Mapping[str, Any]) -> dict[str, Any]:
    joined: dict[str, Any] = {key: each for key, each in schema.items() if key != "allOf"}
    for part in parts[:_MAX_ITEMS]:
        known = _mapping(part)
        if "$ref" in known:
            known = _mapping(_resolve_reference(known["$ref"], whole))
        joined["properties"] = {**_mapping(joined.get("properties")), **_mapping(known.get("properties"))}
        joined["required"] = [*joined.get("required", ()), *known.get("required", ())]
        joined |= {key: each for key, each in known.items() if key not in ("properties", "required")}
    return joined


def _resolve_reference(reference: object, whole: Mapping[str, Any]) -> object:
    """Follow a reference within the schema of the tool itself."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found: object = whole
    for step in filter(None, reference[1:].split("/")):
        found = _mapping(found).get(step.replace("~1", "/").replace("~0", "~"))
    return found
