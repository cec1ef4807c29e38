"""From type hints to JSON schemas, and from JSON to values of those types.

A `Shape` is both: the schema that models see, and a function that reads a value and names the place of the first
mistake. Supported are text, numbers, booleans, `Literal`, enums, lists, tuples, sets, dicts, unions, attrs classes and
dataclasses. `Annotated[T, "what it is"]` adds a description, `Annotated[T, {"minimum": 1}]` adds to the schema.
"""

import dataclasses
import enum
import math
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NewType, Union, get_args, get_origin, get_type_hints

import attrs

from session_core.wire.error_text import child_path, mismatch, quote_text

_WITHIN: ContextVar[frozenset[type]] = ContextVar("_WITHIN", default=frozenset())
"""Classes that are being described, to detect a class that contains itself."""
_NOT_LISTS: Final = (bytes, bytearray, memoryview, str, range)


class WrongArgument(Exception):
    """A value does not fit its type; the message names the place and what was expected."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path


class NotDescribable(TypeError):
    """A type hint cannot be written as a JSON schema."""


@attrs.frozen
class Shape:
    """A type as JSON: its schema, and a function that reads a value, given its path and its JSON form.

    `hashable` is whether the values read can be put into a set.
    """

    schema: Mapping[str, Any]
    read: Callable[[str, Any], Any]
    hashable: bool = True


@attrs.frozen
class Member:
    """A named member of an object; one without a default is required."""

    name: str
    shape: Shape
    required: bool
    default: Any = None
    """The default in the schema; None when it cannot be written as JSON."""


def shape_of(hint: Any) -> Shape:
    """Return the shape of a type hint.

    Raises:
        NotDescribable: It cannot be written as a JSON schema.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin is None and hint in _PLAIN:  # an Annotated hint may not even be hashable
        return _PLAIN[hint]
    if origin is Annotated:
        return _annotated(inner)
    if origin is Literal:
        return _choice([(each, each) for each in inner], hint)
    if origin in {Union, types.UnionType}:
        return _union(inner)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _choice([(each.value, each) for each in hint], hint)
    if isinstance(hint, type) and (attrs.has(hint) or dataclasses.is_dataclass(hint)):
        return _class_shape(hint)
    if isinstance(hint, NewType):
        return shape_of(hint.__supertype__)
    if (made := _collection(origin or hint, inner)) is not None:
        return made
    raise NotDescribable(f"{hint!r} cannot be written as a JSON schema; pass your own schema as `parameters=`")


def object_shape(members: Sequence[Member], make: Callable[..., Any]) -> Shape:
    """Return the shape of an object that `make` builds from its members, given by name."""
    properties = {}
    for each in members:
        default_entry = {} if each.default is None else {"default": each.default}
        properties[each.name] = {**each.shape.schema, **default_entry}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required := [each.name for each in members if each.required]:
        schema["required"] = required
    return Shape(schema, partial(_read_object, tuple(members), make), hashable=False)


def _read_object(members: tuple[Member, ...], make: Callable[..., Any], path: str, value: Any) -> Any:
    _read_as(dict, "an object", path, value)
    known = {each.name for each in members}
    for key in value:
        if key not in known:
            names = ", ".join(sorted(known)) or "none"
            raise WrongArgument(_child_path(path, key), f"there is no such argument; known are: {names}")
    found: dict[str, Any] = {}
    for each in members:
        if each.name in value:
            found[each.name] = each.shape.read(_child_path(path, each.name), value[each.name])
        elif each.required:
            raise WrongArgument(_child_path(path, each.name), "is missing")
    try:
        return make(**found)
    except (ValueError, TypeError) as error:  # rejected by a validator of the class
        raise WrongArgument(path, str(error)) from error


def _class_shape(cls: type) -> Shape:
    outer = _WITHIN.get()
    if cls in outer:
        raise NotDescribable(f"{cls.__name__} contains itself; pass your own schema as `parameters=`")
    token = _WITHIN.set(outer | {cls})
    try:
        shape = object_shape(_members_of_class(cls), cls)
    finally:
        _WITHIN.reset(token)
    return attrs.evolve(shape, hashable=cls.__hash__ is not None)


def _child_path(path: str, key: str | int) -> str:
    return child_path(path, key).removeprefix(".")


def _members_of_class(cls: Any) -> list[Member]:
    hints = get_type_hints(cls, include_extras=True)
    members: list[Member] = []
    for field in attrs.fields(cls) if attrs.has(cls) else dataclasses.fields(cls):
        if field.init:
            name = getattr(field, "alias", None) or field.name
            required = field.default is attrs.NOTHING or (
                field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            )
            members.append(member(name, hints.get(field.name, Any), field.default, required=required))
    return members


def member(name: str, hint: Any, default: Any, *, required: bool) -> Member:
    """Describe one member of an object; only a plain default appears in the schema."""
    plain = default.value if isinstance(default, enum.Enum) else default
    is_plain = type(plain) in {str, int, bool} or (type(plain) is float and math.isfinite(plain))
    return Member(name, shape_of(hint), required, plain if is_plain and not required else None)


def _annotated(inner: tuple[Any, ...]) -> Shape:
    shape = shape_of(inner[0])
    schema = dict(shape.schema)
    for note in inner[1:]:
        if isinstance(note, str):
            schema["description"] = note
        elif isinstance(note, Mapping):
            schema.update(note)
    return attrs.evolve(shape, schema=schema)


