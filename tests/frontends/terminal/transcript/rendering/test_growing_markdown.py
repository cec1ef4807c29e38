"""Markdown that grows."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.strip import Strip

from frontends.shared.conversation.blocks import AnswerBlock
from frontends.terminal.transcript.rendering import growing_markdown as module
from frontends.terminal.transcript.rendering.code import highlight
from frontends.terminal.transcript.rendering.draw import Drawer
from frontends.terminal.transcript.rendering.growing_markdown import Flow
from frontends.terminal.transcript.rendering.markdown import markdown
from frontends.terminal.transcript.rendering.passages import PassageSplitter
from tests._mostly_slow import mostly_slow
from tests.frontends.terminal._drawing import LOOK, NOW, PLAIN, draw, foreign, texts


def at_once(text: str, width: int = 40) -> list[str]:
    """Draw a text that is whole."""
    return texts(Flow(width, LOOK).draw(text, growing=False))


@given(foreign, st.lists(st.integers(1, 15), min_size=1, max_size=20))
def test_how_a_text_has_grown_makes_no_difference_in_the_end(text: str, steps: list[int]) -> None:
    """Drawn piece by piece or at once, the finished answer is the same."""
    flow, place, turn = Flow(40, LOOK), 0, 0
    while place < len(text):
        place += steps[turn % len(steps)]
        turn += 1
        assert all(row.cell_length <= 40 for row in flow.draw(text[:place], growing=True))
    assert texts(flow.draw(text, growing=False)) == at_once(text)


words = st.lists(
    st.sampled_from(["- ", "> ", "1. ", "# ", "    ", "| ", "|---|\n", "```\n", "~~~", "*", "`", "\n", "\n\n"])
)


@given(words)
def test_no_word_is_lost(fragments: list[str]) -> None:
    """Whatever the marks around it mean, each word is on the screen."""
    text = "".join(f"{mark}w{number}q " for number, mark in enumerate(fragments))
    shown = "".join("".join(at_once(text, 200)).split())
    assert [number for number in range(len(fragments)) if f"w{number}q" not in shown] == []


def test_what_is_whole_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With each delta only the last passage is drawn again, however long the answer is."""
    drawn: list[str] = []
    original = markdown

    def watched(text: str, *rest: Any) -> Any:
        drawn.append(text)
        return original(text, *rest)

    monkeypatch.setattr(module, "markdown", watched)
    flow = Flow(40, LOOK)
    text = "".join(f"Paragraph {number}.\n\n" for number in range(50))
    flow.draw(text, growing=True)
    drawn.clear()
    for letter in "The last one":
        text += letter
        flow.draw(text, growing=True)
    assert drawn == ["Paragraph 49.", *("The last one"[:length] for length in range(1, 13))]


def test_an_open_fence_is_code_and_its_end_does_not_flicker() -> None:
    """Code is drawn as code from its first letter, and half a closing fence is not shown."""
    flow = Flow(40, LOOK)
    seen = [
        texts(flow.draw(f"Look:\n```python\nx = 1\n{end}", growing=True)) for end in ("", "`", "``", "```", "```\n")
    ]
    assert seen == [["Look:", "", "  x = 1"]] * 5


def test_a_line_that_may_become_anything_waits() -> None:
    """The first dash of a list does not turn the line above it into a heading."""
    flow = Flow(40, LOOK)
    plain = flow.draw("Some words", growing=True)[0]
    for text in ("Some words\n-", "Some words\n--", "Some words\n=", "Some words\n1", "Some words\n#"):
        rows = flow.draw(text, growing=True)
        assert (texts(rows), rows[0]._segments) == (["Some words"], plain._segments)


