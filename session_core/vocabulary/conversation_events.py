"""Events of sessions, their conversation and the tools used in it. `events` collects them all."""

import attrs

from session_core.ids import CallId, MessageId, QueueItemId, SessionId, TurnId
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message, PartKind, ToolResultPart
from session_core.vocabulary.protocols import ProtocolRecord
from session_core.vocabulary.sessions import ForkOrigin, PermissionTier, SandboxPolicy, Settings, Thinking, TurnLimits

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
class PermissionTierChanged:
    """Another rule decides from now on which tools need a yes."""

    tier: PermissionTier


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
