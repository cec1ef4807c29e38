"""Ignore rules leave out what git leaves out."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from session_core.sandbox.ignore import IgnoreRules
from session_core.sandbox.workspace import Workspace

_FILES = (
    "a",
    "b.o",
    "ab.o",
    "x/a",
    "x/b.o",
    "x/y/a",
    "x/y/abc",
    "y/x/a",
    "foo/bar/a",
    "[a]",
    "a b",
    "#a",
    "!a",
    "x.y/z",
)


@pytest.mark.parametrize(
    ("lines", "ignored"),
    [
        (["a"], {"a", "x/a", "x/y/a", "y/x/a", "foo/bar/a"}),
        (["/a"], {"a"}),
        (["x/"], {"x/a", "x/b.o", "x/y/a", "x/y/abc", "y/x/a"}),
        (["/x/*", "!/x/y"], {"x/a", "x/b.o"}),
        (["*.o", "!b.o"], {"ab.o"}),
        (["**/y/a"], {"x/y/a"}),
        (["x/**/a"], {"x/a", "x/y/a"}),
        (["x/**"], {"x/a", "x/b.o", "x/y/a", "x/y/abc"}),
        (["foo/*/a"], {"foo/bar/a"}),
        (["[ab]", "!/a"], {"x/a", "x/y/a", "y/x/a", "foo/bar/a"}),
        (["[!a-z]b", "a?c", "\\[a]", "\\#a", "\\!a", "a\\ b  "], {"x/y/abc", "[a]", "#a", "!a", "a b"}),
        (["# a", "", "   ", "!", "/", "[", "\\"], set()),
        (["a/"], set()),
    ],
)  # fmt: skip
def test_patterns(tmp_path: Path, lines: list[str], ignored: set[str]) -> None:
    """Each form of pattern leaves out exactly these files."""
    workspace = _make(tmp_path, lines)
    assert set(_FILES) - set(_kept(workspace)) == ignored


_PATTERNS = st.lists(
    st.one_of(
        st.text("ab/*?[]!-.xy \\o", min_size=1, max_size=8),
        st.lists(st.sampled_from(["**", "*", "x", "y", "a", "*.o", "a?c", "[a-c]*", ""]), min_size=1, max_size=4).map(
            "/".join
        ),
    ).flatmap(lambda text: st.sampled_from([text, "!" + text, text + "/"])),
    min_size=1,
    max_size=4,
)


@pytest.fixture
async def repository(tmp_path: Path) -> Path:
    """An empty repository."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    await trio.run_process(["git", "init", "-q", str(tmp_path)], env=_git_environment())
    return tmp_path


@settings(max_examples=min(settings().max_examples, 100))
@given(lines=_PATTERNS, schedule=st.random_module())
async def test_same_as_git(repository: Path, lines: list[str], schedule: object) -> None:
    """For any patterns, a walk keeps the files that git lists."""
    workspace = _make(repository, lines)
    listed = await trio.run_process(
        ["git", "-C", str(repository), "ls-files", "-z", "--others", "--exclude-standard"],
        capture_stdout=True,
        env=_git_environment(),
    )
    expected = {os.fsdecode(name) for name in listed.stdout.split(b"\0") if name}
    assert set(_kept(workspace)) | {".gitignore"} == expected | {".gitignore"}


def test_hostile_pattern_is_quick() -> None:
    """A pattern made to keep a matcher busy for ever is done within a bounded number of steps."""
    rules = IgnoreRules().with_lines("", "*a" * 200 + "b\n" + "**/a/" * 200 + "b\n")
    assert not rules.ignores("a" * 255, is_folder=False)
    assert not rules.ignores("/".join("a" * 300), is_folder=False)


def test_number_of_rules_is_bounded() -> None:
    """More lines than one can match in reasonable time are left out."""
    rules = IgnoreRules()
    for number in range(10):
        rules = rules.with_lines(f"f{number}", "\n".join(f"x{line}" for line in range(3_000)))
    assert sum(len(layer.rules) for layer in rules._layers) == 10_000


def _make(folder: Path, lines: Sequence[str]) -> Workspace:
    for name in _FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")
    (folder / ".gitignore").write_text("\n".join(lines) + "\n")
    return Workspace(str(folder))


def _kept(workspace: Workspace) -> list[str]:
    rules = IgnoreRules.load(workspace)
    return [path for path, entry in workspace.walk(".", ignore=rules, limit=999) if entry.kind == "file"]


def _git_environment() -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": "/nowhere",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
    }
