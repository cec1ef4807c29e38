"""Random values of the whole vocabulary, made from its type hints, and random damage to documents."""

import copy
from functools import cache
from typing import Any, NewType, TypeVar, cast, get_args, get_origin

from hypothesis import strategies as st
from typing_extensions import TypeForm

from session_core import limits
from session_core.vocabulary.frozen import JsonObject, JsonValue, Rope, freeze_json
from session_core.wire.catalogue import (
    alternatives,
    is_list,
    is_literal,
    is_optional,
    is_value_class,
    wire_fields,
    without_none,
)

T = TypeVar("T")

texts = st.text(max_size=8)
whole_numbers = st.integers(min_value=-limits.MAX_INTEGER, max_value=limits.MAX_INTEGER)
scalars = st.none() | st.booleans() | whole_numbers | st.floats(allow_nan=False, allow_infinity=False) | texts
plain_json = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6
)
"""JSON as a parser gives it: dicts, lists and scalars."""


def values_of(hint: TypeForm[T]) -> st.SearchStrategy[T]:
    """Any value of a vocabulary class, of a union such as `Event`, or of any other hint the vocabulary uses."""
    anything: Any = hint
    strategy: st.SearchStrategy[T] = _values_of(anything)
    return strategy


@st.composite
def damaged(draw: st.DrawFn, document: Any) -> Any:
    """A copy of a parsed document with one thing left out, added, or replaced by something else."""
    root = {"document": copy.deepcopy(document)}
    container, key = draw(st.sampled_from(list(_places(root))))
    kind = draw(st.sampled_from(["replace", "replace", "drop", "add"]))
    if kind == "add" and isinstance(container[key], dict):
        container[key][draw(texts)] = draw(_replacements)
    elif kind == "drop" and container is not root:
        del container[key]
    else:
        container[key] = draw(_replacements)
    return root["document"]


# Floats that are whole numbers are left out: JSON schema takes them for integers, and so the two readers disagree.
_replacements: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | whole_numbers | st.just(0.5) | texts | st.just([]) | st.just({})
)


def _places(container: Any) -> list[tuple[Any, Any]]:
    """Every place in a document, as a container and a key or an index."""
    found: list[tuple[Any, Any]] = []
    for key, each in container.items() if isinstance(container, dict) else enumerate(container):
        found.append((container, key))
        if isinstance(each, dict | list):
            found.extend(_places(each))
    return found


def _rope_of(fragments: list[str]) -> Rope:
    rope = Rope()
    for fragment in fragments:
        rope = rope.append(fragment)
    return rope


_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: texts,
    int: whole_numbers,
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    Rope: st.lists(texts, max_size=3).map(_rope_of),
    JsonObject: st.dictionaries(texts, plain_json, max_size=3).map(JsonObject),
    JsonValue: plain_json.map(freeze_json),
}


@cache
def _values_of(hint: Any) -> st.SearchStrategy[Any]:
    if isinstance(hint, NewType):
        return _values_of(hint.__supertype__)
    if hint in _PLAIN:
        return _PLAIN[hint]
    if is_literal(hint):
        return st.sampled_from(get_args(hint))
    if is_optional(hint):
        return st.none() | _values_of(without_none(hint))
    if is_list(hint):
        container: Any = get_origin(hint)
        return st.lists(_values_of(get_args(hint)[0]), max_size=2).map(container)
    if is_value_class(hint):
        return st.builds(hint, **{field.name: _values_of(cast(Any, field.type)) for field in wire_fields(hint)})
    classes = alternatives(hint)
    assert classes, f"no values are known for {hint}"
    return st.sampled_from(classes).flatmap(_values_of)