def _union(inner: tuple[Any, ...]) -> Shape:
    shapes = [shape_of(each) for each in inner]
    schema = {"anyOf": [dict(each.schema) for each in shapes]}
    return Shape(schema, partial(_read_any_of, shapes), hashable=all(each.hashable for each in shapes))


def _read_any_of(shapes: Iterable[Shape], path: str, value: Any) -> Any:
    reasons = []
    for shape in shapes:
        try:
            return shape.read(path, value)
        except WrongArgument as wrong:
            reasons.append(str(wrong).removeprefix(f"{path}: "))
    raise WrongArgument(path, "; or ".join(dict.fromkeys(reasons)))


def _choice(members: Sequence[tuple[Any, Any]], hint: Any) -> Shape:
    """Return the shape of a choice, given pairs of a JSON value and what it stands for."""
    for known, _ in members:
        if not isinstance(known, str | int | float | None):
            raise NotDescribable(f"{hint!r} cannot be written as a JSON schema: {known!r} is not a JSON value")
    return Shape({"enum": [known for known, _ in members]}, partial(_read_choice, members))


def _read_choice(members: Sequence[tuple[Any, Any]], path: str, value: Any) -> Any:
    for known, meant in members:
        # 1 and 1.0 are the same number in JSON; true is not a number.
        if known == value and isinstance(known, bool) == isinstance(value, bool):
            return meant
    choices = ", ".join(quote_text(known) if isinstance(known, str) else str(known) for known, _ in members)
    raise WrongArgument(path, f"must be one of {choices}")


def _collection(kind: Any, inner: tuple[Any, ...]) -> Shape | None:
    if not isinstance(kind, type) or issubclass(kind, _NOT_LISTS) or getattr(kind, "__annotations__", None):
        return None  # classes with their own members, such as named tuples, are more than collections
    if issubclass(kind, tuple) and inner and inner[-1] is not Ellipsis:
        return _fixed_tuple([shape_of(each) for each in inner])
    if issubclass(kind, Mapping):
        if inner and inner[0] not in (str, Any):  # an Annotated hint may not be hashable
            return None
        return _mapping(shape_of(inner[1]) if inner else _ANY)
    item = shape_of(inner[0]) if inner else _ANY
    for base, make in ((tuple, tuple), (frozenset, frozenset), (AbstractSet, set), (Sequence, list), (Iterable, list)):
        if issubclass(kind, base):
            if make in {set, frozenset} and not item.hashable:
                return None
            schema = {"type": "array", "items": dict(item.schema)}
            return Shape(schema, partial(_read_items, item, make), item.hashable and make in {tuple, frozenset})
    return None


def _read_items(item: Shape, make: Callable[[list[Any]], Any], path: str, value: Any) -> Any:
    items = enumerate(_read_as(list, "a list", path, value))
    found = [item.read(child_path(path, number), each) for number, each in items]
    try:
        return make(found)
    except TypeError as error:  # a set of Any that got a list
        raise WrongArgument(path, str(error)) from error


def _fixed_tuple(items: Sequence[Shape]) -> Shape:
    def read(path: str, value: Any) -> Any:
        if not isinstance(value, list) or len(value) != len(items):
            raise WrongArgument(path, f"expected a list of {len(items)}")
        pairs = enumerate(zip(items, value, strict=True))
        return tuple(item.read(child_path(path, number), each) for number, (item, each) in pairs)

    forms = [dict(each.schema) for each in items]
    schema = {"type": "array", "prefixItems": forms, "items": False, "minItems": len(items)}
    return Shape(schema, read, hashable=all(each.hashable for each in items))


def _mapping(item: Shape) -> Shape:
    def read(path: str, value: Any) -> Any:
        pairs = _read_as(dict, "an object", path, value).items()
        return {key: item.read(_child_path(path, key), each) for key, each in pairs}

    return Shape({"type": "object", "additionalProperties": dict(item.schema)}, read, hashable=False)


# --- single values ----------------------------------------------------------------------------------------------------


def _read_as(kind: type, expected: str, path: str, value: Any) -> Any:
    """Return a value that Python reads from JSON as this kind."""
    if not isinstance(value, kind):
        raise WrongArgument(path, mismatch(expected, value))
    return value


_read_text = partial(_read_as, str, "text")


def _read_path(path: str, value: Any) -> Any:
    return Path(_read_text(path, value))


def _read_whole(path: str, value: Any) -> Any:
    # JSON has only one kind of number: 3.0 is a whole number, and some models write it that way.
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value != int(value):
        raise WrongArgument(path, mismatch("a whole number", value))
    return int(value)


def _read_number(path: str, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WrongArgument(path, mismatch("a number", value))
    return float(value)


_NOTHING = Shape({"type": "null"}, partial(_read_as, type(None), "null"))
_ANY = Shape({}, lambda _path, value: value)
_PLAIN: dict[Any, Shape] = {
    Any: _ANY,
    object: _ANY,
    str: Shape({"type": "string"}, _read_text),
    Path: Shape({"type": "string"}, _read_path),
    bool: Shape({"type": "boolean"}, partial(_read_as, bool, "true or false")),
    int: Shape({"type": "integer"}, _read_whole),
    float: Shape({"type": "number"}, _read_number),
    None: _NOTHING,
    type(None): _NOTHING,
}
