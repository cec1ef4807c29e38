"""Commands: what a client may ask for, in the imperative, each bound to the type of its reply.

`lane` says how a command runs: `mailbox` in order with all others; `beside` at once, ahead of whatever waits (stop and
answers, law 6). `reads_only` commands change nothing, so observers may send them too.
"""

from typing import Any, ClassVar, get_args

from session_core.ids import LOCAL_CLIENT, ClientId, QueueItemId, RequestId, SessionId, TurnId, WakeupId
from session_core.vocabulary import replies
from session_core.vocabulary.argument_checks import checked_value
from session_core.vocabulary.extension_commands import (
    AppendEntry as AppendEntry,
)
from session_core.vocabulary.extension_commands import (
    CompleteCommand as CompleteCommand,
)
from session_core.vocabulary.extension_commands import (
    DisableExtension as DisableExtension,
)
from session_core.vocabulary.extension_commands import (
    EnableExtension as EnableExtension,
)
from session_core.vocabulary.extension_commands import (
    ListCommands as ListCommands,
)
from session_core.vocabulary.extension_commands import (
    ListExtensions as ListExtensions,
)
from session_core.vocabulary.extension_commands import (
    LoginToProvider as LoginToProvider,
)
from session_core.vocabulary.extension_commands import (
    PostMessage as PostMessage,
)
from session_core.vocabulary.extension_commands import (
    PressWidgetKey as PressWidgetKey,
)
from session_core.vocabulary.extension_commands import (
    ReloadExtension as ReloadExtension,
)
from session_core.vocabulary.extension_commands import (
    RunCommand as RunCommand,
)
from session_core.vocabulary.extension_commands import (
    ShowDisplay as ShowDisplay,
)
from session_core.vocabulary.extension_commands import (
    ShowNotice as ShowNotice,
)
from session_core.vocabulary.frozen import JsonValue
from session_core.vocabulary.message_commands import (
    ClearContext as ClearContext,
)
from session_core.vocabulary.message_commands import (
    CompactContext as CompactContext,
)
from session_core.vocabulary.message_commands import (
    DismissOutcome as DismissOutcome,
)
from session_core.vocabulary.message_commands import (
    EditMessage as EditMessage,
)
from session_core.vocabulary.message_commands import (
    RestoreToMessage as RestoreToMessage,
)
from session_core.vocabulary.message_commands import (
    ResumeSession as ResumeSession,
)
from session_core.vocabulary.message_commands import (
    SendUserMessage as SendUserMessage,
)
from session_core.vocabulary.message_commands import (
    StartTurnIfIdle as StartTurnIfIdle,
)
from session_core.vocabulary.message_commands import (
    SwitchBranch as SwitchBranch,
)
from session_core.vocabulary.message_commands import (
    TakeBackUndo as TakeBackUndo,
)
from session_core.vocabulary.message_commands import (
    WaitForTurn as WaitForTurn,
)
from session_core.vocabulary.messages import ImagePart
from session_core.vocabulary.protocol_commands import (
    AppendMessages as AppendMessages,
)
from session_core.vocabulary.protocol_commands import (
    ApplyExtension as ApplyExtension,
)
from session_core.vocabulary.protocol_commands import (
    ListProtocols as ListProtocols,
)
from session_core.vocabulary.session_commands import (
    ArchiveSession as ArchiveSession,
)
from session_core.vocabulary.session_commands import (
    Command as Command,
)
from session_core.vocabulary.session_commands import (
    CreateSession as CreateSession,
)
from session_core.vocabulary.session_commands import (
    DeleteSession as DeleteSession,
)
from session_core.vocabulary.session_commands import (
    FindFiles as FindFiles,
)
from session_core.vocabulary.session_commands import (
    ForkSession as ForkSession,
)
from session_core.vocabulary.session_commands import (
    Lane as Lane,
)
from session_core.vocabulary.session_commands import (
    ListModels as ListModels,
)
from session_core.vocabulary.session_commands import (
    ListSessions as ListSessions,
)
from session_core.vocabulary.session_commands import (
    LoadMessages as LoadMessages,
)
from session_core.vocabulary.session_commands import (
    LoadService as LoadService,
)
from session_core.vocabulary.session_commands import (
    LoadSession as LoadSession,
)
from session_core.vocabulary.session_commands import (
    RenameSession as RenameSession,
)
from session_core.vocabulary.session_commands import (
    RestoreSession as RestoreSession,
)
from session_core.vocabulary.session_commands import (
    RunShellLine as RunShellLine,
)
from session_core.vocabulary.session_commands import (
    SearchMessages as SearchMessages,
)
from session_core.vocabulary.sessions import (
    Decision,
    DialogKind,
    PermissionTier,
    QueueOnStop,
    SandboxPolicy,
    StopScope,
    Thinking,
    TurnLimits,
)

# --- the queue --------------------------------------------------------------------------------------------------------


@checked_value
class ListQueue(Command[replies.QueueReply]):
    """List the messages that wait."""

    reads_only: ClassVar[bool] = True
    session_id: SessionId


@checked_value
class EditQueueItem(Command[replies.Acknowledged]):
    """Rewrite a waiting message."""

    session_id: SessionId
    item_id: QueueItemId
    text: str
    images: tuple[ImagePart, ...] = ()


@checked_value
class ReorderQueue(Command[replies.Acknowledged]):
    """Put the waiting messages into this order; every one must be named once."""

    session_id: SessionId
    item_ids: tuple[QueueItemId, ...]


