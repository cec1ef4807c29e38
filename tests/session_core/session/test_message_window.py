"""The window: which messages of a long conversation a session's state holds."""

from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core import limits
from session_core.ids import CallId, Cursor, Epoch, MessageId, SessionId, TurnId
from session_core.session import appliers, message_window
from session_core.session.finish_work import next_closing_event
from session_core.session.message_window import count_window_bytes
from session_core.session.state import SessionState, apply, fold
from session_core.vocabulary import events as ev
from session_core.vocabulary.added_messages import collect_added_messages
from session_core.vocabulary.events import Event, SessionEvent
from session_core.vocabulary.frozen import JsonObject, Vector
from session_core.vocabulary.messages import (
    ImagePart,
    InterruptedPart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    count_max_bytes,
    count_message_chars,
)
from session_core.vocabulary.snapshots import SessionSnapshot
from session_core.wire.codec import decode, encode
from tests.strategies import values_of

SESSION = SessionId("s")
START = Cursor(epoch=Epoch("run"), seq=0)
SMALLEST = 4_396
"""The size of a message without any text."""


def text_message(number: int, size: int) -> Message:
    """A message of this size that follows the one numbered before it."""
    return Message(
        message_id=MessageId(str(number)),
        parent_id=MessageId(str(number - 1)) if number else None,
        role="user",
        parts=(TextPart(text="x" * size),),
        created_at=number,
    )


def numbered(events: Iterable[Event]) -> list[SessionEvent]:
    return [SessionEvent(seq, seq, SESSION, seq, event) for seq, event in enumerate(events, start=1)]


def added_one_by_one(sizes: Iterable[int]) -> list[SessionEvent]:
    return numbered(ev.MessageAdded(message=text_message(number, size)) for number, size in enumerate(sizes))


def state_after(events: Iterable[SessionEvent]) -> SessionState:
    state = SessionState(session_id=SESSION)
    for event in events:
        state.apply(event)
    return state


def empty() -> SessionSnapshot:
    return SessionState(session_id=SESSION).snapshot(START)


