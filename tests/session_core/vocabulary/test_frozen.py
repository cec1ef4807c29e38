"""Tests of session_core.vocabulary.frozen: containers that never change, and values that are frozen all the way."""

from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from session_core.vocabulary.frozen import JsonObject, Rope, Vector, freeze_json, thaw_json
from session_core.wire.catalogue import wire_classes
from tests._mostly_slow import mostly_slow
from tests.strategies import plain_json, texts, values_of

IMMUTABLE = (str, int, float, bool, bytes, type(None))


def assert_frozen(item: Any) -> None:
    """Fail if anything inside could be changed."""
    hash(item)
    if attrs.has(type(item)):
        for field in attrs.fields(type(item)):
            with pytest.raises(attrs.exceptions.FrozenInstanceError):
                setattr(item, field.name, None)
            assert_frozen(getattr(item, field.name))
        with pytest.raises((attrs.exceptions.FrozenInstanceError, AttributeError)):
            item.something_new = 1
    elif isinstance(item, tuple | Vector):
        for each in item:
            assert_frozen(each)
    elif isinstance(item, JsonObject):
        for each in item.values():
            assert_frozen(each)
    else:
        assert isinstance(item, (*IMMUTABLE, Rope))


@pytest.mark.parametrize("cls", mostly_slow(wire_classes(), quick=25), ids=lambda cls: cls.__name__)
def test_every_value_is_frozen_all_the_way_down(cls: type) -> None:
    """Any value of the vocabulary can be hashed, and no field of it or of anything in it can be set."""

    @settings(max_examples=3)
    @given(values_of(cls))
    def check(item: object) -> None:
        assert_frozen(item)

    check()


@given(st.lists(st.tuples(st.integers(0, 50), st.integers()), max_size=40), st.lists(st.integers(), max_size=5))
def test_no_view_of_a_vector_ever_changes(growth: list[tuple[int, int]], start: list[int]) -> None:
    """However views are grown from each other, each goes on holding exactly what it held when it was made."""
    views = [(Vector(start), tuple(start))]
    for choice, item in growth:
        vector, model = views[choice % len(views)]
        views.append((vector.append(item), (*model, item)))

    for vector, model in views:
        assert model == tuple(vector)
        assert tuple(reversed(model)) == tuple(reversed(vector))
        assert len(model) == len(vector)
        assert bool(model) == bool(vector)


@given(st.lists(st.integers(0, 3), max_size=6), st.integers(-8, 8), st.slices(6))
def test_a_vector_reads_like_a_tuple(items: list[int], index: int, part: slice) -> None:
    """Indexes, slices, searches and errors are those of a tuple, even when newer views are longer."""
    model, vector = tuple(items), Vector(items)
    vector.append(99)

    assert model[part] == vector[part]
    assert (index in model) == (index in vector)
    assert model.count(index) == vector.count(index)
    if -len(model) <= index < len(model):
        assert model[index] == vector[index]
    else:
        with pytest.raises(IndexError):
            vector[index]


@given(st.lists(st.booleans(), max_size=3), st.lists(st.booleans(), max_size=3))
def test_vectors_are_equal_when_their_items_are(some: list[bool], others: list[bool]) -> None:
    """Equality and hash depend on the items alone, not on how a vector came to be."""
    grown: Vector[bool] = Vector()
    for item in some:
        grown = grown.append(item)

    assert grown == Vector(some)
    assert hash(grown) == hash(Vector(some))
    assert (some == others) == (grown == Vector(others))
    assert grown != tuple(some)


def test_views_of_one_history_are_told_apart() -> None:
    """Views that share memory are equal only when they have the same length."""
    short = Vector([1])
    long = short.append(2)

    assert short != long
    assert short.append(2) == long
    assert repr(short) == "Vector([1])"
    assert repr(long) == "Vector([1, 2])"


def test_a_vector_keeps_nothing_of_the_list_it_was_made_from() -> None:
    """Changing the list afterwards does not change the vector."""
    source = [1]
    vector = Vector(source)
    source.append(2)

    assert vector == Vector([1])


@given(st.lists(st.tuples(st.integers(0, 50), texts), max_size=20), texts)
def test_no_view_of_a_rope_ever_changes(growth: list[tuple[int, str]], start: str) -> None:
    """However ropes are grown from each other, and whenever they are read, each keeps its text."""
    views = [(Rope(start), start)]
    for choice, fragment in growth:
        rope, text = views[choice % len(views)]
        if choice % 2:
            assert text == str(rope)
        views.append((rope.append(fragment), text + fragment))

    for rope, text in views:
        assert text == str(rope) == str(rope)
        assert Rope(text) == rope
        assert hash(Rope(text)) == hash(rope)
        assert bool(text) == bool(rope)
        assert f"Rope({text!r})" == repr(rope)


def test_a_rope_is_not_its_text() -> None:
    """A rope equals other ropes only."""
    assert Rope("a") != "a"
    assert Rope("a") != Rope("b")


@given(plain_json)
def test_json_is_frozen_and_thawed(plain: Any) -> None:
    """Freezing gives an immutable form with nothing lost, and freezing again changes nothing."""
    frozen = freeze_json(plain)

    assert_frozen(frozen)
    assert repr(plain) == repr(thaw_json(frozen))
    assert frozen == freeze_json(frozen) == freeze_json(plain)


@given(st.dictionaries(texts, plain_json, max_size=4))
def test_a_json_object_reads_like_a_dict(plain: dict[str, Any]) -> None:
    """Keys, order, length, equality and hash are those of a mapping, however it was made."""
    built = JsonObject(plain)

    assert list(plain) == list(built)
    assert len(plain) == len(built)
    assert all(built[key] == freeze_json(plain[key]) for key in plain)
    assert built == JsonObject(plain.items())
    assert built == JsonObject(reversed(plain.items()))
    assert hash(built) == hash(JsonObject(reversed(plain.items()))) == hash(built)
    assert "no such key" not in built
    with pytest.raises(KeyError):
        built["no such key"]


def test_a_json_object_cannot_be_changed() -> None:
    """There is no way to set or delete a key, and what it was made from can go on changing."""
    source: dict[str, Any] = {"a": [1]}
    built: Any = JsonObject(source)
    source["a"].append(2)

    assert built == JsonObject({"a": (1,)})
    assert repr(built) == "JsonObject({'a': (1,)})"
    with pytest.raises(TypeError):
        built["a"] = 1
    with pytest.raises(TypeError):
        del built["a"]


@pytest.mark.parametrize("item", [b"", {1, 2}, object(), [1, b""], {"a": object()}])
def test_what_is_not_json_cannot_be_frozen(item: object) -> None:
    """Anything that is not JSON is refused by type, however deep it stands."""
    with pytest.raises(TypeError, match="not JSON"):
        freeze_json(item)
