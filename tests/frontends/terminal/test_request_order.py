"""Which questions are ours, in which order, and which of them are answered already."""

import attrs

import session_core as sc
from frontends.terminal.request_order import ANSWER_MS, Waiting
from tests.frontends.terminal._requests import APPROVAL, COMMAND, HELPER, ME, dialog

THEIRS = dialog("confirm", 1, to=sc.ClientId("client_web"))
MINE = dialog("confirm", 2, to=ME)


def test_the_oldest_question_of_ours_comes_first() -> None:
    """Approvals and dialogs are one row by age; what only others may answer is apart."""
    waiting = Waiting()

    assert waiting.take((COMMAND, APPROVAL), (THEIRS, MINE), ME, {})
    assert waiting.left == [APPROVAL, COMMAND, MINE]
    assert waiting.of_others == [THEIRS]
    assert [waiting.place(each) for each in waiting.left] == [0, 1, 2]


def test_nothing_new_is_nothing_to_do() -> None:
    """The same values change nothing; other names, another client and other requests do."""
    waiting, approvals, dialogs = Waiting(), (APPROVAL,), (MINE,)
    waiting.take(approvals, dialogs, ME, {})

    assert not waiting.take(approvals, dialogs, ME, {})
    assert waiting.take(approvals, dialogs, ME, {HELPER: "x"})
    assert waiting.take(approvals, dialogs, sc.ClientId("other"), {HELPER: "x"})
    assert waiting.left == [APPROVAL]
    assert waiting.take((attrs.evolve(APPROVAL, reason="another"),), dialogs, ME, {})


def test_an_answer_counts_until_it_is_lost() -> None:
    """What was answered is not shown again while the answer is on its way, nor after it has arrived."""
    waiting = Waiting()
    waiting.take((APPROVAL, COMMAND), (), ME, {})
    waiting.answered(APPROVAL, 1_000)

    assert waiting.next(APPROVAL) == COMMAND
    assert not waiting.reopen_lost(1_000 + ANSWER_MS - 1)
    assert waiting.reopen_lost(1_000 + ANSWER_MS)
    assert waiting.next(COMMAND) == COMMAND
    assert waiting.next(None) == APPROVAL
    waiting.take((COMMAND,), (), ME, {})
    waiting.answered(COMMAND, 0)
    assert waiting.next(COMMAND) is None
    waiting.reopen(COMMAND.request_id)
    assert waiting.next(None) == COMMAND


def test_an_answer_on_its_way_is_remembered_while_another_session_is_shown() -> None:
    """Switching to another session and back within the round trip asks nothing twice."""
    waiting = Waiting()
    waiting.take((APPROVAL,), (), ME, {})
    waiting.answered(APPROVAL, 1_000)
    waiting.take((), (), ME, {})
    waiting.take((APPROVAL,), (), ME, {})

    assert waiting.next(None) is None
    assert waiting.reopen_lost(1_000 + ANSWER_MS)
    assert waiting.next(None) == APPROVAL
