"""Type hints as JSON schemas: what the schema accepts is what reading accepts, and the value has the type."""

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NewType, Optional, TypedDict, Union

import attrs
import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.sep.sdk import Extension
from session_core.sep.sdk.json_types import NotDescribable, WrongArgument, shape_of
from session_core.sep.sdk.testing import TestHost
from tests.strategies import plain_json


class Colour(enum.Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    """A size."""

    SMALL = 1
    LARGE = 2


@attrs.frozen
class Point:
    """A place."""

    x: int
    y: float = 0.0
    _hidden: str = "h"


@dataclasses.dataclass
class Line:
    """Two places."""

    ends: tuple[Point, Point]
    colour: Colour = Colour.RED
    tags: list[str] = dataclasses.field(default_factory=list)


ScalarHint = st.sampled_from(
    [str, int, float, bool, None, Path, Colour, Size, Literal["a", "b"], Literal[1, True, "1"], Literal[2]]
)


def _of(kind: Any, shape: Any = lambda item: item) -> Any:
    """Return a function that puts a hint into another one."""
    return lambda item: kind[shape(item)]


def _hints(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        inner.map(_of(list)),
        inner.map(_of(tuple, lambda item: (item, ...))),
        inner.map(_of(dict, lambda item: (str, item))),
        inner.map(_of(Annotated, lambda item: (item, "described"))),
        inner.map(_of(Optional)),
        ScalarHint.map(_of(set)),
        ScalarHint.map(_of(frozenset)),
        st.tuples(inner, inner).map(_of(tuple)),
        st.tuples(inner, inner).map(_of(Union)),
        st.tuples(inner, inner).map(_made_class),
    )


def _made_class(hints: tuple[Any, Any]) -> Any:
    needed, other = hints
    return attrs.make_class("Made", {"a": attrs.field(type=needed), "b": attrs.field(default=1, type=other)})


HINTS = st.recursive(ScalarHint | st.sampled_from([Any, Point, Line, list, dict]), _hints, max_leaves=4)
SCALARS = [None, True, False, 0, 1, 2, 1.0, 2.5, "", "a", "red", "1", 1e300]


def _values(hint: Any) -> st.SearchStrategy[Any]:
    """JSON that often fits a hint, and often nearly."""
    schema = shape_of(hint).schema
    return st.deferred(lambda: _fitting(schema)) | plain_json | st.sampled_from(SCALARS)


def _fitting(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    near = st.sampled_from(SCALARS)
    if "anyOf" in schema:
        return st.one_of(*map(_fitting, schema["anyOf"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"]) | near
    match schema.get("type"):
        case "array" if "prefixItems" in schema:
            return st.tuples(*map(_fitting, schema["prefixItems"])).map(list)
        case "array":
            return st.lists(_fitting(schema["items"]), max_size=3)
        case "object" if "properties" in schema:
            parts = {name: _fitting(each) for name, each in schema["properties"].items()}
            needed = {name: each for name, each in parts.items() if name in schema.get("required", ())}
            others = {name: each for name, each in parts.items() if name not in needed}
            return st.fixed_dictionaries(needed, optional={**others, "other": near})
        case "object":
            return st.dictionaries(st.sampled_from(["k", "l"]), _fitting(schema["additionalProperties"]), max_size=2)
        case "string":
            return st.sampled_from(["", "a", "red"])
        case "integer":
            return st.sampled_from([0, 1, -3, 2.0])
        case "number":
            return st.sampled_from([0, 1.5])
        case _:
            return near


@given(data=st.data(), hint=HINTS)
def test_schema_and_reading_agree(data: st.DataObject, hint: Any) -> None:
    """Whatever the hint, a value is read if and only if the schema accepts it."""
    shape = shape_of(hint)
    value = data.draw(_values(hint))
    try:
        shape.read("here", value)
        fault = None
    except WrongArgument as wrong:
        fault = str(wrong)
    assert fault is None or fault.startswith("here")
    accepted = jsonschema_rs.validator_for(dict(shape.schema)).is_valid(value)
    assert accepted == (fault is None), (shape.schema, value, fault)


@pytest.mark.parametrize(
    ("hint", "given_", "read"),
    [
        (int, 3.0, 3),
        (float, 3, 3.0),
        (Path, "a/b", Path("a/b")),
        (Colour, "red", Colour.RED),
        (Size, 2, Size.LARGE),
        (Literal[1, True], True, True),
        (set[int], [1, 1.0, 2], {1, 2}),
        (frozenset[str], ["a"], frozenset({"a"})),
        (tuple[int, str], [1, "a"], (1, "a")),
        (tuple[int, ...], [1, 2], (1, 2)),
        (Sequence[int], [1], [1]),
        (Iterable[str], ["a"], ["a"]),
        (Mapping[str, Size], {"a": 1}, {"a": Size.SMALL}),
        (int | None, None, None),
        (Point, {"x": 1, "hidden": "no"}, Point(1, 0.0, "no")),
        (Line, {"ends": [{"x": 1}, {"x": 2, "y": 3}]}, Line((Point(1), Point(2, 3.0)))),
        (NewType("Id", str), "a", "a"),
        (Any, [{}], [{}]),
    ],
)
def test_values(hint: Any, given_: Any, read: Any) -> None:
    """A value has the type of its hint."""
    found = shape_of(hint).read("", given_)
    assert (found, type(found)) == (read, type(read))


@pytest.mark.parametrize(
    ("hint", "given_", "sentence"),
    [
        (list[int], [1, "a"], "here[1]: expected a whole number, got text"),
        (dict[str, Point], {"k": {}}, "here.k.x: is missing"),
        (Colour, "green", 'here: must be one of "red", "blue"'),
        (int | str, [], "here: expected a whole number, got a list; or expected text, got a list"),
        (Point, {"x": 1, "z": 2}, "here.z: there is no such argument; known are: hidden, x, y"),
        (tuple[int, int], [1], "here: expected a list of 2"),
        (bool, 1, "here: expected true or false, got a number"),
    ],
)
def test_mistakes(hint: Any, given_: Any, sentence: str) -> None:
    """A mistake is named with its place and what was expected."""
    with pytest.raises(WrongArgument) as wrong:
        shape_of(hint).read("here", given_)
    assert str(wrong.value) == sentence


class Typed(TypedDict):
    """A dict with known keys."""

    a: int


class Named(NamedTuple):
    """A tuple with names."""

    a: int


@attrs.frozen
class Tree:
    """Something within itself."""

    children: "list[Tree]"


class Odd(enum.Enum):
    """Values that JSON does not know."""

    THING = object()


@pytest.mark.parametrize(
    "hint",
    [
        *(bytes, bytearray, object(), complex, Typed, Named, Tree, Odd, set[list[int]], Literal[b"x"]),
        *(dict[int, str], dict[Annotated[str, {"minLength": 1}], str]),
    ],
)
def test_hints_without_a_form(hint: Any) -> None:
    """What a JSON schema cannot say is refused where it is written, and not when a model calls."""
    with pytest.raises(NotDescribable):
        shape_of(hint)


def test_validators_of_classes() -> None:
    """A class may refuse a value with an error of its own."""

    @attrs.frozen
    class Even:
        n: int = attrs.field(validator=attrs.validators.ge(0))

    with pytest.raises(WrongArgument, match="'n' must be >= 0"):
        shape_of(Even).read("", {"n": -2})


async def test_schemas_of_functions() -> None:
    """Hints, defaults and descriptions of a function are what models are shown, whatever the defaults are."""
    ext = Extension("described")

    @ext.tool
    async def draw(  # type: ignore[no-untyped-def]  # noqa: PLR0917 - one of each
        where: Point,
        how: Annotated[Literal["fine", "coarse"], "how fine"] = "fine",
        colour: Colour = Colour.BLUE,
        size: Size = Size.LARGE,
        limit: float = float("inf"),
        count: Annotated[int, {"minimum": 1}] = 1,
        *,
        maybe: str | None = None,
        untyped=(),  # noqa: ANN001 - authors leave hints out
    ) -> str:
        """Draw."""
        return f"{where.x} {how} {colour.name} {size!r} {limit} {count} {maybe} {untyped}"

    async with TestHost(ext) as host:
        schema = ext.registry.wire()["tools"][0]["parameters"]
        assert schema["required"] == ["where"]
        told = {name: part.get("default") for name, part in schema["properties"].items()}
        assert told == {
            "where": None,
            "how": "fine",
            "colour": "blue",
            "size": 2,
            "limit": None,
            "count": 1,
            "maybe": None,
            "untyped": None,
        }
        assert schema["properties"]["how"] == {
            "enum": ["fine", "coarse"],
            "description": "how fine",
            "default": "fine",
        }
        assert (await host.call_tool("draw", where={"x": 1})).content == "1 fine BLUE <Size.LARGE: 2> inf 1 None ()"
        assert (await host.call_tool("draw", where={"x": 1}, count=0)).is_error
