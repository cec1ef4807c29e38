"""From session events to those that extensions know."""

from typing import Any, get_args

import attrs
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from session_core.ids import CallId, MessageId, SessionId, TurnId
from session_core.rpc.fast_json import write_json
from session_core.sep.host.calls.events import (
    SepEvent,
    Translator,
    bus_event,
    session_event,
    widget_key,
)
from session_core.sep.protocol.names import EVENTS, EventName
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedTool, text, tool_call
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import Event, SessionEvent, ToolProgressed
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message, TextPart, ToolCallPart, ToolResultPart, Usage
from session_core.vocabulary.sessions import Settings, TurnOutcome
from tests.session_core.service._helpers import new_session, recorded, say, scripted
from tests.strategies import values_of

SESSION, TURN, MESSAGE, CALL = SessionId("ses_1"), TurnId("turn_1"), MessageId("msg_1"), CallId("call_1")
ANSWER = Message(
    message_id=MESSAGE,
    parent_id=None,
    role="assistant",
    parts=(TextPart(text="hello"), ToolCallPart(call_id=CALL, name="look", arguments=JsonObject({"a": 1}))),
    created_at=0,
    model="m",
    usage=Usage(input_tokens=3, output_tokens=2, cache_read_tokens=1),
)
USAGE = {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6, "cached_tokens": 1, "cost_micros": 0}


def envelope(event: Event, session_id: SessionId | None = SESSION) -> SessionEvent:
    return SessionEvent(seq=1, sseq=1, session_id=session_id, at=0, event=event)


def told(*events: Event, translator: Translator | None = None) -> list[tuple[EventName, dict[str, Any]]]:
    translator = translator or Translator()
    found = [each for event in events for each in translator.translate(envelope(event))]
    assert all(each.session_id == each.payload["session_id"] == SESSION for each in found)
    return [(each.name, {k: v for k, v in each.payload.items() if k != "session_id"}) for each in found]


def result(status: Any = "success") -> ev.ToolCallFinished:
    return ev.ToolCallFinished(result=ToolResultPart(call_id=CALL, name="look", status=status, text="seen"))


def test_a_whole_turn_is_told() -> None:
    """Turn, answer, pieces, provider, tool and end come in order, numbered by the model call they belong to."""
    outcome = TurnOutcome(turn_id=TURN, status="completed", steps=1, tool_calls=1, final_text="hello", duration_ms=5)
    about = {"iteration": 1, "message_id": MESSAGE}
    of_call = {"iteration": 1, "call_id": CALL, "tool": "look"}
    ended = {
        "agent_id": SESSION,
        "turn_id": TURN,
        "iterations": 1,
        "status": "completed",
        "tool_calls": 1,
        "duration_ms": 5,
        "usage": dict.fromkeys(USAGE, 0),
    }
    assert told(
        ev.TurnStarted(turn_id=TURN),
        ev.MessageStarted(message_id=MESSAGE, parent_id=None, turn_id=TURN, model="m"),
        ev.PartStarted(message_id=MESSAGE, kind="text"),
        ev.PartDelta(message_id=MESSAGE, text="hello"),
        ev.PartStarted(message_id=MESSAGE, kind="tool_call", tool_name="look"),
        ev.PartDelta(message_id=MESSAGE, text="{}"),
        ev.MessageCompleted(message=ANSWER),
        ev.ToolCallStarted(call_id=CALL, name="look", arguments=JsonObject({"a": [1]})),
        ev.ToolOutputDelta(call_id=CALL, text="line"),
        ToolProgressed(call_id=CALL, progress=0.5, details=JsonObject({"n": (1,)})),
        result(),
        ev.TurnEnded(outcome=outcome),
    ) == [
        ("agent_start", {"agent_id": SESSION, "turn_id": TURN}),
        ("turn_start", {"agent_id": SESSION, "turn_id": TURN}),
        ("message_start", {**about, "role": "assistant", "model": "m"}),
        ("message_update", {**about, "kind": "text", "delta": "hello"}),
        ("message_update", {**about, "kind": "tool_call", "delta": "{}", "tool": "look"}),
        ("after_provider_response", {**about, "model": "m", "is_error": False, "usage": USAGE}),
        (
            "message_end",
            {
                **about,
                "model": "m",
                "role": "assistant",
                "content": "hello",
                "interrupted": False,
                "tool_calls": [{"id": CALL, "name": "look"}],
            },
        ),
        ("tool_execution_start", {**of_call, "arguments": {"a": [1]}}),
        ("tool_execution_update", {**of_call, "output": "line"}),
        ("tool_execution_update", {**of_call, "progress": 0.5, "details": {"n": [1]}}),
        ("tool_execution_end", {**of_call, "is_error": False, "status": "success", "content": "seen"}),
        ("turn_end", ended),
        ("agent_end", {**ended, "content": "hello"}),
    ]