def test_long_code_that_grows_is_coloured_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time for a new line does not depend on how many there are already."""
    sizes: list[int] = []
    original = highlight

    def watched(code: str, *rest: Any) -> Any:
        sizes.append(code.count("\n") + 1)
        return original(code, *rest)

    monkeypatch.setattr(module, "highlight", watched)
    flow = Flow(40, LOOK)
    text, rows = "```python\n", list[Strip]()
    for number in range(100):
        text += f"x = {number}\n"
        rows = flow.draw(text, growing=True)
    assert max(sizes) <= 16
    assert texts(rows)[:100] == [f"  x = {number}" for number in range(100)]


def test_a_list_is_one_passage_with_all_that_belongs_to_it() -> None:
    """Blank lines within a list do not end it, a paragraph after it does."""
    passages = PassageSplitter()
    passages.grow("- one\n\n  more\n\n- two\n\n      code\n\nAfter.\n\n")
    assert [(each.kind, each.lines) for each in passages.whole] == [("list", 7)]
    last = passages.open_passage()
    assert last is not None
    assert (last.kind, last.text, last.gap) == ("prose", "After.", True)


def test_a_fence_within_a_list_does_not_end_it() -> None:
    """Blank lines in code that is set in beneath an item are part of the item."""
    text = "- one\n  ```\n  a\n\n  b\n  ```\n- two\n"
    assert at_once(text) == ["• one", "", "    a", "    ", "    b", "• two"]
    passages = PassageSplitter()
    passages.grow(text)
    assert passages.whole == []


@pytest.mark.parametrize(
    "text",
    mostly_slow(
        [
            "x" * 1_000_000,
            "word " * 200_000,
            "line of text\n" * 100_000,
            "```python\n" + "x = 1\n" * 100_000,
            "- item\n" * 100_000,
            "para\n\n" * 50_000,
            "|a|b|\n|-|-|\n" + "|1|2|\n" * 100_000,
        ],
        quick=3,
    ),
    ids=["letters", "words", "lines", "code", "list", "paragraphs", "table"],
)
def test_an_enormous_answer_is_shown_in_part_and_says_so(text: str) -> None:
    """Its beginning and end are drawn, a bounded number of rows, and what is missing is told."""
    rows = at_once(text, 80)
    assert len(rows) <= 3_001
    assert any("are not shown" in each for each in rows)


def test_an_answer_that_grows_beyond_all_bounds_keeps_its_beginning_and_its_end() -> None:
    """Rows stay bounded while it grows, the newest words are always there, and the middle is said to be missing."""
    flow, text, rows = Flow(40, PLAIN), "", list[str]()
    for number in range(20):
        text += "".join(f"line {number} {inner}\n\n" for inner in range(100))
        rows = texts(flow.draw(text, growing=True))
        assert len(rows) <= 3_001
        assert rows[0] == "line 0 0"
        assert f"line {number} 99" in rows[-3:]
    assert sum("are not shown" in each for each in rows) >= 1


def test_a_line_without_end_grows_in_pieces() -> None:
    """Even without a single line break, only the end is drawn again."""
    passages = PassageSplitter()
    for length in range(1_000, 60_000, 1_000):
        passages.grow("x" * length)
        last = passages.open_passage()
        assert last is not None
        assert len(last.text) <= 8_000
        assert sum(len(each.text) for each in passages.whole) + len(last.text) == length


def test_the_drawer_goes_on_where_it_was_and_forgets_what_is_done() -> None:
    """A growing answer and the finished one share their rows; afterwards nothing is kept."""
    drawer = Drawer()
    growing = AnswerBlock(key="a", text="One.\n\nTw", growing=True)
    first = drawer.draw(growing, 40, LOOK, expanded=False, now_ms=NOW)
    done = AnswerBlock(key="a", text="One.\n\nTwo.")
    second = drawer.draw(done, 40, LOOK, expanded=False, now_ms=NOW)
    assert second[0] is first[0]
    assert texts(second) == texts(draw(done, 40, LOOK, expanded=False, now_ms=NOW)) == ["One.", "", "Two."]
    assert drawer._flows == {}
