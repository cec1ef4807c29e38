"""A question of an extension in words, and what an answer to it means."""

import pytest

from frontends.commands.run.dialogs import Reply
from frontends.terminal.questions.answers import AnswerChoice, describe_time_left
from frontends.terminal.questions.dialog_view import (
    describe_other_dialog,
    dialog_meaning,
    dialog_question,
    filter_choices,
)
from frontends.terminal.questions.untrusted_view import ForeignPassage
from tests.frontends.terminal._requests import Kind, dialog


def test_title_message_and_choices_are_harmless() -> None:
    """Whatever an extension writes, the title is one line, and choices show what cannot be seen."""
    question = dialog_question(dialog("select", title="a\nb\x07", message="more", choices=("one\u202e", " ", "x\ty")))

    assert question.title == "notes asks: a b<U+0007>"
    assert question.passages == (ForeignPassage(text="more"),)
    assert question.choices == (
        AnswerChoice(label="one<U+202E>"),
        AnswerChoice(label="(empty)"),
        AnswerChoice(label="x y"),
    )
    assert question.filters


@pytest.mark.parametrize(
    ("kind", "typed", "chosen", "answer"),
    [
        ("confirm", "y", None, Reply(value=True)),
        ("confirm", "NO", None, Reply(value=False)),
        ("confirm", "", 1, Reply(value=False)),
        ("confirm", "", None, None),
        ("confirm", "maybe", 0, None),
        ("select", "", 1, Reply(value="two")),
        ("select", "zzz", None, None),
        ("input", "my answer", None, Reply(value="my answer")),
        ("input", "", None, Reply(value="")),
        ("notify", "", None, Reply()),
    ],
)
def test_what_an_answer_means(kind: Kind, typed: str, chosen: int | None, answer: Reply | None) -> None:
    """Each kind of question has its answers; what is none of them does nothing."""
    assert dialog_meaning(dialog(kind, choices=("one", "two")), typed, chosen).answer == answer


def test_a_suggestion_is_there_to_be_edited_or_taken_whole() -> None:
    """A plain suggestion stands in the line; one that a line would change is shown, and Enter alone takes it."""
    plain, tricky = dialog("input", default="src/a.py"), dialog("input", default="a\n\u202eb")

    assert dialog_question(plain).typed == "src/a.py"
    assert dialog_meaning(plain, "", None).answer == Reply(value="")
    assert dialog_question(tricky).typed == ""
    assert dialog_question(tricky).passages[-1].text == "a\n\u202eb"
    assert dialog_meaning(tricky, "", None).answer == Reply(value="a\n\u202eb")
    assert dialog_meaning(tricky, "mine", None).answer == Reply(value="mine")


def test_typed_words_narrow_choices_down() -> None:
    """All typed words must be in a choice, in any order and case."""
    choices = [AnswerChoice(label=each) for each in ("Red fish", "Blue fish", "red bird")]

    assert filter_choices(choices, "") == [0, 1, 2]
    assert filter_choices(choices, "FISH red") == [0]
    assert filter_choices(choices, "zebra") == []


def test_somebody_else_is_asked() -> None:
    """A question for another client is told in one harmless line."""
    assert describe_other_dialog(dialog("confirm", title="Really\n?")) == ("notes asks another client: Really ?")


@pytest.mark.parametrize(
    ("left_ms", "told"),
    [
        (-1, "time is up"),
        (59_999, "59 s left"),
        (272_000, "4:32 min left"),
        (7_500_000, "2 h 5 min left"),
        (300_000_000, "3 days left"),
    ],
)
def test_the_time_that_is_left(left_ms: int, told: str) -> None:
    """How long a question stays open is said in the unit that matters."""
    assert describe_time_left(5_000_000 + left_ms, 5_000_000) == told


def test_a_title_that_is_long_only_when_it_is_seen() -> None:
    """A short title whose invisible parts take many characters to show is shown whole, not only cut in a line."""
    title = "z" + "\u0301" * 60
    question = dialog_question(dialog("confirm", title=title))
    assert question.title.endswith("…")
    assert [title] == [passage.text for passage in question.passages]
