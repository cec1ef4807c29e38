"""How each event changes a session's state: one small function per event, collected in `APPLIERS`.

Every function must be total (see `state`): it looks things up, and does nothing when they are missing.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from session_core import limits
from session_core.ids import CallId, MessageId, WakeupId
from session_core.session.executor_points import apply_executor_state_saved, follow_executor
from session_core.session.message_window import count_window_bytes, trim
from session_core.vocabulary import events as ev
from session_core.vocabulary.added_messages import collect_added_messages
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.extensions import ExtensionDisplay
from session_core.vocabulary.frozen import JsonObject, Rope
from session_core.vocabulary.messages import (
    LiveTool,
    Message,
    PartialMessage,
    PartialPart,
    ToolProgress,
    ToolResultPart,
    Usage,
)
from session_core.vocabulary.protocols import Frame
from session_core.vocabulary.sessions import RunningTurn, StopRequest, UsageLine, UsageSource
from session_core.vocabulary.snapshots import path_to

if TYPE_CHECKING:
    from session_core.session.state import SessionState


def _add_messages(
    state: "SessionState", envelope: SessionEvent, results: Mapping[CallId, ToolResultPart] | None = None
) -> None:
    """Add the event's messages one by one and trim the oldest from the window; the last becomes the head."""
    for message in collect_added_messages(envelope.event, results or {}, envelope.at):
        before = count_window_bytes(state.messages) if state.window_bytes is None else state.window_bytes
        state.messages, dropped, state.window_bytes = trim(
            state.messages.append(message), before + count_window_bytes((message,))
        )
        state.earlier += dropped
        state.head = message.message_id


# Events of protocols.
def apply_protocol_configured(state: "SessionState", event: ev.ProtocolConfigured, _: SessionEvent) -> None:
    """Store the options, also those of single frames; the protocol itself never changes."""
    if event.protocol.name == state.protocol.name:
        if event.protocol.version != state.protocol.version:
            state.driver_memory = None  # another version may not understand it
        state.protocol = event.protocol
        for frame in event.frames:
            state.frames = _update_frame(state.frames, frame)[-limits.MAX_FRAMES :]


def apply_driver_remembered(state: "SessionState", event: ev.DriverRemembered, _: SessionEvent) -> None:
    """Keep what the driver wants to find again, also when its turn is resumed."""
    state.driver_memory = event.memory


def apply_frame_opened(state: "SessionState", event: ev.FrameOpened, envelope: SessionEvent) -> None:
    """Enter a new frame; if there are too many frames, the oldest are forgotten."""
    state.frames = (*_update_frame(state.frames, event.left), event.frame)[-limits.MAX_FRAMES :]
    _enter_frame(state, event.frame.frame_id, envelope)


def apply_frame_entered(state: "SessionState", event: ev.FrameEntered, envelope: SessionEvent) -> None:
    """Enter an existing frame again."""
    state.frames = _update_frame(state.frames, event.left)
    _enter_frame(state, event.frame_id, envelope)


def _enter_frame(state: "SessionState", frame_id: str, envelope: SessionEvent) -> None:
    state.frame_id = frame_id
    state.executor, state.executor_points, state.executor_lost = None, (), False
    state.context_tokens = 0  # not known before the next answer
    _add_messages(state, envelope)


def follow_head(state: "SessionState", left_at: MessageId | None) -> None:
    """Enter the frame of the head after people moved elsewhere in the tree; `left_at` is the previous head.

    A frame consists of everything below its first message, except for other frames. If that message has left the
    window, the frame cannot be determined and stays as it is.
    """
    path = path_to(state.messages, state.head)
    if state.frames:
        _follow_frame(state, path, left_at)
    follow_executor(state, path)


def _follow_frame(state: "SessionState", path: tuple[Message, ...], left_at: MessageId | None) -> None:
    begun = {frame.first_message_id: frame.frame_id for frame in state.frames}
    reaches_back = path[0].parent_id is None if path else state.head is None
    otherwise = begun.get(None) if reaches_back else state.frame_id
    found = next((begun[each.message_id] for each in reversed(path) if each.message_id in begun), otherwise)
    if found == state.frame_id:
        return
    state.frames = tuple(
        attrs.evolve(each, last_message_id=left_at) if each.frame_id == state.frame_id else each
        for each in state.frames
    )
    state.frame_id = found


