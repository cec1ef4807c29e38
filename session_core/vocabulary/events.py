"""Events: what has happened, in the past participle. `Event` is the closed union of them all.

Start and end come in pairs (`TurnStarted`/`TurnEnded`, `MessageStarted`/`MessageCompleted` or `MessageDiscarded`,
`ToolCallStarted`/`ToolCallFinished`, `ApprovalRequested`/`ApprovalResolved`, ...). Four events are passing details
of something whose end repeats them in full (`TRANSIENT_EVENTS`): they are streamed and folded, but not journalled one
by one.
"""

from typing import Literal

import attrs

from session_core.ids import CallId, ClientId, MessageId, QueueItemId, RequestId, SessionId, TurnId, WakeupId
from session_core.vocabulary.extensions import ExtensionEntry, ExtensionInfo, NoticeLevel, UiKind
from session_core.vocabulary.frozen import JsonObject, JsonValue
from session_core.vocabulary.messages import Message, PartKind, ToolResultPart, Usage, UserPart
from session_core.vocabulary.protocols import ExecutorState, Frame, ProtocolRecord
from session_core.vocabulary.sessions import (
    Activity,
    Approval,
    ClientKind,
    ClientRole,
    Decision,
    Dialog,
    DialogAnswer,
    ForkOrigin,
    PermissionMode,
    PlanItem,
    QueueItem,
    ResolvedBecause,
    SandboxPolicy,
    Settings,
    StopScope,
    Thinking,
    TurnLimits,
    TurnOutcome,
    TurnStatus,
    UsageSource,
    Wakeup,
)

# --- sessions ---------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class SessionCreated:
    """A session came into being."""

    name: str
    settings: Settings
    parent_id: SessionId | None = None
    forked_from: ForkOrigin | None = None
    protocol: ProtocolRecord = ProtocolRecord()


@attrs.frozen(kw_only=True)
class SessionRenamed:
    """A session got a new name."""

    name: str


@attrs.frozen(kw_only=True)
class SessionArchived:
    """A session was put away; it can still be read and restored."""


@attrs.frozen(kw_only=True)
class SessionRestored:
    """An archived session came back."""


@attrs.frozen(kw_only=True)
class SessionDeleted:
    """A session is gone; this is the last event it ever has."""


@attrs.frozen(kw_only=True)
class ModelSwitched:
    """Another model answers from the next model call on, or the same one reasons more or less."""

    model: str
    thinking: Thinking | None = None


@attrs.frozen(kw_only=True)
class PermissionModeChanged:
    """Another rule decides from now on which tools need a yes."""

    mode: PermissionMode


@attrs.frozen(kw_only=True)
class SandboxPolicyChanged:
    """Another confinement holds for tools started from now on."""

    policy: SandboxPolicy


@attrs.frozen(kw_only=True)
class WorkingDirectoryChanged:
    """Tools started from now on work in another directory."""

    cwd: str


@attrs.frozen(kw_only=True)
class TurnLimitsChanged:
    """Turns may use more or less from now on, the running one included."""

    limits: TurnLimits


# --- the conversation -------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class MessageAdded:
    """A finished message joined the tree and became its head; `queue_item_id` leaves the queue in the same step.

    `ended_call_id` is the command of a person (`RunShellLine`), or the cell of code, that the message tells of: it is
    not live any more, nor are `ended_calls`, which the cell has made.
    """

    message: Message
    queue_item_id: QueueItemId | None = None
    ended_call_id: CallId | None = None
    ended_calls: tuple[CallId, ...] = ()


@attrs.frozen(kw_only=True)
class MessagesImported:
    """A fork took over a conversation, or an old branch came back into view; `head` is the last of the messages."""

    messages: tuple[Message, ...]
    head: MessageId | None


@attrs.frozen(kw_only=True)
class BranchSwitched:
    """Another leaf of the tree is shown and continued."""

    head: MessageId | None


@attrs.frozen(kw_only=True)
class ContextCleared:
    """The conversation starts afresh; the old one stays in the tree as another branch."""


