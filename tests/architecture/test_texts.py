"""What every file of the project must not say, and what the first pages must."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from tests.architecture._source import ROOT

# Written in pieces, so that this file does not find itself.
FORBIDDEN: dict[str, re.Pattern[str]] = {
    "a path of someone's machine": re.compile(r"(?<![\w.~-])" + "/" + "work" + "/"),
    "a path out of the project": re.compile(re.escape("../" + "shared")),
    "a package registry's address": re.compile(
        "|".join(
            re.escape(name + "." + domain)
            for name, domain in [("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com")]
        )
    ),
}

# Folders to pass over where git cannot tell which files count.
_LEFT_BY_TOOLS = {".git", ".venv", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache", "__pycache__"}


async def project_files() -> list[Path]:
    """Every file that is tracked or waits to be: git's answer, or, in a copy without git, all that no tool made."""
    try:
        listed = await trio.run_process(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_stdout=True,
            capture_stderr=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return list(walk(ROOT))
    names = os.fsdecode(listed.stdout).split("\0")
    return [path for name in names if name and (path := ROOT / name).is_file()]


def walk(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in _LEFT_BY_TOOLS]
        yield from (Path(folder, name) for name in files)


def text_of(path: Path) -> str | None:
    """The content of a text file; nothing for a binary one."""
    content = path.read_bytes()
    if b"\0" in content:
        return None
    return content.decode("utf-8", errors="replace")


def faults_in(text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), start=1):
        for what, pattern in FORBIDDEN.items():
            if pattern.search(line):
                yield f"line {number} holds {what}"


async def test_no_file_speaks_of_a_machine() -> None:
    """No file names a path of someone's machine, a place outside the project, or a package registry's address."""
    texts = {path: text_of(path) for path in await project_files()}

    found = [f"{path.relative_to(ROOT)}: {fault}" for path, text in texts.items() for fault in faults_in(text or "")]

    assert [] == found
    assert Path(__file__) in texts


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("fine\ncd /" + "work/main\n", ["line 2 holds a path of someone's machine"]),
        ("see .." + "/shared/x", ["line 1 holds a path out of the project"]),
        ("https://files.python" + "hosted.org/x", ["line 1 holds a package registry's address"]),
        ("https://py" + "pi.org/simple", ["line 1 holds a package registry's address"]),
        ("https://registry.npm" + "js.org/x", ["line 1 holds a package registry's address"]),
        ("docs/work/flow.md, ~/work/notes and a pypi mirror", []),
    ],
)
def test_what_counts_as_speaking_of_a_machine(text: str, faults: list[str]) -> None:
    """Each forbidden text is found with its line, and its harmless lookalikes are not."""
    assert faults == list(faults_in(text))


def test_walk_passes_over_what_tools_made(tmp_path: Path) -> None:
    """Where git cannot say which files count, the files tools left behind are passed over."""
    for name in ["a.md", "docs/b.md", ".venv/c.md", "tests/__pycache__/d.md"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x", encoding="utf-8")

    assert {tmp_path / "a.md", tmp_path / "docs/b.md"} == set(walk(tmp_path))


def test_readme_begins_with_the_two_commands() -> None:
    """The first 25 lines of the README tell how to run the program and how to test it."""
    start = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:25]

    assert [] == [command for command in ("make run", "make test") if not any(command in line for line in start)]


def test_agents_file_is_short() -> None:
    """AGENTS.md stays under 150 lines, short enough to be read before every change."""
    assert len((ROOT / "AGENTS.md").read_text(encoding="utf-8").splitlines()) < 150


async def test_versions_are_pinned_in_one_place() -> None:
    """Versions are pinned in constraints.txt alone, never in a lock file that records download addresses."""
    names = {path.name for path in await project_files()}

    assert "constraints.txt" in names
    assert not {"uv.lock", "poetry.lock", "Pipfile.lock", "pdm.lock", "pylock.toml"} & names
