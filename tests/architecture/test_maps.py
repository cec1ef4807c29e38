"""The `__init__.py` of a package is its map: a half page that names every module in it."""

import ast
import re
from pathlib import Path

from tests.architecture._source import ROOT, python_files

# Their modules are named by what they are for people: the root is a door, and these have maps of tables yet to come.
WITHOUT_A_MAP = {"session_core", "frontends", "frontends/terminal"}
GERUNDS = re.compile(r"ing$")


def missing_in(package: Path) -> list[str]:
    """Return the modules and packages that a map does not name."""
    doc = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    named = set(re.findall(r"`(\w+)`", doc))
    modules = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}
    packages = {path.name for path in package.iterdir() if (path / "__init__.py").exists()}
    return sorted((modules | packages) - named)


def test_every_module_is_in_its_map() -> None:
    """No module can be added to a package without a word about it in the package's map."""
    packages = [path.parent for path in python_files("session_core", "frontends") if path.name == "__init__.py"]
    assert packages
    found = {str(each.relative_to(ROOT)): missing_in(each) for each in packages}
    assert {} == {name: missing for name, missing in found.items() if missing and name not in WITHOUT_A_MAP}


def test_a_module_that_is_not_named_is_found(tmp_path: Path) -> None:
    """A map with a hole is reported with the name of the module."""
    (tmp_path / "__init__.py").write_text('"""A map.\n\n- `named`: here\n"""\n', encoding="utf-8")
    for name in ("named", "forgotten"):
        (tmp_path / f"{name}.py").touch()
    assert ["forgotten"] == missing_in(tmp_path)


def test_modules_are_nouns() -> None:
    """No module of session_core is named by a gerund, but for those with a reason."""
    reasons = {"testing": "helpers for tests, the usual word", "ring": "a noun"}
    named = {path.stem for path in python_files("session_core") if GERUNDS.search(path.stem)}
    named |= {path.parent.name for path in python_files("session_core") if GERUNDS.search(path.parent.name)}
    assert named <= reasons.keys(), sorted(named)
