"""Translations of session events for extensions: one small function for most, all of them in `TRANSLATIONS`.

The functions read and update what is in progress (`TranslationState`). Each must be total: events may be missing.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import attrs

from session_core.ids import CallId, MessageId, SessionId
from session_core.limits import MAX_INTEGER
from session_core.sep.protocol.names import EventName
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import thaw_json
from session_core.vocabulary.messages import PartKind, Usage

Payload = Callable[[], Mapping[str, Any]]
TranslatedEvents = tuple[tuple[EventName, Payload], ...]
"""Names with functions that build the payloads, called only if an extension has subscribed."""


@attrs.define(eq=False)
class TranslationState:
    """What is in progress in a session, as far as later events need it."""

    session_id: SessionId
    in_turn: bool = False
    iteration: int = 0
    model: str = ""
    message_id: MessageId | None = None
    kind: PartKind = "text"
    tool: str | None = None
    """The tool that the answer is currently calling."""
    calls: dict[CallId, str] = attrs.field(factory=dict)
    """Running tools, by call."""


def _always(name: EventName, **payload: str | None) -> Callable[[TranslationState, ev.Event], TranslatedEvents]:
    """Return the translation of an event that says nothing but that it happened."""
    return lambda _working, _event: ((name, lambda: payload),)


# --- turns ------------------------------------------------------------------------------------------------------------


def _turn_started(working: TranslationState, event: ev.TurnStarted) -> TranslatedEvents:
    working.in_turn, working.iteration, working.message_id = True, 0, None

    def payload() -> Mapping[str, Any]:
        return {"agent_id": working.session_id, "turn_id": event.turn_id}

    return ("agent_start", payload), ("turn_start", payload)


def _turn_ended(working: TranslationState, event: ev.TurnEnded) -> TranslatedEvents:
    outcome = event.outcome
    working.in_turn, working.iteration, working.message_id = False, 0, None
    working.calls.clear()

    def payload() -> Mapping[str, Any]:
        return {
            "agent_id": working.session_id,
            "turn_id": outcome.turn_id,
            "iterations": outcome.steps,
            "status": outcome.status,
            "tool_calls": outcome.tool_calls,
            "duration_ms": outcome.duration_ms,
            "usage": _usage(outcome.usage),
            **({"error": outcome.error} if outcome.error is not None else {}),
        }

    return ("turn_end", payload), ("agent_end", lambda: {**payload(), "content": outcome.final_text})


# --- answers of the model ---------------------------------------------------------------------------------------------


def _message_started(working: TranslationState, event: ev.MessageStarted) -> TranslatedEvents:
    working.in_turn = True  # its beginning may have been missed
    working.iteration += 1
    working.message_id, working.model, working.kind, working.tool = event.message_id, event.model, "text", None
    payload = {**_message_fields(working, event.message_id), "role": "assistant", "model": event.model}
    return (("message_start", lambda: payload),)


def _part_started(working: TranslationState, event: ev.PartStarted) -> TranslatedEvents:
    working.message_id, working.kind, working.tool = event.message_id, event.kind, event.tool_name
    return ()


def _part_delta(working: TranslationState, event: ev.PartDelta) -> TranslatedEvents:
    def payload() -> Mapping[str, Any]:
        tool = {"tool": working.tool} if working.tool is not None else {}
        return {**_message_fields(working, event.message_id), "kind": working.kind, "delta": event.text, **tool}

    return (("message_update", payload),)


def _message_completed(working: TranslationState, event: ev.MessageCompleted) -> TranslatedEvents:
    message = event.message
    working.message_id, working.tool = None, None
    about = {**_message_fields(working, message.message_id), "model": message.model or working.model}

    def response() -> Mapping[str, Any]:
        return {**about, "is_error": False, **({"usage": _usage(message.usage)} if message.usage is not None else {})}

    def end() -> Mapping[str, Any]:
        calls = [{"id": call.call_id, "name": call.name} for call in message.tool_calls]
        return {
            **about,
            "role": "assistant",
            "content": message.text,
            "interrupted": message.is_interrupted,
            **({"tool_calls": calls} if calls else {}),
        }

    return ("after_provider_response", response), ("message_end", end)


def _message_discarded(working: TranslationState, event: ev.MessageDiscarded) -> TranslatedEvents:
    if working.message_id == event.message_id:
        working.message_id = None
    return ()


def _model_call_failed(working: TranslationState, event: ev.ModelCallFailed) -> TranslatedEvents:
    def payload() -> Mapping[str, Any]:
        return {
            "iteration": working.iteration,
            "model": working.model,
            "is_error": True,
            "kind": event.kind,
            "error": event.message,
            "attempt": event.attempt,
            **({"retry_at": event.retry_at} if event.retry_at is not None else {}),
        }

    return (("after_provider_response", payload),)


def _message_fields(working: TranslationState, message_id: MessageId) -> dict[str, Any]:
    return {"iteration": working.iteration, "message_id": message_id}


# --- tools ------------------------------------------------------------------------------------------------------------


def _tool_started(working: TranslationState, event: ev.ToolCallStarted) -> TranslatedEvents:
    working.calls[event.call_id] = event.name
    about = _call_fields(working, event.call_id, event.name)
    return (("tool_execution_start", lambda: {**about, "arguments": thaw_json(event.arguments)}),)


def _tool_output(working: TranslationState, event: ev.ToolOutputDelta) -> TranslatedEvents:
    tool = working.calls.get(event.call_id)
    if tool is None:
        return ()
    return (("tool_execution_update", lambda: {**_call_fields(working, event.call_id, tool), "output": event.text}),)


def _tool_progressed(working: TranslationState, event: ev.ToolProgressed) -> TranslatedEvents:
    tool = working.calls.get(event.call_id)
    if tool is None:
        return ()
    news = {"message": event.message, "progress": event.progress, "details": thaw_json(event.details)}
    known_values = {key: each for key, each in news.items() if each is not None}
    return (("tool_execution_update", lambda: {**_call_fields(working, event.call_id, tool), **known_values}),)


def _tool_finished(working: TranslationState, event: ev.ToolCallFinished) -> TranslatedEvents:
    result = event.result
    about = _call_fields(working, result.call_id, result.name)

    def end() -> Mapping[str, Any]:
        return {
            **about,
            "is_error": result.status != "success",
            "status": result.status,
            "content": result.text,
            **({"details": thaw_json(result.details)} if result.details is not None else {}),
        }

    if working.calls.pop(result.call_id, None) is None:
        return ("tool_execution_start", lambda: about), ("tool_execution_end", end)
    return (("tool_execution_end", end),)


def _call_fields(working: TranslationState, call_id: CallId, tool: str) -> dict[str, Any]:
    return {"iteration": working.iteration, "call_id": call_id, "tool": tool}


# --- sessions ---------------------------------------------------------------------------------------------------------


def _session_created(_: TranslationState, event: ev.SessionCreated) -> TranslatedEvents:
    def payload() -> Mapping[str, Any]:
        return {
            "reason": "fork" if event.forked_from is not None else "new",
            "name": event.name,
            "cwd": event.settings.cwd,
            "model": event.settings.model,
            **({"parent_id": event.parent_id} if event.parent_id is not None else {}),
        }

    return (("session_start", payload),)


def _model_switched(_: TranslationState, event: ev.ModelSwitched) -> TranslatedEvents:
    def payload() -> Mapping[str, Any]:
        provider, slash, _ = event.model.partition("/")
        return {
            "model": event.model,
            **({"provider": provider} if slash else {}),
            **({"thinking": event.thinking} if event.thinking is not None else {}),
        }

    return (("model_select", payload),)


def _compaction_finished(_: TranslationState, event: ev.CompactionFinished) -> TranslatedEvents:
    def payload() -> Mapping[str, Any]:
        return {
            "status": event.status,
            **({"summary": event.summary.text} if event.summary is not None else {}),
            **({"error": event.error} if event.error is not None else {}),
        }

    return (("session_compact", payload),)


def _branch_switched(_: TranslationState, event: ev.BranchSwitched) -> TranslatedEvents:
    return (("session_tree", lambda: {"action": "switch", "head": event.head}),)


def _messages_imported(_: TranslationState, event: ev.MessagesImported) -> TranslatedEvents:
    return (("session_tree", lambda: {"action": "import", "head": event.head, "messages": len(event.messages)}),)


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": _sum(usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens),
        "completion_tokens": usage.output_tokens,
        "total_tokens": _sum(usage.tokens),
        "cached_tokens": usage.cache_read_tokens,
        "cost_micros": usage.cost_micros,
    }


def _sum(*numbers: int) -> int:
    """Add numbers, each of which may be as large as JSON allows."""
    return max(-MAX_INTEGER, min(sum(numbers), MAX_INTEGER))


TRANSLATIONS: Final = cast(
    Mapping[type, Callable[[TranslationState, Any], TranslatedEvents]],
    {
        ev.TurnStarted: _turn_started,
        ev.TurnEnded: _turn_ended,
        ev.MessageStarted: _message_started,
        ev.PartStarted: _part_started,
        ev.PartDelta: _part_delta,
        ev.MessageCompleted: _message_completed,
        ev.MessageDiscarded: _message_discarded,
        ev.ModelCallFailed: _model_call_failed,
        ev.ToolCallStarted: _tool_started,
        ev.ToolOutputDelta: _tool_output,
        ev.ToolProgressed: _tool_progressed,
        ev.ToolCallFinished: _tool_finished,
        ev.SessionCreated: _session_created,
        ev.SessionRestored: _always("session_start", reason="restored"),
        ev.SessionArchived: _always("session_shutdown", reason="archived"),
        ev.SessionDeleted: _always("session_shutdown", reason="deleted"),
        ev.ModelSwitched: _model_switched,
        ev.CompactionFinished: _compaction_finished,
        ev.BranchSwitched: _branch_switched,
        ev.MessagesImported: _messages_imported,
        ev.ContextCleared: _always("session_tree", action="clear", head=None),
    },
)
