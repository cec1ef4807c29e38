"""What each event does to a session's state: one small function per event, collected in `APPLIERS`.

Every function must be total (see `state`): look things up, and do nothing when they are not there.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from session_core import limits
from session_core.ids import CallId, WakeupId
from session_core.session.extension_appliers import EXTENSION_APPLIERS
from session_core.session.new_messages import add_messages
from session_core.session.protocol_appliers import PROTOCOL_APPLIERS, follow_head
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.frozen import JsonObject, Rope
from session_core.vocabulary.messages import (
    LiveTool,
    PartialMessage,
    PartialPart,
    Usage,
)
from session_core.vocabulary.sessions import RunningTurn, StopRequest, UsageLine, UsageSource

if TYPE_CHECKING:
    from session_core.session.state import SessionState

E = TypeVar("E")
Applier = Callable[["SessionState", E, SessionEvent], None]

APPLIERS: dict[type, Applier[Any]] = {**EXTENSION_APPLIERS, **PROTOCOL_APPLIERS}


def _applies(event_type: type[E]) -> Callable[[Applier[E]], Applier[E]]:
    def register(function: Applier[E]) -> Applier[E]:
        APPLIERS[event_type] = function
        return function

    return register


# --- sessions ---------------------------------------------------------------------------------------------------------


@_applies(ev.SessionCreated)
def _created(state: "SessionState", event: ev.SessionCreated, envelope: SessionEvent) -> None:
    state.name = event.name
    state.settings = event.settings
    state.parent_id = event.parent_id
    state.forked_from = event.forked_from
    state.protocol = event.protocol
    state.created_at = envelope.at


@_applies(ev.SessionRenamed)
def _renamed(state: "SessionState", event: ev.SessionRenamed, _: SessionEvent) -> None:
    state.name = event.name


@_applies(ev.SessionArchived)
def _archived(state: "SessionState", _event: ev.SessionArchived, _: SessionEvent) -> None:
    state.archived = True


@_applies(ev.SessionRestored)
def _restored(state: "SessionState", _event: ev.SessionRestored, _: SessionEvent) -> None:
    state.archived = False


@_applies(ev.SessionDeleted)
def _deleted(state: "SessionState", _event: ev.SessionDeleted, _: SessionEvent) -> None:
    state.deleted = True


@_applies(ev.ModelSwitched)
def _model_switched(state: "SessionState", event: ev.ModelSwitched, _: SessionEvent) -> None:
    thinking = event.thinking or state.settings.thinking
    state.settings = attrs.evolve(state.settings, model=event.model, thinking=thinking)


@_applies(ev.PermissionTierChanged)
def _tier_changed(state: "SessionState", event: ev.PermissionTierChanged, _: SessionEvent) -> None:
    state.settings = attrs.evolve(state.settings, permission_tier=event.tier)
    state.grants = ()  # a new rule starts from nothing, so that an "always" can be taken back


@_applies(ev.SandboxPolicyChanged)
def _sandbox_changed(state: "SessionState", event: ev.SandboxPolicyChanged, _: SessionEvent) -> None:
    state.settings = attrs.evolve(state.settings, sandbox=event.policy)


@_applies(ev.WorkingDirectoryChanged)
def _cwd_changed(state: "SessionState", event: ev.WorkingDirectoryChanged, _: SessionEvent) -> None:
    state.settings = attrs.evolve(state.settings, cwd=event.cwd)


@_applies(ev.TurnLimitsChanged)
def _limits_changed(state: "SessionState", event: ev.TurnLimitsChanged, _: SessionEvent) -> None:
    state.settings = attrs.evolve(state.settings, limits=event.limits)


# --- the conversation -------------------------------------------------------------------------------------------------


@_applies(ev.MessageAdded)
def _message_added(state: "SessionState", event: ev.MessageAdded, envelope: SessionEvent) -> None:
    if event.queue_item_id is not None:
        quiet = any(item.quiet for item in state.queue if item.item_id == event.queue_item_id)
        state.queue = tuple(item for item in state.queue if item.item_id != event.queue_item_id)
        if state.turn is not None and state.turn.steps and not quiet:
            state.turn = attrs.evolve(state.turn, steered=True)
    if event.ended_call_id is not None:
        ended = {event.ended_call_id, *event.ended_calls}
        state.tools = tuple(tool for tool in state.tools if tool.call_id not in ended)
    before = state.head
    add_messages(state, envelope)
    if event.message.parent_id != before:
        follow_head(state, before)


@_applies(ev.MessagesImported)
def _messages_imported(state: "SessionState", event: ev.MessagesImported, envelope: SessionEvent) -> None:
    before = state.head
    add_messages(state, envelope)
    state.head = event.head
    state.context_tokens = 0  # not known before the next answer
    follow_head(state, before)


@_applies(ev.BranchSwitched)
def _branch_switched(state: "SessionState", event: ev.BranchSwitched, _: SessionEvent) -> None:
    before, state.head = state.head, event.head
    state.context_tokens = 0
    follow_head(state, before)


@_applies(ev.ContextCleared)
def _context_cleared(state: "SessionState", _event: ev.ContextCleared, _: SessionEvent) -> None:
    before, state.head = state.head, None
    state.context_tokens = 0
    follow_head(state, before)


@_applies(ev.MessageStarted)
def _message_started(state: "SessionState", event: ev.MessageStarted, envelope: SessionEvent) -> None:
    state.growing = None
    state.partial = PartialMessage(
        message_id=event.message_id,
        parent_id=event.parent_id,
        turn_id=event.turn_id,
        model=event.model,
        started_at=envelope.at,
    )
    if state.turn is not None:
        state.turn = attrs.evolve(state.turn, steps=state.turn.steps + 1)


@_applies(ev.PartStarted)
def _part_started(state: "SessionState", event: ev.PartStarted, _: SessionEvent) -> None:
    partial = state.partial_now()
    if partial is None or partial.message_id != event.message_id:
        return
    state.growing = Rope()
    begun = PartialPart(kind=event.kind, text=state.growing, tool_name=event.tool_name)
    state.partial = attrs.evolve(partial, parts=(*partial.parts, begun))


@_applies(ev.PartDelta)
def _part_delta(state: "SessionState", event: ev.PartDelta, _: SessionEvent) -> None:
    if state.growing is not None and state.partial is not None and state.partial.message_id == event.message_id:
        state.growing = state.growing.append(event.text)


@_applies(ev.MessageCompleted)
def _message_completed(state: "SessionState", event: ev.MessageCompleted, envelope: SessionEvent) -> None:
    state.partial = state.growing = None
    add_messages(state, envelope)
    used = event.message.usage
    if used is not None:
        state.context_tokens = used.tokens
        _use(state, event.message.model or "", "turn", used)


def _use(state: "SessionState", model: str, source: UsageSource, used: Usage) -> None:
    """Count what a model call has used: in all, by model and purpose, and for the running turn."""
    state.usage = state.usage.plus(used)
    if state.turn is not None:
        state.turn = attrs.evolve(state.turn, usage=state.turn.usage.plus(used))
    for place, line in enumerate(state.usage_by):
        if (line.model, line.source) == (model, source):
            more = attrs.evolve(line, calls=line.calls + 1, usage=line.usage.plus(used))
            state.usage_by = (*state.usage_by[:place], more, *state.usage_by[place + 1 :])
            return
    if len(state.usage_by) < limits.MAX_USAGE_LINES:
        state.usage_by = (*state.usage_by, UsageLine(model=model, source=source, calls=1, usage=used))


@_applies(ev.UsageRecorded)
def _usage_recorded(state: "SessionState", event: ev.UsageRecorded, _: SessionEvent) -> None:
    _use(state, event.model, event.source, event.usage)


@_applies(ev.PlanChanged)
def _plan_changed(state: "SessionState", event: ev.PlanChanged, _: SessionEvent) -> None:
    state.plan = event.plan


@_applies(ev.MessageDiscarded)
def _message_discarded(state: "SessionState", event: ev.MessageDiscarded, _: SessionEvent) -> None:
    if state.partial is not None and state.partial.message_id == event.message_id:
        state.partial = state.growing = None


# --- tools ------------------------------------------------------------------------------------------------------------


def _change_tool(state: "SessionState", call_id: CallId, change: Callable[[LiveTool], LiveTool]) -> None:
    state.tools = tuple(change(tool) if tool.call_id == call_id else tool for tool in state.tools)


@_applies(ev.ToolCallStarted)
def _tool_started(state: "SessionState", event: ev.ToolCallStarted, envelope: SessionEvent) -> None:
    if any(tool.call_id == event.call_id for tool in state.tools):
        return
    started = LiveTool(
        call_id=event.call_id, name=event.name, arguments=event.arguments, started_at=envelope.at, output=""
    )
    state.tools = (*state.tools, started)
    if state.turn is not None:
        state.turn = attrs.evolve(state.turn, tool_calls=state.turn.tool_calls + 1)


@_applies(ev.TaskStarted)
def _task_started(state: "SessionState", event: ev.TaskStarted, _: SessionEvent) -> None:
    _change_tool(state, event.call_id, lambda tool: attrs.evolve(tool, child_id=event.child_id))


@_applies(ev.ToolOutputDelta)
def _tool_output(state: "SessionState", event: ev.ToolOutputDelta, _: SessionEvent) -> None:
    _change_tool(
        state,
        event.call_id,
        lambda tool: attrs.evolve(tool, output=(tool.output + event.text)[-limits.MAX_LIVE_OUTPUT_CHARS :]),
    )


@_applies(ev.ToolCallFinished)
def _tool_finished(state: "SessionState", event: ev.ToolCallFinished, envelope: SessionEvent) -> None:
    result = event.result
    if any(tool.call_id == result.call_id for tool in state.tools):
        _change_tool(
            state,
            result.call_id,
            lambda tool: tool if tool.result else attrs.evolve(tool, output="", progress=None, result=result),
        )
    else:  # it never began to run: unknown, denied, or stopped before its start
        ended = LiveTool(
            call_id=result.call_id, name=result.name, arguments=JsonObject(), started_at=envelope.at, result=result
        )
        state.tools = (*state.tools, ended)


@_applies(ev.ToolResultsCommitted)
def _results_committed(state: "SessionState", event: ev.ToolResultsCommitted, envelope: SessionEvent) -> None:
    add_messages(state, envelope, {tool.call_id: tool.result for tool in state.tools if tool.result})
    state.tools = tuple(tool for tool in state.tools if tool.call_id not in event.call_ids)


# --- turns ------------------------------------------------------------------------------------------------------------


@_applies(ev.TurnStarted)
def _turn_started(state: "SessionState", event: ev.TurnStarted, envelope: SessionEvent) -> None:
    state.turn = RunningTurn(
        turn_id=event.turn_id,
        started_at=envelope.at,
        output_schema=event.output_schema,
        extension=event.extension,
    )


@_applies(ev.TurnEnded)
def _turn_ended(state: "SessionState", event: ev.TurnEnded, _: SessionEvent) -> None:
    state.turn = state.stop = None
    state.last_outcome = event.outcome


@_applies(ev.StopRequested)
def _stop_requested(state: "SessionState", event: ev.StopRequested, envelope: SessionEvent) -> None:
    state.stop = StopRequest(scope=event.scope, by=envelope.by, requested_at=envelope.at)


@_applies(ev.ActivityChanged)
def _activity_changed(state: "SessionState", event: ev.ActivityChanged, _: SessionEvent) -> None:
    state.activity = event.activity


@_applies(ev.CompactionFinished)
def _compaction_finished(state: "SessionState", event: ev.CompactionFinished, envelope: SessionEvent) -> None:
    state.stop = None
    if event.summary is not None:
        state.context_tokens = 0  # not known before the next answer
    add_messages(state, envelope)


# --- queue, requests, wake-ups ----------------------------------------------------------------------------------------


@_applies(ev.MessageQueued)
def _message_queued(state: "SessionState", event: ev.MessageQueued, _: SessionEvent) -> None:
    state.queue = (*state.queue, event.item)


@_applies(ev.QueueItemEdited)
def _queue_item_edited(state: "SessionState", event: ev.QueueItemEdited, _: SessionEvent) -> None:
    state.queue = tuple(
        attrs.evolve(item, parts=event.parts) if item.item_id == event.item_id else item for item in state.queue
    )


@_applies(ev.QueueReordered)
def _queue_reordered(state: "SessionState", event: ev.QueueReordered, _: SessionEvent) -> None:
    place = {item_id: index for index, item_id in enumerate(event.item_ids)}
    state.queue = tuple(sorted(state.queue, key=lambda item: place.get(item.item_id, len(place))))


@_applies(ev.QueueItemRemoved)
def _queue_item_removed(state: "SessionState", event: ev.QueueItemRemoved, _: SessionEvent) -> None:
    state.queue = tuple(item for item in state.queue if item.item_id != event.item_id)


@_applies(ev.ApprovalRequested)
def _approval_requested(state: "SessionState", event: ev.ApprovalRequested, _: SessionEvent) -> None:
    state.approvals = (*state.approvals, event.approval)


@_applies(ev.ApprovalResolved)
def _approval_resolved(state: "SessionState", event: ev.ApprovalResolved, _: SessionEvent) -> None:
    state.approvals = tuple(each for each in state.approvals if each.request_id != event.request_id)
    grant = event.grant or event.tool_name
    if event.decision == "allow_session" and grant not in state.grants and len(state.grants) < limits.MAX_GRANTS:
        state.grants = (*state.grants, grant)


@_applies(ev.DialogOpened)
def _dialog_opened(state: "SessionState", event: ev.DialogOpened, _: SessionEvent) -> None:
    state.dialogs = (*state.dialogs, event.dialog)


@_applies(ev.DialogClosed)
def _dialog_closed(state: "SessionState", event: ev.DialogClosed, _: SessionEvent) -> None:
    state.dialogs = tuple(each for each in state.dialogs if each.request_id != event.answer.request_id)


@_applies(ev.WakeupScheduled)
def _wakeup_scheduled(state: "SessionState", event: ev.WakeupScheduled, _: SessionEvent) -> None:
    state.wakeups = (*state.wakeups, event.wakeup)


def _drop_wakeup(state: "SessionState", wakeup_id: WakeupId) -> None:
    state.wakeups = tuple(each for each in state.wakeups if each.wakeup_id != wakeup_id)


@_applies(ev.WakeupCancelled)
def _wakeup_cancelled(state: "SessionState", event: ev.WakeupCancelled, _: SessionEvent) -> None:
    _drop_wakeup(state, event.wakeup_id)


@_applies(ev.WakeupFired)
def _wakeup_fired(state: "SessionState", event: ev.WakeupFired, _: SessionEvent) -> None:
    _drop_wakeup(state, event.wakeup_id)


NOT_FOLDED = (
    ev.ModelCallFailed,
    ev.OutcomeDismissed,
    ev.CompactionStarted,
    ev.FilesRestored,
    ev.ClientAttached,
    ev.ClientDetached,
    ev.ConfigurationChanged,
    ev.StorageStopped,
    ev.ExtensionChanged,
    ev.ExtensionRemoved,
    ev.NoticeShown,
    ev.ProtocolFailed,
)
"""Events that leave a session's state to another event recorded with them, belong to no session (see `fleet`), or are
only told."""