def _update_frame(frames: tuple[Frame, ...], left_frame: Frame) -> tuple[Frame, ...]:
    """Record where a frame was left; the first frame of a session is recorded when it is first left."""
    if any(each.frame_id == left_frame.frame_id for each in frames):
        return tuple(left_frame if each.frame_id == left_frame.frame_id else each for each in frames)
    return (*frames, left_frame)


PROTOCOL_APPLIERS: dict[type, Callable[..., Any]] = {
    ev.ProtocolConfigured: apply_protocol_configured,
    ev.DriverRemembered: apply_driver_remembered,
    ev.FrameOpened: apply_frame_opened,
    ev.FrameEntered: apply_frame_entered,
    ev.ExecutorStateSaved: lambda state, event, _: apply_executor_state_saved(state, event),
}


# Events of extensions.
def apply_extension_displayed(state: "SessionState", event: ev.ExtensionDisplayed, _: SessionEvent) -> None:
    """Update what the extension displays, in the same position; remove a display that is empty."""
    displays = {each.extension: each for each in state.displays}
    before = displays.get(event.extension, ExtensionDisplay(extension=event.extension))
    if event.status is None and event.widget is None and event.title is None:
        before = ExtensionDisplay(extension=event.extension)
    now = ExtensionDisplay(
        extension=event.extension,
        status=(before.status if event.status is None else event.status) or None,
        widget=(before.widget if event.widget is None else event.widget) or None,
        title=(before.title if event.title is None else event.title) or None,
    )
    if now == ExtensionDisplay(extension=event.extension):
        displays.pop(event.extension, None)
    elif event.extension in displays or len(displays) < limits.MAX_DISPLAYS:
        displays[event.extension] = now
    state.displays = tuple(displays.values())


def apply_entry_appended(state: "SessionState", event: ev.EntryAppended, _: SessionEvent) -> None:
    """Keep the newest entries."""
    state.entries = (*state.entries, event.entry)[-limits.MAX_ENTRIES :]


def apply_tool_progressed(state: "SessionState", event: ev.ToolProgressed, _: SessionEvent) -> None:
    """Record the progress of a tool that is still running."""

    def update_progress(tool: LiveTool) -> LiveTool:
        if tool.call_id != event.call_id or tool.result is not None:
            return tool
        before = tool.progress or ToolProgress()
        now = ToolProgress(
            message=before.message if event.message is None else event.message,
            progress=before.progress if event.progress is None else event.progress,
            details=before.details if event.details is None else event.details,
        )
        return attrs.evolve(tool, progress=now)

    state.tools = tuple(map(update_progress, state.tools))


EXTENSION_APPLIERS: dict[type, Callable[..., Any]] = {
    ev.ExtensionDisplayed: apply_extension_displayed,
    ev.EntryAppended: apply_entry_appended,
    ev.ToolProgressed: apply_tool_progressed,
}


# --- appliers ---------------------------------------------------------------------------------------------------------

E = TypeVar("E")
Applier = Callable[["SessionState", E, SessionEvent], None]

APPLIERS: dict[type, Applier[Any]] = {**EXTENSION_APPLIERS, **PROTOCOL_APPLIERS}


def _register_applier(event_type: type[E]) -> Callable[[Applier[E]], Applier[E]]:
    def register(function: Applier[E]) -> Applier[E]:
        APPLIERS[event_type] = function
        return function

    return register


# --- sessions ---------------------------------------------------------------------------------------------------------


@_register_applier(ev.SessionCreated)
def _apply_session_created(state: "SessionState", event: ev.SessionCreated, envelope: SessionEvent) -> None:
    state.name = event.name
    state.settings = event.settings
    state.parent_id = event.parent_id
    state.forked_from = event.forked_from
    state.protocol = event.protocol
    state.created_at = envelope.at


@_register_applier(ev.SessionRenamed)
def _apply_session_renamed(state: "SessionState", event: ev.SessionRenamed, _: SessionEvent) -> None:
    state.name = event.name


@_register_applier(ev.SessionArchived)
def _apply_session_archived(state: "SessionState", _event: ev.SessionArchived, _: SessionEvent) -> None:
    state.archived = True


