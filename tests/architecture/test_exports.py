"""The doors of `session_core`: one list of public names each, and an import that costs next to nothing."""

import ast
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest
import trio

from session_core._door import open_door
from tests.architecture._source import ROOT, parse

DOORS = {
    "session_core": "__init__",
    "session_core.extensions": "extensions",
    "session_core.maintenance": "maintenance",
    "session_core.protocols": "protocols/__init__",
    "session_core.setup": "setup",
    "session_core.wire": "wire/__init__",
}
HEAVY = {"trio", "cattrs", "msgspec"}


def listed(stub: Path) -> dict[str, str]:
    """Return the names that a stub lists and the modules they come from; fail where it holds anything else."""
    found: dict[str, str] = {}
    for line in parse(stub).body:
        assert isinstance(line, ast.ImportFrom), f"{stub}:{line.lineno}: only `from module import X as X` belongs here"
        for alias in line.names:
            assert alias.asname == alias.name, f"{stub}:{line.lineno}: write `{alias.name} as {alias.name}`"
            assert alias.name not in found, f"{stub}:{line.lineno}: {alias.name} is listed twice"
            found[alias.name] = line.module or ""
    return found


def stub_of(door: str) -> Path:
    return ROOT / "session_core" / f"{DOORS[door]}.pyi"


def defines(module: str, name: str, root: Path = ROOT) -> bool:
    """Return whether a module itself makes a name, rather than passing on what it imported."""
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
    """Return the modules that a fresh Python loads when run with these arguments, and what it prints."""
    done = await trio.run_process(
        [sys.executable, "-X", "importtime", *arguments], cwd=ROOT, capture_stdout=True, capture_stderr=True
    )
    modules = {
        line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines() if line.startswith("import time:")
    }
    return modules, done.stdout.decode()


@pytest.mark.parametrize("door", DOORS)
def test_every_public_name_is_there(door: str) -> None:
    """Every name of a stub can be had from its door, and is the very thing that its module holds."""
    package, names = import_module(door), listed(stub_of(door))
    assert names
    for name, home in names.items():
        value = getattr(package, name)
        if home == door:
            assert value is import_module(f"{door}.{name}")
        else:
            module = import_module(home)
            assert value is (getattr(module, name) if hasattr(module, name) else import_module(f"{home}.{name}"))
    assert set(names) == {*dir(package), *package.__all__}


@pytest.mark.parametrize("door", DOORS)
def test_every_public_name_comes_from_where_it_is_made(door: str) -> None:
    """A stub leads to the module that defines a name, never to one that only passes it on."""
    assert {} == {name: home for name, home in listed(stub_of(door)).items() if not defines(home, name)}


def test_no_name_is_in_two_doors() -> None:
    """Each public name has one door."""
    names = [name for door in DOORS for name in listed(stub_of(door))]
    assert len(names) == len(set(names))


def test_every_public_name_has_a_user() -> None:
    """Each public name is used by a frontend, an example or a document; what nobody uses is not promised."""
    files = [
        ROOT / "README.md",
        *(each for name in ("frontends", "examples", "docs") for each in (ROOT / name).rglob("*")),
    ]
    texts = [each.read_text(encoding="utf-8") for each in files if each.suffix in {".py", ".md"}]
    used = set(re.findall(r"\b[A-Za-z_]\w*\b", "\n".join(texts)))
    assert set() == {name for door in DOORS for name in listed(stub_of(door))} - used


def test_an_unknown_name_is_an_attribute_error() -> None:
    """Asking a door for a name it does not have raises AttributeError with that name in it."""
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = import_module("session_core").no_such_name


def test_a_door_loads_each_name_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is loaded on its first use and is an ordinary attribute afterwards; a module can be listed as a name."""
    package = tmp_path / "pack"
    package.mkdir()
    opening = "from session_core._door import open_door\n__getattr__, __dir__ = open_door(__name__, __file__)\n"
    (package / "__init__.py").write_text(opening, encoding="utf-8")
    (package / "__init__.pyi").write_text(
        "from pack import inner as inner\nfrom pack.inner import A as A\n", encoding="utf-8"
    )
    (package / "inner.py").write_text("class A: ...\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    pack = import_module("pack")

    assert "A" not in vars(pack)
    assert pack.A is pack.inner.A is vars(pack)["A"]
    assert ["A", "inner"] == dir(pack) == pack.__all__
    assert open_door("pack", str(package / "__init__.py"))[0]("A") is pack.A


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
        "entry",
        "error_exit",
        "help_texts",
        "server",
        "server.daemon",
        "server.daemon.messages",
        "server.daemon.token_messages",
        "shared",
        "shared.parser",
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


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("import trio", "only `from module"),
        ("from a.ids import Cursor", "write `Cursor as Cursor`"),
        ("from a.ids import A as A\nfrom a.wire import A as A", "listed twice"),
    ],
)
def test_a_loose_stub_is_refused(tmp_path: Path, line: str, fault: str) -> None:
    """Lines of a stub that are plain imports, renamed or doubled are refused with a reason."""
    stub = tmp_path / "door.pyi"
    stub.write_text(line, encoding="utf-8")
    with pytest.raises(AssertionError, match=re.escape(fault)):
        listed(stub)


def test_passing_on_is_not_defining(tmp_path: Path) -> None:
    """A class, function, constant or submodule is defined by its module, and an imported name is not."""
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("from elsewhere import Passed\n", encoding="utf-8")
    (package / "made.py").write_text("class A: ...\nB = 1\nC: int = 2\nasync def d(): ...\n", encoding="utf-8")

    assert [True] * 4 == [defines("pack.made", name, tmp_path) for name in ("A", "B", "C", "d")]
    assert defines("pack", "made", tmp_path)
    assert not defines("pack", "Passed", tmp_path)
