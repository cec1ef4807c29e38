"""Property tests on trio can be replayed.

trio's scheduler shuffles runnable tasks with its own use of `random`. Only a test that draws `st.random_module()`
runs the same way again when hypothesis shrinks or replays a failure.
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from tests.architecture._source import Function, functions_under_test, place, python_files, read_facts


def called_name(node: ast.expr) -> str | None:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name
        case _:
            return None


def unreplayable(tests: Iterable[Function]) -> Iterator[ast.AsyncFunctionDef]:
    """Every async test whose `@given` draws no random_module."""
    for function in tests:
        if not isinstance(function, ast.AsyncFunctionDef):
            continue
        for decorator in function.decorator_list:
            drawn = {called_name(node) for node in ast.walk(decorator) if isinstance(node, ast.expr)}
            if called_name(decorator) == "given" and "random_module" not in drawn:
                yield function


def faults(path: Path) -> Iterator[str]:
    for function in unreplayable(read_facts(path).tests):
        yield f"{place(path, function.lineno)}: {function.name} must draw st.random_module(), or it cannot be replayed"


def test_async_properties_can_be_replayed() -> None:
    """Every async property test draws st.random_module(), so that its failures can be replayed."""
    properties = [path for path in python_files("tests") if "given" in path.read_text(encoding="utf-8")]

    assert properties
    assert [] == [fault for path in properties for fault in faults(path)]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("@given(st.text())\nasync def test_x(text): ...", ["test_x"]),
        ("@settings(max_examples=3)\n@hypothesis.given(x=st.text())\nasync def test_x(x): ...", ["test_x"]),
        ("class TestX:\n    @given(st.text())\n    async def test_x(self, text): ...", ["test_x"]),
        ("@given(st.text(), st.random_module())\nasync def test_x(text, rnd): ...", []),
        ("@given(text=st.text(), rnd=random_module())\nasync def test_x(text, rnd): ...", []),
        ("@given(st.text())\ndef test_x(text): ...", []),
        ("async def test_x(): ...", []),
    ],
)
def test_what_counts_as_replayable(source: str, found: list[str]) -> None:
    """An async property test without random_module is found however it is written, and nothing else is."""
    assert found == [function.name for function in unreplayable(functions_under_test(ast.parse(dedent(source))))]
