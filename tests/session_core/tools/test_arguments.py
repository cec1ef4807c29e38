"""Arguments: every fault is named, and schemas from outside can do no harm."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.tools.arguments import (
    check_arguments,
    check_schema,
    count_argument,
    flag_argument,
    objects_argument,
    path_argument,
    refuse_unknown,
    text_argument,
)
from session_core.tools.base import ToolFailed
from session_core.tools.files import coding_file_tools, file_tools
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.tools import ToolSpec

EDIT = {
    "type": "object",
    "properties": {"old": {"type": "string", "minLength": 1}, "new": {"type": ["string", "null"]}},
    "required": ["old"],
    "additionalProperties": False,
}
PARAMETERS = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "lines": {"type": "integer", "minimum": 1, "maximum": 9},
        "show": {"enum": ["files", "lines"]},
        "edits": {"type": "array", "minItems": 1, "items": EDIT},
    },
    "required": ["path"],
    "additionalProperties": False,
}


def tool(parameters: dict[str, Any]) -> ToolSpec:
    return ToolSpec(name="look", description="", parameters=JsonObject(parameters))


def check(**arguments: Any) -> str | None:
    return check_arguments(tool(PARAMETERS), JsonObject(arguments))


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"path": "a"}, None),
        ({"path": "a", "lines": 9.0, "edits": [{"old": "x", "new": None}]}, None),
        ({}, "the argument 'path' is missing"),
        ({"path": 5}, "the argument 'path' must be text, not 5"),
        ({"path": None}, "the argument 'path' must be text, not null"),
        ({"path": True}, "the argument 'path' must be text, not true"),
        ({"path": ["a"]}, "the argument 'path' must be text, not a list"),
        ({"path": "a", "lines": "3"}, "the argument 'lines' must be a whole number, not text"),
        ({"path": "a", "lines": 0}, "the argument 'lines' must be at least 1"),
        ({"path": "a", "lines": 10}, "the argument 'lines' must be at most 9"),
        ({"path": "a", "show": "all"}, 'the argument \'show\' must be one of "files", "lines"'),
        ({"path": "a", "line": 1}, "look has no argument 'line'; it takes path, lines, show, edits"),
        ({"path": "a", "edits": []}, "the argument 'edits' must not be empty"),
        ({"path": "a", "edits": [{}]}, "the argument 'edits[0].old' is missing"),
        ({"path": "a", "edits": [{"old": ""}]}, "the argument 'edits[0].old' must not be empty"),
        (
            {"path": "a", "edits": [{"old": "x", "new": {}}]},
            "the argument 'edits[0].new' must be null or text, not an object",
        ),
        ({"path": "a", "edits": [{"old": "x", "by": 1}]}, "unknown field 'by' in 'edits[0]'"),
    ],
)
def test_every_fault_is_named(arguments: dict[str, Any], fault: str | None) -> None:
    """Whatever is wrong, the sentence names the argument and says what would be right."""
    assert fault == check(**arguments)


def test_a_few_faults_are_told_at_once() -> None:
    """Several faults come in one sentence, but never more than a model can use."""
    said = check(path=1, lines=0, show="x", edits=[])

    assert said is not None
    assert 3 == len(said.split("; "))


def test_a_long_value_makes_no_long_sentence() -> None:
    """The value that is wrong is not repeated at length."""
    spec = tool({"type": "object", "properties": {"a": {"pattern": "^x"}}})

    said = check_arguments(spec, JsonObject({"a": "y" * 100_000}))

    assert said is not None
    assert said.startswith("the argument 'a' does not fit")
    assert len(said) < 500


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "nonsense"},
        {"properties": {"a": {"pattern": "("}}},
        {"$ref": "http://127.0.0.1:9/schema"},
        {"$ref": "file:///etc/hostname"},
        {"$schema": "http://127.0.0.1:9/draft"},
        {"properties": {"a": {"const": "\ud800"}}},
    ],
)
def test_a_schema_that_cannot_be_used_is_an_error_of_the_tool(parameters: dict[str, Any]) -> None:
    """A broken schema, or one that would have us fetch something, is told as the tool's fault and never raises."""
    said = check_arguments(tool(parameters), JsonObject())

    assert said is not None
    assert said.startswith("the tool 'look' cannot be used: its parameters are not a valid JSON schema: ")
    assert check_schema(tool(parameters))


