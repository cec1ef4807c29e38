"""Trees and patterns: what is shown, what is left out, and bounds."""

import os
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from session_core.limits import MAX_TOOL_OUTPUT_CHARS
from session_core.sandbox.file_values import FolderEntry
from session_core.sandbox.workspace import Workspace
from session_core.tools import list_files
from session_core.tools.base import ToolFailed
from session_core.tools.list_files import MAX_FOUND, MAX_LISTED, MAX_LISTED_PER_FOLDER, GlobTool, ListTool
from session_core.tools.path_patterns import PathPattern
from tests.session_core.tools._running import answer, refusal, run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small project, with a secret beside it."""
    folder = tmp_path / "root"
    for path in ("README.md", "src/app/main.py", "src/app/deep/est.py", "build/out.js", "src/app/x.pyc", ".git/config"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("x" * len(path), encoding="utf-8")
    (folder / ".gitignore").write_text("build/\n*.pyc\n", encoding="utf-8")
    (folder / "out").symlink_to("..")
    (tmp_path / "secret.txt").touch()
    return folder


async def test_a_tree(root: Path) -> None:
    """A tree shows folders, links and sizes down to the depth asked for, and opens nothing that is ignored."""
    assert [
        ".git/",
        "  [not opened: the project ignores it]",
        ".gitignore  13",
        "README.md  9",
        "build/",
        "  [not opened: the project ignores it]",
        "out@",
        "src/",
        "  app/",
    ] == (await answer(ListTool(), root)).split("\n")
    assert [".git/", ".gitignore  13", "README.md  9", "build/", "out@", "src/"] == (
        (await answer(ListTool(), root, depth=1)).split("\n")
    )
    assert "app/\n  deep/\n    est.py  19\n  main.py  15\n  x.pyc  13" == await answer(
        ListTool(), root, path="src", depth=9
    )
    assert "out.js  12" == await answer(ListTool(), root, path="build")


async def test_rules_from_above_hold_below(root: Path) -> None:
    """What a folder higher up ignores is not opened in a tree that starts further down."""
    (root / "src/build").mkdir()

    assert "build/\n  [not opened: the project ignores it]" in await answer(ListTool(), root, path="src")


async def test_a_large_tree_is_cut(root: Path) -> None:
    """Neither one folder nor all together can make a tree without end."""
    for folder in range(8):
        (root / f"many{folder}").mkdir()
        for number in range(MAX_LISTED_PER_FOLDER + 5):
            (root / f"many{folder}" / f"{number:04}").touch()

    lines = (await answer(ListTool(), root)).split("\n")

    assert "  [5 more names are not shown]" in lines
    assert MAX_LISTED + 1 == len(lines)
    assert f"[more than {MAX_LISTED} names; list a folder further down, or with less depth]" == lines[-1]


async def test_a_folder_that_vanishes_or_is_closed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that cannot be read is told in its place, and the rest is shown."""
    real = Workspace.scan

    def closed(self: Workspace, path: str, *, limit: int) -> Any:
        if path.endswith("src"):
            raise PermissionError(13, "Permission denied", path)
        return real(self, path, limit=limit)

    monkeypatch.setattr(Workspace, "scan", closed)

    assert (await answer(ListTool(), root)).endswith("src/\n  [cannot be read]")
    assert "cannot list 'src': Permission denied" == await refusal(ListTool(), root, path="src")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("README.md", "'README.md' is a file, not a folder"),
        ("gone", "there is no 'gone' in the working folder"),
        ("out", "leads outside of the folders that tools may use"),
        ("..", "outside of the folders that tools may use"),
    ],
)
async def test_what_cannot_be_listed(root: Path, path: str, said: str) -> None:
    """Files, missing folders and ways out are refused by both tools."""
    assert said in await refusal(ListTool(), root, path=path)
    assert said in await refusal(GlobTool(), root, path=path, pattern="*")


async def test_strange_names_are_harmless(root: Path) -> None:
    """Control characters and bytes that are no text are shown as replacement characters."""
    (root / "src" / "a\x1b[2Jb\n").touch()
    (root / "src" / os.fsdecode(b"bad\xff")).touch()

    assert "a\ufffd[2Jb\ufffd  0\napp/\nbad\ufffd  0" == await answer(ListTool(), root, path="src", depth=1)
    assert {"src/a\ufffd[2Jb\ufffd", "src/bad\ufffd"} <= set((await answer(GlobTool(), root, pattern="*")).split("\n"))


