"""What people see of an answer: the same, however it comes in."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.protocols.code.cells import ForeignBlock, MalformedCell, NoCell, find_cell
from session_core.protocols.code.protocol import CellProjector
from session_core.protocols.prose import Span, project_text

PIECES = st.sampled_from(
    ["```", "`", "~~~", "python", "py", "p", "thon", "3", "\n", "\r\n", " ", "   ", "\t", "word", "bash", "``", "x = 1"]
)
TEXTS = st.lists(PIECES, max_size=25).map("".join) | st.text(max_size=40)
MOST_HELD = 60


def in_chunks(text: str, cuts: list[int]) -> list[str]:
    """Cut a text at these places."""
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(places)]


def streamed(chunks: list[str]) -> tuple[Span, ...]:
    """Divide a text that comes in pieces."""
    stream = CellProjector().open()
    spans = [span for chunk in chunks for span in stream.feed(chunk)]
    return (*spans, *stream.close())


def of_kind(kind: str, spans: tuple[Span, ...]) -> str:
    """All that is of one kind."""
    return "".join(text for each, text in spans if each == kind)


@given(TEXTS, st.lists(st.integers(0, 200), max_size=30))
def test_chunks_make_no_difference(text: str, cuts: list[int]) -> None:
    """However a text is cut into chunks, the same is seen and the same is hidden, and together that is the text."""
    whole = project_text(CellProjector(), text)
    pieces = streamed(in_chunks(text, cuts))
    assert of_kind("text", whole) == of_kind("text", pieces)
    assert of_kind("code", whole) == of_kind("code", pieces)
    assert text == "".join(piece for _, piece in whole) == "".join(piece for _, piece in pieces)


@given(TEXTS)
def test_what_is_hidden_is_what_is_read_as_a_cell(text: str) -> None:
    """Something is hidden exactly where the driver finds a cell, whole or broken."""
    hidden = of_kind("code", project_text(CellProjector(), text))
    prose = isinstance(find_cell(text), NoCell | ForeignBlock)
    swallowed = isinstance(find_cell(text), MalformedCell) and not hidden
    assert (hidden == "") == (prose or swallowed)
    if hidden:
        assert find_cell(hidden) == find_cell(text)


@given(TEXTS)
def test_no_more_than_the_start_of_a_line_is_held_back(text: str) -> None:
    """While a text streams in, all of it is out but the start of its last line, if that could become a fence."""
    stream = CellProjector().open()
    out = 0
    for place, character in enumerate(text, start=1):
        out += sum(len(piece) for _, piece in stream.feed(character))
        held = text[out:place]
        assert len(held) <= MOST_HELD
        assert not held.strip(" \t`pythonPYTHON3")
        assert not held or out == 0 or text[out - 1] == "\n"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("I look.\n```python\nls()\n```\nDone, it says 4.", "I look.\n"),
        ("I look.\n```python\nls()", "I look.\n"),
        ("I look.\n```", "I look.\n"),
        ("I look.\n```pyth", "I look.\n"),
        ("I look.\n  ````py", "I look.\n"),
        ("```python print(1)```", ""),
        ("Say `x`, or\n```bash\nls\n```\nand\n~~~python\nx\n~~~\n", None),
        ("ends with ``", None),
        ("ends with\n``", None),
        ("ends with\n  ", None),
    ],
)
def test_what_people_see(text: str, seen: str | None) -> None:
    """People see the prose before a cell, all of an answer without one, and never a fence, not even half of it."""
    assert (text if seen is None else seen) == of_kind("text", project_text(CellProjector(), text))


def test_prose_is_not_kept_waiting() -> None:
    """Prose comes out with the chunk that holds it, and so does code."""
    stream = CellProjector().open()
    assert (("text", "I loo"),) == stream.feed("I loo")
    assert (("text", "k.\n"),) == stream.feed("k.\n``")
    assert () == stream.feed("`pyth")
    assert (("code", "```python\n"),) == stream.feed("on\n")
    assert (("code", "l"),) == stream.feed("l")
    assert () == stream.close()
