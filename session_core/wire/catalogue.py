"""Which vocabulary classes are on the wire, their tags, and how to tell their type hints apart.

Every object carries its tag, `"type": "part_delta"`, everywhere. So a reader always knows the class, and a field can
later become a union without changing how its first class is written.
"""

import re
import types
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin

import attrs

from session_core import ids
from session_core.vocabulary import (
    client_protocol,
    commands,
    events,
    extensions,
    messages,
    models,
    protocols,
    replies,
    sessions,
    snapshots,
    tools,
)
from session_core.vocabulary.frozen import JsonValue, Vector

TAG = "type"

_MODULES = (
    ids,
    messages,
    models,
    protocols,
    sessions,
    snapshots,
    extensions,
    events,
    replies,
    commands,
    tools,
    client_protocol,
)


@cache
def wire_classes() -> tuple[type, ...]:
    """Return all vocabulary classes that are on the wire, in order of definition."""
    return tuple(
        cls
        for module in _MODULES
        for cls in vars(module).values()
        if isinstance(cls, type) and attrs.has(cls) and cls.__module__ == module.__name__ and not is_any_command(cls)
    )


@cache
def wire_tag(cls: type) -> str:
    """Return the name of a class on the wire: its own in snake_case."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


def is_value_class(hint: Any) -> bool:
    """Return whether the hint is one vocabulary class."""
    return isinstance(hint, type) and attrs.has(hint) and not is_any_command(hint)


def is_any_command(hint: Any) -> bool:
    """Return whether the hint stands for all commands: `Command` or `Command[Any]`."""
    return (get_origin(hint) or hint) is commands.Command


def is_list(hint: Any) -> bool:
    """Return whether the hint is a homogeneous sequence: `tuple[X, ...]` or `Vector[X]`."""
    return get_origin(hint) in (tuple, Vector)


def is_literal(hint: Any) -> bool:
    """Return whether the hint is a `Literal`."""
    origin: Any = get_origin(hint)
    return origin is Literal


def is_optional(hint: Any) -> bool:
    """Return whether the hint is a union with None; open JSON is not, although it may be null."""
    return _is_union(hint) and hint != JsonValue and type(None) in get_args(hint)


def without_none(hint: Any) -> Any:
    """Return an optional hint without its None."""
    return Union[tuple(each for each in get_args(hint) if each is not type(None))]  # noqa: UP007 - made while running


def alternatives(hint: Any) -> tuple[type, ...]:
    """Return the classes of a tagged union; empty if the hint is not such a union."""
    if is_any_command(hint):
        return commands.COMMANDS
    members: tuple[Any, ...] = get_args(hint) if _is_union(hint) else ()
    return members if all(map(is_value_class, members)) else ()


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


def wire_fields(cls: type) -> tuple["attrs.Attribute[Any]", ...]:
    """Return the fields of a class that are on the wire; fields that callers cannot set are not."""
    fields: tuple[attrs.Attribute[Any], ...] = attrs.fields(cls)
    return tuple(field for field in fields if field.init)
