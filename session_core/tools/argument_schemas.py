"""The schemas with which our own tools declare their arguments; `arguments` reads what calls give for them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from session_core.vocabulary.frozen import JsonObject

_NONE: Final[Mapping[str, object]] = MappingProxyType({})


def object_schema(*, required: Mapping[str, object] = _NONE, optional: Mapping[str, object] = _NONE) -> JsonObject:
    """Return the schema of an object with these properties and no others."""
    schema: dict[str, object] = {"type": "object", "properties": {**required, **optional}}
    if required:
        schema["required"] = list(required)
    return JsonObject({**schema, "additionalProperties": False})


def text_schema(description: str, *, shortest: int | None = None, longest: int | None = None) -> dict[str, Any]:
    """Return the schema of a text."""
    return _bounded_schema("string", description, minLength=shortest, maxLength=longest)


def count_schema(description: str, *, minimum: int = 1, maximum: int | None = None) -> dict[str, Any]:
    """Return the schema of a whole number."""
    return _bounded_schema("integer", description, minimum=minimum, maximum=maximum)


def flag_schema(description: str) -> dict[str, Any]:
    """Return the schema of true or false."""
    return _bounded_schema("boolean", description)


def _bounded_schema(kind: str, description: str, **bounds: int | None) -> dict[str, Any]:
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    return {"type": kind, **given, "description": description}