def test_schemas_that_python_takes_for_equal_are_told_apart() -> None:
    """A schema with 1 and one with true are two schemas, though 1 == True in Python."""
    one, true = tool({"properties": {"a": {"const": 1}}}), tool({"properties": {"a": {"const": True}}})

    assert check_arguments(one, JsonObject({"a": 1})) is None
    assert check_arguments(true, JsonObject({"a": True})) is None
    assert check_arguments(true, JsonObject({"a": 1})) is not None


def test_a_hostile_pattern_ends() -> None:
    """A pattern that would take for ever is given up, and the arguments do not pass for right."""
    spec = tool({"properties": {"a": {"pattern": r"^(?=(a+)+$)(a|aa)+\1$"}}})

    assert check_arguments(spec, JsonObject({"a": "a" * 60 + "!"})) is not None


@pytest.mark.parametrize("spec", [each.spec for each in (*file_tools(), *coding_file_tools())], ids=lambda s: s.name)
def test_our_own_schemas_can_be_used(spec: ToolSpec) -> None:
    """The schema of every file tool is valid and refuses what the tool does not know."""
    assert check_schema(spec) is None
    assert check_arguments(spec, JsonObject({"nonsense": 1})) is not None


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(arguments=st.dictionaries(st.sampled_from(["path", "lines", "edits", "x\ud800"]), json))
def test_whatever_the_arguments_there_is_an_answer(arguments: dict[str, Any]) -> None:
    """No JSON makes the check fail otherwise than with a sentence."""
    said = check(**arguments)

    assert said is None or isinstance(said, str)
    if "path" not in arguments:
        assert said


@pytest.mark.parametrize(
    ("read", "fault"),
    [
        (lambda: path_argument(JsonObject()), "'path' is missing"),
        (lambda: path_argument(JsonObject({"path": ""})), "'path' must be the name of a file"),
        (lambda: path_argument(JsonObject({"path": "a\0b"})), "'path' cannot be a path"),
        (lambda: path_argument(JsonObject({"path": "x" * 5000})), "'path' is longer than 4096"),
        (lambda: path_argument(JsonObject({"path": "\ud800"})), "unpaired surrogate"),
        (lambda: text_argument(JsonObject(), "content"), "'content' is missing"),
        (lambda: text_argument(JsonObject({"content": 1}), "content"), "'content' must be text"),
        (lambda: text_argument(JsonObject({"content": "x" * 1_000_001}), "content"), "longer than 1,000,000"),
        (lambda: text_argument(JsonObject({"content": "\udfff"}), "content"), "unpaired surrogate"),
        (lambda: count_argument(JsonObject({"n": -1}), "n", minimum=0), "'n' must be a whole number of at least 0"),
        (lambda: count_argument(JsonObject({"n": True}), "n"), "'n' must be a whole number of at least 1"),
        (lambda: count_argument(JsonObject({"n": 1.5}), "n"), "'n' must be a whole number of at least 1"),
        (lambda: flag_argument(JsonObject({"f": 1}), "f"), "'f' must be true or false"),
        (lambda: objects_argument(JsonObject(), "e", limit=2), "'e' is missing"),
        (lambda: objects_argument(JsonObject({"e": []}), "e", limit=2), "'e' must be a non-empty list"),
        (lambda: objects_argument(JsonObject({"e": [1]}), "e", limit=2), "'e' must be a list of objects"),
        (lambda: objects_argument(JsonObject({"e": [{}] * 3}), "e", limit=2), "the maximum is 2"),
        (lambda: refuse_unknown(JsonObject({"x": 1}), tool(PARAMETERS)), "look has no argument 'x'"),
    ],
)
def test_the_readers_trust_nobody(read: Any, fault: str) -> None:
    """A tool that reads its arguments refuses wrong ones itself, whoever has checked them before."""
    with pytest.raises(ToolFailed, match=r"argument|edits") as caught:
        read()

    assert fault in str(caught.value)


def test_what_was_left_out_has_its_default() -> None:
    """An argument that is missing or null is as good as left out."""
    nothing = JsonObject({"a": None})

    assert "." == path_argument(nothing, "a", default=".")
    assert "x" == text_argument(nothing, "a", default="x")
    assert None is count_argument(nothing, "a")
    assert flag_argument(nothing, "a", default=True)
    assert 3 == count_argument(JsonObject({"n": 3.0}), "n")
