"""A module stays small enough to be read in one sitting."""

from pathlib import Path

from tests.architecture._source import ROOT, python_files

MAX_LINES = 600
CATALOGUES = {  # lists that are read entry by entry, and found faster in one file
    "session_core/__init__.py",
    "session_core/limits.py",
    "session_core/vocabulary/commands.py",
    "session_core/vocabulary/events.py",
    "session_core/vocabulary/methods.py",
}


def too_long(paths: list[Path]) -> list[str]:
    counts = ((path, len(path.read_text(encoding="utf-8").splitlines())) for path in paths)
    return [f"{path}: {count} lines" for path, count in counts if count > MAX_LINES]


def test_modules_stay_small() -> None:
    """No module of session_core or frontends has more than 600 lines, catalogues apart."""
    measured = [
        path for path in python_files("session_core", "frontends") if str(path.relative_to(ROOT)) not in CATALOGUES
    ]
    assert [] == too_long(measured)
    assert python_files("session_core", root=ROOT), "there is no code to measure"


def test_a_long_module_is_found(tmp_path: Path) -> None:
    """A module one line over the limit is reported, and one at the limit is not."""
    (tmp_path / "fits.py").write_text("x = 1\n" * MAX_LINES, encoding="utf-8")
    (tmp_path / "long.py").write_text("x = 1\n" * (MAX_LINES + 1), encoding="utf-8")

    assert [f"{tmp_path / 'long.py'}: 601 lines"] == too_long(python_files(".", root=tmp_path))
