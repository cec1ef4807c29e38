"""Which messages an event adds to the conversation; shared by the fold and by stores that keep messages separately."""

from collections.abc import Mapping

from session_core.ids import CallId
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import Message, ToolResultPart

MESSAGE_EVENTS = (
    ev.MessageAdded,
    ev.MessageCompleted,
    ev.MessagesImported,
    ev.CompactionFinished,
    ev.FrameOpened,
    ev.FrameEntered,
    ev.ToolCallFinished,
    ev.ToolResultsCommitted,
)
"""The only events that the functions below handle."""


def collect_added_messages(
    event: ev.Event, results: Mapping[CallId, ToolResultPart], recorded_at: int
) -> tuple[Message, ...]:
    """Return the messages that an event recorded at `recorded_at` adds to the tree, in order; most events add none.

    `results` are the uncommitted tool results, as `collect_results` gathers them.
    """
    match event:
        case (
            ev.MessageAdded(message=message)
            | ev.MessageCompleted(message=message)
            | ev.FrameOpened(message=message)
            | ev.FrameEntered(message=message)
        ):
            return (message,)
        case ev.MessagesImported(messages=messages):
            return messages
        case ev.CompactionFinished(summary=Message() as summary):
            return (summary,)
        case ev.ToolResultsCommitted():
            return (_build_results_message(event, results, recorded_at),)
        case _:
            return ()


def _build_results_message(
    event: ev.ToolResultsCommitted, results: Mapping[CallId, ToolResultPart], recorded_at: int
) -> Message:
    return Message(
        message_id=event.message_id,
        parent_id=event.parent_id,
        role="tool",
        parts=tuple(results[call_id] for call_id in event.call_ids if call_id in results),
        created_at=recorded_at,
        turn_id=event.turn_id,
    )


def collect_results(results: dict[CallId, ToolResultPart], event: ev.Event) -> None:
    """Note the result of a tool call until it is committed.

    Only the first result of a call counts. Committed results are forgotten, because a call id may be reused.
    """
    match event:
        case ev.ToolCallFinished(result=result):
            results.setdefault(result.call_id, result)
        case ev.ToolResultsCommitted(call_ids=call_ids):
            for call_id in call_ids:
                results.pop(call_id, None)
        case ev.MessageAdded(ended_call_id=str() as call_id, ended_calls=inner):
            for ended in (call_id, *inner):
                results.pop(ended, None)
        case _:
            pass
