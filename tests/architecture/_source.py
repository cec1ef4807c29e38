"""What the tests in this folder share: where the source lies, and how to read it without running it."""

import ast
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parents[2]

Function = ast.FunctionDef | ast.AsyncFunctionDef


@attrs.frozen
class Import:
    """One name brought in by an import statement, written out in full.

    `target` is what was imported: "trio" for `import trio`, "session_core.ids.Cursor" for
    `from session_core.ids import Cursor`. `module` is the part of it that stood after `from`
    (or after `import`), so "session_core.ids" in the second case.
    """

    line: int
    module: str
    target: str


@attrs.frozen
class NameMade:
    """A name that a file defines: of a class, a function, an argument, a variable or an attribute."""

    line: int
    name: str
    is_class: bool


@attrs.frozen
class SourceFacts:
    """What the checks of this folder ask about a file. Its tree is fifty times as large, so it is not kept."""

    imports: tuple[Import, ...]
    names_made: tuple[NameMade, ...]
    tests: tuple[Function, ...]
    """Without their bodies, but for the docstring."""


def python_files(*folders: str, root: Path = ROOT) -> list[Path]:
    """Every Python file beneath the folders, in a fixed order; a folder that is not there has none."""
    return sorted(path for folder in folders for path in (root / folder).rglob("*.py"))


@lru_cache(maxsize=8)  # all of them are millions of objects, which slow down every later garbage collection
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def read_facts(path: Path, root: Path = ROOT) -> SourceFacts:
    """Read a file once for all checks: parsing is what costs."""
    return _read_facts(path, root)


@cache
def _read_facts(path: Path, root: Path) -> SourceFacts:
    tree = parse(path)
    tests = tuple(functions_under_test(tree))
    facts = SourceFacts(
        imports=tuple(imports(tree, package_name(path, root))),
        names_made=tuple(names_made(tree)),
        tests=tests,
    )
    for test in tests:
        del test.body[1:]
    return facts


def module_name(path: Path, root: Path = ROOT) -> str:
    """The dotted name of a file: session_core/wire/__init__.py is session_core.wire."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_name(path: Path, root: Path = ROOT) -> str:
    """The package in which relative imports of this file start."""
    return ".".join(path.relative_to(root).parts[:-1])


def imports(tree: ast.AST, package: str) -> Iterator[Import]:
    """Every import of a module: inside functions, under TYPE_CHECKING, and by a literal import_module too."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield Import(node.lineno, alias.name, alias.name)
            case ast.ImportFrom(names=names):
                module = resolve(node.module or "", node.level, package)
                for alias in names:
                    yield Import(node.lineno, module, module if alias.name == "*" else f"{module}.{alias.name}")
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                dots = len(name) - len(name.lstrip("."))
                module = resolve(name.lstrip("."), dots, package)
                yield Import(node.lineno, module, module)
            case _:
                pass


def names_made(tree: ast.AST) -> Iterator[NameMade]:
    """Every name that a module defines, inside functions too."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name):
                yield NameMade(node.lineno, name, is_class=True)
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.arg(arg=name)
                | ast.Name(id=name, ctx=ast.Store())
                | ast.Attribute(attr=name, ctx=ast.Store())
            ):
                yield NameMade(node.lineno, name, is_class=False)
            case _:
                pass


def resolve(module: str, level: int, package: str) -> str:
    """The full name of `from <level dots><module> import ...` written inside a package."""
    if level == 0:
        return module
    base = package.split(".")
    base = base[: len(base) - (level - 1)]
    return ".".join([*base, module] if module else base)


def functions_under_test(tree: ast.AST) -> Iterator[Function]:
    """Every function pytest would take for a test, methods of classes included."""
    for node in getattr(tree, "body", ()):
        if isinstance(node, Function) and node.name.startswith("test"):
            yield node
        elif not isinstance(node, Function):
            yield from functions_under_test(node)


def place(path: Path, line: int, root: Path = ROOT) -> str:
    return f"{path.relative_to(root)}:{line}"


def plant(root: Path, path: str, source: str) -> None:
    """Write a file of a small tree to check."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(source, encoding="utf-8")
