"""Async fixtures are asked for by name.

pytest-trio starts only those fixtures that a test, or another fixture, has as a parameter. One that is async, or needs
an async one, is silently never started if it is `autouse` or only named by `usefixtures`.
"""

import ast
from collections.abc import Iterable, Iterator

import pytest

from tests.architecture._source import parse, place, python_files

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def fixture_decorator(function: Function) -> str | None:
    return next((said for each in function.decorator_list if "fixture" in (said := ast.unparse(each))), None)


def find_async_fixtures(tree: ast.AST, known: Iterable[str] = ()) -> set[str]:
    """Return the names of the fixtures of a module that pytest-trio has to start; `known` are those of others."""
    fixtures = [each for each in functions(tree) if fixture_decorator(each) is not None]
    found = {each.name for each in fixtures if isinstance(each, ast.AsyncFunctionDef)}
    while more := {each.name for each in fixtures if parameters(each) & {*found, *known, "nursery"}} - found:
        found |= more
    return found


def parameters(function: Function) -> set[str]:
    return {each.arg for each in (*function.args.args, *function.args.kwonlyargs)}


def find_never_started(tree: ast.AST, known: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the fixtures that nobody starts, with the line; `known` are async fixtures of other modules."""
    known = set(known)
    found = find_async_fixtures(tree, known)
    for function in functions(tree):
        if "autouse=True" in (fixture_decorator(function) or "") and function.name in found:
            yield function.lineno, function.name
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="usefixtures"), args=names):
                for name in names:
                    if isinstance(name, ast.Constant) and name.value in found | known:
                        yield node.lineno, str(name.value)
            case _:
                pass


def test_async_fixtures_are_asked_for() -> None:
    """No async fixture of the tests relies on being started by itself."""
    trees = {path: parse(path) for path in python_files("tests") if "fixture" in path.read_text(encoding="utf-8")}
    shared = {name for path, tree in trees.items() if path.name == "conftest.py" for name in find_async_fixtures(tree)}
    assert shared
    found = [
        f"{place(path, line)}: {name} is async, so it runs only for tests that have it as a parameter"
        for path, tree in trees.items()
        for line, name in find_never_started(tree, shared)
    ]
    assert [] == found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("@pytest.fixture(autouse=True)\nasync def a(): ...", ["a"]),
        ("@pytest.fixture\nasync def a(): ...\n@pytest.fixture(autouse=True)\ndef b(a): ...", ["b"]),
        ("@pytest.fixture(autouse=True)\ndef a(nursery): ...", ["a"]),
        ("@pytest.fixture\nasync def a(): ...\npytestmark = pytest.mark.usefixtures('a')", ["a"]),
        ("pytestmark = pytest.mark.usefixtures('shared')", ["shared"]),
        ("@pytest.fixture(autouse=True)\ndef a(shared): ...", ["a"]),
        ("@pytest.fixture(autouse=True)\ndef a(tmp_path): ...", []),
        ("@pytest.fixture\nasync def a(): ...\nasync def test_x(a): ...", []),
    ],
)
def test_what_counts_as_never_started(source: str, found: list[str]) -> None:
    """A fixture that is async or needs an async one is found where nobody asks for it by name, and no other."""
    assert found == [name for _, name in find_never_started(ast.parse(source), ["shared"])]
