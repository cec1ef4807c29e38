"""Names: one meaning each, in words that say something."""

from collections import defaultdict
from pathlib import Path

from tests.architecture._source import ROOT, python_files, read_facts

EMPTY_WORDS = {"of", "at", "left", "shown", "told", "kept", "coming"}
TWICE = {"ToolError": "extension authors raise one, the model's code another; both are names that others write"}
CONTRACT = {  # fields of values that travel or are stored: their names are part of the format
    "session_core/vocabulary",
    "frontends/server/http/scoped_tokens.py",
}


def empty_names(path: Path, root: Path = ROOT) -> list[str]:
    """Return the places where a module makes a name of an empty word."""
    made = read_facts(path, root).names_made
    return [f"{path}:{each.line}: {each.name}" for each in made if each.name.strip("_").lower() in EMPTY_WORDS]


def class_names(path: Path, root: Path = ROOT) -> list[str]:
    """Return the names of the classes that a module defines."""
    return [each.name for each in read_facts(path, root).names_made if each.is_class]


def test_names_have_one_meaning() -> None:
    """No class name exists twice, and nothing is called `of`, `at`, `left`, `shown`, `told`, `kept` or `coming`."""
    places = defaultdict(list)
    empty: list[str] = []
    for path in python_files("session_core", "frontends"):
        for name in class_names(path):
            places[name].append(str(path))
        if not any(str(path.relative_to(ROOT)).startswith(each) for each in CONTRACT):
            empty += empty_names(path)
    assert {} == {name: where for name, where in places.items() if len(where) > 1 and name not in TWICE}
    assert all(len(places[name]) > 1 for name in TWICE), "an exception that is not needed any more"
    assert [] == empty


def test_such_names_are_found(tmp_path: Path) -> None:
    """Classes are collected by name, and names that are empty words are found with their places."""
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("class A: ...\ndef told(): ...\n", encoding="utf-8")
    two.write_text("class A: ...\nself._kept = 1\n", encoding="utf-8")

    assert [["A"], ["A"]] == [class_names(each, tmp_path) for each in (one, two)]
    assert [[f"{one}:2: told"], [f"{two}:2: _kept"]] == [empty_names(each, tmp_path) for each in (one, two)]