@contextmanager
def window_of(messages: int, size: int) -> Generator[pytest.MonkeyPatch]:
    """Work with a window that is small enough to be filled often; `size` counts the smallest messages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "WINDOW_MESSAGES", messages)
        patch.setattr(limits, "WINDOW_BYTES", size * SMALLEST)
        yield patch


any_size = st.integers(0, 3) | st.integers(0, 40).map(lambda size: size * SMALLEST // 6)
small_windows = st.tuples(st.integers(1, 12), st.integers(1, 20) | st.integers(1, 200))


@st.composite
def conversations(draw: st.DrawFn) -> list[Event]:
    """Events that add messages of any sizes, alone and many at once."""
    events: list[Event] = []
    number = 0
    for sizes in draw(st.lists(st.lists(any_size, max_size=9), max_size=20)):
        messages = tuple(text_message(number + place, size) for place, size in enumerate(sizes))
        number += len(messages)
        if len(messages) == 1:
            kind = draw(st.sampled_from([ev.MessageAdded, ev.MessageCompleted]))
            events.append(kind(message=messages[0]))
        else:
            head = messages[-1].message_id if messages else None
            events.append(ev.MessagesImported(messages=messages, head=head))
    return events


# --- the rule ---------------------------------------------------------------------------------------------------------


@given(sizes=st.lists(any_size, max_size=60), bounds=small_windows)
def test_the_window_after_every_message(sizes: list[int], bounds: tuple[int, int]) -> None:
    """After each message the window is the newest of all in their order, within its bounds, and trimmed by the rule."""
    most, room = bounds[0], bounds[1] * SMALLEST
    expected: list[Message] = []
    everything: list[Message] = []
    state = SessionState(session_id=SESSION)
    with window_of(*bounds):
        for event in added_one_by_one(sizes):
            state.apply(event)
            everything.append(text_message(len(everything), sizes[len(everything)]))
            expected.append(everything[-1])
            if len(expected) > most or total(expected) > room:
                while len(expected) > 1 and (len(expected) > most // 2 or total(expected) > room // 2):
                    del expected[0]

            held = list(state.messages)
            assert expected == held
            assert everything == everything[: state.earlier] + held
            assert len(held) <= most
            assert total(held) <= room or held == everything[-1:]
            assert total(held) == state.window_bytes


def total(messages: list[Message]) -> int:
    return sum(SMALLEST + 6 * len(message.text) for message in messages)


@given(events=conversations(), bounds=small_windows, data=st.data())
def test_the_window_is_the_same_from_any_snapshot(
    events: list[Event], bounds: tuple[int, int], data: st.DataObject
) -> None:
    """Folding at once, on from a snapshot taken anywhere or sent over the wire, or event by event gives one window."""
    run = numbered(events)
    cut = data.draw(st.integers(0, len(run)))
    with window_of(*bounds):
        at_once = fold(empty(), run)
        half = fold(empty(), run[:cut])
        stepwise = half
        for event in run[cut:]:
            stepwise = apply(stepwise, event)

        assert at_once == state_after(run).snapshot(at_once.cursor)
        assert at_once == fold(half, run[cut:])
        assert at_once == fold(decode(encode(half), SessionSnapshot), run[cut:])
        assert at_once == stepwise
    assert at_once.earlier + len(at_once.messages) == sum(len(collect_added_messages(each, {}, 0)) for each in events)


@given(events=conversations(), bounds=small_windows)
def test_the_window_does_not_depend_on_the_events(events: list[Event], bounds: tuple[int, int]) -> None:
    """Messages that come many at once leave the same window as if they had come one by one."""
    messages = [message for event in events for message in collect_added_messages(event, {}, 0)]
    with window_of(*bounds):
        together = state_after(numbered(events))
        alone = state_after(numbered(ev.MessageAdded(message=message) for message in messages))

    assert (alone.earlier, alone.messages) == (together.earlier, together.messages)


@pytest.mark.parametrize(
    ("sizes", "earlier"),
    [
        ([1] * 1_024, 0),
        ([1] * 1_025, 513),
        ([1] * (1_025 + 512), 513),
        ([1] * (1_025 + 513), 513 + 513),
        ([900_000] * 3, 0),
        ([900_000] * 3 + [100_000], 4 - 2),
        ([900_000] * 4, 3),
        ([1, 3_000_000], 1),
        ([3_000_000], 0),
        ([3_000_000, 1], 1),
        ([1, 1_380_000, 1_390_000], 0),
        ([1, 1_390_000, 1_400_000], 2),
    ],
)
def test_the_real_bounds(sizes: list[int], earlier: int) -> None:
    """A window of 1,024 messages and of one frame is halved by the first message beyond, which always stays."""
    state = state_after(added_one_by_one(sizes))

    assert earlier == state.earlier
    assert [str(number) for number in range(earlier, len(sizes))] == [each.message_id for each in state.messages]


# --- its cost ---------------------------------------------------------------------------------------------------------


@given(sizes=st.lists(any_size, max_size=60), bounds=small_windows)
def test_no_message_is_copied_twice(sizes: list[int], bounds: tuple[int, int]) -> None:
    """However long a conversation grows, trimming copies each of its messages at most once."""
    copied: Counter[str] = Counter()
    trims = 0

    def counting(messages: tuple[Message, ...]) -> Vector[Message]:
        nonlocal trims
        trims += 1
        copied.update(message.message_id for message in messages)
        return Vector(messages)

    with window_of(*bounds) as patch:
        patch.setattr(message_window, "Vector", counting)
        state = state_after(added_one_by_one(sizes))

    assert bool(trims) == bool(state.earlier)
    assert set(copied.values()) <= {1}


def test_measuring_is_amortised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trimming a conversation of ten windows measures no more messages than were added."""
    events = added_one_by_one([1] * 10 * limits.WINDOW_MESSAGES)
    measured = 0

    def counting(parts: Iterable[Part]) -> int:
        nonlocal measured
        measured += 1
        return count_max_bytes(parts)

    monkeypatch.setattr(message_window, "count_max_bytes", counting)
    state = state_after(events)

    assert len(events) == state.earlier + len(state.messages)
    assert 0 < measured - len(events) <= len(events)  # besides when they were added


