"""Events: what has happened, in the past participle. `Event` is the closed union of them all.

Start and end come in pairs (`TurnStarted`/`TurnEnded`, `MessageStarted`/`MessageCompleted` or `MessageDiscarded`,
`ToolCallStarted`/`ToolCallFinished`, `ApprovalRequested`/`ApprovalResolved`, ...). Four events are transient details
that the matching end event repeats in full (`TRANSIENT_EVENTS`): they are streamed and folded, but not journalled
individually.
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
    """A session was created."""

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
    """A session was archived; it can still be read and restored."""


@attrs.frozen(kw_only=True)
class SessionRestored:
    """An archived session was restored."""


@attrs.frozen(kw_only=True)
class SessionDeleted:
    """A session was deleted; this is its last event."""


@attrs.frozen(kw_only=True)
class ModelSwitched:
    """Another model answers from the next model call on, or the same one reasons more or less."""

    model: str
    thinking: Thinking | None = None


@attrs.frozen(kw_only=True)
class PermissionModeChanged:
    """The permission mode changed: from now on it decides which tools need an approval."""

    mode: PermissionMode


@attrs.frozen(kw_only=True)
class SandboxPolicyChanged:
    """The sandbox policy changed for tools started from now on."""

    policy: SandboxPolicy


@attrs.frozen(kw_only=True)
class WorkingDirectoryChanged:
    """The working directory changed for tools started from now on."""

    cwd: str


@attrs.frozen(kw_only=True)
class TurnLimitsChanged:
    """The turn limits changed, for the running turn too."""

    limits: TurnLimits


# --- the conversation -------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class MessageAdded:
    """A finished message joined the tree and became its head; `queue_item_id` leaves the queue in the same step.

    `ended_call_id` is the person's command (`RunShellLine`) or the cell of code that the message reports on. It is no
    longer live, nor are `ended_calls`, the calls made by the cell.
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
    """A new conversation starts; the old one stays in the tree as another branch."""


@attrs.frozen(kw_only=True)
class MessageStarted:
    """The model was called; its answer is pending."""

    message_id: MessageId
    parent_id: MessageId | None
    turn_id: TurnId
    model: str


@attrs.frozen(kw_only=True)
class PartStarted:
    """The answer continues with a new part, which is the last part until the next one starts."""

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
    """The answer is complete, or marked as cut short; it replaces the half-finished one in the same step."""

    message: Message


@attrs.frozen(kw_only=True)
class MessageDiscarded:
    """A half-finished answer was discarded: the model call is retried, or it ended before producing anything."""

    message_id: MessageId
    reason: str


@attrs.frozen(kw_only=True)
class FilesRestored:
    """Files were restored to their content before some turns; `kept` files could not be restored and were left alone.

    `undo_turn_id` is what `TakeBackUndo` reverts; when an undo is reverted, that undo is in `turn_ids`.
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
    """A running tool has produced output."""

    call_id: CallId
    text: str


@attrs.frozen(kw_only=True)
class ToolCallFinished:
    """A tool call has its result, which later joins the conversation; one that is `apart` never does."""

    result: ToolResultPart
    apart: bool = False


@attrs.frozen(kw_only=True)
class ToolResultsCommitted:
    """All results of a step joined the conversation as one message, in the order of the calls."""

    message_id: MessageId
    parent_id: MessageId | None
    turn_id: TurnId | None
    call_ids: tuple[CallId, ...]


# --- turns ------------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class TurnStarted:
    """A turn started; with `output_schema` its answer must be JSON of that shape.

    `extension` is the data for the protocol that came with the message. One that `resumes` the last turn begins with
    what the protocol's driver had remembered there.
    """

    turn_id: TurnId
    output_schema: JsonObject | None = None
    extension: JsonObject | None = None
    resumes: bool = False


@attrs.frozen(kw_only=True)
class TurnEnded:
    """A turn ended, with any outcome."""

    outcome: TurnOutcome


@attrs.frozen(kw_only=True)
class ModelCallFailed:
    """A model call failed; if `retry_at` is set, it is retried then."""

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
    """The activity of the session changed."""

    activity: Activity


@attrs.frozen(kw_only=True)
class OutcomeDismissed:
    """Somebody acknowledged that the last turn failed or was stopped; the session is plain idle again."""


@attrs.frozen(kw_only=True)
class CompactionStarted:
    """A compaction of the conversation started."""


@attrs.frozen(kw_only=True)
class CompactionFinished:
    """The summary replaced the conversation, or `status` and `error` say why not."""

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
    """The agent changed its plan."""

    plan: tuple[PlanItem, ...]


# --- queue, requests, wake-ups ----------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class MessageQueued:
    """A message was queued."""

    item: QueueItem


@attrs.frozen(kw_only=True)
class QueueItemEdited:
    """A queued message was edited."""

    item_id: QueueItemId
    parts: tuple[UserPart, ...]


@attrs.frozen(kw_only=True)
class QueueReordered:
    """The queued messages were reordered."""

    item_ids: tuple[QueueItemId, ...]


@attrs.frozen(kw_only=True)
class QueueItemRemoved:
    """A queued message was removed, or taken back by its author."""

    item_id: QueueItemId
    because: Literal["removed", "taken", "returned"]


@attrs.frozen(kw_only=True)
class ApprovalRequested:
    """A tool call needs a person's approval."""

    approval: Approval


