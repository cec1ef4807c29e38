"""Tables and lines that fit into a terminal, whatever is in them."""

import fcntl
import os
import struct
import termios
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontends.shared.text_width import WIDEST, Column, columns, cut, cut_start, pad, table, text_width


@pytest.mark.parametrize(
    ("text", "width", "start", "end"),
    [
        ("short", 5, "short", "short"),
        ("a longer text", 8, "a longe…", "…er text"),
        ("one two three", 8, "one two…", "…o three"),
        ("世界世界", 5, "世界…", "…世界"),
        ("世界世界", 4, "世…", "…界"),
        ("abc", 1, "", ""),
        ("", 0, "", ""),
    ],
)
def test_cutting(text: str, width: int, start: str, end: str) -> None:
    """A line is cut at either end to whole characters within its cells, and says that something is missing."""
    assert (start, end) == (cut(text, width), cut_start(text, width))


def test_filling_up() -> None:
    """A line is filled up by cells, not by characters, and never cut."""
    assert ["ab  ", "世  ", "abcde"] == [pad("ab", 4), pad("世", 4), pad("abcde", 4)]


def test_columns_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line has what COLUMNS says, never fewer than can be used, and without a terminal it is not cut."""
    monkeypatch.setenv("COLUMNS", "132")
    assert 132 == columns()
    monkeypatch.setenv("COLUMNS", "3")
    assert 40 == columns()
    monkeypatch.delenv("COLUMNS")
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        assert WIDEST == columns(nowhere)


def test_the_width_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal a line has its width, also where that is not stdout."""
    monkeypatch.delenv("COLUMNS", raising=False)
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 57, 0, 0))
    with os.fdopen(theirs, "w", encoding="utf-8") as terminal:
        assert 57 == columns(terminal)
    os.close(ours)


def as_is(_row: int, _column: int, text: str) -> str:
    return text


HEADS = (Column(title="ID"), Column(title="NAME", share=3, least=4), Column(title="WHERE", share=1, from_end=True))


def test_a_table_gives_flexible_columns_what_they_need() -> None:
    """Where everything fits, columns are as wide as their content."""
    lines = table(HEADS, [("1", "abc", "/x"), ("22", "d", "/yy")], 40, as_is, "…")

    assert ["ID  NAME  WHERE", "1   abc   /x", "22  d     /yy"] == lines


def test_a_table_hands_on_what_a_column_does_not_need() -> None:
    """A flexible column with little in it leaves its share to the others."""
    lines = table(HEADS, [("1", "n", "/a/very/long/path/to/a/place")], 24, as_is, "…")

    assert ["ID  NAME  WHERE", "1   n     …th/to/a/place"] == lines


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z", "M"]), max_size=60)


@given(st.lists(st.tuples(st.text("0a", max_size=6), TEXTS, TEXTS), max_size=6), st.integers(40, 200))
def test_a_table_fits(rows: list[tuple[str, str, str]], width: int) -> None:
    """No line of a table is wider than it may be, whatever is in it, and cells stand below each other."""
    lines = table(HEADS, rows, width, as_is, "…")

    assert len(rows) + 1 == len(lines)
    assert all(text_width(line) <= width for line in lines)


def test_painting_does_not_move_anything() -> None:
    """Colours are added to cells that have their width already, so codes do not count."""
    plain = table(HEADS, [("1", "abc", "/x")], 40, as_is, "…")
    painted = table(HEADS, [("1", "abc", "/x")], 40, lambda row, column, text: f"<{row}{column}{text}>", "…")

    assert ["<-10ID>  <-11NAME>  <-12WHERE>", "<001 >  <01abc >  <02/x>"] == painted
    assert ["ID  NAME  WHERE", "1   abc   /x"] == plain
