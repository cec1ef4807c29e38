"""A workspace reads and writes beneath its roots, and nowhere else."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from session_core.sandbox.ignore import IgnoreRules
from session_core.sandbox.workspace import (
    FileChanged,
    FileVersion,
    FolderEntry,
    Location,
    OutsideWorkspace,
    ProtectedPath,
    Workspace,
)

pytestmark = pytest.mark.usefixtures("way")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a secret beside it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"secret")
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def workspace(root: Path) -> Workspace:
    """The workspace in that folder."""
    return Workspace(str(root))


def test_write_then_read(workspace: Workspace, root: Path) -> None:
    """What was written is read back, folders on the way are made, and nothing else is left in the folder."""
    workspace.write("a/b/file", b"0123456789")
    content = workspace.read("a/b/file", max_bytes=4)
    assert (content.data, content.size, content.truncated) == (b"0123", 10, True)
    whole = workspace.read(str(root / "a/b/file"), max_bytes=10)
    assert (whole.data, whole.truncated) == (b"0123456789", False)
    assert workspace.read_range("a/b/file", offset=3, length=4) == b"3456"
    assert workspace.read_range("a/b/file", offset=8, length=40) == b"89"
    assert _names(root / "a/b") == ["file"]


def test_write_keeps_the_mode_and_the_link(workspace: Workspace, root: Path) -> None:
    """A replaced file keeps its mode; a link at the end stays a link and its target is written."""
    (root / "script").write_bytes(b"old")
    (root / "script").chmod(0o751)
    (root / "folder").mkdir()
    (root / "folder/link").symlink_to("../script")
    workspace.write("folder/link", b"new")
    assert (root / "folder/link").is_symlink()
    assert (root / "script").read_bytes() == b"new"
    assert stat.S_IMODE((root / "script").stat().st_mode) == 0o751


def test_write_does_not_reach_other_names_of_a_file(workspace: Workspace, root: Path) -> None:
    """A hard link to a file outside is replaced, and the file outside stays as it is."""
    os.link(root.parent / "outside/secret", root / "hard")
    workspace.write("hard", b"changed")
    assert (root.parent / "outside/secret").read_bytes() == b"secret"


def test_expected_version(workspace: Workspace, root: Path) -> None:
    """A write that expects another version than the one there changes nothing."""
    workspace.write("file", b"one", expected=None)
    version = workspace.read("file", max_bytes=9).version
    with pytest.raises(FileChanged):
        workspace.write("file", b"two", expected=None)
    with pytest.raises(FileChanged):
        workspace.write("file", b"two", expected=FileVersion(size=9, mtime_ns=version.mtime_ns))
    assert (root / "file").read_bytes() == b"one"
    workspace.write("file", b"two", expected=version)
    with pytest.raises(FileChanged):
        workspace.write("missing", b"", expected=version)
    assert _names(root) == ["file"]
    assert (root / "file").read_bytes() == b"two"


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret", "a/../../outside/secret", "/etc/passwd", "", "a\0b", "\ud800", "absolute/secret",
        "up/secret", "chain/secret", "file-link", "/proc/self/root/etc/passwd", "inside/up/secret", "loop", "..", "/",
    ],
)  # fmt: skip
@pytest.mark.parametrize("operation", ["read", "write", "remove", "scan", "read_range"])
def test_no_way_out(workspace: Workspace, root: Path, path: str, operation: str) -> None:
    """No path that leads out is read, written, removed or listed, and the error names it."""
    (root / "absolute").symlink_to(root.parent / "outside")
    (root / "up").symlink_to("../outside")
    (root / "chain").symlink_to("up")
    (root / "loop").symlink_to("loop")
    (root / "inside").symlink_to(".")
    (root / "file-link").symlink_to("../outside/secret")
    actions: dict[str, Callable[[], object]] = {
        "read": lambda: workspace.read(path, max_bytes=10),
        "write": lambda: workspace.write(path, b"x"),
        "remove": lambda: workspace.remove(path),
        "scan": lambda: list(workspace.scan(path, limit=10)),
        "read_range": lambda: workspace.read_range(path, offset=0, length=1),
    }
    if operation == "remove" and path in {"loop", "file-link"}:
        workspace.remove(path)  # the link goes, its target stays
    else:
        with pytest.raises(OutsideWorkspace) as refused:
            actions[operation]()
        assert repr(path) in str(refused.value) or repr(path.rstrip("/")) in str(refused.value)
    assert (root.parent / "outside/secret").read_bytes() == b"secret"


def test_links_inside_are_followed(workspace: Workspace, root: Path) -> None:
    """Links that stay inside work, also through `..`."""
    workspace.write("a/b/file", b"x")
    (root / "a/link").symlink_to("../a/b/../b")
    assert workspace.read("a/link/file", max_bytes=1).data == b"x"
    workspace.write("a/link/other", b"y")
    assert (root / "a/b/other").read_bytes() == b"y"
    (root / "dangling").symlink_to("a/new")
    workspace.write("dangling", b"z")
    assert (root / "a/new").read_bytes() == b"z"


def test_special_files_are_refused(workspace: Workspace, root: Path) -> None:
    """A pipe neither hangs us nor is replaced; a folder is not a file."""
    os.mkfifo(root / "pipe")
    (root / "folder").mkdir()
    with pytest.raises(PermissionError, match="ordinary"):
        workspace.read("pipe", max_bytes=1)
    with pytest.raises(PermissionError, match="ordinary"):
        workspace.write("pipe", b"")
    for action in (
        lambda: workspace.read("folder", max_bytes=1),
        lambda: workspace.write("folder", b""),
        lambda: workspace.write(".", b""),
        lambda: workspace.remove("folder"),
        lambda: workspace.remove("."),
    ):
        with pytest.raises(IsADirectoryError):
            action()
    with pytest.raises(NotADirectoryError):
        workspace.read("pipe/x", max_bytes=1)
    with pytest.raises(FileNotFoundError) as missing:
        workspace.read("no/such", max_bytes=1)
    assert missing.value.filename == "no/such"


def test_stat(workspace: Workspace, root: Path) -> None:
    """Status tells kinds apart, does not follow the last link, and is None for what is missing."""
    workspace.write("file", b"abc")
    (root / "link").symlink_to("../outside")
    os.mkfifo(root / "pipe")
    kinds = {name: found.kind for name in ("file", "link", "pipe", ".") if (found := workspace.stat(name)) is not None}
    assert kinds == {"file": "file", "link": "link", "pipe": "other", ".": "folder"}
    assert workspace.stat("missing") is None
    assert workspace.stat("file/below") is None
    with pytest.raises(OutsideWorkspace):
        workspace.stat("link/secret")


def test_roots(root: Path) -> None:
    """Extra roots are written, readable roots are read, a read-only workspace writes nothing."""
    outside = root.parent / "outside"
    extra = Workspace(str(root), extra_roots=[str(outside)])
    extra.write(str(outside / "new"), b"x")
    assert extra.locate("../outside/new") == Location(
        root=str(outside), relative="new", display_path=str(outside / "new")
    )
    readable = Workspace(str(root), readable_roots=[str(outside)])
    assert readable.read(str(outside / "secret"), max_bytes=10).data == b"secret"
    with pytest.raises(PermissionError, match="only be read"):
        readable.write(str(outside / "secret"), b"x")
    with pytest.raises(PermissionError, match="only be read"):
        readable.remove(str(outside / "secret"))
    with pytest.raises(PermissionError, match="only read"):
        Workspace(str(root), read_only=True).write("file", b"")
    assert _names(root) == []


def test_whole_disk(root: Path) -> None:
    """With the whole disk among the roots every link may be followed, and paths in the root are shown short."""
    (root / "link").symlink_to(root.parent / "outside")
    workspace = Workspace(str(root), extra_roots=["/"])
    assert workspace.read("link/secret", max_bytes=10).data == b"secret"
    workspace.write("link/secret", b"new")
    assert (root.parent / "outside/secret").read_bytes() == b"new"
    assert workspace.locate("link").display_path == "link"
    assert workspace.is_protected(".git/hooks/x")


def test_root_behind_a_link(root: Path) -> None:
    """A root given by a link takes absolute paths as written and as the system names them."""
    link = root.parent / "link"
    link.symlink_to("root")
    workspace = Workspace(str(link))
    workspace.write(str(link / "file"), b"x")
    assert workspace.read(str(root / "file"), max_bytes=1).data == b"x"
    assert workspace.root == str(link)
    assert workspace.is_protected(str(root / ".git"))


@pytest.mark.parametrize(
    "path",
    [".git", ".git/hooks/pre-commit", ".GIT/config", ".g\u200cit/config", ".envrc", ".agents/x/y", "to-git/hooks"],
)
def test_protected_paths(workspace: Workspace, root: Path, path: str) -> None:
    """Protected paths, there or missing, by any spelling or link, are written only after an agreement."""
    (root / "to-git").symlink_to(".git")
    if path.startswith("to-git"):
        (root / ".git").mkdir()
    assert workspace.is_protected(path)
    before = _names(root)
    with pytest.raises(ProtectedPath):
        workspace.write(path, b"x")
    assert _names(root) == before
    agreed = Workspace(str(root), may_write_protected=True)
    agreed.write(path, b"x")
    with pytest.raises(ProtectedPath):
        workspace.remove(path)
    agreed.remove(path)


def test_protected_deep_down(workspace: Workspace) -> None:
    """A protected name counts at any depth; its neighbours, and names that only begin like it, are free."""
    protected = ("sub/.git/config", "a/b/.claude/settings.json", "x/mcp.json", "node_modules/p/.vscode/tasks.json")
    assert [workspace.is_protected(path) for path in protected] == [True] * 4
    free = (".", "a", "git/config", ".gitignore", "x/mcp.json5")
    assert [workspace.is_protected(path) for path in free] == [False] * 5
    workspace.write("a/b/x", b"")
    with pytest.raises(ProtectedPath):
        workspace.write("a/b/.vscode/x", b"")


def test_scan_and_walk(workspace: Workspace, root: Path) -> None:
    """Folders are listed by name and within the limit; a walk goes depth first, follows no link and skips .git."""
    for path in ("b/two", "b/one", "a", "c/d/e", ".git/config"):
        (root / path).parent.mkdir(exist_ok=True, parents=True)
        (root / path).write_bytes(b"xy")
    (root / "out").symlink_to("../outside")
    (root / "circle").symlink_to(".")
    assert [entry.name for entry in workspace.scan("b", limit=9)] == ["one", "two"]
    assert list(workspace.scan("b", limit=1)) == [FolderEntry(name="one", kind="file", size=2)]
    paths = [path for path, _ in workspace.walk(".", ignore=None, limit=99)]
    assert paths == ["a", "b", "b/one", "b/two", "c", "c/d", "c/d/e", "circle", "out"]
    assert [path for path, _ in workspace.walk("c", ignore=None, limit=99)] == ["c/d", "c/d/e"]
    assert [path for path, _ in workspace.walk("circle/c", ignore=None, limit=1)] == ["circle/c/d"]
    elsewhere = Workspace(str(root / "b"), readable_roots=[str(root / "c")])
    assert [path for path, _ in elsewhere.walk(str(root / "c"), ignore=None, limit=9)] == [
        str(root / "c/d"),
        str(root / "c/d/e"),
    ]


def test_walk_honours_ignore_files(workspace: Workspace, root: Path) -> None:
    """Ignore files on the way down count, those above the start too, and deeper ones win."""
    for path in ("a.log", "keep.log", "build/x", "src/build", "src/deep/b.log", "src/deep/c.tmp"):
        workspace.write(path, b"")
    workspace.write(".gitignore", b"*.log\n!keep.log\n/build\n")
    workspace.write("src/deep/.ignore", b"!b.log\n*.tmp\n")
    (root / "src/.gitignore").symlink_to("../../outside/secret")
    rules = IgnoreRules.load(workspace)
    assert [path for path, entry in workspace.walk(".", ignore=rules, limit=99) if entry.kind == "file"] == [
        ".gitignore", "keep.log", "src/build", "src/deep/.ignore", "src/deep/b.log",
    ]  # fmt: skip
    workspace.write("src/x.log", b"")
    assert "src/x.log" not in [path for path, _ in workspace.walk("src", ignore=rules, limit=99)]


def test_no_descriptor_is_left(workspace: Workspace, root: Path) -> None:
    """Operations that work, fail or are left halfway leave no descriptor open."""
    (root / "out").symlink_to("../outside")
    before = len(list(Path("/dev/fd").iterdir()))
    for number in range(50):
        workspace.write(f"a/b{number}/c", b"x")
        workspace.read(f"a/b{number}/c", max_bytes=1)
        next(iter(workspace.walk(".", ignore=IgnoreRules.load(workspace), limit=5)))
        for path in ("out/secret", "missing", "a", ".git/x"):
            with pytest.raises((OSError, OutsideWorkspace, ProtectedPath)):
                workspace.write(path, b"") if path != "missing" else workspace.read(path, max_bytes=1)
    assert len(list(Path("/dev/fd").iterdir())) == before


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
