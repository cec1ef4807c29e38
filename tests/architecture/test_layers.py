"""Imports go one way: from the frontends down to the vocabulary, never back."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from textwrap import dedent

import pytest

from tests.architecture._source import ROOT, Import, imports, module_name, package_name, parse, place, python_files

DOOR = "__init__"
TESTING = "testing"

# From low to high. A part may import any part of a lower layer.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"errors", "foreign_faults", "own_errors", "ids", "limits", "http_body", "_version", "vocabulary"}),
    frozenset({"wire", "rpc", "stream", "storage", "providers", "tools", "sandbox"}),
    frozenset({"session", "sep", "mcp", "protocols", "config", "checkpoints"}),
    frozenset({"agent", "storage.maintenance"}),
    frozenset({"service"}),
    frozenset({"assembly"}),
    frozenset({DOOR}),
)

# A part may import a neighbour of its own layer only when this table says so, and why.
NEIGHBOURS: dict[tuple[str, str], str] = {
    ("vocabulary", "ids"): "events and commands name sessions, turns and calls by their ids",
    ("errors", "ids"): "a refused cursor is part of the error that refuses it",
    ("vocabulary", "errors"): "a value that refuses its input raises the typed error",
    ("vocabulary", "limits"): "the bounds of a value are checked where it is made",
    ("rpc", "wire"): "every line from outside is read by the one strict parser",
    ("storage", "wire"): "the journal holds events as they go over the wire",
    ("storage", "stream"): "deltas kept for a crash are merged as for a slow reader",
    ("sandbox", "storage"): "what is trusted is kept in the home, by the rules of all files there",
    ("tools", "wire"): "arguments are checked against a schema where every schema from outside is compiled",
    ("tools", "sandbox"): "tools touch files and start programs only within the confinement",
    ("stream", "wire"): "an event is encoded once and the bytes are shared by all who read it",
}

LEVEL = {part: level for level, layer in enumerate(LAYERS) for part in layer}
PARTS = {*LEVEL, TESTING}


def part_of(module: str) -> str:
    """The part of session_core a module belongs to: session_core.wire.codec is of wire."""
    if "." not in module:
        return DOOR
    _, package, *rest = module.split(".")
    nested = f"{package}.{rest[0]}" if rest else package
    return nested if nested in LEVEL else package


def part_reached(found: Import) -> str:
    """The part an import reaches; a plain name taken from the package root comes through the door."""
    if found.module != "session_core":
        return part_of(found.module)
    name = part_of(found.target)
    return name if name in PARTS else DOOR


def unknown_part(part: str) -> str:
    return f"session_core has no layer for {part!r}: give it a place in LAYERS of tests/architecture/test_layers.py"


def fault_inside(part: str, found: Import) -> str | None:
    """What is wrong with this import in a module of the given part of session_core, if anything is."""
    top = found.module.split(".")[0]
    if top in {"frontends", "tests", "bench", "examples"}:
        return f"session_core does not know {top}"
    if top != "session_core":
        return None
    reached = part_reached(found)
    if reached not in PARTS:
        return unknown_part(reached)
    if part in {reached, TESTING}:
        return None
    if reached == TESTING:
        return "only tests import session_core.testing"
    if LEVEL[part] > LEVEL[reached] or (part, reached) in NEIGHBOURS:
        return None
    if LEVEL[part] == LEVEL[reached]:
        return f"{part} and {reached} are neighbours: if one really needs the other, say why in NEIGHBOURS"
    return f"{part} lies below {reached}, and imports go down only"


def fault_in_frontend(found: Import, public_names: frozenset[str]) -> str | None:
    """What is wrong with this import in a frontend, if anything is."""
    top = found.module.split(".")[0]
    if top in {"tests", "bench", "examples"}:
        return f"a frontend does not know {top}"
    if top != "session_core" or found.target == "session_core":
        return None
    name = part_of(found.target)
    if found.module == "session_core" and (name in public_names or name not in PARTS):
        return None
    return "a frontend imports the package root only: `import session_core as sc`"


def faults(root: Path) -> Iterator[str]:
    """Every import beneath this folder that goes the wrong way, with its place."""
    for path in python_files("session_core", root=root):
        part = part_of(module_name(path, root))
        if part not in PARTS:
            yield f"{place(path, 1, root)}: {unknown_part(part)}"
            continue
        for found in imports(parse(path), package_name(path, root)):
            if fault := fault_inside(part, found):
                yield f"{place(path, found.line, root)}: imports {found.target}: {fault}"
    public = public_names(root / "session_core" / "__init__.py")
    for path in python_files("frontends", root=root):
        for found in imports(parse(path), package_name(path, root)):
            if fault := fault_in_frontend(found, public):
                yield f"{place(path, found.line, root)}: imports {found.target}: {fault}"


def public_names(door: Path) -> frozenset[str]:
    """The names in `__all__` of the door, read without importing it."""
    for node in parse(door).body if door.exists() else []:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return frozenset(ast.literal_eval(value))
            case _:
                pass
    return frozenset()


def test_imports_go_down_only() -> None:
    """No module of session_core or frontends imports a layer above its own, a neighbour unasked, or testing."""
    assert [] == list(faults(ROOT))


def test_neighbours_form_no_ring() -> None:
    """The exceptions between neighbours stay within a layer and never form a circle."""
    graph = TopologicalSorter[str]()
    for part, other in NEIGHBOURS:
        assert LEVEL[part] == LEVEL[other], f"{part} and {other} are no neighbours: the exception is not needed"
        graph.add(part, other)

    graph.prepare()


@pytest.mark.parametrize(
    ("path", "source", "reason"),
    [
        ("session_core/ids.py", "import session_core.service", "ids lies below service"),
        ("session_core/wire/codec.py", "from session_core.session.state import apply", "wire lies below session"),
        ("session_core/wire/codec.py", "from ..agent import loop", "wire lies below agent"),
        ("session_core/wire/codec.py", "def f():\n    from session_core import agent", "wire lies below agent"),
        ("session_core/wire/codec.py", "if TYPE_CHECKING:\n    import session_core.mcp", "wire lies below mcp"),
        ("session_core/wire/codec.py", "import_module('session_core.service')", "wire lies below service"),
        ("session_core/wire/codec.py", "from session_core import storage", "neighbours"),
        ("session_core/agent/loop.py", "from session_core import Session", "agent lies below __init__"),
        ("session_core/agent/loop.py", "import session_core.testing", "only tests"),
        ("session_core/agent/loop.py", "from session_core.nowhere import x", "LAYERS"),
        ("session_core/service/service.py", "import frontends.commands.run", "does not know frontends"),
        ("session_core/nowhere/map.py", "", "LAYERS"),
        ("frontends/commands/run/app.py", "from session_core.service import SessionService", "root only"),
        ("frontends/commands/run/app.py", "from session_core import service", "root only"),
        ("frontends/commands/run/app.py", "import session_core.testing", "root only"),
        ("frontends/commands/run/app.py", "import tests.fakes", "does not know tests"),
    ],
)
def test_a_wrong_import_is_found(tmp_path: Path, path: str, source: str, reason: str) -> None:
    """Each kind of forbidden import is reported, with the file and a reason a person understands."""
    plant(tmp_path, path, source)

    [fault] = faults(tmp_path)

    assert fault.startswith(path)
    assert reason in fault


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("session_core/service/service.py", "from session_core.agent import loop\nfrom .handlers import handle"),
        ("session_core/stream/event_stream.py", "import trio\nfrom session_core.wire import codec"),
        ("session_core/testing/checks.py", "import session_core as sc\nfrom session_core.service import x"),
        ("session_core/__init__.py", "from session_core.service.service import SessionService as SessionService"),
        (
            "frontends/commands/run/app.py",
            "import session_core as sc\nfrom session_core import Cursor\nimport frontends.client",
        ),
        ("session_core/__init__.py", "__all__ = ['ids']"),
    ],
)
def test_a_right_import_passes(tmp_path: Path, path: str, source: str) -> None:
    """Imports downwards, within a part, through the door and along the table of neighbours are all fine."""
    plant(tmp_path, path, source)

    assert [] == list(faults(tmp_path))


def test_a_frontend_may_take_what_the_door_offers(tmp_path: Path) -> None:
    """A frontend may take any name the door lists, even one that is also the name of a part."""
    plant(tmp_path, "session_core/__init__.py", "__all__ = ['errors']")
    plant(tmp_path, "frontends/commands/run/app.py", "from session_core import errors")

    assert [] == list(faults(tmp_path))


def plant(root: Path, path: str, source: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dedent(source), encoding="utf-8")
