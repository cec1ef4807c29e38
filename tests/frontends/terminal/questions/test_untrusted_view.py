"""Foreign text to be judged: whole, harmless, and never to be taken for the frame around it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from frontends.terminal.questions.untrusted_view import (
    GUTTER,
    ForeignPassage,
    ForeignRow,
    ForeignView,
    build_rows,
    draw_row,
)
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._panels import ASCII, PLAIN, PanelApp


def test_nothing_is_hidden_by_control_characters() -> None:
    """What an escape sequence would swallow is there to read, and what is invisible has a number."""
    (row,) = build_rows([ForeignPassage(text="echo hi; \x1b]0; rm -rf ~ #\x07\u200b\r")], 80)

    assert row.text == "echo hi; <U+001B>]0; rm -rf ~ #<U+0007><U+200B><U+000D>"


def test_long_lines_go_on_in_rows_that_say_so() -> None:
    """A line that was too long is told from lines of their own."""
    rows = build_rows([ForeignPassage(text="abcdefghij\nkl\n\nm\n", label="said:")], 10)

    assert rows == [
        ForeignRow(text="said:", kind="label"),
        ForeignRow(text="abcdefgh"),
        ForeignRow(text="ij", continued=True),
        ForeignRow(text="kl"),
        ForeignRow(text=""),
        ForeignRow(text="m"),
    ]
    assert [draw_row(row, PLAIN).plain for row in rows] == ["  said:", "│ abcdefgh", "┆ ij", "│ kl", "│ ", "│ m"]
    assert [draw_row(row, ASCII).plain for row in rows[1:3]] == ["| abcdefgh", ": ij"]


def test_lines_of_a_change_are_told_apart() -> None:
    """Added and removed lines of a change have their kinds; the same lines elsewhere have not."""
    text = "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n z"

    kinds = [row.kind for row in build_rows([ForeignPassage(text=text, diff=True)], 80)]

    assert kinds == ["file", "file", "place", "removed", "added", "text"]
    assert {row.kind for row in build_rows([ForeignPassage(text=text)], 80)} == {"text"}


@given(text=st.text(max_size=200), width=st.integers(min_value=1, max_value=40))
def test_every_row_fits_and_begins_with_our_bar(text: str, width: int) -> None:
    """Whatever the text, no row is wider than there is room, none lacks the bar, and nothing printable gets lost."""
    rows = build_rows([ForeignPassage(text=text)], width)

    assert all(cell_len(row.text) <= max(8, width - GUTTER) for row in rows)
    assert all(draw_row(row, PLAIN).plain[:2] in {"│ ", "┆ "} for row in rows)
    said = "".join(row.text for row in rows)
    assert all(character in said for character in text if character.isascii() and character.isprintable())


@pytest.mark.parametrize("height", [3, 40])
def test_it_takes_what_it_needs_and_scrolls_through_the_rest(height: int) -> None:
    """A text takes the rows it has, at most those it is given; the last one can be scrolled to."""

    async def scene() -> None:
        view = ForeignView()
        app = PanelApp(view)
        async with app.run_test(size=(40, 24)) as pilot:
            view.show((ForeignPassage(text="\n".join(f"line {n}" for n in range(10))),))
            view.fit(40, height)
            await pilot.pause()
            assert view.size.height == min(10, height)
            assert view.visible_range() == (1, min(10, height), 10)
            view.scroll_end(animate=False)
            await pilot.pause()
            assert "│ line 9" in [line.rstrip(" ▁▂▃▄▅▆▇█") for line in app.lines]

    on_asyncio(scene)
