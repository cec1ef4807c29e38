"""Which messages an event adds to the conversation; shared by the fold and by stores that keep messages separately."""

from collections.abc import Mapping, Sequence

import attrs

from session_core import limits
from session_core.ids import CallId
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import Message, ToolResultPart, count_max_bytes

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
        parts=_fit_results([results[call_id] for call_id in event.call_ids if call_id in results]),
        created_at=recorded_at,
        turn_id=event.turn_id,
    )


def _fit_results(results: Sequence[ToolResultPart]) -> tuple[ToolResultPart, ...]:
    """Return the results of one step, in order; those for which a message has no room are shortened, and say so."""
    if count_max_bytes(results) <= limits.MAX_MESSAGE_BYTES:
        return tuple(results)
    least = [count_max_bytes((shorten_result(result, 0),)) for result in results]
    room, fitting = limits.MAX_MESSAGE_BYTES - sum(least), list[ToolResultPart]()
    for result, size in zip(results, least, strict=True):
        if count_max_bytes((result,)) > size + room:
            result = shorten_result(result, max(0, room) // 6)
        room -= max(0, count_max_bytes((result,)) - size)
        fitting.append(result)
    return tuple(fitting)


def shorten_result(result: ToolResultPart, chars: int) -> ToolResultPart:
    """Return a result with the beginning of its text, and with a remark in place of the rest."""
    gone = [f"{len(result.text[chars:])} characters", f"{len(result.images)} images"]
    gone += ["its details"] if result.details is not None else []
    remark = f"\n[... {', '.join(gone)} left out: the results of one step are too large together ...]"
    refusal = None if result.refusal is None else attrs.evolve(result.refusal, reason="")
    return attrs.evolve(result, text=result.text[:chars] + remark, images=(), details=None, refusal=refusal)


def collect_results(results: dict[CallId, ToolResultPart], event: ev.Event) -> None:
    """Note the result of a tool call until it is committed.

    Only the first result of a call counts. Committed results are forgotten, because a call id may be reused.
    """
    match event:
        case ev.ToolCallFinished(result=result, apart=False):
            results.setdefault(result.call_id, result)
        case ev.ToolResultsCommitted(call_ids=call_ids):
            for call_id in call_ids:
                results.pop(call_id, None)
        case ev.MessageAdded(ended_call_id=str() as call_id, ended_calls=inner):
            for ended in (call_id, *inner):
                results.pop(ended, None)
        case _:
            pass
