"""From events to spans, without a service: what begins, what ends, what is lost, and what is never told."""

from typing import Any

import attrs
import pytest

import session_core as sc
from frontends.server.telemetry.spans import SpanEnded, SpanLost, SpanStarted, SpanStep, SpanTracker

e = sc.events
ONE, TWO = sc.SessionId("ses_one"), sc.SessionId("ses_two")
TURN, SAID, CALL = sc.TurnId("turn_a"), sc.MessageId("msg_a"), sc.CallId("call_a")
USAGE = sc.Usage(input_tokens=5, output_tokens=2, cache_read_tokens=10, cost_micros=7)
ABOUT = {"gen_ai.conversation.id": ONE}
SECRET = "a text that nobody may see"


def told(event: sc.Event, *, at: int = 0, session_id: sc.SessionId | None = ONE) -> sc.SessionEvent:
    return sc.SessionEvent(seq=1, sseq=1, session_id=session_id, at=at, event=event)


def steps_of(maker: SpanTracker, *events: sc.SessionEvent) -> list[SpanStep]:
    return [step for event in events for step in maker.feed(event)]


def answer(**fields: object) -> sc.Message:
    message = sc.Message(message_id=SAID, parent_id=None, role="assistant", parts=(), created_at=0, usage=USAGE)
    return attrs.evolve(message, parts=(sc.TextPart(text=SECRET),), **fields)  # type: ignore[arg-type]


def result(status: Any = "success") -> sc.ToolResultPart:
    return sc.ToolResultPart(call_id=CALL, name="read", status=status, text=SECRET)


def outcome(status: Any = "completed") -> sc.TurnOutcome:
    return sc.TurnOutcome(
        turn_id=TURN, status=status, error=SECRET, final_text=SECRET, steps=1, tool_calls=1, usage=USAGE
    )


STARTED = told(e.TurnStarted(turn_id=TURN), at=1)
ASKED = told(e.MessageStarted(message_id=SAID, parent_id=None, turn_id=TURN, model="a/good"), at=2)
ANSWERED = told(e.MessageCompleted(message=answer()), at=3)
CALLED = told(e.ToolCallStarted(call_id=CALL, name="read", arguments=sc.JsonObject({"path": SECRET})), at=4)
RETURNED = told(e.ToolCallFinished(result=result()), at=5)
ENDED = told(e.TurnEnded(outcome=outcome()), at=6)
TOKENS: dict[str, Any] = {
    "gen_ai.usage.input_tokens": 15,
    "gen_ai.usage.output_tokens": 2,
    "gen_ai.usage.cache_read.input_tokens": 10,
    "gen_ai.usage.cache_creation.input_tokens": 0,
    "session_core.cost_micros": 7,
}


def test_a_turn_has_its_calls_as_parts() -> None:
    """A turn, its model call and its tool call are told with their times, states and counts, and nothing else."""
    maker = SpanTracker()
    steps = steps_of(maker, STARTED, ASKED, ANSWERED, CALLED, RETURNED, ENDED)
    turn, model, tool = f"turn {TURN}", f"model {SAID}", f"tool {ONE} {CALL}"
    chat = {**ABOUT, "gen_ai.operation.name": "chat", "gen_ai.request.model": "a/good"}
    call = {**ABOUT, "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read"}
    states: dict[str, Any] = {
        "session_core.turn.status": "completed",
        "session_core.turn.steps": 1,
        "session_core.turn.tool_calls": 1,
    }
    whole = {**ABOUT, "gen_ai.operation.name": "invoke_agent"}
    assert steps == [
        SpanStarted(key=turn, kind="turn", name="turn", time_ms=1, attributes=whole),
        SpanStarted(key=model, kind="model", name="chat a/good", time_ms=2, parent=turn, attributes=chat),
        SpanEnded(key=model, time_ms=3, attributes=TOKENS),
        SpanStarted(key=tool, kind="tool", name="execute_tool read", time_ms=4, parent=turn, attributes=call),
        SpanEnded(key=tool, time_ms=5, attributes={"session_core.tool.status": "success"}),
        SpanEnded(key=turn, time_ms=6, attributes={**states, **TOKENS}),
    ]
    assert SECRET not in repr(steps)
    assert (0, 0) == (maker.lost_spans, maker.missed_events)


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (e.MessageDiscarded(message_id=SAID, reason="network"), "network"),
        (e.MessageDiscarded(message_id=SAID, reason=SECRET), "discarded"),
        (e.ModelCallFailed(kind="auth", message=SECRET, attempt=1, retry_at=None), "auth"),
        (e.ModelCallFailed(kind=SECRET, message=SECRET, attempt=1, retry_at=None), "failed"),
        (e.MessageCompleted(message=answer(usage=None)), None),
        (e.TurnEnded(outcome=outcome("failed")), "failed"),
        (e.TurnEnded(outcome=outcome("stopped")), "interrupted"),
    ],
)
def test_a_model_call_ends_with_a_word(event: sc.Event, error: str | None) -> None:
    """However a model call ends, its span ends once and says why in a word of ours."""
    maker = SpanTracker()
    steps = steps_of(maker, STARTED, ASKED, told(event, at=9), told(event, at=10), ENDED)
    ends = [step for step in steps if isinstance(step, SpanEnded) and step.key == f"model {SAID}"]
    assert [SpanEnded(key=f"model {SAID}", time_ms=9, error=error)] == ends
    assert SECRET not in repr(steps)