def test_a_refused_call_has_a_start_and_an_end() -> None:
    """What never ran is told like what ran, so that starts and ends always pair."""
    of_call = {"iteration": 0, "call_id": CALL, "tool": "look"}
    assert told(result("denied")) == [
        ("tool_execution_start", of_call),
        ("tool_execution_end", {**of_call, "is_error": True, "status": "denied", "content": "seen"}),
    ]


def test_a_failed_model_call_is_told_and_its_answer_has_no_end() -> None:
    """Failures are provider responses; the withdrawn answer is followed by another start, with the next number."""
    started = ev.MessageStarted(message_id=MESSAGE, parent_id=None, turn_id=TURN, model="m")
    assert told(
        ev.TurnStarted(turn_id=TURN),
        started,
        ev.MessageDiscarded(message_id=MESSAGE, reason="network"),
        ev.ModelCallFailed(kind="network", message="gone", attempt=1, retry_at=9),
        started,
    )[2:] == [
        ("message_start", {"iteration": 1, "message_id": MESSAGE, "role": "assistant", "model": "m"}),
        (
            "after_provider_response",
            {
                "iteration": 1,
                "model": "m",
                "is_error": True,
                "kind": "network",
                "error": "gone",
                "attempt": 1,
                "retry_at": 9,
            },
        ),
        ("message_start", {"iteration": 2, "message_id": MESSAGE, "role": "assistant", "model": "m"}),
    ]


def test_sessions_are_told() -> None:
    """Sessions begin, change their model, are summarised, branch and end."""
    settings = Settings(model="m", cwd="/w")
    assert told(
        ev.SessionCreated(name="n", settings=settings),
        ev.ModelSwitched(model="p/m2", thinking="high"),
        ev.ModelSwitched(model="m3"),
        ev.CompactionFinished(status="completed", summary=attrs.evolve(ANSWER, role="summary")),
        ev.CompactionFinished(status="failed", error="no"),
        ev.BranchSwitched(head=MESSAGE),
        ev.MessagesImported(messages=(ANSWER,), head=MESSAGE),
        ev.ContextCleared(),
        ev.SessionArchived(),
        ev.SessionRestored(),
        ev.SessionDeleted(),
    ) == [
        ("session_start", {"reason": "new", "name": "n", "cwd": "/w", "model": "m"}),
        ("model_select", {"model": "p/m2", "provider": "p", "thinking": "high"}),
        ("model_select", {"model": "m3"}),
        ("session_compact", {"status": "completed", "summary": "hello"}),
        ("session_compact", {"status": "failed", "error": "no"}),
        ("session_tree", {"action": "switch", "head": MESSAGE}),
        ("session_tree", {"action": "import", "head": MESSAGE, "messages": 1}),
        ("session_tree", {"action": "clear", "head": None}),
        ("session_shutdown", {"reason": "archived"}),
        ("session_start", {"reason": "restored"}),
        ("session_shutdown", {"reason": "deleted"}),
    ]


