"""The arguments of a call: checked against the tool's schema, then read one by one with their types.

`check_arguments` is for generic code that runs any tool. The readers below it are for the tools themselves, which rely
on no earlier check: they refuse whatever does not fit.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from session_core.limits import MAX_PATH_CHARS, MAX_TEXT_CHARS
from session_core.tools.base import ToolFailed
from session_core.vocabulary.frozen import JsonObject, JsonValue, thaw_json
from session_core.vocabulary.tools import ToolSpec
from session_core.wire.json_schema import compile_validator, find_schema_fault, shorten_text

if TYPE_CHECKING:
    import jsonschema_rs

_SHOWN_FAULTS: Final = 3
"""Faults named in one answer: a model fixes a few at a time."""
_TYPE_WORDS: Final = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def check_arguments(spec: ToolSpec, arguments: JsonObject) -> str | None:
    """Describe in a sentence what is wrong with the arguments, or with the schema itself; None if they are valid."""
    fault, validator = compile_validator(spec.parameters)
    if validator is None:
        return f"the tool {spec.name!r} cannot be used: its parameters are not a valid JSON schema: {fault}"
    try:
        errors = validator.iter_errors(thaw_json(arguments))
        sentences = [_describe_fault(spec, error) for error, _ in zip(errors, range(_SHOWN_FAULTS), strict=False)]
    except UnicodeEncodeError:
        return f"an argument of {spec.name} contains an unpaired surrogate, which cannot be encoded"
    except ValueError as error:
        return f"the arguments of {spec.name} cannot be checked: {shorten_text(str(error))}"
    return "; ".join(sentences) or None


def check_schema(spec: ToolSpec) -> str | None:
    """Describe what is wrong with the schema of a tool before it is offered; None if it can be used."""
    return find_schema_fault(spec.parameters)


def _describe_fault(spec: ToolSpec, error: "jsonschema_rs.ValidationError") -> str:
    place = _format_place(error.instance_path)
    named = f"the argument {place!r}" if place else "the arguments"
    fault = error.kind.as_dict()
    match error.kind.name:
        case "required":
            return f"the argument {_format_place([*error.instance_path, str(fault['property'])])!r} is missing"
        case "type":
            words = [_TYPE_WORDS.get(str(name), str(name)) for name in fault["types"]]
            return f"{named} must be {' or '.join(words)}, not {_kind_of(error.instance)}"
        case "additionalProperties" | "unevaluatedProperties":
            return _describe_unknown(spec, place, [str(name) for name in fault["unexpected"]])
        case "minimum":
            return f"{named} must be at least {fault['limit']}"
        case "maximum":
            return f"{named} must be at most {fault['limit']}"
        case "minLength" if fault["limit"] == 1:
            return f"{named} must not be empty"
        case "minItems" if fault["limit"] == 1:
            return f"{named} must not be empty"
        case "enum":
            options = ", ".join(json.dumps(option, ensure_ascii=False) for option in fault["options"])
            return f"{named} must be one of {shorten_text(options)}"
        case _:
            return f"{named} does not fit: {shorten_text(error.message)}"


def _describe_unknown(spec: ToolSpec, place: str, names: list[str]) -> str:
    unknown = ", ".join(repr(shorten_text(name)) for name in names[:_SHOWN_FAULTS])
    if place:
        return f"unknown field {unknown} in {place!r}"
    known = spec.parameters.get("properties")
    takes = f"; it takes {', '.join(known)}" if isinstance(known, JsonObject) and known else "; it takes none"
    return f"{spec.name} has no argument {unknown}{takes}"


def _format_place(path: Sequence[str | int]) -> str:
    """Return the path of a value in code notation: `edits[0].old_text`."""
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return shorten_text(steps.removeprefix("."))


def _kind_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return shorten_text(str(value))


# Argument readers for tools.


def refuse_unknown(arguments: JsonObject, spec: ToolSpec) -> None:
    """Refuse an argument that the tool does not have: it is more often misspelt than superfluous."""
    known = spec.parameters["properties"]
    assert isinstance(known, JsonObject)
    for name in arguments:
        if name not in known:
            raise ToolFailed(f"{spec.name} has no argument {shorten_text(name)!r}; it takes {', '.join(known)}")


def path_argument(arguments: JsonObject, name: str = "path", *, default: str | None = None) -> str:
    """Read a path; the workspace checks where it leads."""
    path = arguments.get(name)
    if path is None:
        path = default
    if path is None:
        raise ToolFailed(f"the argument {name!r} is missing")
    if not isinstance(path, str) or not path:
        raise ToolFailed(f"the argument {name!r} must be the name of a file or folder, as text")
    if len(path) > MAX_PATH_CHARS:
        raise ToolFailed(f"the argument {name!r} is longer than {MAX_PATH_CHARS} characters")
    if "\0" in path:
        raise ToolFailed(f"the argument {name!r} cannot be a path: it contains a null character")
    return refuse_broken_text(path, name)


def text_argument(arguments: JsonObject, name: str, *, default: str | None = None) -> str:
    """Read text of up to `MAX_TEXT_CHARS` characters; it may be empty."""
    text = arguments.get(name)
    if text is None:
        text = default
    if text is None:
        raise ToolFailed(f"the argument {name!r} is missing")
    if not isinstance(text, str):
        raise ToolFailed(f"the argument {name!r} must be text")
    if len(text) > MAX_TEXT_CHARS:
        raise ToolFailed(f"the argument {name!r} is longer than {MAX_TEXT_CHARS:,} characters")
    return refuse_broken_text(text, name)


def count_argument(arguments: JsonObject, name: str, *, minimum: int = 1, maximum: int | None = None) -> int | None:
    """Read a whole number; None if it was left out."""
    number = arguments.get(name)
    if number is None:
        return None
    if isinstance(number, float) and number.is_integer():
        number = int(number)  # JSON has one kind of number, and 3.0 is whole
    if not isinstance(number, int) or isinstance(number, bool) or number < minimum:
        raise ToolFailed(f"the argument {name!r} must be a whole number of at least {minimum}")
    if maximum is not None and number > maximum:
        raise ToolFailed(f"the argument {name!r} must be at most {maximum}")
    return number


def flag_argument(arguments: JsonObject, name: str, *, default: bool = False) -> bool:
    """Read true or false."""
    flag = arguments.get(name)
    if flag is None:
        return default
    if not isinstance(flag, bool):
        raise ToolFailed(f"the argument {name!r} must be true or false")
    return flag


def objects_argument(arguments: JsonObject, name: str, *, limit: int) -> tuple[JsonObject, ...]:
    """Read a non-empty list of objects."""
    items: JsonValue = arguments.get(name)
    if items is None:
        raise ToolFailed(f"the argument {name!r} is missing")
    if not isinstance(items, tuple) or not items:
        raise ToolFailed(f"the argument {name!r} must be a non-empty list of objects")
    if len(items) > limit:
        raise ToolFailed(f"the argument {name!r} has {len(items)} entries; the maximum is {limit}")
    objects = tuple(item for item in items if isinstance(item, JsonObject))
    if len(objects) != len(items):
        raise ToolFailed(f"the argument {name!r} must be a list of objects")
    return objects


def refuse_broken_text(text: str, name: str) -> str:
    """Return a text that can be encoded, and refuse any other."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ToolFailed(f"the argument {name!r} contains an unpaired surrogate, which cannot be encoded") from error
    return text
