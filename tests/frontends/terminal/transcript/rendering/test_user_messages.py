"""What people say, what models think, summaries and remarks."""

from typing import Any

import pytest

import session_core as sc
from frontends.shared.conversation.blocks import AnswerBlock, RemarkBlock, SummaryBlock, ThinkingBlock, UserMessageBlock
from tests.frontends.terminal._drawing import drawn

ID = sc.MessageId("m")


def said(text: str, **more: Any) -> UserMessageBlock:
    """Make the block of a message."""
    return UserMessageBlock(key="a", message_id=ID, text=text, created_at=0, **more)


def test_what_a_person_says_has_a_mark_and_what_came_along() -> None:
    """Pictures, files and other ways it was said stand beneath the words; Markdown in it is left alone."""
    picture, file = sc.ImagePart(media_type="image/png", data="aGk="), sc.FilePart(name="src/a.py", text="x")
    block = said("fix **this**\nplease", attachments=(picture, picture, file), branches=3, branch=2)
    assert drawn(block) == [
        "> fix **this**",
        "  please",
        "  (PNG image, 3 bytes)",
        "  (PNG image, 3 bytes)",
        "  (a file: src/a.py, 1 line)",
        "  2 of 3 versions",
    ]


def test_a_long_message_is_shown_in_short_until_it_is_expanded() -> None:
    """How much is hidden is said."""
    block = said("\n".join(f"line {number}" for number in range(100)))
    assert drawn(block)[-1] == "  … 88 more lines"
    assert len(drawn(block)) == 13
    assert len(drawn(block, expanded=True)) == 100


def test_words_of_a_protocol_are_told_from_a_persons() -> None:
    """They name who says them, and take a few rows."""
    rows = drawn(said("[Output of the cell]\n" + "\n".join("123456"), source="code"))
    assert rows == ["● code says", "  [Output of the cell]", "  1", "  2", "  3", "  … 3 more lines"]


def test_a_command_of_a_person_shows_its_last_lines() -> None:
    """How it ended stands beside it, if not well."""
    output = "\n".join(f"out {number}" for number in range(20))
    rows = drawn(said(f"{output}\n[exit code 1]", command="make"))
    assert rows[:3] == ["! make · exit code 1", "  … 14 more lines", "  out 14"]
    assert drawn(said("x\n[exit code 0]", command="ls")) == ["! ls", "  x"]
    assert drawn(said("no", command="rm x", ended="not allowed")) == ["! rm x · not allowed", "  no"]


def test_thinking_shows_its_end_while_it_grows_and_one_line_afterwards() -> None:
    """Expanded, all of it is there."""
    text = "\n".join(f"thought {number}" for number in range(50))
    assert drawn(ThinkingBlock(key="t", text=text, growing=True)) == [
        "✻ thinking",
        "  thought 47",
        "  thought 48",
        "  thought 49",
    ]
    assert drawn(ThinkingBlock(key="t", text=text)) == ["✻ thought, 100 words"]
    assert len(drawn(ThinkingBlock(key="t", text=text), expanded=True)) == 51
    assert drawn(ThinkingBlock(key="t", text="", growing=True)) == ["✻ thinking"]


def test_thinking_without_end_costs_no_more_than_its_end() -> None:
    """Of a megabyte only the last part is looked at while it grows, and what is missing is said."""
    rows = drawn(ThinkingBlock(key="t", text="word " * 200_000, growing=True), expanded=True)
    assert rows[1] == "  … 984,000 more characters above"
    assert len(rows) < 400


def test_a_summary_is_a_line_until_it_is_expanded() -> None:
    """It says what it stands for."""
    block = SummaryBlock(key="s", text="# What was done\n- this\n- that")
    assert drawn(block, 80) == ["── the conversation so far was summarised for the model: 3 lines"]
    assert drawn(block, 80, expanded=True)[1:] == ["What was done", "", "• this", "• that"]


@pytest.mark.parametrize(("level", "mark"), [("dim", "·"), ("info", "●"), ("warn", "■"), ("error", "✗")])
def test_remarks_tell_their_weight_by_a_symbol(level: Any, mark: str) -> None:
    """Colours are not needed to know a failure."""
    assert drawn(RemarkBlock(key="r", text="it is\nso", level=level)) == [f"{mark} it is", "  so"]


def test_an_answer_that_an_extension_gives_names_it() -> None:
    """Nobody takes its words for the model's."""
    assert drawn(AnswerBlock(key="a", text="hi", source="notes")) == ["notes:", "hi"]