@pytest.mark.parametrize(
    ("status", "error"), [("completed", None), ("stopped", None), ("limit_reached", "limit_reached")]
)
def test_a_stop_is_no_error(status: str, error: str | None) -> None:
    """A turn that a person has stopped did not fail; one that ran into a limit did."""
    steps = steps_of(SpanTracker(), STARTED, told(e.TurnEnded(outcome=outcome(status)), at=2))
    end = steps[-1]
    assert isinstance(end, SpanEnded)
    assert (error, status) == (end.error, end.attributes["session_core.turn.status"])


def test_a_tool_that_failed_says_so() -> None:
    """A tool call ends with its state as the error, unless it succeeded."""
    steps = steps_of(SpanTracker(), CALLED, told(e.ToolCallFinished(result=result("denied")), at=5))
    assert ["denied"] == [step.error for step in steps if isinstance(step, SpanEnded)]


def test_missed_events_lose_what_is_open() -> None:
    """After a gap all open spans are lost and counted, later ends of them say nothing, and new spans are told."""
    maker = SpanTracker()
    steps_of(maker, STARTED, CALLED)
    assert [SpanLost(key=f"tool {ONE} {CALL}"), SpanLost(key=f"turn {TURN}")] == list(maker.drop_open_spans(7))
    assert (2, 7) == (maker.lost_spans, maker.missed_events)
    assert [] == steps_of(maker, RETURNED, ENDED)
    assert 2 == len(steps_of(maker, STARTED, ENDED))


def test_there_is_a_bound_on_open_spans() -> None:
    """One span too many is lost and counted, and those that are open go on."""
    maker = SpanTracker(most=1)
    steps = steps_of(maker, STARTED, ASKED, ANSWERED, ENDED)
    assert ([f"turn {TURN}"] * 2, 1) == ([step.key for step in steps], maker.lost_spans)


def test_a_helper_is_part_of_the_call_that_started_it() -> None:
    """The turn of a child session belongs to the tool call that waits for it."""
    maker = SpanTracker()
    steps_of(maker, STARTED, CALLED, told(e.TaskStarted(call_id=CALL, child_id=TWO)))
    (began,) = steps_of(maker, told(e.TurnStarted(turn_id=sc.TurnId("turn_b")), session_id=TWO))
    assert isinstance(began, SpanStarted)
    assert f"tool {ONE} {CALL}" == began.parent


def test_helpers_that_never_begin_are_forgotten() -> None:
    """A child session that is deleted before its turn is forgotten, and so are the oldest of too many."""
    maker = SpanTracker(most=5)
    for number in range(20):
        child = sc.SessionId(f"ses_{number:02d}")
        steps_of(maker, told(e.TaskStarted(call_id=CALL, child_id=child)))
        if number > 16:
            steps_of(maker, told(e.SessionDeleted(), session_id=child))
    assert ["ses_12", "ses_13", "ses_14", "ses_15", "ses_16"][-len(maker._subagents) :] == [*maker._subagents]
    assert 0 < len(maker._subagents) <= 5


@pytest.mark.parametrize("how", ["deleted", "closed"])
def test_what_goes_away_is_interrupted(how: str) -> None:
    """What is open when its session is deleted, or the service ends, ends as interrupted, the turn last."""
    maker = SpanTracker()
    steps_of(maker, STARTED, CALLED)
    gone = told(e.SessionDeleted(), at=8)
    steps = list(maker.feed(gone) if how == "deleted" else maker.close(8))
    keys = (f"tool {ONE} {CALL}", f"turn {TURN}")
    assert [SpanEnded(key=key, time_ms=8, error="interrupted") for key in keys] == steps
    assert [] == steps_of(maker, ENDED)


def test_a_name_that_is_a_text_is_not_told() -> None:
    """A model may ask for a tool by a whole sentence, which is not a name and is not shown."""
    (began,) = steps_of(SpanTracker(), told(e.ToolCallStarted(call_id=CALL, name=SECRET, arguments=sc.JsonObject())))
    assert "?" in repr(began)
    assert SECRET not in repr(began)
