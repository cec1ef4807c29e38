"""Every test says in one sentence what it promises."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture._source import place, python_files, read_facts

# The end of one sentence and the start of the next; "e.g. X" and "i.e. X" end nothing.
_NEXT_SENTENCE = re.compile(r"(?<!\be\.g)(?<!\bi\.e)[.!?][\"'`)]*\s+[\"'`(]*[A-Z]")


def fault_of(docstring: str | None) -> str | None:
    """What keeps a docstring from being one sentence, if anything does."""
    if not docstring:
        return "has no docstring"
    if "\n\n" in docstring:
        return "has more than one paragraph"
    if _NEXT_SENTENCE.search(docstring):
        return "says more than one sentence"
    if not docstring.rstrip("\"'`)").endswith((".", "!", "?")):
        return "does not end like a sentence"
    return None


def faults(path: Path) -> Iterator[str]:
    for function in read_facts(path).tests:
        if fault := fault_of(ast.get_docstring(function)):
            yield f"{place(path, function.lineno)}: {function.name} {fault}"


def test_every_test_says_what_it_promises() -> None:
    """Every test function has a docstring of one sentence."""
    assert [] == [fault for path in python_files("tests") for fault in faults(path)]


@pytest.mark.parametrize(
    ("docstring", "fault"),
    [
        (None, "has no docstring"),
        ("", "has no docstring"),
        ("A stop ends the turn", "does not end like a sentence"),
        ("A stop ends the turn. It keeps the text.", "says more than one sentence"),
        ("A stop ends the turn.\n\nIt does.", "has more than one paragraph"),
        ("A stop ends the turn.", None),
        ("A stop ends the turn,\nand keeps what was said.", None),
        ("Odd input, e.g. Latin-1 text, is refused (as `bad_input`.)", None),
    ],
)
def test_what_counts_as_one_sentence(docstring: str | None, fault: str | None) -> None:
    """Missing, unfinished and overlong docstrings are told apart, and one sentence passes."""
    assert fault == fault_of(docstring)