@attrs.frozen(kw_only=True)
class ApprovalResolved:
    """A tool call was allowed or denied; `message` is the person's message to the model."""

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
    """A message was scheduled for later delivery."""

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
    """A frontend attached; see `ClientPresence`."""

    client_id: ClientId
    role: ClientRole
    ui: tuple[UiKind, ...] = ()
    name: str = ""
    kind: ClientKind = "other"


@attrs.frozen(kw_only=True)
class ClientDetached:
    """A frontend detached."""

    client_id: ClientId


@attrs.frozen(kw_only=True)
class ConfigurationChanged:
    """Somebody changed the configuration.

    Attributes:
        changed: The keys of the settings that changed and are in force now.
        needs_restart: Those of them that take effect only after a restart of the program.
        problems: Why a changed file is not used, as sentences; everything then stays as it was.
        warnings: What was ignored in it, as sentences.
        folder: The folder whose sessions are affected; None means all sessions.
    """

    changed: tuple[str, ...] = ()
    needs_restart: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    folder: str | None = None


# --- the store --------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class StorageStopped:
    """Nothing is saved any more, for this reason: the service is read-only, and running work is interrupted."""

    reason: str


# --- extensions of the service (no session) ---------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ExtensionChanged:
    """An extension was added, changed its state, or changed what it provides."""

    extension: ExtensionInfo


@attrs.frozen(kw_only=True)
class ExtensionRemoved:
    """An extension was removed with everything it provided; `folder` is that of `ExtensionInfo`."""

    name: str
    folder: str | None = None


# --- extensions in a session ------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ExtensionDisplayed:
    """An extension changed what it displays.

    Omitted fields stay as they were; an empty text or object removes that part. If all three are omitted, everything
    that this extension displays is removed.
    """

    extension: str
    status: str | None = None
    widget: JsonObject | None = None
    title: str | None = None


@attrs.frozen(kw_only=True)
class EntryAppended:
    """An extension stored an entry with the session."""

    entry: ExtensionEntry


@attrs.frozen(kw_only=True)
class NoticeShown:
    """An extension showed people a one-time notice."""

    extension: str
    message: str
    level: NoticeLevel = "info"


@attrs.frozen(kw_only=True)
class ToolProgressed:
    """A running tool reported its progress, from 0 to 1; omitted fields stay as they were."""

    call_id: CallId
    message: str | None = None
    progress: float | None = None
    details: JsonValue = None


# --- protocols: options, frames, and what executors save --------------------------------------------------------------
@attrs.frozen(kw_only=True)
class ProtocolConfigured:
    """The protocol of a session continues with other options: given again at opening, migrated, or set by itself.

    `frames` are the frames whose own options have changed with them.
    """

    protocol: ProtocolRecord
    frames: tuple[Frame, ...] = ()


@attrs.frozen(kw_only=True)
class DriverRemembered:
    """The driver of a turn asked to remember this; None is nothing."""

    memory: JsonValue = None


@attrs.frozen(kw_only=True)
class FrameOpened:
    """The model starts a new conversation with this message; earlier messages stay in the tree.

    `left` is the previous frame and where it was left. The state that an executor had kept there is gone.
    """

    frame: Frame
    message: Message
    left: Frame


@attrs.frozen(kw_only=True)
class FrameEntered:
    """The conversation resumes in an earlier frame, with this message after its last one; see `FrameOpened`."""

    frame_id: str
    message: Message
    left: Frame


@attrs.frozen(kw_only=True)
class ExecutorStateSaved:
    """The state of an executor was saved, to resume from after a restart; None if there is no state.

    Attributes:
        earlier: How many earlier states are retained, the newest ones: people may go back there.
        earlier_leaves: The digests of the leaves that only those earlier states need.
        lost: The conversation contains code whose results are not in this state.
    """

    state: ExecutorState | None
    earlier: int = 0
    earlier_leaves: tuple[str, ...] = ()
    lost: bool = False


@attrs.frozen(kw_only=True)
class ProtocolFailed:
    """Protocol code failed outside a turn; what it was notified of stands, and it is restored before its next use."""

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
    | DriverRemembered
    | FrameOpened
    | FrameEntered
    | ExecutorStateSaved
    | ProtocolFailed
)


@attrs.frozen(slots=True)
class SessionEvent:
    """An event with its place in the order: the envelope that readers receive.

    `seq` counts all events of this run of the service, `sseq` those of this session (0 for app-wide events, which have
    no session). A reader that is far behind may get `merged` adjacent deltas as one event, with the last one's numbers.
    """

    seq: int
    sseq: int
    session_id: SessionId | None
    at: int
    event: Event
    by: ClientId | None = None
    merged: int = 1
    raw: bytes | None = attrs.field(default=None, init=False, eq=False, repr=False)
    """The encoded form, filled in on first use by `wire.codec` and shared by all network readers."""