@_register_applier(ev.SessionRestored)
def _apply_session_restored(state: "SessionState", _event: ev.SessionRestored, _: SessionEvent) -> None:
    state.archived = False


@_register_applier(ev.SessionDeleted)
def _apply_session_deleted(state: "SessionState", _event: ev.SessionDeleted, _: SessionEvent) -> None:
    state.deleted = True


@_register_applier(ev.ModelSwitched)
def _apply_model_switched(state: "SessionState", event: ev.ModelSwitched, _: SessionEvent) -> None:
    thinking = event.thinking or state.settings.thinking
    state.settings = attrs.evolve(state.settings, model=event.model, thinking=thinking)


@_register_applier(ev.PermissionModeChanged)
def _apply_permission_mode_changed(state: "SessionState", event: ev.PermissionModeChanged, _: SessionEvent) -> None:
    state.settings = attrs.evolve(state.settings, permission_mode=event.mode)
    state.grants = ()  # a new mode starts without grants, so changing it revokes an "always"


@_register_applier(ev.SandboxPolicyChanged)
def _apply_sandbox_changed(state: "SessionState", event: ev.SandboxPolicyChanged, _: SessionEvent) -> None:
    state.settings = attrs.evolve(state.settings, sandbox=event.policy)


@_register_applier(ev.WorkingDirectoryChanged)
def _apply_cwd_changed(state: "SessionState", event: ev.WorkingDirectoryChanged, _: SessionEvent) -> None:
    state.settings = attrs.evolve(state.settings, cwd=event.cwd)


@_register_applier(ev.TurnLimitsChanged)
def _apply_limits_changed(state: "SessionState", event: ev.TurnLimitsChanged, _: SessionEvent) -> None:
    state.settings = attrs.evolve(state.settings, limits=event.limits)


# --- the conversation -------------------------------------------------------------------------------------------------


@_register_applier(ev.MessageAdded)
def _apply_message_added(state: "SessionState", event: ev.MessageAdded, envelope: SessionEvent) -> None:
    if event.queue_item_id is not None:
        quiet = any(item.quiet for item in state.queue if item.item_id == event.queue_item_id)
        state.queue = tuple(item for item in state.queue if item.item_id != event.queue_item_id)
        if state.turn is not None and state.turn.steps and not quiet:
            state.turn = attrs.evolve(state.turn, steered=True)
    if event.ended_call_id is not None:
        ended = {event.ended_call_id, *event.ended_calls}
        state.tools = tuple(tool for tool in state.tools if tool.call_id not in ended)
    before = state.head
    _add_messages(state, envelope)
    if event.message.parent_id != before:
        follow_head(state, before)


@_register_applier(ev.MessagesImported)
def _apply_messages_imported(state: "SessionState", event: ev.MessagesImported, envelope: SessionEvent) -> None:
    before = state.head
    _add_messages(state, envelope)
    state.head = event.head
    state.context_tokens = 0  # not known before the next answer
    state.driver_memory = None
    follow_head(state, before)


@_register_applier(ev.BranchSwitched)
def _apply_branch_switched(state: "SessionState", event: ev.BranchSwitched, _: SessionEvent) -> None:
    before, state.head = state.head, event.head
    state.context_tokens = 0
    state.driver_memory = None  # it belongs to the turn at the previous head
    follow_head(state, before)


@_register_applier(ev.ContextCleared)
def _apply_context_cleared(state: "SessionState", _event: ev.ContextCleared, _: SessionEvent) -> None:
    before, state.head = state.head, None
    state.context_tokens = 0
    state.driver_memory = None
    follow_head(state, before)


@_register_applier(ev.MessageStarted)
def _apply_message_started(state: "SessionState", event: ev.MessageStarted, envelope: SessionEvent) -> None:
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


@_register_applier(ev.PartStarted)
def _apply_part_started(state: "SessionState", event: ev.PartStarted, _: SessionEvent) -> None:
    partial = state.build_partial()
    if partial is None or partial.message_id != event.message_id:
        return
    state.growing = Rope()
    begun = PartialPart(kind=event.kind, text=state.growing, tool_name=event.tool_name)
    state.partial = attrs.evolve(partial, parts=(*partial.parts, begun))


