"""The page about Python tells the truth about names and settings."""

import ast
import re

import attrs
import pytest

import session_core as sc
from tests.docs._documents import ROOT, blocks

PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"\bsc((?:\.\w+)+)", PAGE)))


def documented_fields(page: str) -> list[str]:
    """The names in the first column of the table of settings."""
    table = page.partition("| field | what it is |")[2].partition("\n\n")[0]
    return [name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]


def test_every_setting_of_a_service_is_documented() -> None:
    """The table has every field of `ServiceConfig` once, and no other."""
    assert sorted(field.name for field in attrs.fields(sc.ServiceConfig)) == sorted(documented_fields(PAGE))


def test_fields_are_found_in_the_first_column() -> None:
    """Several fields may share a row, and names in the other column are none."""
    page = "| field | what it is |\n| --- | --- |\n| `a`, `b` | like `c` |\n| `d` | |\n\n| `e` | |\n"

    assert ["a", "b", "d"] == documented_fields(page)


@pytest.mark.parametrize("name", NAMES)
def test_names_exist(name: str) -> None:
    """Every name of `sc` that the page uses can be used."""
    found: object = sc
    for part in name.split(".")[1:]:
        found = getattr(found, part)


def test_pieces_of_programs_are_python() -> None:
    """Every Python block can be read by Python, those with a bare `async with` too."""
    code = [block.text for block in blocks(PAGE) if block.language == "python"]
    assert len(code) > 3
    for text in code:
        compile(text, "docs/python.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
