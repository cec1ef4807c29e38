"""The `__init__.py` of a package is its map: a half page that names every module in it."""

import ast
import re
from pathlib import Path

from tests.architecture._source import ROOT, python_files

WITHOUT_A_MAP = {"session_core"}  # a door, described by docs/architecture.md
GERUNDS = re.compile(r"ing$")


def missing_in(package: Path) -> list[str]:
    """Return the modules and packages that a map does not name."""
    doc = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    named = set(re.findall(r"`(\w+)`", doc))
    modules = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}
    packages = {path.name for path in package.iterdir() if (path / "__init__.py").exists()}
    return sorted((modules | packages) - named)


def stale_in(package: Path) -> list[str]:
    """Return the names at the head of bullets that are no modules: `- `one`, `two`: what they hold`."""
    doc = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    heads = re.findall(r"^(?:- |\| )((?:`\w+`(?:, )?)+)(?::| \|)", doc, re.MULTILINE)
    named = {name for head in heads for name in re.findall(r"`(\w+)`", head)}
    return sorted(name for name in named if not (package / name).is_dir() and not (package / f"{name}.py").exists())


def test_every_module_is_in_its_map() -> None:
    """No module can be added to a package without a word about it in the package's map."""
    packages = [path.parent for path in python_files("session_core", "frontends") if path.name == "__init__.py"]
    assert packages
    found = {str(each.relative_to(ROOT)): missing_in(each) for each in packages}
    assert {} == {name: missing for name, missing in found.items() if missing and name not in WITHOUT_A_MAP}


def test_maps_name_nothing_else() -> None:
    """What a bullet of a map begins with is a module or package that exists."""
    packages = [path.parent for path in python_files("session_core", "frontends") if path.name == "__init__.py"]
    found = {str(each.relative_to(ROOT)): stale_in(each) for each in packages}
    assert {} == {name: stale for name, stale in found.items() if stale and name not in WITHOUT_A_MAP}


def test_a_module_that_is_not_named_is_found(tmp_path: Path) -> None:
    """A map with a hole, and one with a name too many, is reported with the name of the module."""
    (tmp_path / "__init__.py").write_text('"""A map.\n\n- `named`, `gone`: here\n"""\n', encoding="utf-8")
    for name in ("named", "forgotten"):
        (tmp_path / f"{name}.py").touch()
    assert (["forgotten"], ["gone"]) == (missing_in(tmp_path), stale_in(tmp_path))


def test_modules_are_nouns() -> None:
    """No module is named by a gerund, but for those with a reason."""
    reasons = {
        "testing": "helpers for tests, the usual word",
        "ring": "a noun",
        "rendering": "a noun of the field",
        "finding": "a noun: the result of a check",
        "joined_mapping": "a mapping is a noun",
    }
    files = python_files("session_core", "frontends")
    named = {name for path in files for name in (path.stem, path.parent.name) if GERUNDS.search(name)}
    assert named <= reasons.keys(), sorted(named)
