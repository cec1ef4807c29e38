"""The activity table, rule by rule."""

from typing import get_args

import pytest

from session_core.ids import CallId, MessageId, RequestId
from session_core.session.activity import AFTER_TURN, RULES, next_activity, rules_as_markdown
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import Event
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import (
    AT_REST,
    Activity,
    ActivityName,
    Approval,
    TurnOutcome,
    TurnStatus,
)
from tests.session_core.session._helpers import TURN

EVERYTHING: tuple[ActivityName, ...] = get_args(ActivityName)
WORKING: tuple[ActivityName, ...] = tuple(name for name in EVERYTHING if name not in AT_REST and name != "stopping")
MESSAGE, CALL, REQUEST = MessageId("msg_1"), CallId("call_1"), RequestId("req_1")
APPROVAL = Approval(
    request_id=REQUEST,
    call_id=CALL,
    tool_name="t",
    summary="t",
    arguments=JsonObject(),
    requested_at=0,
    expires_at=1,
)
RESOLVED = ev.ApprovalResolved(request_id=REQUEST, tool_name="t", decision="deny", because="answered")

EXPECTED: list[tuple[Event, tuple[ActivityName, ...], ActivityName]] = [
    (ev.TurnStarted(turn_id=TURN), tuple(AT_REST), "starting"),
    (ev.MessageStarted(message_id=MESSAGE, parent_id=None, turn_id=TURN, model="m"), WORKING, "waiting_for_model"),
    (ev.PartStarted(message_id=MESSAGE, kind="text"), ("waiting_for_model",), "streaming"),
    (ev.ToolCallStarted(call_id=CALL, name="t", arguments=JsonObject()), WORKING, "running_tools"),
    (ev.ApprovalRequested(approval=APPROVAL), WORKING, "awaiting_permission"),
    (RESOLVED, ("awaiting_permission",), "running_tools"),
    (ev.CompactionStarted(), (*AT_REST, *WORKING), "compacting"),
    (ev.StopRequested(scope="turn"), WORKING, "stopping"),
    (ev.OutcomeDismissed(), tuple(AT_REST), "idle"),
    (ev.ContextCleared(), tuple(AT_REST), "idle"),
]


def after(name: ActivityName, event: Event, *, open_approvals: int = 0, in_turn: bool = True) -> Activity:
    return next_activity(Activity(name=name), event, open_approvals=open_approvals, in_turn=in_turn)


@pytest.mark.parametrize(("event", "sources", "target"), EXPECTED, ids=[type(case[0]).__name__ for case in EXPECTED])
@pytest.mark.parametrize("found", EVERYTHING)
def test_every_rule(event: Event, sources: tuple[ActivityName, ...], target: ActivityName, found: ActivityName) -> None:
    """An event leads from each activity where the table says, and nowhere from all others."""
    assert Activity(name=target if found in sources else found) == after(found, event)


def test_every_rule_is_expected() -> None:
    """The cases above cover the whole table but the failed model call, which has tests of its own."""
    assert set(RULES) == {type(event) for event, _, _ in EXPECTED} | {ev.ModelCallFailed}


@pytest.mark.parametrize("found", EVERYTHING)
def test_waiting_to_retry(found: ActivityName) -> None:
    """A failed call that will be tried again shows until when it waits; one that will not changes nothing."""
    again = ev.ModelCallFailed(kind="rate_limited", message="m", attempt=1, retry_at=5)
    expected = Activity(name="rate_limited", retry_at=5) if found in WORKING else Activity(name=found)
    assert expected == after(found, again)
    given_up = ev.ModelCallFailed(kind="auth", message="m", attempt=1, retry_at=None)
    assert Activity(name=found) == after(found, given_up)


def test_a_second_wait_shows_its_own_time() -> None:
    """A second failure in a row moves the time until which it waits."""
    first = Activity(name="rate_limited", retry_at=5)
    again = ev.ModelCallFailed(kind="rate_limited", message="m", attempt=2, retry_at=9)
    assert Activity(name="rate_limited", retry_at=9) == next_activity(first, again, open_approvals=0, in_turn=True)


@pytest.mark.parametrize("status", get_args(TurnStatus))
@pytest.mark.parametrize("found", EVERYTHING)
def test_the_end_of_a_turn(status: TurnStatus, found: ActivityName) -> None:
    """However it was, the end of a turn leads to rest, a stop never to idle, and an error is shown."""
    outcome = TurnOutcome(turn_id=TURN, status=status, error="why" if status == "failed" else None)
    expected = {
        "completed": "idle",
        "limit_reached": "errored",
        "stopped": "stopped",
        "failed": "errored",
        "interrupted": "interrupted",
    }
    shown = after(found, ev.TurnEnded(outcome=outcome))
    assert (expected[status], outcome.error) == (shown.name, shown.message)
    assert shown.is_at_rest
    assert expected == AFTER_TURN


def test_the_last_answer_counts() -> None:
    """With another approval still open, an answer leaves the session waiting for permission."""
    assert "awaiting_permission" == after("awaiting_permission", RESOLVED, open_approvals=1).name
    assert "running_tools" == after("awaiting_permission", RESOLVED).name


def test_the_end_of_a_compaction() -> None:
    """On its own it leads to rest, telling an error and a stop apart; inside a turn the turn goes on."""
    fine, failed = ev.CompactionFinished(status="completed"), ev.CompactionFinished(status="failed", error="why")
    stopped, interrupted = ev.CompactionFinished(status="stopped"), ev.CompactionFinished(status="interrupted")
    assert Activity(name="idle") == after("compacting", fine, in_turn=False)
    assert Activity(name="errored", message="why") == after("compacting", failed, in_turn=False)
    assert Activity(name="stopped") == after("stopping", stopped, in_turn=False)
    assert Activity(name="interrupted") == after("compacting", interrupted, in_turn=False)
    assert Activity(name="starting") == after("compacting", fine)
    assert Activity(name="stopping") == after("stopping", fine)


def test_unchanged_means_the_same_object() -> None:
    """When nothing changes the very same activity comes back, so that no event is recorded."""
    current = Activity(name="stopped")
    delta = ev.PartDelta(message_id=MESSAGE, text="late")
    assert current is next_activity(current, delta, open_approvals=0, in_turn=False)


def test_the_table_as_markdown() -> None:
    """The generated table names every event and every end of a turn."""
    lines = rules_as_markdown().splitlines()
    assert ["| when | found | becomes |", "| --- | --- | --- |"] == lines[:2]
    assert "| `TurnStarted` | at rest | starting |" in lines
    assert "| `PartStarted` | waiting_for_model | streaming |" in lines
    assert "| `TurnEnded` or `CompactionFinished` (stopped) | any | stopped |" in lines
    assert all(any(f"`{event.__name__}`" in line for line in lines) for event in RULES)
    assert 2 + len(RULES) + len(AFTER_TURN) <= len(lines)
