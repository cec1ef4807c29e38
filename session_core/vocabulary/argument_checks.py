"""Type checks for values from callers: a wrong type raises an `InvalidInput` that names the field.

Commands are built by programs that may not be type-checked. Each command class gets a validator per field, derived
from its annotations; only we build events and snapshots, so they skip this cost.
"""

import types
from binascii import a2b_base64
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, TypeVar, Union, dataclass_transform, get_args, get_origin

import attrs

from session_core.errors import InvalidInput
from session_core.vocabulary.frozen import JsonObject, JsonValue

C = TypeVar("C", bound=type)
Check = Callable[[object], bool]

_JSON_TYPES = (str, int, float, bool, type(None), tuple, JsonObject)
_PLAIN_NAMES = {str: "text", int: "a whole number", bool: "true or false", float: "a number", type(None): "nothing"}


def describe(hint: Any) -> str:
    """Describe in words what a type hint accepts."""
    if hint == JsonValue:
        return "JSON"
    hint = getattr(hint, "__supertype__", hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return "one of " + ", ".join(map(str, arguments))
    if origin in (Union, types.UnionType):
        return " or ".join(describe(each) for each in arguments)
    if origin is tuple:
        return f"a tuple of {describe(arguments[0])}"
    return _PLAIN_NAMES.get(hint) or _with_article(hint.__name__)


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


@cache
def build_check(hint: Any) -> Check:
    """Return a function that checks whether a value fits the hint, without coercing anything."""
    if hint == JsonValue:
        return lambda given: isinstance(given, _JSON_TYPES)  # the content is checked when it is recorded
    hint = getattr(hint, "__supertype__", hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return lambda given: isinstance(given, str) and given in arguments
    if origin in (Union, types.UnionType):
        checks = [build_check(each) for each in arguments if each is not types.NoneType]
        if len(checks) == 1 < len(arguments):
            (only,) = checks
            return lambda given: given is None or only(given)
        checks = [build_check(each) for each in arguments]
        return lambda given: any(check(given) for check in checks)
    if origin is tuple:
        inner = build_check(arguments[0])
        return lambda given: isinstance(given, tuple) and all(inner(each) for each in given)
    if hint is int:
        return lambda given: isinstance(given, int) and not isinstance(given, bool)
    if origin is None and attrs.has(hint):
        return _build_class_check(hint)
    return lambda given: isinstance(given, origin or hint)


def _build_class_check(cls: type) -> Check:
    checks = [(field.name, build_check(field.type)) for field in attrs.fields(cls)]
    return lambda given: isinstance(given, cls) and all(check(getattr(given, name)) for name, check in checks)


def is_base64(data: str) -> bool:
    """Return whether a string is base64."""
    try:
        a2b_base64(data, strict_mode=True)
    except ValueError:
        return False
    return True


def _validator(hint: Any) -> Callable[[object, "attrs.Attribute[Any]", object], None]:
    check = build_check(hint)

    def validate(_instance: object, attribute: "attrs.Attribute[Any]", given: object) -> None:
        if not check(given):
            raise _build_error(attribute.name, hint, given)

    return validate


def _build_error(path: str, hint: Any, given: object) -> InvalidInput:
    """Describe the fault, located as deep inside the value as possible."""
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for option in options:
        if get_origin(option) is tuple and isinstance(given, tuple):
            inner = get_args(option)[0]
            place, item = next((index, each) for index, each in enumerate(given) if not build_check(inner)(each))
            return _build_error(f"{path}[{place}]", inner, item)
        if isinstance(option, type) and attrs.has(option) and isinstance(given, option):
            values = ((field, getattr(given, field.name)) for field in attrs.fields(option))
            field, item = next((field, each) for field, each in values if not build_check(field.type)(each))
            return _build_error(f"{path}.{field.name}", field.type, item)
    found = _PLAIN_NAMES.get(type(given)) or _with_article(type(given).__name__)
    if isinstance(given, str) and any(get_origin(option) is Literal for option in options):
        found = repr(given[:40])
    return InvalidInput(f"{path} must be {describe(hint)}, not {found}", field=path)


def _with_validators(_cls: type, fields: "list[attrs.Attribute[Any]]") -> "list[attrs.Attribute[Any]]":
    return [field.evolve(validator=_validator(field.type)) for field in fields]


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(attrs.field,))
def checked_value(cls: C) -> C:
    """Make a vocabulary class whose fields are checked when an instance is built."""
    return attrs.frozen(kw_only=True, slots=True, field_transformer=_with_validators)(cls)