@_register_applier(ev.PartDelta)
def _apply_part_delta(state: "SessionState", event: ev.PartDelta, _: SessionEvent) -> None:
    if state.growing is not None and state.partial is not None and state.partial.message_id == event.message_id:
        state.growing = state.growing.append(event.text)


@_register_applier(ev.MessageCompleted)
def _apply_message_completed(state: "SessionState", event: ev.MessageCompleted, envelope: SessionEvent) -> None:
    state.partial = state.growing = None
    _add_messages(state, envelope)
    used = event.message.usage
    if used is not None:
        state.context_tokens = used.tokens
        _add_usage(state, event.message.model or "", "turn", used)


def _add_usage(state: "SessionState", model: str, source: UsageSource, used: Usage) -> None:
    """Count the usage of a model call: in total, by model and purpose, and for the running turn."""
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


@_register_applier(ev.UsageRecorded)
def _apply_usage_recorded(state: "SessionState", event: ev.UsageRecorded, _: SessionEvent) -> None:
    _add_usage(state, event.model, event.source, event.usage)


@_register_applier(ev.PlanChanged)
def _apply_plan_changed(state: "SessionState", event: ev.PlanChanged, _: SessionEvent) -> None:
    state.plan = event.plan


@_register_applier(ev.MessageDiscarded)
def _apply_message_discarded(state: "SessionState", event: ev.MessageDiscarded, _: SessionEvent) -> None:
    if state.partial is not None and state.partial.message_id == event.message_id:
        state.partial = state.growing = None


# --- tools ------------------------------------------------------------------------------------------------------------


def _change_tool(state: "SessionState", call_id: CallId, change: Callable[[LiveTool], LiveTool]) -> None:
    state.tools = tuple(change(tool) if tool.call_id == call_id else tool for tool in state.tools)


@_register_applier(ev.ToolCallStarted)
def _apply_tool_started(state: "SessionState", event: ev.ToolCallStarted, envelope: SessionEvent) -> None:
    if any(tool.call_id == event.call_id for tool in state.tools):
        return
    started = LiveTool(
        call_id=event.call_id, name=event.name, arguments=event.arguments, started_at=envelope.at, output=""
    )
    state.tools = (*state.tools, started)
    if state.turn is not None:
        state.turn = attrs.evolve(state.turn, tool_calls=state.turn.tool_calls + 1)


@_register_applier(ev.TaskStarted)
def _apply_task_started(state: "SessionState", event: ev.TaskStarted, _: SessionEvent) -> None:
    _change_tool(state, event.call_id, lambda tool: attrs.evolve(tool, child_id=event.child_id))


@_register_applier(ev.ToolOutputDelta)
def _apply_tool_output_delta(state: "SessionState", event: ev.ToolOutputDelta, _: SessionEvent) -> None:
    _change_tool(
        state,
        event.call_id,
        lambda tool: attrs.evolve(tool, output=(tool.output + event.text)[-limits.MAX_LIVE_OUTPUT_CHARS :]),
    )


@_register_applier(ev.ToolCallFinished)
def _apply_tool_finished(state: "SessionState", event: ev.ToolCallFinished, envelope: SessionEvent) -> None:
    result = event.result
    if event.apart:
        state.tools = tuple(tool for tool in state.tools if tool.call_id != result.call_id)
    elif any(tool.call_id == result.call_id for tool in state.tools):
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


@_register_applier(ev.ToolResultsCommitted)
def _apply_results_committed(state: "SessionState", event: ev.ToolResultsCommitted, envelope: SessionEvent) -> None:
    _add_messages(state, envelope, {tool.call_id: tool.result for tool in state.tools if tool.result})
    state.tools = tuple(tool for tool in state.tools if tool.call_id not in event.call_ids)


# --- turns ------------------------------------------------------------------------------------------------------------


@_register_applier(ev.TurnStarted)
def _apply_turn_started(state: "SessionState", event: ev.TurnStarted, envelope: SessionEvent) -> None:
    state.turn = RunningTurn(
        turn_id=event.turn_id,
        started_at=envelope.at,
        output_schema=event.output_schema,
        extension=event.extension,
    )
    if not event.resumes:
        state.driver_memory = None


@_register_applier(ev.TurnEnded)
def _apply_turn_ended(state: "SessionState", event: ev.TurnEnded, _: SessionEvent) -> None:
    state.turn = state.stop = None
    state.last_outcome = event.outcome
    if event.outcome.status == "completed":
        state.driver_memory = None