def test_a_snapshot_is_measured_at_its_first_new_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Going on from a snapshot looks at its messages once, when one is added, and never for a mere delta."""
    snapshot = fold(empty(), added_one_by_one([1] * 10))
    looked: list[int] = []

    def counting(messages: Sequence[Message]) -> int:
        looked.append(len(messages))
        return count_window_bytes(messages)

    monkeypatch.setattr(appliers, "count_window_bytes", counting)
    state = SessionState.from_snapshot(snapshot)
    answer, turn = MessageId("answer"), TurnId("turn")
    others: list[Event] = [
        ev.MessageStarted(message_id=answer, parent_id=None, turn_id=turn, model="m"),
        ev.PartStarted(message_id=answer, kind="text"),
        ev.PartDelta(message_id=answer, text="word"),
        ev.BranchSwitched(head=MessageId("3")),
        ev.CompactionFinished(status="failed", summary=None),
        ev.MessagesImported(messages=(), head=None),
    ]
    for event in numbered(others):
        state.apply(event)
    assert [] == looked

    for event in numbered(ev.MessageAdded(message=text_message(number, 1)) for number in (10, 11, 12)):
        state.apply(event)
    assert ([10, 1, 1, 1], 13 * (SMALLEST + 6)) == (looked, state.window_bytes)


# --- looking at a window ----------------------------------------------------------------------------------------------


def test_the_transcript_reaches_as_far_as_the_window() -> None:
    """The path to the head begins with the oldest message that is still held."""
    with window_of(4, 100):
        state = state_after(added_one_by_one([1] * 6))

    assert (3, ["3", "4", "5"]) == (state.earlier, [message.message_id for message in state.transcript])
    assert state.transcript == state.snapshot(START).transcript


def test_the_head_may_be_outside() -> None:
    """A head that has left the window shows nothing, harms nothing, and can be continued."""
    with window_of(4, 100):
        snapshot = fold(empty(), added_one_by_one([1] * 6))
        state = SessionState.from_snapshot(snapshot)
        state.apply(SessionEvent(7, 7, SESSION, 7, ev.BranchSwitched(head=MessageId("1"))))
        assert ((), None) == (state.transcript, state.find_message(state.head))
        assert next_closing_event(state, "stopped", now=8) is None

        reply = Message(message_id=MessageId("new"), parent_id=state.head, role="user", parts=(), created_at=8)
        state.apply(SessionEvent(8, 8, SESSION, 8, ev.MessageAdded(message=reply)))
        assert ((reply,), "new") == (state.transcript, state.head)


# --- what events add --------------------------------------------------------------------------------------------------

call_ids = st.sampled_from([CallId("1"), CallId("2"), CallId("3")])
tool_events: st.SearchStrategy[Event] = st.one_of(
    st.builds(ev.ToolCallStarted, call_id=call_ids, name=st.just("t"), arguments=st.just(JsonObject())),
    st.builds(
        ev.ToolCallFinished,
        result=st.builds(
            ToolResultPart, call_id=call_ids, name=st.just("t"), status=st.just("success"), text=st.text(max_size=3)
        ),
    ),
    st.builds(
        ev.ToolResultsCommitted,
        message_id=st.just(MessageId("m")),
        parent_id=st.none(),
        turn_id=st.none(),
        call_ids=st.lists(call_ids, max_size=3).map(tuple),
    ),
)
all_events: st.SearchStrategy[Event] = values_of(Event)


@given(events=st.lists(tool_events | all_events, max_size=40))
def test_the_fold_adds_what_is_said_to_be_added(events: list[Event]) -> None:
    """One who only collects results and asks what each event adds gets the messages of the state, no more, no fewer."""
    results: dict[CallId, ToolResultPart] = {}
    told: list[Message] = []
    run = numbered(events)
    for envelope in run:
        told.extend(collect_added_messages(envelope.event, results, envelope.at))
        match envelope.event:
            case ev.ToolCallFinished(result=result):
                results.setdefault(result.call_id, result)
            case ev.ToolResultsCommitted(call_ids=committed):
                results = {call_id: result for call_id, result in results.items() if call_id not in committed}
            case _:
                pass

    assert told == list(state_after(run).messages)


# --- sizes ------------------------------------------------------------------------------------------------------------


def arguments(**items: Any) -> ToolCallPart:
    return ToolCallPart(call_id=CallId("call"), name="tool", arguments=JsonObject(items))


def result(text: str, images: tuple[ImagePart, ...] = (), details: JsonObject | None = None) -> ToolResultPart:
    return ToolResultPart(
        call_id=CallId("call"), name="tool", status="success", text=text, images=images, details=details
    )


IMAGE = ImagePart(media_type="image/png", data="12345678")


@pytest.mark.parametrize(
    ("parts", "size"),
    [
        ((), 1),
        ((InterruptedPart(reason="stopped"),), 1),
        ((TextPart(text=""),), 1),
        ((TextPart(text="abc"), TextPart(text="de"), InterruptedPart(reason="failed")), 5),
        ((TextPart(text="\U0001f600é"),), 2),
        ((ThinkingPart(text="abc"),), 3),
        ((ThinkingPart(text="abc", signature="1234"),), 7),
        ((IMAGE,), 8),
        ((arguments(),), 1),
        ((arguments(key="text"),), 1 + 3 + 1 + 4),
        ((arguments(a=[1, 2.5, None, True, "xy"]),), 1 + 1 + 1 + 4 + 1 + 2),
        ((arguments(a={"bc": {"d": ""}}),), 1 + 1 + 1 + 2 + 1 + 1 + 1),
        ((result("abc"),), 3),
        ((result("abc", (IMAGE, IMAGE), JsonObject({"k": "v"})),), 3 + 16 + 1 + 1 + 1 + 1),
    ],
)
def test_sizes(parts: tuple[Part, ...], size: int) -> None:
    """A message is as large as the characters in its parts, each JSON value counting one more, and at least 1."""
    message = Message(message_id=MessageId("m"), parent_id=None, role="user", parts=parts, created_at=0)

    assert size == count_message_chars(message)


def test_deep_json_can_be_measured() -> None:
    """Arguments nested far deeper than Python's stack are counted like any others."""
    nested = JsonObject()
    for _ in range(20_000):
        nested = JsonObject({"a": nested})
    call = ToolCallPart(call_id=CallId("call"), name="tool", arguments=nested)
    message = Message(message_id=MessageId("m"), parent_id=None, role="assistant", parts=(call,), created_at=0)

    assert 20_001 + 20_000 == count_message_chars(message)
