"""Many folders are asked about at once, and only what has surely not changed counts as unchanged."""

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from session_core.sandbox import folder_states, protected_scan
from session_core.sandbox.folder_states import FolderStates
from session_core.sandbox.protected_scan import ProtectedState, find_protected
from tests._needs import needs

needs_linux = needs(None if sys.platform == "linux" else "asking about many folders needs Linux")


def _make_again(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.mkdir()


def _replace_by_link(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.symlink_to("moved")


def _set_time_back(folder: Path) -> None:
    before = folder.stat()
    (folder / "new").touch()
    os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "a new file": lambda folder: (folder / "new").touch(),
    "a removed file": lambda folder: (folder / "file").unlink(),
    "other rights": lambda folder: folder.chmod(0o700),
    "another folder": _make_again,
    "a link": _replace_by_link,
    "gone": lambda folder: folder.rename(folder.with_name("moved")),
    "a new file, and its time set back": _set_time_back,
}


def _states(root: Path, names: list[str]) -> FolderStates:
    found = [(name, (root / name).stat()) for name in names]
    return FolderStates([(name, state.st_dev, state.st_ino, state.st_ctime_ns) for name, state in found])


def _ask(root: Path, states: FolderStates, deadline: float = math.inf) -> list[bool]:
    opened = os.open(root, os.O_PATH)
    try:
        return states.find_unchanged(opened, deadline)
    finally:
        os.close(opened)


def _let_time_stamps_advance(root: Path) -> None:
    """Wait until a change gets another time stamp than everything up to now; it takes some milliseconds at most."""
    probe = root / "probe"
    probe.touch()
    before = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == before:
        probe.touch()
    probe.unlink()


@needs_linux
@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_seen(tmp_path: Path, change: str) -> None:
    """Whatever happens to one of many folders, it does not count as unchanged, and the others do."""
    names = [f"folder{number}" for number in range(1_100)]
    for name in names:
        (tmp_path / name).mkdir()
    (tmp_path / "folder700/file").touch()
    states = _states(tmp_path, names)
    _let_time_stamps_advance(tmp_path)
    assert _ask(tmp_path, states) == [True] * 1_100
    CHANGES[change](tmp_path / "folder700")
    assert _ask(tmp_path, states) == [name != "folder700" for name in names]


@needs_linux
def test_no_time_left(tmp_path: Path) -> None:
    """After the deadline the system is not asked, and nothing is said about the folders."""
    assert _ask(tmp_path, _states(tmp_path, ["."]), deadline=-math.inf) == []


def test_a_system_that_cannot_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system does not have the call, no folder counts as unchanged."""
    monkeypatch.setattr(folder_states, "_find_statx", lambda: None)
    assert _ask(tmp_path, _states(tmp_path, ["."])) == []


@needs_linux
def test_a_call_that_is_forbidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system refuses the call, as in some containers, no folder counts as unchanged."""
    states = _states(tmp_path, ["."])
    assert _ask(tmp_path, states) == [True]
    monkeypatch.setattr(folder_states, "_find_statx", lambda: lambda *_: -1)
    assert _ask(tmp_path, states) == [False]


def _plant(root: Path) -> None:
    (root / "a/b/.git").mkdir()
    (root / "bare/HEAD").write_text("ref: refs/heads/main\n")
    (root / "node_modules/x/.git").mkdir()
    (root / "c").rename(root / "d")
    (root / "link").rename(root / "kept")
    (root / "link").symlink_to("kept")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with protected things in it, which counts as settled at once."""
    monkeypatch.setattr(protected_scan, "_SETTLED_NS", -(10**12))
    root = tmp_path.resolve() / "root"
    for name in ("a/b/.idea", "bare/objects", "bare/refs", "node_modules/x/.vscode", "c/.git", "link/.git"):
        (root / name).mkdir(parents=True)
    return root


@needs_linux
def test_an_unchanged_tree_is_asked_about_at_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk through a tree in which nothing has changed finds the same, and looks at no folder by itself."""
    first = find_protected([str(root)])
    asked: list[str] = []
    real = os.stat

    def ask(path: str, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        if dir_fd is not None and path != os.curdir:
            asked.append(path)
        return real(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(os, "stat", ask)
    assert find_protected([str(root)]) == first
    assert asked == []
    (root / "a/new").mkdir()
    find_protected([str(root)])
    assert asked == ["a", "a/new"]


@pytest.mark.parametrize("left_out", [[], ["d", "bare"]])
def test_what_is_remembered_hides_nothing(root: Path, left_out: list[str]) -> None:
    """After any change a walk finds what it would find if nothing were remembered, wherever it is to stay out of."""
    places = [str(root / name) for name in left_out]
    for _ in range(2):
        find_protected([str(root)])
    _let_time_stamps_advance(root)
    assert _find_twice(root, places) == [_find_afresh(root, places)] * 2
    _plant(root)
    fresh = [_find_afresh(root, places)] * 2
    assert _find_twice(root, places) == fresh
    assert (str(root / "d/.git") in fresh[0].items) == (not left_out)
    assert {str(root / "a/b/.git"), str(root / "node_modules/x/.git")} <= fresh[0].items.keys()


def _find_twice(root: Path, left_out: list[str]) -> list[ProtectedState]:
    return [find_protected([str(root)], left_out=left_out) for _ in range(2)]


def _find_afresh(root: Path, left_out: list[str]) -> ProtectedState:
    """Look through the folder as if nothing were remembered, and forget what was seen."""
    remembered = protected_scan._trees.copy()
    protected_scan._trees.clear()
    try:
        return find_protected([str(root)], left_out=left_out)
    finally:
        protected_scan._trees.clear()
        protected_scan._trees.update(remembered)
