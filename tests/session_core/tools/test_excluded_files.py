"""Files that rules deny are not shown by tools that come across them, and their number is told."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.permissions.path_filter import build_path_filter
from session_core.permissions.rules import PermissionRule, RuleDecision, decide
from session_core.tools.base import Tool, exclude_nothing
from session_core.tools.files import ListFiles
from session_core.tools.list_files import GlobTool, ListTool
from session_core.tools.search import GrepTool
from session_core.vocabulary.frozen import JsonObject
from tests._needs import needs_ripgrep
from tests.session_core.tools._running import context

RULES = (
    PermissionRule(decision="deny", path=".env"),
    PermissionRule(decision="deny", path="secret/*.key"),
    PermissionRule(decision="ask", path="private"),
    PermissionRule(decision="deny", tool="write", path="src"),
    PermissionRule(decision="allow", path="**"),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with files that all hold the same word."""
    for name in (".env", "a.txt", "src/.env", "src/b.txt", "secret/one.key", "secret/two.txt", "private/c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("word\n", encoding="utf-8")
    (tmp_path / "link").symlink_to("secret")
    (tmp_path / "hidden.txt").symlink_to(".env")
    return tmp_path


async def _told(tool: Tool, root: Path, rules: tuple[PermissionRule, ...] = RULES, **arguments: Any) -> list[str]:
    named = (str(arguments.get("path", ".")),)
    allowed = context(root, path_filter=build_path_filter(rules, tool.spec.name, named))
    return (await tool.run(JsonObject(arguments), allowed)).text.split("\n")


@pytest.mark.parametrize("engine", [pytest.param("ripgrep", marks=needs_ripgrep), "own"])
async def test_search(root: Path, engine: Any) -> None:
    """A search does not look into files that a rule denies or wants to be asked for, and counts them."""
    assert await _told(GrepTool(engine), root, pattern="word", show="files") == [
        "a.txt",
        "secret/two.txt",
        "src/b.txt",
        "[3 files not shown: denied by a rule]",
        "[1 file not shown: a rule requires approval for them; name the file you need]",
    ]
    assert await _told(GrepTool(engine), root, pattern="word", path="link", show="files") == [
        "link/two.txt",
        "[1 file not shown: denied by a rule]",
    ]
    assert await _told(GrepTool(engine), root, pattern="word", include="*.key") == [
        "(nothing found)",
        "[1 file not shown: denied by a rule]",
    ]


async def test_what_was_named_is_shown(root: Path) -> None:
    """Rules that fit what the call names have been asked about already, and do not hide all that is in it."""
    assert await _told(GrepTool("own"), root, pattern="word", path="private", show="files") == ["private/c.txt"]
    everything = (PermissionRule(decision="ask", path="**"), *RULES[:1])
    assert "a.txt" in await _told(GrepTool("own"), root, everything, pattern="word", show="files")


async def test_listings(root: Path) -> None:
    """Neither a tree nor a plain list nor a pattern names what is denied, or a link to it."""
    tree = await _told(ListTool(), root)
    assert [line for line in tree if "env" in line or "key" in line or "hidden" in line or "c.txt" in line] == []
    assert "    two.txt  5".strip() in [line.strip() for line in tree]
    assert tree[-2:] == [
        "[4 names not shown: denied by a rule]",
        "[1 name not shown: a rule requires approval for them; name the file you need]",
    ]
    assert await _told(ListTool(), root, path="link") == ["two.txt  5", "[1 name not shown: denied by a rule]"]
    assert await _told(ListFiles(), root, path="secret") == ["two.txt", "[1 name not shown: denied by a rule]"]
    assert sorted(await _told(GlobTool(), root, pattern="**/*.txt")) == [
        "[1 file not shown: a rule requires approval for them; name the file you need]",
        "[1 file not shown: denied by a rule]",
        "a.txt", "secret/two.txt", "src/b.txt",
    ]  # fmt: skip
    assert await _told(GlobTool(), root, pattern="*.key") == ["(no file fits)", "[1 file not shown: denied by a rule]"]


def test_without_rules_about_files() -> None:
    """Rules about tools and commands, and those that allow, exclude no file and cost nothing."""
    rules = (
        PermissionRule(decision="deny", tool="write"),
        PermissionRule(decision="deny", command="rm *"),
        PermissionRule(decision="allow", path="src"),
    )
    assert build_path_filter(rules, "grep", (".",)) is exclude_nothing


_PATTERNS = st.sampled_from([".env", "src/**", "*.key", "a/b", "./a/", "/x/*", "**/b", "b*", "?", "/", "a/*/b"])
_PATHS = st.lists(st.sampled_from(["a", "b", "src", ".env", "x.key", "bb"]), min_size=1, max_size=4)


@given(
    st.lists(st.tuples(st.sampled_from(["deny", "ask"]), _PATTERNS), min_size=1, max_size=4),
    st.lists(st.tuples(_PATHS, st.booleans()), min_size=1, max_size=3),
)
def test_files_are_judged_as_if_the_call_had_named_them(
    rules: list[tuple[RuleDecision, str]], files: list[tuple[list[str], bool]]
) -> None:
    """The short way through many files comes to the same as the rules themselves."""
    about = [PermissionRule(decision=decision, path=path) for decision, path in rules]
    path_filter = build_path_filter(about, "grep", ())
    paths = tuple(("/" if absolute else "") + "/".join(names) for names, absolute in files)
    assert path_filter(paths) == decide(about, tool="grep", paths=paths)
