"""Which questions are ours, in which order, and which of them are answered already."""

import attrs

import session_core as sc
from frontends.terminal.questions.question_order import ANSWER_MS, RequestQueue
from tests.frontends.terminal._requests import APPROVAL, COMMAND, HELPER, ME, dialog

THEIRS = dialog("confirm", 1, to=sc.ClientId("client_web"))
MINE = dialog("confirm", 2, to=ME)


def test_the_oldest_question_of_ours_comes_first() -> None:
    """Approvals and dialogs are one row by age; what only others may answer is apart."""
    waiting = RequestQueue()

    assert waiting.update((COMMAND, APPROVAL), (THEIRS, MINE), ME, {})
    assert waiting.pending == [APPROVAL, COMMAND, MINE]
    assert waiting.other_dialogs == [THEIRS]
    assert [waiting.position(each) for each in waiting.pending] == [0, 1, 2]


def test_nothing_new_is_nothing_to_do() -> None:
    """The same values change nothing; other names, another client and other requests do."""
    waiting, approvals, dialogs = RequestQueue(), (APPROVAL,), (MINE,)
    waiting.update(approvals, dialogs, ME, {})

    assert not waiting.update(approvals, dialogs, ME, {})
    assert waiting.update(approvals, dialogs, ME, {HELPER: "x"})
    assert waiting.update(approvals, dialogs, sc.ClientId("other"), {HELPER: "x"})
    assert waiting.pending == [APPROVAL]
    assert waiting.update((attrs.evolve(APPROVAL, reason="another"),), dialogs, ME, {})


def test_an_answer_counts_until_it_is_lost() -> None:
    """What was answered is not shown again while the answer is on its way, nor after it has arrived."""
    waiting = RequestQueue()
    waiting.update((APPROVAL, COMMAND), (), ME, {})
    waiting.mark_answered(APPROVAL, 1_000)

    assert waiting.request_to_show(APPROVAL) == COMMAND
    assert not waiting.reopen_lost(1_000 + ANSWER_MS - 1)
    assert waiting.reopen_lost(1_000 + ANSWER_MS)
    assert waiting.request_to_show(COMMAND) == COMMAND
    assert waiting.request_to_show(None) == APPROVAL
    waiting.update((COMMAND,), (), ME, {})
    waiting.mark_answered(COMMAND, 0)
    assert waiting.request_to_show(COMMAND) is None
    waiting.reopen(COMMAND.request_id)
    assert waiting.request_to_show(None) == COMMAND


def test_an_answer_on_its_way_is_remembered_while_another_session_is_shown() -> None:
    """Switching to another session and back within the round trip asks nothing twice."""
    waiting = RequestQueue()
    waiting.update((APPROVAL,), (), ME, {})
    waiting.mark_answered(APPROVAL, 1_000)
    waiting.update((), (), ME, {})
    waiting.update((APPROVAL,), (), ME, {})

    assert waiting.request_to_show(None) is None
    assert waiting.reopen_lost(1_000 + ANSWER_MS)
    assert waiting.request_to_show(None) == APPROVAL