@checked_value
class RemoveQueueItem(Command[replies.Acknowledged]):
    """Throw a waiting message away."""

    session_id: SessionId
    item_id: QueueItemId


@checked_value
class TakeQueue(Command[replies.QueueReply]):
    """Take waiting messages back, to edit them again: the named one, or all."""

    session_id: SessionId
    item_id: QueueItemId | None = None


# --- settings ---------------------------------------------------------------------------------------------------------


@checked_value
class SwitchModel(Command[replies.SwitchModelReply]):
    """Let another model answer, or have it reason more or less."""

    session_id: SessionId
    model: str
    thinking: Thinking | None = None


@checked_value
class ChangePermissionTier(Command[replies.Acknowledged]):
    """Change which tools need a person's yes, from the next tool call on."""

    session_id: SessionId
    tier: PermissionTier


@checked_value
class ChangeSandboxPolicy(Command[replies.Acknowledged]):
    """Change the confinement of tools, from the next tool call on."""

    session_id: SessionId
    policy: SandboxPolicy


@checked_value
class ChangeWorkingDirectory(Command[replies.Acknowledged]):
    """Change where tools work, from the next tool call on."""

    session_id: SessionId
    cwd: str


@checked_value
class ChangeTurnLimits(Command[replies.Acknowledged]):
    """Change what one turn may use, for the running turn too; limits that are left out no longer hold.

    While a session works as another one's helper, it shares the tokens and the money of that one's turn.
    """

    session_id: SessionId
    limits: TurnLimits


# --- requests to people, wake-ups, stop -------------------------------------------------------------------------------


@checked_value
class OpenDialog(Command[replies.DialogReply]):
    """Ask whoever watches the session; replies when somebody has answered or time is up.

    `default` is what an input starts with. `extension` is on whose behalf somebody is asked. `to` is the one client
    that is asked; by default everybody is. `turn_id` is the turn that waits for the answer, if it runs.
    """

    session_id: SessionId
    kind: DialogKind
    title: str
    message: str = ""
    choices: tuple[str, ...] = ()
    timeout_ms: int | None = None
    default: str = ""
    extension: str | None = None
    to: ClientId | None = None
    turn_id: TurnId | None = None


@checked_value
class AnswerDialog(Command[replies.AnswerReply]):
    """Answer a dialog; the first answer wins."""

    lane: ClassVar[Lane] = "beside"
    session_id: SessionId
    request_id: RequestId
    value: JsonValue = None


@checked_value
class AnswerApproval(Command[replies.AnswerReply]):
    """Say yes or no to a tool call; the first answer wins.

    `fingerprint` is that of the approval which was shown: an answer to anything else is refused. `message` tells the
    model why not, or what to do instead.
    """

    lane: ClassVar[Lane] = "beside"
    session_id: SessionId
    request_id: RequestId
    decision: Decision
    fingerprint: str | None = None
    message: str = ""


@checked_value
class ScheduleWakeup(Command[replies.ScheduleWakeupReply]):
    """Deliver a message by itself after a while."""

    session_id: SessionId
    delay_ms: int
    text: str


@checked_value
class CancelWakeup(Command[replies.Acknowledged]):
    """Do not deliver a scheduled message after all."""

    session_id: SessionId
    wakeup_id: WakeupId


@checked_value
class RequestStop(Command[replies.StopOutcome]):
    """Stop a session's turn now (`turn`), also those of its child sessions (`subtree`), or all it has (`session`)."""

    lane: ClassVar[Lane] = "beside"
    session_id: SessionId
    scope: StopScope = "turn"
    queue: QueueOnStop = "keep"


COMMANDS: tuple[type[Command[Any]], ...] = (
    CreateSession,
    ListSessions,
    LoadService,
    LoadSession,
    LoadMessages,
    SearchMessages,
    ListModels,
    FindFiles,
    RenameSession,
    ArchiveSession,
    RestoreSession,
    DeleteSession,
    ForkSession,
    SendUserMessage,
    StartTurnIfIdle,
    RunShellLine,
    EditMessage,
    SwitchBranch,
    ResumeSession,
    DismissOutcome,
    WaitForTurn,
    ClearContext,
    CompactContext,
    RestoreToMessage,
    TakeBackUndo,
    ListQueue,
    EditQueueItem,
    ReorderQueue,
    RemoveQueueItem,
    TakeQueue,
    SwitchModel,
    ChangePermissionTier,
    ChangeSandboxPolicy,
    ChangeWorkingDirectory,
    ChangeTurnLimits,
    OpenDialog,
    AnswerDialog,
    AnswerApproval,
    ScheduleWakeup,
    CancelWakeup,
    RequestStop,
    ListExtensions,
    ListCommands,
    RunCommand,
    CompleteCommand,
    ReloadExtension,
    EnableExtension,
    DisableExtension,
    PressWidgetKey,
    PostMessage,
    AppendEntry,
    ShowDisplay,
    ShowNotice,
    LoginToProvider,
    ListProtocols,
    AppendMessages,
    ApplyExtension,
)


def reply_type(command: type[Command[Any]]) -> type:
    """Return the class of the reply to a command."""
    base: Any = command.__orig_bases__[0]  # type: ignore[attr-defined]
    reply: type = get_args(base)[0]
    return reply


@checked_value
class CommandRequest:
    """A command on its way, with who sends it and the key that makes a retry safe."""

    command: Command[Any]
    client_id: ClientId = LOCAL_CLIENT
    idempotency_key: str | None = None
