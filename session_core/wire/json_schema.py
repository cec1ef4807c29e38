"""Check a value against a foreign JSON schema: offline, bounded, with readable messages."""

import json
from functools import lru_cache
from typing import TYPE_CHECKING

from session_core.vocabulary.frozen import JsonObject, JsonValue, thaw_json

if TYPE_CHECKING:
    import jsonschema_rs

MAX_FAULT_CHARS = 300
"""Length of a validator message, which quotes the value."""


def find_value_fault(schema: JsonObject, value: JsonValue) -> str | None:
    """Describe in a sentence why a value does not fit, or that the schema is unusable; None if it fits."""
    fault, validator = compile_validator(schema)
    if validator is None:
        return f"The schema cannot be used: {fault}."
    try:
        for error in validator.iter_errors(thaw_json(value)):
            place = "/".join(map(str, error.instance_path)) or "the whole"
            return f"At {shorten_text(place)}: {shorten_text(error.message)}."
    except ValueError as error:  # a lone surrogate, or a number that the validator cannot represent
        return f"It cannot be checked: {shorten_text(str(error))}."
    return None


def find_schema_fault(schema: JsonObject) -> str | None:
    """Describe what is wrong with a schema; None if it is usable."""
    return compile_validator(schema)[0]


def compile_validator(schema: JsonObject) -> tuple[str | None, "jsonschema_rs.Validator | None"]:
    """Return the compiled schema, or why it cannot be compiled."""
    # As text, because 1, 1.0 and True would be the same key, but mean different things in a schema.
    return _compile_schema_text(json.dumps(thaw_json(schema)))


@lru_cache(maxsize=512)
def _compile_schema_text(schema: str) -> tuple[str | None, "jsonschema_rs.Validator | None"]:
    import jsonschema_rs

    try:
        # Offline: a schema from an extension must not make us fetch addresses or files.
        return None, jsonschema_rs.validator_for(json.loads(schema), offline=True)
    except jsonschema_rs.ValidationError as error:
        return shorten_text(error.message), None
    except (ValueError, TypeError) as error:
        return shorten_text(str(error)), None


def shorten_text(text: str) -> str:
    """Truncate text that quotes foreign values."""
    return text if len(text) <= MAX_FAULT_CHARS else f"{text[:MAX_FAULT_CHARS]}..."
