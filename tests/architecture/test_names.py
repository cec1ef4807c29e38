"""Names: one meaning each, in words that say something."""

import ast
from collections import defaultdict
from pathlib import Path

from tests.architecture._source import ROOT, parse, python_files

EMPTY_WORDS = {"of", "at", "left", "shown", "told", "kept", "coming"}
TWICE = {"ToolError": "extension authors raise one, the model's code another; both are names that others write"}
CONTRACT = {  # fields of values that travel or are stored: their names are part of the format
    "session_core/vocabulary",
    "frontends/server/http/scoped_tokens.py",
}


def names_made(path: Path) -> tuple[list[str], list[str]]:
    """Return the class names that a module defines, and the places where it makes a name of an empty word."""
    class_names, empty = [], []
    for node in ast.walk(parse(path)):
        match node:
            case ast.ClassDef(name=name):
                class_names.append(name)
                made = name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
                made = name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                made = name
            case _:
                continue
        if made.strip("_").lower() in EMPTY_WORDS:
            empty.append(f"{path}:{node.lineno}: {made}")
    return class_names, empty


def test_names_have_one_meaning() -> None:
    """No class name exists twice, and nothing is called `of`, `at`, `left`, `shown`, `told`, `kept` or `coming`."""
    places = defaultdict(list)
    empty: list[str] = []
    for path in python_files("session_core", "frontends"):
        found = names_made(path)
        for name in found[0]:
            places[name].append(str(path))
        if not any(str(path.relative_to(ROOT)).startswith(each) for each in CONTRACT):
            empty += found[1]
    assert {} == {name: where for name, where in places.items() if len(where) > 1 and name not in TWICE}
    assert all(len(places[name]) > 1 for name in TWICE), "an exception that is not needed any more"
    assert [] == empty


def test_such_names_are_found(tmp_path: Path) -> None:
    """Classes are collected by name, and names that are empty words are found with their places."""
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("class A: ...\ndef told(): ...\n", encoding="utf-8")
    two.write_text("class A: ...\nself._kept = 1\n", encoding="utf-8")

    assert ((["A"], [f"{one}:2: told"]), (["A"], [f"{two}:2: _kept"])) == (names_made(one), names_made(two))
