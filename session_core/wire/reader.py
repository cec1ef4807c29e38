"""From parsed JSON to vocabulary values: nothing is coerced, unknown keys are refused, and a `Misfit` says where it is.

It uses one private cattrs converter with our own reader for every kind of type hint in the vocabulary. Other hints have
none, so a new kind is noticed when it is first read.
"""

from collections.abc import Callable
from typing import Any, NewType, get_args, get_origin

from cattrs import Converter
from cattrs.errors import AttributeValidationNote, ClassValidationError
from cattrs.gen import make_dict_structure_fn

from session_core import limits
from session_core.errors import InvalidInput
from session_core.vocabulary.events import Event
from session_core.vocabulary.frozen import JsonObject, JsonValue, Rope, Vector, freeze_json
from session_core.wire import strict_json
from session_core.wire.catalogue import (
    TAG,
    alternatives,
    is_any_command,
    is_list,
    is_literal,
    is_optional,
    is_value_class,
    wire_fields,
    wire_tag,
    without_none,
)
from session_core.wire.error_text import child_path, mismatch, quote_text

Reader = Callable[[Any, Any], Any]

_LISTED_TAGS = 8


class Misfit(Exception):
    """Something is not what was expected; `path` is relative to the position of the reader."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path


def read(plain: object, expected: Any) -> Any:
    """Read one value of the expected type from parsed JSON, or raise `Misfit`."""
    reader = _CONVERTER.get_structure_hook(expected)
    try:
        return reader(plain, expected)
    except ClassValidationError as error:
        raise _explain_error(error) from None


def _explain_error(error: Exception) -> Misfit:
    """Find the first fault behind an error, and the path to it."""
    match error:
        case Misfit():
            return error
        case ClassValidationError():
            first = error.exceptions[0]
            inner = _explain_error(first)
            return Misfit(inner.reason, _step_to(first) + inner.path)
        case KeyError() if _step_to(error):
            return Misfit("the field is missing")
        case InvalidInput(field=None):
            return Misfit(error.message)
        case InvalidInput(field=str() as name):
            return Misfit(error.message, child_path("", name))
        case _:
            raise error


def _step_to(error: BaseException) -> str:
    """Return the field that was being read when the error occurred; a class as a whole is not a step."""
    notes = getattr(error, "__notes__", ())
    return "".join(child_path("", note.name) for note in notes if isinstance(note, AttributeValidationNote))


# --- scalars and open JSON --------------------------------------------------------------------------------------------


def _read_text(plain: Any, _hint: Any) -> str:
    if isinstance(plain, str):
        return plain
    raise Misfit(mismatch("text", plain))


def _read_whole_number(plain: Any, _hint: Any) -> int:
    if not isinstance(plain, int) or isinstance(plain, bool):
        raise Misfit(mismatch("a whole number", plain))
    if -limits.MAX_INTEGER <= plain <= limits.MAX_INTEGER:
        return plain
    raise Misfit(strict_json.TOO_LARGE)


def _read_number(plain: Any, _hint: Any) -> float:
    if not isinstance(plain, int | float) or isinstance(plain, bool):
        raise Misfit(mismatch("a number", plain))
    if fault := strict_json.find_fault(plain):
        raise Misfit(fault.reason)
    return float(plain)


def _read_bool(plain: Any, _hint: Any) -> bool:
    if isinstance(plain, bool):
        return plain
    raise Misfit(mismatch("true or false", plain))


def _read_rope(plain: Any, hint: Any) -> Rope:
    return Rope(_read_text(plain, hint))


def _read_open_json(plain: Any, _hint: Any) -> JsonValue:
    if fault := strict_json.find_fault(plain, limits.MAX_OPEN_JSON_DEPTH):
        raise Misfit(fault.reason, fault.path)
    return freeze_json(plain)


def _read_json_object(plain: Any, hint: Any) -> JsonValue:
    if isinstance(plain, dict):
        return _read_open_json(plain, hint)
    raise Misfit(mismatch("an object", plain))


def _literal_reader(hint: Any) -> Reader:
    words: tuple[str, ...] = get_args(hint)
    expected = "one of " + ", ".join(words)

    def read_literal(plain: Any, _hint: Any) -> str:
        if not isinstance(plain, str):
            raise Misfit(mismatch(expected, plain))
        if plain in words:
            return plain
        raise Misfit(f"expected {expected}, got {quote_text(plain)}")

    return read_literal


# --- lists, classes, unions -------------------------------------------------------------------------------------------


def _list_reader(hint: Any) -> Reader:
    """Make a reader that stops at the first misfit: a hostile list can hold millions."""
    item_hint = get_args(hint)[0]
    read_item = _CONVERTER.get_structure_hook(item_hint)
    container = Vector if get_origin(hint) is Vector else tuple

    def read_list(plain: Any, _hint: Any) -> Any:
        if not isinstance(plain, list):
            raise Misfit(mismatch("a list", plain))
        items: list[Any] = []
        try:
            for each in plain:
                items.append(read_item(each, item_hint))  # noqa: PERF401 - its length is the index of the misfit
        except (Misfit, ClassValidationError) as error:
            inner = _explain_error(error)
            raise Misfit(inner.reason, child_path("", len(items)) + inner.path) from None
        return container(items)

    return read_list


def _class_reader(cls: type) -> Reader:
    tag = wire_tag(cls)
    known = frozenset({TAG, *(field.name for field in wire_fields(cls))})
    read_fields: Reader = make_dict_structure_fn(cls, _CONVERTER)

    def read_class(plain: Any, _hint: Any) -> Any:
        if _read_tag(plain, tag) != tag:
            raise _wrong_tag(plain, tag)
        if not plain.keys() <= known:
            unknown = min(map(str, plain.keys() - known))
            raise Misfit(f"{tag} has no such field", child_path("", unknown))
        return read_fields(plain, cls)

    return read_class


def _tagged_reader(hint: Any) -> Reader:
    """Make a reader of a union; the many readers of its classes are made when first needed."""
    classes = {wire_tag(cls): cls for cls in alternatives(hint)}
    readers: dict[str, Reader] = {}
    expected = _names_of(hint)

    def read_tagged(plain: Any, _hint: Any) -> Any:
        tag = _read_tag(plain, expected)
        reader = readers.get(tag)
        if reader is None:
            if tag not in classes:
                raise _wrong_tag(plain, expected)
            reader = readers[tag] = _CONVERTER.get_structure_hook(classes[tag])
        return reader(plain, hint)

    return read_tagged


def _optional_reader(hint: Any) -> Reader:
    present = without_none(hint)
    read_present = _CONVERTER.get_structure_hook(present)

    def read_optional(plain: Any, _hint: Any) -> Any:
        return None if plain is None else read_present(plain, present)

    return read_optional


def _names_of(hint: Any) -> str:
    """Describe which classes a union may hold."""
    if is_any_command(hint):
        return "a command"
    if hint == Event:
        return "an event"
    tags = [wire_tag(cls) for cls in alternatives(hint)]
    return "one of " + ", ".join(tags[:_LISTED_TAGS]) + (", ..." if len(tags) > _LISTED_TAGS else "")


def _read_tag(plain: Any, expected: str) -> str:
    if not isinstance(plain, dict):
        raise Misfit(mismatch(f"an object ({expected})", plain))
    tag = plain.get(TAG)
    if isinstance(tag, str):
        return tag
    if TAG in plain:
        raise Misfit(mismatch(f"the type as text ({expected})", tag), child_path("", TAG))
    raise Misfit(f"the type is missing, expected {expected}", child_path("", TAG))


def _wrong_tag(plain: dict[str, Any], expected: str) -> Misfit:
    return Misfit(f"expected {expected}, got the type {quote_text(plain[TAG])}", child_path("", TAG))


def _unknown_hint(hint: Any) -> Reader:
    raise TypeError(f"the wire cannot read values of type {hint}")


def _make_converter() -> Converter:
    converter = Converter()
    # Of two factories that fit a hint, the one registered later is taken.
    converter.register_structure_hook_factory(lambda _: True, _unknown_hint)
    converter.register_structure_hook_factory(is_value_class, _class_reader)
    converter.register_structure_hook_factory(lambda hint: bool(alternatives(hint)), _tagged_reader)
    converter.register_structure_hook_factory(is_optional, _optional_reader)
    converter.register_structure_hook_factory(is_list, _list_reader)
    converter.register_structure_hook_factory(is_literal, _literal_reader)
    converter.register_structure_hook_factory(
        lambda hint: isinstance(hint, NewType), lambda hint: converter.get_structure_hook(hint.__supertype__)
    )
    converter.register_structure_hook_func(lambda hint: hint == JsonValue, _read_open_json)
    plain_readers: dict[Any, Reader] = {
        str: _read_text,
        int: _read_whole_number,
        float: _read_number,
        bool: _read_bool,
        Rope: _read_rope,
        JsonObject: _read_json_object,
    }
    for hint, reader in plain_readers.items():
        converter.register_structure_hook(hint, reader)
    return converter


_CONVERTER = _make_converter()