async def test_patterns_find_files_newest_first(root: Path) -> None:
    """Files that fit come newest first, without what the project ignores and without folders."""
    for age, path in enumerate(["src/app/deep/est.py", "README.md", "src/app/main.py"]):
        os.utime(root / path, (1_000_000 - age, 1_000_000 - age))

    assert "src/app/deep/est.py\nsrc/app/main.py" == await answer(GlobTool(), root, pattern="*.py")
    assert "src/app/main.py" == await answer(GlobTool(), root, pattern="src/*/*.py")
    assert "README.md\nsrc/app/main.py" == await answer(GlobTool(), root, pattern="{README.*,**/main.py}")
    assert "src/app/main.py" == await answer(GlobTool(), root, path="src/app", pattern="./*.py")
    assert "(no file fits)" == await answer(GlobTool(), root, pattern="*.pyc")


async def test_many_files_are_cut(root: Path) -> None:
    """Of very many files the newest are shown and the others counted."""
    for number in range(2 * MAX_FOUND + 10):
        (root / "src" / f"{number:04}.txt").touch()
        os.utime(root / "src" / f"{number:04}.txt", (number, number))

    lines = (await answer(GlobTool(), root, pattern="*.txt")).split("\n")

    assert [f"src/{number:04}.txt" for number in range(2 * MAX_FOUND + 9, MAX_FOUND + 9, -1)] == lines[:-1]
    assert "[510 more files not shown; use a narrower pattern]" == lines[-1]


async def test_answers_are_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the names are, the answer stays within its bound."""
    monkeypatch.setattr(list_files, "MAX_LISTED_PER_FOLDER", 1_000)
    for number in range(500):
        (root / "src" / f"{number:0250}").touch()

    for text in (await answer(ListTool(), root, path="src"), await answer(GlobTool(), root, pattern="*0*")):
        assert MAX_TOOL_OUTPUT_CHARS == len(text)
        assert text.endswith("characters in all]")


async def test_a_stop_ends_the_walk(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancelled search lets go at once, and its thread does not walk on for nobody."""
    scope = trio.CancelScope()
    looked = list[str]()
    gone_on = trio.Event()

    def endless(self: Workspace, path: str, **options: Any) -> Any:
        for number in range(100_000):
            if number == 1_000:
                trio.from_thread.run_sync(scope.cancel)
            looked.append(str(number))
            yield f"{number}.txt", FolderEntry(name=f"{number}.txt", kind="other", size=0)
        trio.from_thread.run_sync(gone_on.set)

    monkeypatch.setattr(Workspace, "walk", endless)
    with scope:
        await run(GlobTool(), root, pattern="*.py")

    assert scope.cancelled_caught
    assert not gone_on.is_set()


@pytest.mark.parametrize(
    ("pattern", "fits", "misses"),
    [
        ("*.py", ["a.py", "x/y/a.py"], ["a.pyc", "py"]),
        ("src/*", ["src/a"], ["src/a/b", "a", "x/src/a"]),
        ("src/**", ["src/a", "src/a/b"], ["a", "xsrc/a"]),
        ("**/test_*.py", ["test_a.py", "a/b/test_b.py"], ["a/tests.py"]),
        ("a/**/z", ["a/z", "a/b/c/z"], ["z", "a/b"]),
        ("[ab]?.{c,h}", ["a1.c", "x/b2.h"], ["c1.c", "a.c", "a1.x"]),
        ("{a,b{c,d}}", ["a", "bc", "bd"], ["b", "c"]),
        ("{a", ["{a"], ["a"]),
        ("[a", ["[a"], ["a"]),
    ],
)
def test_patterns(pattern: str, fits: list[str], misses: list[str]) -> None:
    """Each sign of a pattern means what people expect of it."""
    compiled = PathPattern(pattern)

    assert fits == [path for path in (*fits, *misses) if compiled.matches(path)]


@pytest.mark.parametrize("pattern", ["", "/etc/*", "../*", "a/../b", "x" * 5_000, "{a,b}" * 10])
def test_patterns_that_are_refused(pattern: str) -> None:
    """Patterns that lead out, or stand for too much, are refused and name the argument."""
    with pytest.raises(ToolFailed, match="the argument 'include'"):
        PathPattern(pattern, "include")


def test_a_hostile_pattern_ends() -> None:
    """No pattern takes long, whatever it is matched with."""
    assert not PathPattern("*a" * 200 + "b").matches("a" * 250)
    assert not PathPattern("**/" * 300 + "x").matches("/".join("a" * 200))


@given(names=st.lists(st.text("ab.", min_size=1, max_size=4), min_size=1, max_size=5))
def test_a_path_fits_itself(names: list[str]) -> None:
    """A path without signs is a pattern that fits it, with any folders in front too."""
    if any(name in {".", ".."} for name in names):
        return
    path = "/".join(names)

    assert PathPattern(path).matches(path)
    assert PathPattern(f"**/{path}").matches(f"x/y/{path}")
    assert not PathPattern(f"x/{path}").matches(path)
