"""The promises name the tests that prove them, and these tests exist."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.docs._documents import ROOT

PAGES = {
    "SECURITY.md": ("threat",),
    "docs/permissions.md": (
        "mode",
        "answer",
        "beyond its sandbox, the call wants to",
        "of",
        "what holds",
    ),
    "docs/sandbox-builds.md": ("command",),
}
"""The first words of the tables with promises, by page; `what holds` heads several."""
_LINK = re.compile(r"\[(test_\w+)\]\(([^)]+)\)")
_CODE = re.compile(r"`[^`]*`")
_FUNCTION = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)


def faults(page: Path, heads: tuple[str, ...]) -> Iterator[str]:
    """Say what is wrong with the tables of promises on a page."""
    text = page.read_text(encoding="utf-8")
    found: set[str] = set()
    for head, rows in _tables(text):
        if head[0] not in heads:
            continue
        found.add(head[0])
        if head[-1] != "test":
            yield f"the table {head[0]!r} has no column for tests"
        for row in rows:
            if not _LINK.search(row[-1]) or _LINK.sub("", row[-1]).strip(", "):
                yield f"{row[0]}: {row[-1]!r} names no test"
    yield from (f"there is no table {head!r}" for head in heads if head not in found)
    for name, target in _LINK.findall(text):
        file = (page.parent / target).resolve()
        if not file.is_file():
            yield f"{target} is not there"
        elif name not in _functions(file):
            yield f"{target} has no {name}"


def _tables(text: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    rows: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            # Bars in code are no ends of cells.
            hidden = _CODE.sub(lambda code: code[0].replace("|", "\0"), line.strip("|"))
            rows.append([cell.strip().replace("\0", "|") for cell in hidden.split(" | ")])
        elif rows:
            yield rows[0], rows[2:]
            rows = []


@cache
def _functions(file: Path) -> frozenset[str]:
    return frozenset(_FUNCTION.findall(file.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", PAGES)
def test_each_promise_names_its_tests(page: str) -> None:
    """No row of the tables with promises lacks a test, and each test that is named exists in the file it links to."""
    assert [] == list(faults(ROOT / page, PAGES[page]))


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("| a | [test_x](test_y.py) |", []),
        ("| a | [test_x](test_y.py), [test_z](test_y.py) |", []),
        ("| a | [test_x](test_y.py), and more |", ["a: '[test_x](test_y.py), and more' names no test"]),
        ("| a |  |", ["a: '' names no test"]),
        ("| a | [test_x](test_n.py) |", ["test_n.py is not there"]),
        ("| a | [test_n](test_y.py) |", ["test_y.py has no test_n"]),
    ],
)
def test_what_is_missing_is_found(tmp_path: Path, row: str, expected: list[str]) -> None:
    """A row without a test, a file that is gone and a test that is gone are found, and good rows are not."""
    page = tmp_path / "page.md"
    page.write_text(f"| promise | test |\n| --- | --- |\n{row}\n", encoding="utf-8")
    (tmp_path / "test_y.py").write_text("def test_x():\n\n\nasync def test_z():\n", encoding="utf-8")
    assert expected == list(faults(page, ("promise",)))


def test_a_table_without_tests_is_found(tmp_path: Path) -> None:
    """A table of promises that is gone, or that has no column for tests, is a fault."""
    page = tmp_path / "page.md"
    page.write_text("| promise | holds |\n| --- | --- |\n", encoding="utf-8")
    expected = ["the table 'promise' has no column for tests", "there is no table 'other'"]
    assert expected == list(faults(page, ("promise", "other")))