@attrs.frozen(kw_only=True)
class MessageStarted:
    """The model was asked and its answer has begun to be awaited."""

    message_id: MessageId
    parent_id: MessageId | None
    turn_id: TurnId
    model: str


@attrs.frozen(kw_only=True)
class PartStarted:
    """The answer goes on with a new part; it is the last part until the next one starts."""

    message_id: MessageId
    kind: PartKind
    tool_name: str | None = None


@attrs.frozen(kw_only=True)
class PartDelta:
    """A piece of the last part of the answer: text, thinking, or JSON of tool arguments."""

    message_id: MessageId
    text: str


@attrs.frozen(kw_only=True)
class MessageCompleted:
    """The answer is whole, or was cut short and says so; it replaces the half-finished one in the same step."""

    message: Message


@attrs.frozen(kw_only=True)
class MessageDiscarded:
    """A half-finished answer was withdrawn: the model call is tried again, or it ended before anything was said."""

    message_id: MessageId
    reason: str


@attrs.frozen(kw_only=True)
class FilesRestored:
    """Files are again what they were before some turns; `kept` ones could not be brought back and were left alone.

    `undo_turn_id` is what `TakeBackUndo` takes back; when an undo is taken back, that undo is in `turn_ids`.
    """

    turn_ids: tuple[TurnId, ...]
    restored: tuple[str, ...]
    removed: tuple[str, ...]
    kept: tuple[str, ...]
    undo_turn_id: TurnId | None = None


# --- tools ------------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ToolCallStarted:
    """A tool is about to run."""

    call_id: CallId
    name: str
    arguments: JsonObject


@attrs.frozen(kw_only=True)
class TaskStarted:
    """A running tool handed its work to a child session."""

    call_id: CallId
    child_id: SessionId


@attrs.frozen(kw_only=True)
class ToolOutputDelta:
    """A running tool has said something."""

    call_id: CallId
    text: str


@attrs.frozen(kw_only=True)
class ToolCallFinished:
    """A tool call has its result."""

    result: ToolResultPart


@attrs.frozen(kw_only=True)
class ToolResultsCommitted:
    """All results of a step joined the conversation as one message, in the order of the calls."""

    message_id: MessageId
    parent_id: MessageId | None
    turn_id: TurnId | None
    call_ids: tuple[CallId, ...]


# `events` collects them all.
# --- turns ------------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class TurnStarted:
    """The agent began to work; with `output_schema` its answer must be JSON of that shape.

    `extension` is what came with the message for the protocol.
    """

    turn_id: TurnId
    output_schema: JsonObject | None = None
    extension: JsonObject | None = None


@attrs.frozen(kw_only=True)
class TurnEnded:
    """The agent is done, one way or another."""

    outcome: TurnOutcome


@attrs.frozen(kw_only=True)
class ModelCallFailed:
    """A model call failed; with `retry_at` it is tried again then."""

    kind: str
    message: str
    attempt: int
    retry_at: int | None


@attrs.frozen(kw_only=True)
class StopRequested:
    """Somebody asked for a stop; the turn is being cancelled."""

    scope: StopScope


@attrs.frozen(kw_only=True)
class ActivityChanged:
    """The session does something else now."""

    activity: Activity


@attrs.frozen(kw_only=True)
class OutcomeDismissed:
    """Somebody has seen that the last turn failed or was stopped; the session is simply idle again."""


@attrs.frozen(kw_only=True)
class CompactionStarted:
    """The conversation is being summarised."""


@attrs.frozen(kw_only=True)
class CompactionFinished:
    """The summary has taken the place of the conversation, or `status` and `error` say why not."""

    status: TurnStatus
    summary: Message | None = None
    error: str | None = None


@attrs.frozen(kw_only=True)
class UsageRecorded:
    """A model was used for something that leaves no answer in the conversation: a summary, or a child session."""

    model: str
    source: UsageSource
    usage: Usage


@attrs.frozen(kw_only=True)
class PlanChanged:
    """The agent means to do this."""

    plan: tuple[PlanItem, ...]


