"""`session_core` is one lazy door: three lists that agree, and an import that costs next to nothing.

The door (`session_core/__init__.py`) says the same thing three times, each for another reader: a table from name to
defining module for `__getattr__`, imports of the form `X as X` under TYPE_CHECKING for the type checkers, and a sorted
`__all__` for people. Names with double underscores, like `__version__`, are plain and need no entry.
"""

import ast
import re
import sys
from importlib import import_module
from pathlib import Path

import attrs
import pytest
import trio

from tests.architecture._source import ROOT, module_name, package_name, parse, resolve

DOOR = ROOT / "session_core" / "__init__.py"
HEAVY = {"trio", "cattrs", "msgspec"}


@attrs.frozen
class Door:
    """What a lazy package says of its public names, each as a mapping to the module a name comes from."""

    table: dict[str, str]
    typed: dict[str, str]
    listed: tuple[str, ...]


def read_door(tree: ast.Module, package: str) -> Door:
    """Read the three lists of a door without importing it; the table is the dict that `__getattr__` uses."""
    getters = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "__getattr__"]
    assert getters, f"{package}/__init__.py has no __getattr__: it is not a lazy door"
    used = {node.id for node in ast.walk(getters[0]) if isinstance(node, ast.Name)}
    table: dict[str, str] = {}
    typed: dict[str, str] = {}
    listed: tuple[str, ...] = ()
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() as value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Dict() as value)
            ) if name in used:
                table = {key: absolute(module, package) for key, module in ast.literal_eval(value).items()}
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                listed = tuple(ast.literal_eval(value))
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"), body=body):
                typed |= typed_imports(body, package)
            case _:
                pass
    return Door(table, typed, listed)


def typed_imports(body: list[ast.stmt], package: str) -> dict[str, str]:
    """The names a TYPE_CHECKING block hands on; each must come from one module, and as itself."""
    found: dict[str, str] = {}
    for node in body:
        assert isinstance(node, ast.ImportFrom), f"line {node.lineno}: only `from module import X as X` belongs here"
        for alias in node.names:
            assert alias.asname == alias.name, f"line {node.lineno}: write `{alias.name} as {alias.name}`"
            assert alias.name not in found, f"line {node.lineno}: {alias.name} comes from two modules"
            found[alias.name] = resolve(node.module or "", node.level, package)
    return found


def absolute(module: str, package: str) -> str:
    """The full name of a module in the table, which may leave out the package."""
    if module == package or module.startswith(f"{package}."):
        return module
    return f"{package}.{module.lstrip('.')}"


