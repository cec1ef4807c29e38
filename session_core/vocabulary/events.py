"""Events: what has happened, in the past participle. `Event` is the closed union of them all.

Start and end come in pairs (`TurnStarted`/`TurnEnded`, `MessageStarted`/`MessageCompleted` or `MessageDiscarded`,
`ToolCallStarted`/`ToolCallFinished`, `ApprovalRequested`/`ApprovalResolved`, ...). Four events are passing details
of something whose end repeats them in full (`PASSING`): they are streamed and folded, but not journalled one by one.
"""

import attrs

from session_core.ids import ClientId, SessionId
from session_core.vocabulary.conversation_events import (
    BranchSwitched as BranchSwitched,
)
from session_core.vocabulary.conversation_events import (
    ContextCleared as ContextCleared,
)
from session_core.vocabulary.conversation_events import (
    FilesRestored as FilesRestored,
)
from session_core.vocabulary.conversation_events import (
    MessageAdded as MessageAdded,
)
from session_core.vocabulary.conversation_events import (
    MessageCompleted as MessageCompleted,
)
from session_core.vocabulary.conversation_events import (
    MessageDiscarded as MessageDiscarded,
)
from session_core.vocabulary.conversation_events import (
    MessagesImported as MessagesImported,
)
from session_core.vocabulary.conversation_events import (
    MessageStarted as MessageStarted,
)
from session_core.vocabulary.conversation_events import (
    ModelSwitched as ModelSwitched,
)
from session_core.vocabulary.conversation_events import (
    PartDelta as PartDelta,
)
from session_core.vocabulary.conversation_events import (
    PartStarted as PartStarted,
)
from session_core.vocabulary.conversation_events import (
    PermissionTierChanged as PermissionTierChanged,
)
from session_core.vocabulary.conversation_events import (
    SandboxPolicyChanged as SandboxPolicyChanged,
)
from session_core.vocabulary.conversation_events import (
    SessionArchived as SessionArchived,
)
from session_core.vocabulary.conversation_events import (
    SessionCreated as SessionCreated,
)
from session_core.vocabulary.conversation_events import (
    SessionDeleted as SessionDeleted,
)
from session_core.vocabulary.conversation_events import (
    SessionRenamed as SessionRenamed,
)
from session_core.vocabulary.conversation_events import (
    SessionRestored as SessionRestored,
)
from session_core.vocabulary.conversation_events import (
    TaskStarted as TaskStarted,
)
from session_core.vocabulary.conversation_events import (
    ToolCallFinished as ToolCallFinished,
)
from session_core.vocabulary.conversation_events import (
    ToolCallStarted as ToolCallStarted,
)
from session_core.vocabulary.conversation_events import (
    ToolOutputDelta as ToolOutputDelta,
)
from session_core.vocabulary.conversation_events import (
    ToolResultsCommitted as ToolResultsCommitted,
)
from session_core.vocabulary.conversation_events import (
    TurnLimitsChanged as TurnLimitsChanged,
)
from session_core.vocabulary.conversation_events import (
    WorkingDirectoryChanged as WorkingDirectoryChanged,
)
from session_core.vocabulary.extension_events import (
    EntryAppended as EntryAppended,
)
from session_core.vocabulary.extension_events import (
    ExtensionChanged as ExtensionChanged,
)
from session_core.vocabulary.extension_events import (
    ExtensionDisplayed as ExtensionDisplayed,
)
from session_core.vocabulary.extension_events import (
    ExtensionRemoved as ExtensionRemoved,
)
from session_core.vocabulary.extension_events import (
    NoticeShown as NoticeShown,
)
from session_core.vocabulary.extension_events import (
    ToolProgressed as ToolProgressed,
)
from session_core.vocabulary.protocol_events import (
    ExecutorStateSaved as ExecutorStateSaved,
)
from session_core.vocabulary.protocol_events import (
    FrameEntered as FrameEntered,
)
from session_core.vocabulary.protocol_events import (
    FrameOpened as FrameOpened,
)
from session_core.vocabulary.protocol_events import (
    ProtocolConfigured as ProtocolConfigured,
)
from session_core.vocabulary.protocol_events import (
    ProtocolFailed as ProtocolFailed,
)
from session_core.vocabulary.work_events import (
    ActivityChanged as ActivityChanged,
)
from session_core.vocabulary.work_events import (
    ApprovalRequested as ApprovalRequested,
)
from session_core.vocabulary.work_events import (
    ApprovalResolved as ApprovalResolved,
)
from session_core.vocabulary.work_events import (
    ClientAttached as ClientAttached,
)
from session_core.vocabulary.work_events import (
    ClientDetached as ClientDetached,
)
from session_core.vocabulary.work_events import (
    CompactionFinished as CompactionFinished,
)
from session_core.vocabulary.work_events import (
    CompactionStarted as CompactionStarted,
)
from session_core.vocabulary.work_events import (
    ConfigurationChanged as ConfigurationChanged,
)
from session_core.vocabulary.work_events import (
    DialogClosed as DialogClosed,
)
from session_core.vocabulary.work_events import (
    DialogOpened as DialogOpened,
)
from session_core.vocabulary.work_events import (
    MessageQueued as MessageQueued,
)
from session_core.vocabulary.work_events import (
    ModelCallFailed as ModelCallFailed,
)
from session_core.vocabulary.work_events import (
    OutcomeDismissed as OutcomeDismissed,
)
from session_core.vocabulary.work_events import (
    PlanChanged as PlanChanged,
)
from session_core.vocabulary.work_events import (
    QueueItemEdited as QueueItemEdited,
)
from session_core.vocabulary.work_events import (
    QueueItemRemoved as QueueItemRemoved,
)
from session_core.vocabulary.work_events import (
    QueueReordered as QueueReordered,
)
from session_core.vocabulary.work_events import (
    StopRequested as StopRequested,
)
from session_core.vocabulary.work_events import (
    StorageStopped as StorageStopped,
)
from session_core.vocabulary.work_events import (
    TurnEnded as TurnEnded,
)
from session_core.vocabulary.work_events import (
    TurnStarted as TurnStarted,
)
from session_core.vocabulary.work_events import (
    UsageRecorded as UsageRecorded,
)
from session_core.vocabulary.work_events import (
    WakeupCancelled as WakeupCancelled,
)
from session_core.vocabulary.work_events import (
    WakeupFired as WakeupFired,
)
from session_core.vocabulary.work_events import (
    WakeupScheduled as WakeupScheduled,
)

PASSING = (PartStarted, PartDelta, ToolOutputDelta, ToolProgressed)
DELTAS = (PartDelta, ToolOutputDelta)

Event = (
    SessionCreated
    | SessionRenamed
    | SessionArchived
    | SessionRestored
    | SessionDeleted
    | ModelSwitched
    | PermissionTierChanged
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
