"""Close unfinished work truthfully after a stop, a failure or a crash, or when the service ends.

`next_closing_event` looks at a state and returns the event that closes the first open item, or None when all is
closed. The whole procedure is to record that event and ask again until None: it is the same for every cause, needs no
memory of its own, and is safe to interrupt and restart.
"""

import attrs

from session_core import limits
from session_core.ids import MessageId, new_id
from session_core.session.cells import build_cell_message, find_child_call, find_open_cell, inner_calls
from session_core.session.shell_lines import build_shell_line_message, find_open_shell_line, get_typed_line
from session_core.session.state import SessionState
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import (
    CodePart,
    InterruptedPart,
    InterruptReason,
    LiveTool,
    Message,
    Part,
    PartialMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    ToolStatus,
)
from session_core.vocabulary.sessions import DialogAnswer, ResolvedBecause, TurnOutcome, TurnStatus

_INTERRUPT_REASON: dict[TurnStatus, InterruptReason] = {"stopped": "stopped", "failed": "failed"}
_RESOLVED_BECAUSE: dict[TurnStatus, ResolvedBecause] = {"stopped": "stopped", "interrupted": "restarted"}
_SYNTHETIC_RESULT: dict[TurnStatus, tuple[ToolStatus, str]] = {
    "stopped": ("cancelled", "Stopped by the user."),
    "interrupted": ("interrupted", "The service ended before this was done."),
}
_NO_RESULT: tuple[ToolStatus, str] = ("cancelled", "The turn ended before this was done.")


def next_closing_event(
    state: SessionState, status: TurnStatus, *, now: int, error: str | None = None
) -> ev.Event | None:
    """Return the next event that brings the session to rest, with its turn ended as `status`."""
    if state.partial is not None:
        return _close_partial(state, status, now)
    if (unanswered := _find_unanswered_call(state)) is not None:
        started = any(tool.call_id == unanswered.call_id for tool in state.tools)
        return _build_missing_result(unanswered, status, started=started)
    if (results := _build_results_event(state)) is not None:
        return results
    if (typed := find_open_shell_line(state)) is not None:
        turn_id = state.turn.turn_id if state.turn is not None else None
        return build_shell_line_message(state, typed, get_typed_line(typed), turn_id, now)
    if (cell := find_open_cell(state)) is not None:
        return _close_cell(state, cell, status, now)
    if (child := find_child_call(state)) is not None:
        call = ToolCallPart(call_id=child.call_id, name=child.name, arguments=child.arguments)
        return attrs.evolve(_build_missing_result(call, status, started=True), apart=True)
    because = _RESOLVED_BECAUSE.get(status, "turn_ended")
    if state.approvals:
        first = state.approvals[0]
        return ev.ApprovalResolved(
            request_id=first.request_id, tool_name=first.tool_name, decision="deny", because=because
        )
    if state.dialogs and because != "turn_ended":
        return ev.DialogClosed(answer=DialogAnswer(request_id=state.dialogs[0].request_id, because=because))
    if state.turn is not None:
        return ev.TurnEnded(outcome=build_outcome(state, status, now=now, error=error))
    return None


def build_outcome(state: SessionState, status: TurnStatus, *, now: int, error: str | None = None) -> TurnOutcome:
    """Build the outcome of the running turn."""
    turn = state.turn
    assert turn is not None
    final = next(
        (
            message
            for message in reversed(state.messages)
            if message.turn_id == turn.turn_id and message.role == "assistant" and message.source is None
        ),
        None,
    )
    return TurnOutcome(
        turn_id=turn.turn_id,
        status=status,
        error=error[: limits.MAX_ERROR_CHARS] if error else None,
        final_message_id=final.message_id if final else None,
        final_text=final.text[: limits.MAX_FINAL_TEXT_CHARS] if final else "",
        steps=turn.steps,
        tool_calls=turn.tool_calls,
        steered=turn.steered,
        usage=turn.usage,
        duration_ms=max(0, now - turn.started_at),
    )


def _close_partial(state: SessionState, status: TurnStatus, now: int) -> ev.Event:
    partial = state.build_partial()
    assert partial is not None
    parts = _collect_finished_parts(partial)
    if not parts:
        return ev.MessageDiscarded(message_id=partial.message_id, reason="nothing had been said yet")
    reason = _INTERRUPT_REASON.get(status, "interrupted")
    return ev.MessageCompleted(
        message=Message(
            message_id=partial.message_id,
            parent_id=partial.parent_id,
            role="assistant",
            parts=(*parts, InterruptedPart(reason=reason)),
            created_at=now,
            turn_id=partial.turn_id,
            model=partial.model,
        )
    )


def _collect_finished_parts(partial: PartialMessage) -> tuple[Part, ...]:
    """Return the parts worth keeping; an incomplete tool call never happened."""
    parts: list[Part] = []
    for part in partial.parts:
        text = str(part.text)
        if text and part.kind == "text":
            parts.append(TextPart(text=text))
        elif text and part.kind == "code":
            parts.append(CodePart(text=text))
        elif text and part.kind == "thinking":
            parts.append(ThinkingPart(text=text))
    return tuple(parts)


def _find_head_with_calls(state: SessionState) -> Message | None:
    head = state.find_message(state.head) if state.head is not None else None
    return head if head is not None and head.role == "assistant" and head.tool_calls else None


def _find_unanswered_call(state: SessionState) -> ToolCallPart | None:
    head = _find_head_with_calls(state)
    answered = {tool.call_id for tool in state.tools if tool.result is not None}
    return next((call for call in head.tool_calls if call.call_id not in answered), None) if head else None


def _build_missing_result(call: ToolCallPart, status: TurnStatus, *, started: bool) -> ev.ToolCallFinished:
    result_status, text = _SYNTHETIC_RESULT.get(status, _NO_RESULT)
    text += " It may have had some of its effects." if started else " It was not started."
    return ev.ToolCallFinished(
        result=ToolResultPart(call_id=call.call_id, name=call.name, status=result_status, text=text)
    )


def _close_cell(state: SessionState, cell: LiveTool, status: TurnStatus, now: int) -> ev.Event:
    """Give results to the cell's open calls, then to the cell itself; then its outcome joins the conversation."""
    for live in (*inner_calls(state), cell):
        if live.result is None:
            return _build_missing_result(
                ToolCallPart(call_id=live.call_id, name=live.name, arguments=live.arguments), status, started=True
            )
    return build_cell_message(state, cell, state.turn.turn_id if state.turn is not None else None, now)


def _build_results_event(state: SessionState) -> ev.Event | None:
    head = _find_head_with_calls(state)
    if head is None:
        return None
    return ev.ToolResultsCommitted(
        message_id=MessageId(new_id("msg")),
        parent_id=head.message_id,
        turn_id=head.turn_id,
        call_ids=tuple(call.call_id for call in head.tool_calls),
    )