def order(name: str) -> tuple[int, list[tuple[int, str]]]:
    """Constants, then classes, then the rest, and numbers by size: the order ruff sorts `__all__` in."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return kind, [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part]


def defines(module: str, name: str, root: Path = ROOT) -> bool:
    """Whether a module itself makes a name, rather than handing on what it imported."""
    base = root.joinpath(*module.split("."))
    if base.is_dir():
        if base.joinpath(f"{name}.py").exists() or base.joinpath(name, "__init__.py").exists():
            return True
        base = base / "__init__"
    for node in parse(base.with_suffix(".py")).body:
        match node:
            case ast.ClassDef(name=made) | ast.FunctionDef(name=made) | ast.AsyncFunctionDef(name=made):
                made_names = [made]
            case ast.AnnAssign(target=ast.Name(id=made)):
                made_names = [made]
            case ast.Assign(targets=targets):
                made_names = [target.id for target in targets if isinstance(target, ast.Name)]
            case _:
                continue
        if name in made_names:
            return True
    return False


async def loaded_by(*arguments: str) -> tuple[set[str], str]:
    """The modules a fresh Python loads when run with these arguments, and what it prints."""
    done = await trio.run_process(
        [sys.executable, "-X", "importtime", *arguments], cwd=ROOT, capture_stdout=True, capture_stderr=True
    )
    modules = {
        line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines() if line.startswith("import time:")
    }
    return modules, done.stdout.decode()


@pytest.fixture(scope="module")
def door() -> Door:
    return read_door(parse(DOOR), "session_core")


def test_the_three_lists_agree(door: Door) -> None:
    """The table, the typed imports and `__all__` of the door name the same things from the same modules."""
    public = [name for name in door.listed if not name.startswith("__")]

    assert door.table
    assert door.table == door.typed
    assert sorted(door.table) == sorted(public)


def test_the_public_list_is_sorted(door: Door) -> None:
    """`__all__` is sorted and names nothing twice."""
    assert sorted(set(door.listed), key=order) == list(door.listed)


def test_every_public_name_is_there(door: Door) -> None:
    """Every public name can be had from the package root, and is the very thing its module holds."""
    package = import_module("session_core")
    for name in door.listed:
        value = getattr(package, name)
        if name in door.table:
            module = import_module(door.table[name])
            held = getattr(module, name) if hasattr(module, name) else import_module(f"{module.__name__}.{name}")
            assert held is value

    assert set(door.listed) <= set(dir(package))


def test_every_public_name_comes_from_where_it_is_made(door: Door) -> None:
    """The table leads to the module that defines a name, never to one that only passes it on."""
    assert {} == {name: module for name, module in door.table.items() if not defines(module, name)}


def test_an_unknown_name_is_an_attribute_error() -> None:
    """Asking the door for a name it does not have raises AttributeError with that name in it."""
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = import_module("session_core").no_such_name


async def test_importing_the_package_is_cheap() -> None:
    """`import session_core` alone loads neither trio nor cattrs nor msgspec."""
    modules, _ = await loaded_by("-c", "import session_core")

    assert "session_core" in modules
    assert set() == HEAVY & modules


@pytest.mark.parametrize("option", ["--help", "--version"])
async def test_asking_the_program_about_itself_is_cheap(option: str) -> None:
    """`session-core --help` and `--version` answer without loading trio or any frontend."""
    modules, output = await loaded_by("-m", "frontends.entry", option)

    assert "session-core" in output
    assert set() == HEAVY & modules
    light = {
        "arguments",
        "daemon",
        "daemon.messages",
        "daemon.token_messages",
        "entry",
        "error_exit",
        "help_texts",
        "parser",
        "terminal",
        "terminal.messages",
    }
    ours = {name for name in modules if name.split(".")[0] == "frontends"}
    assert {"frontends", *(f"frontends.{name}" for name in light)} >= ours


async def test_a_heavy_import_is_noticed() -> None:
    """The measure itself works: a program that loads trio is seen to load it."""
    modules, output = await loaded_by("-c", "import trio; print('done')")

    assert "trio" in modules
    assert "done\n" == output


def test_a_door_is_read_whole() -> None:
    """The three lists are found in a door's source, with short and relative module names written out."""
    source = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n"
        "    from .ids import Cursor as Cursor\n"
        "    from session_core.limits import MAX as MAX\n"
        "_OTHER = {'x': 'y'}\n"
        "_HOMES: dict[str, str] = {'Cursor': '.ids', 'MAX': 'limits'}\n"
        "__all__ = ['MAX', 'Cursor']\n"
        "def __getattr__(name): return _HOMES[name]\n"
    )
    homes = {"Cursor": "session_core.ids", "MAX": "session_core.limits"}

    assert Door(homes, homes, ("MAX", "Cursor")) == read_door(ast.parse(source), "session_core")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("import trio", "only `from module"),
        ("from .ids import Cursor", "write `Cursor as Cursor`"),
        ("from .ids import A as A\nfrom .wire import A as A", "two modules"),
    ],
)
def test_a_loose_typed_import_is_refused(line: str, fault: str) -> None:
    """Typed imports that are plain, renamed or doubled are refused with a reason."""
    with pytest.raises(AssertionError, match=re.escape(fault)):
        typed_imports(ast.parse(line).body, "session_core")


def test_handing_on_is_not_defining(tmp_path: Path) -> None:
    """A class, function, constant or submodule is defined by its module, and an imported name is not."""
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("from elsewhere import Passed\n", encoding="utf-8")
    (package / "made.py").write_text("class A: ...\nB = 1\nC: int = 2\nasync def d(): ...\n", encoding="utf-8")

    assert [True] * 4 == [defines("pack.made", name, tmp_path) for name in ("A", "B", "C", "d")]
    assert defines("pack", "made", tmp_path)
    assert not defines("pack", "Passed", tmp_path)
    assert "pack" == module_name(package / "__init__.py", tmp_path) == package_name(package / "made.py", tmp_path)


def test_names_are_ordered_as_ruff_does() -> None:
    """Constants come before classes and classes before functions, with numbers in order of size."""
    mixed = ["fold", "Part10", "MAX", "apply", "Part2", "LIMIT", "Cursor"]

    assert ["LIMIT", "MAX", "Cursor", "Part2", "Part10", "apply", "fold"] == sorted(mixed, key=order)
