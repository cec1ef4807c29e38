"""What a model is told that acts by writing code."""

import builtins
import keyword
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.protocols.code.instructions import (
    MOST_DOCUMENTATION_CHARS,
    MOST_TOOL_CHARS,
    build_instructions,
    function_names,
    render_documentation,
    render_signature,
)
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.tools import ToolSpec

READ = {
    "type": "object",
    "properties": {"limit": {"type": "integer"}, "path": {"type": "string", "description": "Which."}},
    "required": ["path"],
}
MOST_FRAME_CHARS = 4_000


def tool(name: str, parameters: Any = None, description: str = "Does it.") -> ToolSpec:
    """Describe a tool."""
    return ToolSpec(name=name, description=description, parameters=JsonObject(parameters or {"type": "object"}))


def named(*names: str) -> dict[str, str]:
    """Name the functions of tools of these names."""
    return function_names([tool(name) for name in names])


# --- names ------------------------------------------------------------------------------------------------------------


def test_names_of_functions() -> None:
    """Names that Python cannot have are changed in a way that can be foreseen."""
    assert {
        "read": "read",
        "todo.add": "todo_add",
        "mcp/get-page": "mcp_get_page",
        "2nd": "tool_2nd",
        "__init__": "tool___init__",
        "": "tool_",
        "größe": "gr__e",
    } == named("read", "todo.add", "mcp/get-page", "2nd", "__init__", "", "größe")


def test_names_that_are_taken_get_a_number() -> None:
    """A name that another tool has, or Python itself, gets a number; a tool that needs no change keeps its name."""
    assert {"a.b": "a_b_3", "a_b": "a_b", "a-b": "a_b_2"} == named("a.b", "a_b", "a-b")
    assert {
        "list": "list_2",
        "import": "import_2",
        "finish": "finish_2",
        "print": "print_2",
        "None": "None_2",
    } == named("list", "import", "finish", "print", "None")
    assert {"list": "list_3", "list_2": "list_2"} == named("list", "list_2")


@given(st.lists(st.text(alphabet="ab._-2", max_size=4) | st.sampled_from(["list", "list_2", "for"]), unique=True))
def test_every_tool_has_a_function_of_its_own(names: list[str]) -> None:
    """Whatever tools there are, each has one name that code can use, in any order of the tools."""
    found = named(*names)
    assert names == list(found)
    assert len(names) == len(set(found.values()))
    for name in found.values():
        assert name.isidentifier()
        assert not keyword.iskeyword(name)
        assert name not in dir(builtins)
    assert found == named(*reversed(names))


# --- signatures -------------------------------------------------------------------------------------------------------


def test_a_signature() -> None:
    """What is required comes first; what may be left out is marked."""
    assert "read(path: str, limit: int = ...)" == render_signature(tool("read", READ), "read")


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, "str"),
        ({"type": "number"}, "float"),
        ({"type": "boolean"}, "bool"),
        ({"type": "object"}, "dict"),
        ({"type": "array"}, "list"),
        ({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}, "list[list[int]]"),
        ({"type": ["string", "null"]}, "str | None"),
        ({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}, "str | list[str]"),
        ({"oneOf": [{"type": "string"}, {"type": "string"}]}, "str"),
        ({"enum": ["a", 1, None, True]}, 'Literal["a", 1, None, True]'),
        ({"type": "string", "enum": [str(n) for n in range(100)]}, "str"),
        ({"type": "nonsense"}, "Any"),
        ({"$ref": "#/x"}, "Any"),
        ({"type": 3}, "Any"),
        ({"anyOf": []}, "Any"),
        (True, "Any"),
        ("text", "Any"),
    ],
)
def test_types_of_arguments(schema: Any, kind: str) -> None:
    """The types of a schema are shown as Python writes them, and what has none as anything."""
    given = {"properties": {"x": schema}, "required": ["x"]}
    assert f"f(x: {kind})" == render_signature(tool("f", given), "f")


@pytest.mark.parametrize(
    ("parameters", "shown"),
    [
        ({"type": "object"}, "f(**arguments)"),
        ({"type": "object", "additionalProperties": False}, "f()"),
        (
            {"properties": {"from": {"type": "string"}, "a-b": {}, "to": {}}},
            'f(to: Any = ..., **{"from": str}, **{"a-b": Any})',
        ),
        ({"properties": "nonsense", "required": "x"}, "f(**arguments)"),
        ({"properties": {"x": {}}, "required": [3, "y"]}, "f(x: Any = ...)"),
    ],
)
def test_odd_arguments(parameters: Any, shown: str) -> None:
    """Arguments that are no names of Python are shown as they can be passed, and schemas of any shape are borne."""
    assert shown == render_signature(tool("f", parameters), "f")


def test_deep_and_wide_schemas() -> None:
    """A schema that is nested deeply, or has a thousand arguments, makes a short signature."""
    deep: Any = {"type": "string"}
    for _ in range(50):
        deep = {"type": "array", "items": deep}
    assert "f(x: list[list[list[Any]]] = ...)" == render_signature(tool("f", {"properties": {"x": deep}}), "f")
    wide: Any = {"properties": {f"x{n}": {} for n in range(1_000)}}
    assert render_signature(tool("f", wide), "f").endswith(", x39: Any = ..., **arguments)")


def test_documentation() -> None:
    """What `help` shows has the signature, the whole description and the schema, within bounds."""
    shown = render_documentation(tool("read", READ, "Reads.\n\nAll of it."), "read")
    assert "read(path: str, limit: int = ...)\n\nReads.\n\nAll of it.\n\n" in shown
    assert '"description": "Which."' in shown
    assert MOST_DOCUMENTATION_CHARS == len(render_documentation(tool("x", READ, "long " * 10_000), "x"))


# --- the whole --------------------------------------------------------------------------------------------------------


def test_the_text() -> None:
    """The text shows a cell, says how to end, and lists the functions with the start of what they do."""
    shown = build_instructions([tool("todo.add", READ, "Adds a\nthing.\n\nMore about it.")])
    assert "```python\nprint(1 + 1)\n```" in shown
    assert "answer without a cell" in shown
    assert "- todo_add(path: str, limit: int = ...): Adds a thing.\n" in f"{shown}\n"
    assert "More about it" not in shown


def test_how_a_turn_ends() -> None:
    """Where finish is required, the text says that nothing else ends the turn."""
    assert "nothing else ends your work" in build_instructions([], finish_required=True)
    assert "nothing else ends your work" not in build_instructions([])


@pytest.mark.parametrize(
    ("tools", "shown", "not_shown"),
    [
        (0, "There are no functions", "help(name)"),
        (20, "- tool_1(path: str, limit: int = ...): Does", "They are many"),
        (300, "- tool_299(path: str, limit: int = ...)\n", ": Does"),
        (1_000, "tool_998, tool_999", "(path"),
        (5_000, "more", "tool_4999"),
    ],
)
def test_many_tools_are_shown_in_less_detail(tools: int, shown: str, not_shown: str) -> None:
    """However many tools there are, the text stays short; it loses descriptions, then arguments, then names."""
    text = build_instructions([tool(f"tool_{n}", READ, "Does it. " * 30) for n in range(tools)]) + "\n"
    assert shown in text
    assert not_shown not in text
    assert len(text) < MOST_TOOL_CHARS + MOST_FRAME_CHARS


def test_one_long_name_is_not_shown_whole() -> None:
    """A tool with a name of any length keeps the text short."""
    assert len(build_instructions([tool("x" * 100_000, READ)])) < MOST_TOOL_CHARS + MOST_FRAME_CHARS