@_register_applier(ev.StopRequested)
def _apply_stop_requested(state: "SessionState", event: ev.StopRequested, envelope: SessionEvent) -> None:
    state.stop = StopRequest(scope=event.scope, by=envelope.by, requested_at=envelope.at)


@_register_applier(ev.ActivityChanged)
def _apply_activity_changed(state: "SessionState", event: ev.ActivityChanged, _: SessionEvent) -> None:
    state.activity = event.activity


@_register_applier(ev.CompactionFinished)
def _apply_compaction_finished(state: "SessionState", event: ev.CompactionFinished, envelope: SessionEvent) -> None:
    state.stop = None
    if event.summary is not None:
        state.context_tokens = 0  # not known before the next answer
    _add_messages(state, envelope)


# --- queue, requests, wake-ups ----------------------------------------------------------------------------------------


@_register_applier(ev.MessageQueued)
def _apply_message_queued(state: "SessionState", event: ev.MessageQueued, _: SessionEvent) -> None:
    state.queue = (*state.queue, event.item)


@_register_applier(ev.QueueItemEdited)
def _apply_queue_item_edited(state: "SessionState", event: ev.QueueItemEdited, _: SessionEvent) -> None:
    state.queue = tuple(
        attrs.evolve(item, parts=event.parts) if item.item_id == event.item_id else item for item in state.queue
    )


@_register_applier(ev.QueueReordered)
def _apply_queue_reordered(state: "SessionState", event: ev.QueueReordered, _: SessionEvent) -> None:
    place = {item_id: index for index, item_id in enumerate(event.item_ids)}
    state.queue = tuple(sorted(state.queue, key=lambda item: place.get(item.item_id, len(place))))


@_register_applier(ev.QueueItemRemoved)
def _apply_queue_item_removed(state: "SessionState", event: ev.QueueItemRemoved, _: SessionEvent) -> None:
    state.queue = tuple(item for item in state.queue if item.item_id != event.item_id)


@_register_applier(ev.ApprovalRequested)
def _apply_approval_requested(state: "SessionState", event: ev.ApprovalRequested, _: SessionEvent) -> None:
    state.approvals = (*state.approvals, event.approval)


@_register_applier(ev.ApprovalResolved)
def _apply_approval_resolved(state: "SessionState", event: ev.ApprovalResolved, _: SessionEvent) -> None:
    state.approvals = tuple(each for each in state.approvals if each.request_id != event.request_id)
    if event.decision != "allow_session":
        return
    grants = tuple(dict.fromkeys((*state.grants, event.grant or event.tool_name)))
    if len(grants) <= limits.MAX_GRANTS and sum(map(len, grants)) <= limits.MAX_GRANT_CHARS:
        state.grants = grants


@_register_applier(ev.DialogOpened)
def _apply_dialog_opened(state: "SessionState", event: ev.DialogOpened, _: SessionEvent) -> None:
    state.dialogs = (*state.dialogs, event.dialog)


@_register_applier(ev.DialogClosed)
def _apply_dialog_closed(state: "SessionState", event: ev.DialogClosed, _: SessionEvent) -> None:
    state.dialogs = tuple(each for each in state.dialogs if each.request_id != event.answer.request_id)


@_register_applier(ev.WakeupScheduled)
def _apply_wakeup_scheduled(state: "SessionState", event: ev.WakeupScheduled, _: SessionEvent) -> None:
    state.wakeups = (*state.wakeups, event.wakeup)


def _drop_wakeup(state: "SessionState", wakeup_id: WakeupId) -> None:
    state.wakeups = tuple(each for each in state.wakeups if each.wakeup_id != wakeup_id)


@_register_applier(ev.WakeupCancelled)
def _apply_wakeup_cancelled(state: "SessionState", event: ev.WakeupCancelled, _: SessionEvent) -> None:
    _drop_wakeup(state, event.wakeup_id)


@_register_applier(ev.WakeupFired)
def _apply_wakeup_fired(state: "SessionState", event: ev.WakeupFired, _: SessionEvent) -> None:
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
"""Events that do not change a session's state: another event recorded with them does, they belong to no session (see
`session_list`), or they only inform."""