def test_what_no_session_tells() -> None:
    """The bus, keys and reloads have their events too."""
    assert [
        bus_event("a", "t", {"x": 1}),
        widget_key(SESSION, "w", "up"),
        widget_key(SESSION, None, "up"),
        session_event("session_start", "reload"),
        session_event("session_shutdown", "exit"),
    ] == [
        SepEvent(name="bus/event", session_id=None, payload={"from": "a", "topic": "t", "payload": {"x": 1}}),
        SepEvent(name="widget/key", session_id=SESSION, payload={"session_id": SESSION, "widget_id": "w", "key": "up"}),
        SepEvent(name="widget/key", session_id=SESSION, payload={"session_id": SESSION, "key": "up"}),
        SepEvent(name="session_start", session_id=None, payload={"reason": "reload"}),
        SepEvent(name="session_shutdown", session_id=None, payload={"reason": "exit"}),
    ]


def test_only_what_is_wanted_is_made() -> None:
    """Events that nobody subscribes to are left out, and still counted."""
    translator, wanted = Translator(), frozenset({"message_end", "turn_end"})
    started = ev.MessageStarted(message_id=MESSAGE, parent_id=None, turn_id=TURN, model="m")
    for event in (ev.TurnStarted(turn_id=TURN), started, started):
        assert translator.translate(envelope(event), wanted) == ()
    (only,) = translator.translate(envelope(ev.MessageCompleted(message=ANSWER)), wanted)
    assert (only.name, only.payload["iteration"]) == ("message_end", 2)


def test_sessions_are_kept_apart_and_forgotten() -> None:
    """One session's work says nothing of another's, and nothing is kept once it is over."""
    translator, other = Translator(), SessionId("ses_2")
    started = ev.MessageStarted(message_id=MESSAGE, parent_id=None, turn_id=TURN, model="m")
    for session_id in (SESSION, other, other):
        translator.translate(envelope(started, session_id))
    numbers = [
        translator.translate(envelope(result(), session_id))[0].payload["iteration"] for session_id in (SESSION, other)
    ]
    assert numbers == [1, 2]
    translator.translate(envelope(ev.TurnEnded(outcome=TurnOutcome(turn_id=TURN, status="stopped"))))
    translator.translate(envelope(ev.SessionDeleted(), other))
    assert vars(translator) == {"_working": {}}


@given(st.lists(values_of(Event), max_size=4))
def test_any_events_in_any_order_can_be_told(events: list[Event]) -> None:
    """Whatever is missing or comes twice, all payloads can be sent, and every name is one that extensions know."""
    translator = Translator()
    for event in events:
        for each in translator.translate(envelope(event)):
            assert each.name in EVENTS
            write_json(each.payload)
        assert translator.translate(envelope(event, None)) == ()


def test_every_name_is_emitted() -> None:
    """There is no event that extensions could wait for in vain."""
    made = {each.name for each in (bus_event("a", "t", {}), widget_key(SESSION, None, "x"))}
    samples: list[Event] = [
        ev.TurnStarted(turn_id=TURN),
        ev.MessageStarted(message_id=MESSAGE, parent_id=None, turn_id=TURN, model="m"),
        ev.PartDelta(message_id=MESSAGE, text="x"),
        ev.MessageCompleted(message=ANSWER),
        ev.ToolCallStarted(call_id=CALL, name="look", arguments=JsonObject()),
        ev.ToolOutputDelta(call_id=CALL, text="x"),
        result(),
        ev.TurnEnded(outcome=TurnOutcome(turn_id=TURN, status="completed")),
        ev.ModelSwitched(model="m"),
        ev.SessionCreated(name="n", settings=Settings(model="m", cwd="/")),
        ev.CompactionFinished(status="completed"),
        ev.BranchSwitched(head=None),
        ev.SessionDeleted(),
    ]
    assert made | {name for name, _ in told(*samples)} == set(get_args(EventName))


async def test_a_real_turn_is_told(autojump_clock: MockClock) -> None:
    """What a service records while it works is told in the order that extensions rely on."""
    config = scripted(tool_call("look"), text("done"), tools=(ScriptedTool("look"),))
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        translator = Translator()
        found = [each.name for event in recorded(service, session_id) for each in translator.translate(event)]
    answer = ["message_start", "message_update", "after_provider_response", "message_end"]
    tool = ["tool_execution_start", "tool_execution_end"]
    assert found == ["session_start", "agent_start", "turn_start", *answer, *tool, *answer, "turn_end", "agent_end"]
