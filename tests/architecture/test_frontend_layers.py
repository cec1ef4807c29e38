"""Frontends import each other one way: from the entry down to what all share, and no command knows another."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture._source import ROOT, Import, module_name, place, plant, python_files, read_facts

# From low to high, with the reason. A part may import any part of a lower layer, and none of its own.
LAYERS: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"", "commands"}), "packages that hold nothing but a map"),
    (frozenset({"shared"}), "used by all the others"),
    (frozenset({"client"}), "programs of others use it without a command line"),
    (frozenset({"server"}), "connections, whatever brings their bytes; the service knows no command"),
    (frozenset({"server.http", "server.telemetry"}), "opened on request; each needs packages of its own"),
    (frozenset({"server.daemon"}), "the process that opens those; commands start, find and end it"),
    (
        frozenset(
            f"commands.{name}"
            for name in ("demo", "doctor", "export", "extensions", "run", "sessions", "settings", "watch")
        ),
        "each command stands alone: what two of them need is in `shared` or `server`",
    ),
    (frozenset({"terminal"}), "answers, exports and finds sessions as the commands do"),
    (frozenset({"help_texts"}), "texts for the options of all above"),
    (frozenset({"arguments"}), "the options of all above"),
    (frozenset({"error_exit"}), "the last word on every error, in the program's name"),
    (frozenset({"entry"}), "loads the one frontend that the arguments ask for"),
)
LEVEL = {part: level for level, (layer, _) in enumerate(LAYERS) for part in layer}


def part_of(module: str) -> str | None:
    """The part a module belongs to, by its longest name in the table: frontends.server.http.app is of server.http."""
    words = module.split(".")[1:]
    while words and ".".join(words) not in LEVEL:
        words.pop()
    part = ".".join(words)
    has_place = part not in LAYERS[0][0] or module == ".".join(["frontends", *words])
    return part if has_place else None


def fault_of(part: str, found: Import) -> str | None:
    """What is wrong with this import in a module of the given part, if anything is."""
    if found.target.split(".")[0] != "frontends":
        return None
    reached = part_of(found.target)
    if reached is None:
        return unknown_part(found.target)
    if part == reached or LEVEL[part] > LEVEL[reached]:
        return None
    if LEVEL[part] == LEVEL[reached]:
        return f"{part} and {reached} are neighbours: move what both need to a lower layer"
    return f"{part} lies below {reached}, and imports go down only"


def unknown_part(module: str) -> str:
    return f"{module} has no layer: give it a place in LAYERS of tests/architecture/test_frontend_layers.py"


def faults(root: Path) -> Iterator[str]:
    """Every import between frontends that goes the wrong way, and every module without a layer, with its place."""
    for path in python_files("frontends", root=root):
        part = part_of(module_name(path, root))
        if part is None:
            yield f"{place(path, 1, root)}: {unknown_part(module_name(path, root))}"
            continue
        for found in read_facts(path, root).imports:
            if fault := fault_of(part, found):
                yield f"{place(path, found.line, root)}: imports {found.target}: {fault}"


def test_frontends_import_downwards_only() -> None:
    """No module of frontends imports a layer above its own or a neighbour, be it late or for types alone."""
    assert [] == list(faults(ROOT))


def test_every_part_exists_in_one_layer() -> None:
    """The table names each part once, and every one is a module or a package."""
    named = [part for layer, _ in LAYERS for part in layer]
    paths = {part: ROOT.joinpath("frontends", *part.split(".")) for part in named}

    assert len(named) == len(LEVEL)
    assert [] == [part for part, path in paths.items() if not path.is_dir() and not path.with_suffix(".py").exists()]


@pytest.mark.parametrize(
    ("path", "source", "reason"),
    [
        ("shared/home.py", "from frontends.client import open_client", "shared lies below client"),
        (
            "client/link.py",
            "def f():\n    from frontends.server.daemon import status",
            "client lies below server.daemon",
        ),
        (
            "server/server.py",
            "if TYPE_CHECKING:\n    import frontends.server.http.app",
            "server lies below server.http",
        ),
        ("server/daemon/status.py", "from ...commands.watch import stop", "server.daemon lies below commands.watch"),
        ("commands/run/run.py", "from frontends.commands import sessions", "neighbours"),
        ("commands/run/run.py", "import_module('frontends.terminal.app')", "commands.run lies below terminal"),
        ("terminal/app.py", "from frontends.arguments import PROGRAM", "terminal lies below arguments"),
        ("commands/news/news.py", "", "LAYERS"),
        ("web.py", "", "LAYERS"),
        ("entry.py", "from frontends.web import page", "LAYERS"),
    ],
)
def test_a_wrong_import_is_found(tmp_path: Path, path: str, source: str, reason: str) -> None:
    """Each kind of forbidden import, and a module without a place, is reported with the file and a reason."""
    plant(tmp_path, f"frontends/{path}", source)

    [fault] = faults(tmp_path)

    assert fault.startswith(f"frontends/{path}")
    assert reason in fault


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("__init__.py", ""),
        ("commands/__init__.py", ""),
        ("server/daemon/background.py", "import frontends\nfrom frontends.server.http.tokens import ensure_token"),
        ("commands/run/run.py", "from frontends.shared.home import format_command\nfrom .view import View"),
        ("terminal/app.py", "from frontends.commands.run.dialogs import Reply\nimport trio"),
        ("entry.py", "def f():\n    from frontends.terminal.command import open_terminal"),
    ],
)
def test_a_right_import_passes(tmp_path: Path, path: str, source: str) -> None:
    """Imports downwards, within a part and from elsewhere are all fine."""
    plant(tmp_path, f"frontends/{path}", source)

    assert [] == list(faults(tmp_path))
