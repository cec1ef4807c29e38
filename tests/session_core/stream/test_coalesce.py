"""Merging deltas: fewer events, the same fold, and no text in the wrong place."""

import attrs
from hypothesis import given
from hypothesis import strategies as st

from session_core.ids import CallId, ClientId, MessageId, TurnId
from session_core.session.state import SessionState
from session_core.stream.coalesce import coalesce
from session_core.stream.subscription import Subscription
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.frozen import JsonObject
from tests.session_core.stream._events import A, B, at, delta, publish, renamed, stream_of


def numbered(*events: ev.Event, by: ClientId | None = None) -> list[SessionEvent]:
    return [SessionEvent(number, number, A, 0, event, by) for number, event in enumerate(events, start=1)]


def test_neighbours_are_merged() -> None:
    """Adjacent deltas of one text become one event with the last number, all the text and the count."""
    batch = numbered(delta("a"), delta("b"), delta("c"))

    assert coalesce(batch) == [attrs.evolve(batch[2], event=delta("abc"), merged=3)]


def test_merged_events_merge_again() -> None:
    """Counts add up when events that are merged already are merged once more."""
    batch = numbered(delta("a"), delta("b"), delta("c"), delta("d"))
    halves = [*coalesce(batch[:2]), *coalesce(batch[2:])]

    assert coalesce(halves) == coalesce(batch)


def test_what_lies_between_keeps_them_apart() -> None:
    """Deltas are not merged across another event, another message, another tool call or another author."""
    tool, other_tool = (ev.ToolOutputDelta(call_id=CallId(name), text="x") for name in "cd")
    batch = [
        *numbered(delta("a"), renamed(), delta("b"), delta("c", "other"), tool, other_tool),
        attrs.evolve(numbered(other_tool)[0], seq=7, sseq=7, by=ClientId("somebody")),
    ]

    assert coalesce(batch) == batch


def test_a_hole_in_the_numbers_keeps_them_apart() -> None:
    """Deltas that do not follow on by their numbers are not merged, so that a gap stays visible."""
    first, _, third = numbered(delta("a"), delta("b"), delta("c"))

    assert coalesce([first, third]) == [first, third]


def test_nothing_gives_nothing() -> None:
    """An empty batch stays empty."""
    assert coalesce([]) == []


def test_the_batch_itself_is_not_changed() -> None:
    """The events of the ring, which other readers share, stay as they were."""
    batch = numbered(delta("a"), delta("b"))
    before = list(batch)

    coalesce(batch)

    assert batch == before
    assert all(event.merged == 1 for event in batch)


_PIECES = st.sampled_from(
    [
        delta("a"),
        delta("b"),
        delta("c", "other"),
        ev.PartStarted(message_id=MessageId("m"), kind="text"),
        ev.PartStarted(message_id=MessageId("m"), kind="thinking"),
        ev.MessageStarted(message_id=MessageId("m"), parent_id=None, turn_id=TurnId("t"), model="m"),
        ev.ToolCallStarted(call_id=CallId("c"), name="n", arguments=JsonObject()),
        ev.ToolOutputDelta(call_id=CallId("c"), text="x"),
        ev.ToolOutputDelta(call_id=CallId("c"), text="y"),
        renamed(),
    ]
)


@given(st.lists(_PIECES, max_size=25))
def test_merging_does_not_change_the_fold(events: list[ev.Event]) -> None:
    """Folding the merged events gives the same state as folding all, and the counts add up."""
    batch = numbered(*events)
    whole, merged = SessionState(session_id=A), SessionState(session_id=A)
    for event in batch:
        whole.apply(event)
    for event in coalesce(batch):
        merged.apply(event)

    assert merged.snapshot(at(0)) == whole.snapshot(at(0))
    assert sum(event.merged for event in coalesce(batch)) == len(batch)


async def test_below_the_mark_nothing_is_merged() -> None:
    """Merging starts with the number of pending events that the reader asked for, and not before."""
    stream = stream_of()
    reader = stream.subscribe(A, coalesce_from=3)

    async def counts(pending: int) -> list[int]:
        for _ in range(pending):
            stream.publish(A, delta("x"))
        return [event.merged for event in await reader.receive_batch()]

    assert await counts(2) == [1, 1]
    assert await counts(3) == [3]


async def test_a_merged_event_is_not_skipped_by_a_resume() -> None:
    """A reader that resumes before a merged event it has not taken yet gets all of its text again."""
    stream = stream_of()
    reader = stream.subscribe(A, coalesce_from=2)
    publish(stream, 1)
    for text in "abc":
        stream.publish(A, delta(text))
        publish(stream, 1, B)
    await anext(reader)

    resumed = stream.subscribe(A, after=reader.cursor)

    assert [event.event for event in await resumed.receive_batch()] == [delta("a"), delta("b"), delta("c")]
    assert isinstance(reader, Subscription)
