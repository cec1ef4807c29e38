"""Nobody gets out of a workspace: not with any path, and not by swapping folders for links meanwhile."""

import shutil
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from session_core.sandbox.workspace import Workspace, WorkspaceRefused

pytestmark = pytest.mark.usefixtures("way")

_NAMES = st.sampled_from(
    ["..", ".", "", "a", "b", "up", "abs", "self", "chain", "secret", "outside", "root", "~", "...", "file", "fd"]
)
_PATHS = st.one_of(
    st.lists(_NAMES, min_size=1, max_size=9).map("/".join),
    st.lists(_NAMES, min_size=1, max_size=5).map(lambda names: "/" + "/".join(names)),
    st.lists(st.one_of(_NAMES, st.text(max_size=4)), max_size=5).map("/".join),
)


def _make(base: Path) -> Path:
    outside, root = base / "outside", base / "root"
    for folder in (outside, root, root / "a", root / "a" / "b"):
        folder.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (outside / "only outside").write_bytes(b"")
    (root / "file").write_bytes(b"harmless")
    (root / "up").symlink_to("../outside")
    (root / "abs").symlink_to(outside)
    (root / "a" / "chain").symlink_to("../up")
    (root / "a" / "self").symlink_to("/proc/self/root")
    (root / "a" / "b" / "fd").symlink_to("/proc/self/fd")
    (root / "b").symlink_to("a/../../root/../outside")
    return root


def _try_path(root: Path, path: str) -> None:
    workspace = Workspace(str(root))
    outside = root.parent / "outside"
    with suppress(OSError, WorkspaceRefused):
        assert workspace.read(path, max_bytes=99).data != b"secret"
    with suppress(OSError, WorkspaceRefused):
        workspace.write(path, b"written")
    with suppress(OSError, WorkspaceRefused):
        assert "only outside" not in [entry.name for entry in workspace.scan(path, limit=99)]
    with suppress(OSError, WorkspaceRefused):
        workspace.is_protected(path)
    with suppress(OSError, WorkspaceRefused):
        workspace.stat(path)
    assert _names(outside) == ["only outside", "secret"]
    assert (outside / "secret").read_bytes() == b"secret"
    assert _names(root.parent) == ["outside", "root"]


def _check(base: Path, paths: list[str]) -> None:
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir()
    root = _make(base)
    for path in paths:
        _try_path(root, path)


@given(paths=st.lists(_PATHS, min_size=1, max_size=2))
def test_no_path_leads_out(tmp_path: Path, paths: list[str]) -> None:
    """Whatever the path, nothing outside is read, listed, changed or made."""
    _check(tmp_path / "base", paths)


@pytest.mark.slow
@settings(max_examples=2_000)
@given(paths=st.lists(_PATHS, min_size=5, max_size=5))
def test_no_path_leads_out_many(tmp_path: Path, paths: list[str]) -> None:
    """The same with 10,000 paths."""
    _check(tmp_path / "base", paths)


_MOST_TRIES = 1_000_000


def _race(root: Path, tries: int) -> tuple[int, int]:
    """Read and write through a folder that a thread keeps swapping for a link; count what went through and what not."""
    outside = root.parent / "outside"
    (root / "real").mkdir()
    (root / "real" / "secret").write_bytes(b"harmless")
    (root / "link").symlink_to("../outside")
    over = threading.Event()
    swaps = 0

    def swap() -> None:
        nonlocal swaps
        folder, link, aside = (root / name for name in ("swapped", "link", "aside"))
        (root / "real").rename(folder)
        while not over.is_set():
            folder.rename(aside)
            link.rename(folder)
            folder.rename(link)
            aside.rename(folder)
            swaps += 1

    thread = threading.Thread(target=swap)
    thread.start()
    workspace = Workspace(str(root))
    inside = refused = 0
    try:
        for number in range(_MOST_TRIES):
            if number >= tries and inside and swaps:  # a busy machine may come to one of them late
                break
            try:
                if number % 2:
                    assert workspace.read("swapped/secret", max_bytes=99).data in {b"harmless", b"written"}
                else:
                    workspace.write("swapped/secret", b"written", make_parents=False)
                inside += 1
            except (OSError, WorkspaceRefused):
                refused += 1
            if number % 50 == 0:
                assert _names(outside) == ["only outside", "secret"]
    finally:
        over.set()
        thread.join()
    assert _names(outside) == ["only outside", "secret"]
    assert (outside / "secret").read_bytes() == b"secret"
    assert swaps > 0
    return inside, refused


def test_swapped_folder(tmp_path: Path) -> None:
    """A folder swapped for a link while it is used never leads out, in 2,000 tries."""
    inside, refused = _race(_make(tmp_path), 2_000)
    assert inside + refused >= 2_000
    assert inside


@pytest.mark.slow
def test_swapped_folder_many(tmp_path: Path) -> None:
    """The same in 10,000 tries, of which both kinds of outcome must have occurred."""
    inside, refused = _race(_make(tmp_path), 10_000)
    assert inside
    assert refused


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
