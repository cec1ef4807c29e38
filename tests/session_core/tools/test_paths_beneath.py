"""The paths of a folder: both ways of listing say the same, and neither leaves the folder or shows what is closed."""

from pathlib import Path
from typing import Any

import pytest

from session_core.tools import paths_beneath as module
from session_core.tools.paths_beneath import ClosedPlaces, PathListing, paths_beneath
from tests._needs import needs_ripgrep

ENGINES: list[Any] = [pytest.param(True, marks=needs_ripgrep, id="ripgrep"), pytest.param(False, id="walk")]


def lay_out(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x", encoding="utf-8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with files of every kind, and a secret beside it."""
    folder = tmp_path / "project"
    lay_out(folder, "README.md", "src/deep/main.py", "src/ä b.py", ".hidden/conf", "--files", "kept.log")
    lay_out(folder, "build/out.o", "other.log", "node_modules/x/index.js", "src/__pycache__/main.pyc")
    lay_out(folder, ".git/config", ".vscode/tasks.json", ".Claude/settings.json", ".envrc", "home/store.db")
    (folder / ".gitignore").write_text("/build\n*.log\n!kept.log\n", encoding="utf-8")
    lay_out(tmp_path, "outside/secret.txt")
    (folder / "link").symlink_to("../outside")
    (folder / "src" / "self.py").symlink_to("deep/main.py")
    return folder


@pytest.mark.parametrize("ripgrep", ENGINES)
async def test_what_people_work_on_is_listed(root: Path, ripgrep: bool) -> None:  # noqa: FBT001
    """Files and their folders are listed; what is ignored, made by programs, closed or linked is not."""
    found = await paths_beneath(str(root), (str(root / "home"),), ripgrep=ripgrep)
    expected = {".gitignore", ".hidden/", ".hidden/conf", "--files", "README.md", "kept.log"}
    expected |= {"src/", "src/deep/", "src/deep/main.py", "src/ä b.py"}
    assert (expected, False) == (set(found.paths), found.cut)
    assert len(found.paths) == len(expected)


@pytest.mark.parametrize("ripgrep", ENGINES)
async def test_names_that_are_no_text_are_passed_over(tmp_path: Path, ripgrep: bool) -> None:  # noqa: FBT001
    """A name that could not be sent to anybody is left out, and one with a line end is not."""
    lay_out(tmp_path, "good", "two\nlines")
    (tmp_path / b"bad\xff".decode("utf-8", "surrogateescape")).write_text("x", encoding="utf-8")
    found = await paths_beneath(str(tmp_path), ripgrep=ripgrep)
    assert ["good", "two\nlines"] == sorted(found.paths)


@pytest.mark.parametrize("ripgrep", ENGINES)
async def test_there_is_an_end_to_it(tmp_path: Path, ripgrep: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    """Of too many files, or too many characters, only so many are listed, and that is told."""
    lay_out(tmp_path, *(f"file{number}" for number in range(9)))
    monkeypatch.setattr(module, "MAX_FOUND_PATHS", 4)
    found = await paths_beneath(str(tmp_path), ripgrep=ripgrep)
    assert (4, True) == (len(found.paths), found.cut)
    monkeypatch.setattr(module, "MAX_FOUND_PATHS", 100)
    monkeypatch.setattr(module, "MAX_FOUND_CHARS", 12)
    found = await paths_beneath(str(tmp_path), ripgrep=ripgrep)
    assert (2, True) == (len(found.paths), found.cut)


async def test_time_ends_a_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk that has used up its time gives what it has found."""
    lay_out(tmp_path, *(f"file{number}" for number in range(9)))
    monkeypatch.setattr(module, "_LOOK_UP_EVERY", 3)
    found = await paths_beneath(str(tmp_path), ripgrep=False, patience_ms=-1)
    assert (3, True) == (len(found.paths), found.cut)


@pytest.mark.parametrize("ripgrep", ENGINES)
async def test_an_empty_folder_and_none(tmp_path: Path, ripgrep: bool) -> None:  # noqa: FBT001
    """Where nothing is, nothing is found; where there is no folder, that is an error."""
    assert PathListing(paths=(), cut=False) == await paths_beneath(str(tmp_path), ripgrep=ripgrep)
    with pytest.raises(NotADirectoryError):
        await paths_beneath(str(tmp_path / "missing"), ripgrep=ripgrep)


async def test_a_ripgrep_of_the_folder_is_not_run(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that lies in the folder itself is not trusted: the walk lists the files."""
    program = root / "rg"
    program.write_text("#!/bin/sh\nprintf 'evil\\0'\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(root))
    assert "evil" not in (await paths_beneath(str(root))).paths


async def test_a_ripgrep_that_fails_is_replaced(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where ripgrep cannot do it, as an old one that lacks an option, the walk does."""
    program = tmp_path / "bin" / "rg"
    lay_out(tmp_path, "bin/rg")
    program.write_text("#!/bin/sh\nexit 2\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    assert "src/deep/main.py" in (await paths_beneath(str(root))).paths


def test_places_with_keys_are_closed_beneath_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In somebody's home directory keys and start files are not shown, and ordinary files are."""
    monkeypatch.setenv("HOME", str(tmp_path))
    lay_out(tmp_path, ".ssh/id_rsa", ".aws/credentials")
    closed = ClosedPlaces.find_beneath(str(tmp_path), ())
    assert all(closed.contains(path) for path in (".ssh/id_rsa", ".bashrc", ".aws/credentials", ".GIT/config"))
    assert not any(closed.contains(path) for path in ("notes.txt", ".sshx/file", "work/.bashrc"))