# --- queue, requests, wake-ups ----------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class MessageQueued:
    """A message waits for its moment."""

    item: QueueItem


@attrs.frozen(kw_only=True)
class QueueItemEdited:
    """A waiting message was rewritten."""

    item_id: QueueItemId
    parts: tuple[UserPart, ...]


@attrs.frozen(kw_only=True)
class QueueReordered:
    """Waiting messages stand in another order."""

    item_ids: tuple[QueueItemId, ...]


@attrs.frozen(kw_only=True)
class QueueItemRemoved:
    """A waiting message was thrown away, or taken back by its author."""

    item_id: QueueItemId
    because: Literal["removed", "taken", "returned"]


@attrs.frozen(kw_only=True)
class ApprovalRequested:
    """A tool call needs a person's yes."""

    approval: Approval


@attrs.frozen(kw_only=True)
class ApprovalResolved:
    """A tool call got its yes or no; `message` is what the person wants the model to know."""

    request_id: RequestId
    tool_name: str
    decision: Decision
    because: ResolvedBecause
    grant: str = ""
    message: str = ""


@attrs.frozen(kw_only=True)
class DialogOpened:
    """An extension asks a person something."""

    dialog: Dialog


@attrs.frozen(kw_only=True)
class DialogClosed:
    """The question was answered or withdrawn."""

    answer: DialogAnswer


@attrs.frozen(kw_only=True)
class WakeupScheduled:
    """A message will be delivered later by itself."""

    wakeup: Wakeup


@attrs.frozen(kw_only=True)
class WakeupCancelled:
    """A scheduled message will not be delivered."""

    wakeup_id: WakeupId


@attrs.frozen(kw_only=True)
class WakeupFired:
    """A scheduled message is due and was delivered."""

    wakeup_id: WakeupId


# --- the service as a whole (no session) ------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ClientAttached:
    """A frontend came; see `ClientPresence`."""

    client_id: ClientId
    role: ClientRole
    ui: tuple[UiKind, ...] = ()
    name: str = ""
    kind: ClientKind = "other"


@attrs.frozen(kw_only=True)
class ClientDetached:
    """A frontend went."""

    client_id: ClientId


@attrs.frozen(kw_only=True)
class ConfigurationChanged:
    """Somebody changed the configuration.

    Attributes:
        changed: The settings that differ from before and are in force now, by their keys.
        needs_restart: Those of them that count only when the program starts again.
        problems: Why a changed file is not used, as sentences; then everything stays as it was.
        warnings: What is passed over in it, as sentences.
        folder: Whose sessions it is about; all of them if there is none.
    """

    changed: tuple[str, ...] = ()
    needs_restart: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    folder: str | None = None


# --- the store --------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class StorageStopped:
    """Nothing is saved any more, for this reason: the service is read-only, and what runs is interrupted."""

    reason: str


# `events` collects them all.
# --- extensions of the service (no session) ---------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ExtensionChanged:
    """An extension came, or is in another state, or brings something else."""

    extension: ExtensionInfo


@attrs.frozen(kw_only=True)
class ExtensionRemoved:
    """An extension is gone, with everything it brought; `folder` is that of `ExtensionInfo`."""

    name: str
    folder: str | None = None


# --- extensions in a session ------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ExtensionDisplayed:
    """An extension shows something else from now on.

    What is left out stays as it was; an empty text or object takes it away. When all three are left out, nothing of
    this extension is shown any more.
    """

    extension: str
    status: str | None = None
    widget: JsonObject | None = None
    title: str | None = None


@attrs.frozen(kw_only=True)
class EntryAppended:
    """An extension keeps something with the session."""

    entry: ExtensionEntry


@attrs.frozen(kw_only=True)
class NoticeShown:
    """An extension tells people something, once."""

    extension: str
    message: str
    level: NoticeLevel = "info"


@attrs.frozen(kw_only=True)
class ToolProgressed:
    """A running tool tells how far it is, from 0 to 1; what is left out stays as it was."""

    call_id: CallId
    message: str | None = None
    progress: float | None = None
    details: JsonValue = None


