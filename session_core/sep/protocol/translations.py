"""What each event of a session is for extensions: one small function per event, collected in `TRANSLATIONS`.

They read and keep what is under way (`Working`). Every function must be total: events may be missing.
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
Told = tuple[tuple[EventName, Payload], ...]
"""Names with what makes their payloads, which is only asked for where somebody wants to know."""


@attrs.define(eq=False)
class Working:
    """What is under way in a session, as far as later events need it."""

    session_id: SessionId
    in_turn: bool = False
    iteration: int = 0
    model: str = ""
    message_id: MessageId | None = None
    kind: PartKind = "text"
    tool: str | None = None
    """The tool that the answer is just calling."""
    calls: dict[CallId, str] = attrs.field(factory=dict)
    """Tools that run, by their calls."""


# --- turns ------------------------------------------------------------------------------------------------------------


def _turn_started(working: Working, event: ev.TurnStarted) -> Told:
    working.in_turn, working.iteration, working.message_id = True, 0, None

    def payload() -> Mapping[str, Any]:
        return {"agent_id": working.session_id, "turn_id": event.turn_id}

    return ("agent_start", payload), ("turn_start", payload)


def _turn_ended(working: Working, event: ev.TurnEnded) -> Told:
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


def _message_started(working: Working, event: ev.MessageStarted) -> Told:
    working.in_turn = True  # its beginning may have been missed
    working.iteration += 1
    working.message_id, working.model, working.kind, working.tool = event.message_id, event.model, "text", None
    payload = {**_of_message(working, event.message_id), "role": "assistant", "model": event.model}
    return (("message_start", lambda: payload),)


def _part_started(working: Working, event: ev.PartStarted) -> Told:
    working.message_id, working.kind, working.tool = event.message_id, event.kind, event.tool_name
    return ()


def _part_delta(working: Working, event: ev.PartDelta) -> Told:
    def payload() -> Mapping[str, Any]:
        tool = {"tool": working.tool} if working.tool is not None else {}
        return {**_of_message(working, event.message_id), "kind": working.kind, "delta": event.text, **tool}

    return (("message_update", payload),)


def _message_completed(working: Working, event: ev.MessageCompleted) -> Told:
    message = event.message
    working.message_id, working.tool = None, None
    about = {**_of_message(working, message.message_id), "model": message.model or working.model}

    def response() -> Mapping[str, Any]:
        return {**about, "is_error": False, **({"usage": _usage(message.usage)} if message.usage is not None else {})}

    def end() -> Mapping[str, Any]:
        calls = [{"id": call.call_id, "name": call.name} for call in message.tool_calls]
        return {
            **about,
            "role": "assistant",
            "content": message.text,
            "interrupted": message.interrupted,
            **({"tool_calls": calls} if calls else {}),
        }

    return ("after_provider_response", response), ("message_end", end)


def _message_discarded(working: Working, event: ev.MessageDiscarded) -> Told:
    if working.message_id == event.message_id:
        working.message_id = None
    return ()


def _model_call_failed(working: Working, event: ev.ModelCallFailed) -> Told:
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


def _of_message(working: Working, message_id: MessageId) -> dict[str, Any]:
    return {"iteration": working.iteration, "message_id": message_id}


# --- tools ------------------------------------------------------------------------------------------------------------


def _tool_started(working: Working, event: ev.ToolCallStarted) -> Told:
    working.calls[event.call_id] = event.name
    about = _of_call(working, event.call_id, event.name)
    return (("tool_execution_start", lambda: {**about, "arguments": thaw_json(event.arguments)}),)


def _tool_said(working: Working, event: ev.ToolOutputDelta) -> Told:
    tool = working.calls.get(event.call_id)
    if tool is None:
        return ()
    return (("tool_execution_update", lambda: {**_of_call(working, event.call_id, tool), "output": event.text}),)


def _tool_progressed(working: Working, event: ev.ToolProgressed) -> Told:
    tool = working.calls.get(event.call_id)
    if tool is None:
        return ()
    news = {"message": event.message, "progress": event.progress, "details": thaw_json(event.details)}
    told = {key: each for key, each in news.items() if each is not None}
    return (("tool_execution_update", lambda: {**_of_call(working, event.call_id, tool), **told}),)


def _tool_finished(working: Working, event: ev.ToolCallFinished) -> Told:
    result = event.result
    about = _of_call(working, result.call_id, result.name)

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


def _of_call(working: Working, call_id: CallId, tool: str) -> dict[str, Any]:
    return {"iteration": working.iteration, "call_id": call_id, "tool": tool}


# --- sessions ---------------------------------------------------------------------------------------------------------


def _created(_: Working, event: ev.SessionCreated) -> Told:
    def payload() -> Mapping[str, Any]:
        return {
            "reason": "fork" if event.forked_from is not None else "new",
            "name": event.name,
            "cwd": event.settings.cwd,
            "model": event.settings.model,
            **({"parent_id": event.parent_id} if event.parent_id is not None else {}),
        }

    return (("session_start", payload),)


def _restored(_: Working, _event: ev.SessionRestored) -> Told:
    return (("session_start", lambda: {"reason": "restored"}),)


def _archived(_: Working, _event: ev.SessionArchived) -> Told:
    return (("session_shutdown", lambda: {"reason": "archived"}),)


def _deleted(_: Working, _event: ev.SessionDeleted) -> Told:
    return (("session_shutdown", lambda: {"reason": "deleted"}),)


def _model_switched(_: Working, event: ev.ModelSwitched) -> Told:
    def payload() -> Mapping[str, Any]:
        provider, slash, _ = event.model.partition("/")
        return {
            "model": event.model,
            **({"provider": provider} if slash else {}),
            **({"thinking": event.thinking} if event.thinking is not None else {}),
        }

    return (("model_select", payload),)


def _compacted(_: Working, event: ev.CompactionFinished) -> Told:
    def payload() -> Mapping[str, Any]:
        return {
            "status": event.status,
            **({"summary": event.summary.text} if event.summary is not None else {}),
            **({"error": event.error} if event.error is not None else {}),
        }

    return (("session_compact", payload),)


def _branch_switched(_: Working, event: ev.BranchSwitched) -> Told:
    return (("session_tree", lambda: {"action": "switch", "head": event.head}),)


def _imported(_: Working, event: ev.MessagesImported) -> Told:
    return (("session_tree", lambda: {"action": "import", "head": event.head, "messages": len(event.messages)}),)


def _cleared(_: Working, _event: ev.ContextCleared) -> Told:
    return (("session_tree", lambda: {"action": "clear", "head": None}),)


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": _sum(usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens),
        "completion_tokens": usage.output_tokens,
        "total_tokens": _sum(usage.tokens),
        "cached_tokens": usage.cache_read_tokens,
        "cost_micros": usage.cost_micros,
    }


def _sum(*numbers: int) -> int:
    """Add numbers that may each be as large as JSON takes them."""
    return max(-MAX_INTEGER, min(sum(numbers), MAX_INTEGER))


TRANSLATIONS: Final = cast(
    Mapping[type, Callable[[Working, Any], Told]],
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
        ev.ToolOutputDelta: _tool_said,
        ev.ToolProgressed: _tool_progressed,
        ev.ToolCallFinished: _tool_finished,
        ev.SessionCreated: _created,
        ev.SessionRestored: _restored,
        ev.SessionArchived: _archived,
        ev.SessionDeleted: _deleted,
        ev.ModelSwitched: _model_switched,
        ev.CompactionFinished: _compacted,
        ev.BranchSwitched: _branch_switched,
        ev.MessagesImported: _imported,
        ev.ContextCleared: _cleared,
    },
)
