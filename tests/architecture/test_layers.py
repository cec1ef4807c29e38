"""Imports go one way: from the frontends down to the vocabulary, never back."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.architecture._source import ROOT, Import, module_name, parse, place, plant, python_files, read_facts

DOOR = "__init__"
TESTING = "testing"

# From low to high. A part may import any part of a lower layer.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset(
        {
            "errors",
            "foreign_faults",
            "error_capture",
            "ids",
            "limits",
            "httpx2_workaround",
            "_version",
            "_door",
            "vocabulary",
        }
    ),
    frozenset({"wire", "rpc", "stream", "storage", "providers", "tools", "processes", "sandbox"}),
    frozenset({"permissions"}),
    frozenset({"session", "sep", "mcp", "protocols", "config", "checkpoints"}),
    frozenset({"agent", "storage.maintenance"}),
    frozenset({"service"}),
    frozenset({"assembly"}),
    frozenset({DOOR, "extensions", "maintenance", "setup"}),
)

# A part may import a neighbour of its own layer only when this table says so, and why.
NEIGHBOURS: dict[tuple[str, str], str] = {
    ("vocabulary", "ids"): "events and commands name sessions, turns and calls by their ids",
    ("errors", "ids"): "a refused cursor is part of the error that refuses it",
    ("error_capture", "foreign_faults"): "errors are compared by what is in their groups, however deeply nested",
    ("vocabulary", "errors"): "a value that refuses its input raises the typed error",
    ("vocabulary", "limits"): "the bounds of a value are checked where it is made",
    ("rpc", "wire"): "every line from outside is read by the one strict parser",
    ("storage", "wire"): "the journal holds events as they go over the wire",
    ("storage", "stream"): "deltas kept for a crash are merged as for a slow reader",
    ("sandbox", "storage"): "what is trusted is kept in the home, by the rules of all files there",
    ("tools", "wire"): "arguments are checked against a schema where every schema from outside is compiled",
    ("tools", "storage"): "a skill is read only if no other user could have written it, as all files of the user",
    ("tools", "sandbox"): "tools touch files and start programs only within the confinement",
    ("tools", "processes"): "tools start their programs as everyone does",
    ("processes", "sandbox"): "what runs in a sandbox is started with its filter, and ended as a whole",
    ("stream", "wire"): "an event is encoded once and the bytes are shared by all who read it",
}

# Inside a part: what the modules of a sub-package may import of their own part, beside their own sub-package.
INSIDE: dict[str, frozenset[str]] = {
    "agent": frozenset({"agent.plugin_support"}),
    "agent.plugin_support": frozenset({"agent"}),
    "assembly": frozenset({"assembly.folders"}),
    "assembly.folders": frozenset({"assembly"}),
    "protocols": frozenset(),
    "protocols.code": frozenset({"protocols"}),
    "sep.protocol": frozenset(),
    "sep.host": frozenset(
        {"sep.protocol", *(f"sep.host.{n}" for n in ("calls", "catalogue", "models", "process", "tools"))}
    ),
    "sep.host.catalogue": frozenset({"sep.protocol"}),
    "sep.host.process": frozenset({"sep.protocol", "sep.host", "sep.host.catalogue"}),
    "sep.host.calls": frozenset({"sep.protocol", "sep.host", "sep.host.catalogue", "sep.host.process"}),
    "sep.host.models": frozenset({"sep.protocol", "sep.host", "sep.host.catalogue", "sep.host.calls"}),
    "sep.host.tools": frozenset({"sep.protocol", "sep.host", "sep.host.calls", "sep.host.process"}),
    "sep.scaffold": frozenset({"sep.protocol"}),
    "sep.conformance": frozenset(
        {"sep.protocol", "sep.host", *(f"sep.host.{n}" for n in ("calls", "catalogue", "process"))}
    ),
    "sep.sdk": frozenset({"sep.protocol"}),
    "service": frozenset({"service.handlers"}),
    "service.handlers": frozenset({"service"}),
    "service.extension_bridge": frozenset({"service"}),
    "storage": frozenset(),
    "storage.maintenance": frozenset({"storage", "storage.maintenance.forensics"}),
    "storage.maintenance.forensics": frozenset({"storage", "storage.maintenance"}),
}
SDK_TESTS = "testing"  # modules of the SDK that are a host for the tests of an extension, and know the real one

LEVEL = {part: level for level, layer in enumerate(LAYERS) for part in layer}
PARTS = {*LEVEL, TESTING}
DOORS = {f"session_core.{name}" for name in ("extensions", "maintenance", "protocols", "setup", "wire")}
"""What frontends may import beside the root: modules whose stub lists public names."""


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
    if found.module in DOORS or found.target in DOORS:
        return None
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
        for found in read_facts(path, root).imports:
            if fault := fault_inside(part, found):
                yield f"{place(path, found.line, root)}: imports {found.target}: {fault}"
    public = public_names(root / "session_core" / "__init__.pyi")
    for path in python_files("frontends", root=root):
        for found in read_facts(path, root).imports:
            if fault := fault_in_frontend(found, public):
                yield f"{place(path, found.line, root)}: imports {found.target}: {fault}"


def public_names(door: Path) -> frozenset[str]:
    """The names that the stub of the door lists, read without importing it."""
    lines = parse(door).body if door.exists() else []
    return frozenset(alias.name for line in lines if isinstance(line, ast.ImportFrom) for alias in line.names)


def test_imports_go_down_only() -> None:
    """No module of session_core or frontends imports a layer above its own, a neighbour unasked, or testing."""
    assert [] == list(faults(ROOT))


def sub_package(module: str, root: Path) -> str:
    """Return the innermost package of a module, without `session_core.`: that of `sep.host.host` is `sep.host`."""
    parts = module.split(".")
    while not root.joinpath(*parts, "__init__.py").exists() and len(parts) > 1:
        parts.pop()
    return ".".join(parts[1:])


def faults_inside_parts(root: Path) -> Iterator[str]:
    """Every import within a part that its sub-packages are not allowed, with its place."""
    for path in python_files("session_core", root=root):
        mine = sub_package(module_name(path, root), root)
        if mine.startswith("sep.sdk") and path.stem.startswith(SDK_TESTS):
            continue
        for found in read_facts(path, root).imports:
            if not found.module.startswith("session_core"):
                continue
            other = sub_package(found.target if found.target.startswith("session_core") else found.module, root)
            same_part = other.split(".")[0] == mine.split(".")[0] and found.module.startswith("session_core.")
            if same_part and other != mine and other not in INSIDE.get(mine, frozenset()):
                yield f"{place(path, found.line, root)}: {mine} may not import {other}"


def test_sub_packages_keep_to_their_layers() -> None:
    """Inside a part, a sub-package imports only what the table allows it."""
    assert [] == list(faults_inside_parts(ROOT))


def test_a_wrong_import_between_sub_packages_is_found(tmp_path: Path) -> None:
    """The SDK that authors load may not reach into the host; its test host may."""
    for name in ("", "sep", "sep/sdk", "sep/host", "sep/protocol"):
        plant(tmp_path, f"session_core/{name}/__init__.py", "")
    plant(tmp_path, "session_core/sep/sdk/link.py", "from session_core.sep.host import host")
    plant(tmp_path, "session_core/sep/sdk/testing.py", "from session_core.sep.host import host")

    assert ["session_core/sep/sdk/link.py:1: sep.sdk may not import sep.host"] == list(faults_inside_parts(tmp_path))


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
    ],
)
def test_a_right_import_passes(tmp_path: Path, path: str, source: str) -> None:
    """Imports downwards, within a part, through the door and along the table of neighbours are all fine."""
    plant(tmp_path, path, source)

    assert [] == list(faults(tmp_path))


def test_a_frontend_may_take_what_the_door_offers(tmp_path: Path) -> None:
    """A frontend may take any name the door lists, even one that is also the name of a part."""
    plant(tmp_path, "session_core/__init__.pyi", "from session_core import errors as errors")
    plant(tmp_path, "frontends/commands/run/app.py", "from session_core import errors")

    assert [] == list(faults(tmp_path))