# --- protocols: options, frames, and what executors save --------------------------------------------------------------
@attrs.frozen(kw_only=True)
class ProtocolConfigured:
    """The protocol of a session goes on with other options: supplied anew at an opening, or in a newer form."""

    protocol: ProtocolRecord


@attrs.frozen(kw_only=True)
class FrameOpened:
    """The conversation begins anew for the model, with this message; what came before stays in the tree.

    `left` is the frame before, and where it was left. Whatever an executor had kept there is gone.
    """

    frame: Frame
    message: Message
    left: Frame


@attrs.frozen(kw_only=True)
class FrameEntered:
    """The conversation goes on in an earlier frame, with this message after where that was left; see `FrameOpened`."""

    frame_id: str
    message: Message
    left: Frame


@attrs.frozen(kw_only=True)
class ExecutorStateSaved:
    """What an executor has is kept, to go on from after a restart; None when there is nothing.

    Attributes:
        earlier: How many of the states that were kept before stay, the newest of them: people may go back there.
        earlier_leaves: The leaves that stay for those, and that this state does not name, by their digests.
        lost: The conversation has code in it whose work is not in this state.
    """

    state: ExecutorState | None
    earlier: int = 0
    earlier_leaves: tuple[str, ...] = ()
    lost: bool = False


@attrs.frozen(kw_only=True)
class ProtocolFailed:
    """Code of a protocol has failed outside of a turn; what it was told of stands, and it is restored before its next
    use."""

    protocol: str
    callback: str
    reason: str
    message_id: MessageId | None = None


# --- events -----------------------------------------------------------------------------------------------------------

TRANSIENT_EVENTS = (PartStarted, PartDelta, ToolOutputDelta, ToolProgressed)
DELTA_EVENTS = (PartDelta, ToolOutputDelta)

Event = (
    SessionCreated
    | SessionRenamed
    | SessionArchived
    | SessionRestored
    | SessionDeleted
    | ModelSwitched
    | PermissionModeChanged
    | SandboxPolicyChanged
    | WorkingDirectoryChanged
    | TurnLimitsChanged
    | MessageAdded
    | MessagesImported
    | BranchSwitched
    | ContextCleared
    | FilesRestored
    | MessageStarted
    | PartStarted
    | PartDelta
    | MessageCompleted
    | MessageDiscarded
    | ToolCallStarted
    | TaskStarted
    | ToolOutputDelta
    | ToolCallFinished
    | ToolResultsCommitted
    | TurnStarted
    | TurnEnded
    | ModelCallFailed
    | StopRequested
    | ActivityChanged
    | OutcomeDismissed
    | CompactionStarted
    | CompactionFinished
    | UsageRecorded
    | PlanChanged
    | MessageQueued
    | QueueItemEdited
    | QueueReordered
    | QueueItemRemoved
    | ApprovalRequested
    | ApprovalResolved
    | DialogOpened
    | DialogClosed
    | WakeupScheduled
    | WakeupCancelled
    | WakeupFired
    | ClientAttached
    | ClientDetached
    | ConfigurationChanged
    | StorageStopped
    | ExtensionChanged
    | ExtensionRemoved
    | ExtensionDisplayed
    | EntryAppended
    | NoticeShown
    | ToolProgressed
    | ProtocolConfigured
    | FrameOpened
    | FrameEntered
    | ExecutorStateSaved
    | ProtocolFailed
)


@attrs.frozen(slots=True)
class SessionEvent:
    """An event with its place in the order: the envelope that readers receive.

    `seq` counts all events of this run of the service, `sseq` those of this session (0 for app-wide events, which
    have no session). A reader far behind may get `merged` adjacent deltas as one; `seq` and `sseq` are then the last.
    """

    seq: int
    sseq: int
    session_id: SessionId | None
    at: int
    event: Event
    by: ClientId | None = None
    merged: int = 1
    raw: bytes | None = attrs.field(default=None, init=False, eq=False, repr=False)
    """The encoded form, filled at its first use by `wire.codec` and shared by all network readers."""
