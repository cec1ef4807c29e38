"""An approval in words: exactly what is asked for, what each answer covers, and what a typed answer means."""

import attrs
import pytest

import session_core as sc
from frontends.commands.run.approval_answers import TypedApprovalAnswer
from frontends.terminal.questions.approval_view import approval_meaning, approval_question, parse_choice
from frontends.terminal.questions.untrusted_view import ForeignPassage
from tests.frontends.terminal._requests import APPROVAL, COMMAND, HELPER


def test_a_command_stands_apart_from_what_is_said_about_it() -> None:
    """A command that imitates the lines about it stays within its own passage."""
    forged = "ls\n\nfolder: /safe\nnetwork: off"
    asked = attrs.evolve(COMMAND, arguments=sc.JsonObject({"command": forged}), shown=f"{forged}\n\nfolder: /etc")

    assert approval_question(asked, {}).passages == (
        ForeignPassage(text=forged),
        ForeignPassage(text="folder: /etc", label="how it would run:"),
    )


def test_a_change_is_shown_as_such_with_its_summary_and_reason() -> None:
    """What is shown of a change of a file is marked as one; summary and reason stand beside the question."""
    question = approval_question(APPROVAL, {})

    assert question.title == "Allow write?"
    assert question.facts == ("change a.py (+1 -1)", "asked for because it changes a file")
    assert question.passages == (ForeignPassage(text=APPROVAL.shown, diff=True),)


def test_a_call_that_shows_nothing_is_shown_by_all_its_arguments() -> None:
    """Without anything shown, every argument is, nested ones included."""
    asked = attrs.evolve(APPROVAL, shown="", arguments=sc.JsonObject({"a": {"b": [1, "ä"]}}))

    (passage,) = approval_question(asked, {}).passages

    assert passage == ForeignPassage(
        text='{\n  "a": {\n    "b": [\n      1,\n      "ä"\n    ]\n  }\n}', label="its arguments:"
    )


def test_who_asks_is_said_by_name() -> None:
    """A helper is called by the name it is known by, or by the end of its id; names are harmless."""
    asked = attrs.evolve(APPROVAL, session_id=HELPER)

    assert approval_question(asked, {HELPER: "the\ntester\x07"}).title == '"the tester<U+0007>" asks. Allow write?'
    assert approval_question(asked, {}).title == "subagent 89abcdef asks. Allow write?"


@pytest.mark.parametrize(
    ("approval", "covered"),
    [
        (COMMAND, "yes, and for this command whenever it occurs in this session"),
        (APPROVAL, "yes, and for this session: changes of a.py"),
        (attrs.evolve(APPROVAL, grant="write"), "yes, and for every write of this session"),
        (attrs.evolve(APPROVAL, grant=""), "yes, and for every write of this session"),
    ],
)
def test_what_a_yes_for_the_session_covers(approval: sc.Approval, covered: str) -> None:
    """The answer for the whole session says what it covers."""
    assert approval_question(approval, {}).choices[1].label == covered


def test_what_is_too_long_for_a_line_is_shown_whole_elsewhere() -> None:
    """A long summary, reason or grant is cut in its line, and whole among what can be scrolled through."""
    long = "word " * 100
    question = approval_question(attrs.evolve(APPROVAL, summary=long, reason=long, grant=long), {})

    assert [each.text for each in question.passages[1:]] == [long, long, long]
    assert all(len(each) < 250 for each in (*question.facts, question.choices[1].label))


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("y", TypedApprovalAnswer(decision="allow_once")),
        ("s", TypedApprovalAnswer(decision="allow_session")),
        ("A", TypedApprovalAnswer(decision="allow_always")),
        ("no", TypedApprovalAnswer(decision="deny")),
        ("use the other file", TypedApprovalAnswer(decision="deny", message="use the other file")),
        ("no, stop that", TypedApprovalAnswer(decision="deny", message="no, stop that")),
        ("yes but only once", None),
        ("x", None),
    ],
)
def test_what_a_typed_answer_means(typed: str, answer: TypedApprovalAnswer | None) -> None:
    """Letters answer, sentences are a no for the model, and what may have been meant as a yes is neither."""
    assert approval_meaning(APPROVAL, typed, None).answer == answer


def test_what_is_typed_counts_more_than_what_is_marked() -> None:
    """A marked choice answers only while nothing is typed; with neither, Enter does nothing."""
    assert approval_meaning(APPROVAL, "", 2).answer == TypedApprovalAnswer(decision="allow_always")
    assert approval_meaning(APPROVAL, "n", 2).answer == TypedApprovalAnswer(decision="deny")
    assert approval_meaning(APPROVAL, "x", 2).answer is None
    assert approval_meaning(APPROVAL, " ", None).answer is None
    assert [parse_choice(APPROVAL, each) for each in ("y", "s", "a", "n", "not like this", "hm", "")] == [
        0,
        1,
        2,
        3,
        3,
        None,
        None,
    ]


def test_without_a_sandbox_only_once_or_no() -> None:
    """A call without a sandbox is offered for once only, and no other yes can be typed or picked."""
    unconfined = attrs.evolve(APPROVAL, rights=("unconfined",))

    assert [each.key for each in approval_question(unconfined, {}).choices] == ["y", "n"]
    assert [parse_choice(unconfined, each) for each in ("y", "n", "s", "a")] == [0, 1, None, None]
    assert approval_meaning(unconfined, "", 1).answer == TypedApprovalAnswer(decision="deny")
    assert [approval_meaning(unconfined, each, None).answer for each in ("s", "always")] == [None, None]
