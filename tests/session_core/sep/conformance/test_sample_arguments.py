"""Arguments that are made up from the schemas of tools."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.sep.conformance.sample_arguments import fits, sample_arguments, wrong_arguments

NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "name": {"type": "string"}}}


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": sorted(properties)}


@pytest.mark.parametrize(
    ("schema", "sample"),
    [
        ({}, {}),
        ({"type": "object"}, {}),
        (an_object(a={"type": "string"}), {"a": "sample"}),
        (an_object(a={"type": "string", "minLength": 9}), {"a": "samplexxx"}),
        (an_object(a={"type": "string", "maxLength": 2}), {"a": "sa"}),
        (an_object(a={"type": "string", "format": "date"}), {"a": "2024-01-31"}),
        (an_object(a={"type": ["null", "integer"]}), {"a": 1}),
        (an_object(a={"type": "integer", "minimum": 5}), {"a": 5}),
        (an_object(a={"type": "integer", "maximum": -5}), {"a": -5}),
        (an_object(a={"type": "integer", "exclusiveMinimum": 5, "multipleOf": 4}), {"a": 12}),
        (an_object(a={"type": "number", "minimum": 0.2, "maximum": 0.4}), {"a": pytest.approx(0.3)}),
        (an_object(a={"type": "boolean"}), {"a": True}),
        (an_object(a={"type": "null"}), {"a": None}),
        (an_object(a={"enum": ["x", "y"]}), {"a": "x"}),
        (an_object(a={"const": 7}), {"a": 7}),
        (an_object(a={"default": "d", "type": "string"}), {"a": "d"}),
        (an_object(a={"examples": ["e"], "type": "string"}), {"a": "e"}),
        (an_object(a={"type": "array", "items": {"type": "integer"}, "minItems": 2}), {"a": [1, 1]}),
        (an_object(a={"anyOf": [{"type": "integer"}, {"type": "string"}]}), {"a": 1}),
        (an_object(a={"allOf": [{"type": "string"}, {"minLength": 7}]}), {"a": "samplex"}),
        (an_object(a=an_object(b={"type": "string"})), {"a": {"b": "sample"}}),
        ({**an_object(a={"$ref": "#/$defs/t"}), "$defs": {"t": {"type": "integer"}}}, {"a": 1}),
    ],
)
def test_a_sample_fits(schema: dict[str, Any], sample: dict[str, Any]) -> None:
    """What is made up is the plainest thing that the schema allows."""
    assert sample == sample_arguments(schema)


@pytest.mark.parametrize(
    "schema",
    [
        an_object(a={"type": "string", "pattern": "^[0-9]{9}$"}),
        an_object(a={"not": {}}),
        {"type": "object", "minProperties": 1},
    ],
)
def test_what_cannot_be_made_up_is_left_out(schema: dict[str, Any]) -> None:
    """A schema that plain values do not meet has no sample, rather than a wrong one."""
    assert sample_arguments(schema) is None
    assert [] == list(wrong_arguments(schema))


def test_a_tree_has_an_end() -> None:
    """A schema that holds itself gets a sample of a few levels."""
    schema = {**an_object(root={"$ref": "#/$defs/node"}), "$defs": {"node": NODE}}

    sample = sample_arguments(schema)

    assert sample is not None
    assert len(str(sample)) < 1_000


def test_wrong_ones_have_one_fault_each() -> None:
    """One required argument is left out, and one is of another type; what is said of them is true."""
    schema = an_object(count={"type": "integer"}, text={"type": "string"})

    wrong = list(wrong_arguments(schema))

    assert ['without the required argument "count"', 'with an argument "count" of the wrong type'] == [
        each.what for each in wrong
    ]
    assert [{"text": "sample"}, {"count": "not of this type", "text": "sample"}] == [each.arguments for each in wrong]


def test_what_takes_anything_has_no_wrong_ones() -> None:
    """A tool that takes any arguments cannot be called wrongly."""
    assert [] == list(wrong_arguments({"type": "object", "properties": {"a": {}}}))


leaves = st.sampled_from(
    [{"type": "string"}, {"type": "integer", "minimum": 3}, {"type": "boolean"}, {"enum": [1, 2]}, {"type": "null"}, {}]
)
schemas = st.recursive(
    leaves,
    lambda inner: st.one_of(
        inner.map(lambda each: {"type": "array", "items": each}),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(lambda each: an_object(**each)),
        st.lists(inner, min_size=1, max_size=2).map(lambda each: {"anyOf": each}),
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from("abcd"), schemas, max_size=4))
def test_samples_of_random_schemas_fit(properties: dict[str, Any]) -> None:
    """Whatever is made up for a random schema fits it, and whatever is called wrong does not."""
    schema = an_object(**properties)

    sample = sample_arguments(schema)

    assert sample is not None
    assert fits(schema, sample)
    assert not any(fits(schema, each.arguments) for each in wrong_arguments(schema))
