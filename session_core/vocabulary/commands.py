"""Commands: what a client may ask for, in the imperative, each bound to the type of its reply.

`lane` says how a command runs: `mailbox` in order with all others; `beside` at once, ahead of whatever waits (stop and
answers, law 6). `reads_only` commands change nothing, so observers may send them too.
"""

from typing import Any, ClassVar, get_args

from session_core.ids import LOCAL_CLIENT, ClientId, MessageId, QueueItemId, RequestId, SessionId, TurnId, WakeupId
from session_core.vocabulary import replies
from session_core.vocabulary.checks import checked_value
from session_core.vocabulary.frozen import JsonObject, JsonValue
from session_core.vocabulary.messages import FilePart, ImagePart
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
    ForkSession as ForkSession,
)
from session_core.vocabulary.session_commands import (
    Lane as Lane,
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
    SearchMessages as SearchMessages,
)
from session_core.vocabulary.sessions import (
    Decision,
    DeliverAs,
    DialogKind,
    PermissionTier,
    QueueOnStop,
    SandboxPolicy,
    StopScope,
    Thinking,
)

# --- messages ---------------------------------------------------------------------------------------------------------


@checked_value
class SendUserMessage(Command[replies.SendUserMessageReply]):
    """Say something to the agent: starts a turn when the session is at rest, else waits as `deliver_as` says.

    `steer` is read between two steps of the running turn, `follow_up` when it would otherwise end, `next_turn` at the
    start of the next turn (and starts none by itself). What still waits when a turn is stopped or fails stays in the
    queue, for people to see, and goes out with the next turn. With `output_schema` the turn's answer is JSON of that
    shape (the outcome's `output`); such a message needs a session at rest.
    """

    session_id: SessionId
    text: str
    images: tuple[ImagePart, ...] = ()
    files: tuple[FilePart, ...] = ()
    deliver_as: DeliverAs = "follow_up"
    output_schema: JsonObject | None = None


@checked_value
class StartTurnIfIdle(Command[replies.StartTurnReply]):
    """Start a turn with this message if the session is at rest; otherwise do nothing and say so."""

    session_id: SessionId
    text: str
    images: tuple[ImagePart, ...] = ()
    files: tuple[FilePart, ...] = ()


@checked_value
class EditMessage(Command[replies.SendUserMessageReply]):
    """Say an earlier user message differently: the new one becomes a sibling branch and starts a turn."""

    session_id: SessionId
    message_id: MessageId
    text: str
    images: tuple[ImagePart, ...] = ()
    files: tuple[FilePart, ...] = ()


@checked_value
class SwitchBranch(Command[replies.Acknowledged]):
    """Show and continue the branch that runs through this message, down to its newest leaf."""

    session_id: SessionId
    message_id: MessageId


@checked_value
class ResumeSession(Command[replies.StartTurnReply]):
    """Go on where a stopped, failed or interrupted turn left off, without a new message."""

    session_id: SessionId


@checked_value
class DismissOutcome(Command[replies.Acknowledged]):
    """Clear a failed, stopped or interrupted mark; refused while a turn runs."""

    session_id: SessionId


@checked_value
class WaitForTurn(Command[replies.WaitForTurnReply]):
    """Wait until a turn has ended: the named one, else the running one, else the last one."""

    reads_only: ClassVar[bool] = True
    session_id: SessionId
    turn_id: TurnId | None = None


@checked_value
class ClearContext(Command[replies.Acknowledged]):
    """Start the conversation afresh; the old one stays reachable as a branch."""

    session_id: SessionId


@checked_value
class CompactContext(Command[replies.Acknowledged]):
    """Replace the conversation by a summary of it; replies when that has begun."""

    session_id: SessionId


@checked_value
class RestoreToMessage(Command[replies.RestoreReply]):
    """Go back to the moment before a message was said: the conversation, and the files that were changed since.

    The message is one the user said; left out, the newest one. Nothing is lost: what came after stays in the tree as
    another branch, and files that somebody else has changed meanwhile are left alone unless `force` says otherwise.
    """

    session_id: SessionId
    message_id: MessageId | None = None
    files: bool = True
    conversation: bool = True
    force: bool = False


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


# --- requests to people, wake-ups, stop -------------------------------------------------------------------------------


@checked_value
class OpenDialog(Command[replies.DialogReply]):
    """Ask whoever watches the session; replies when somebody has answered or time is up."""

    session_id: SessionId
    kind: DialogKind
    title: str
    message: str = ""
    choices: tuple[str, ...] = ()
    timeout_ms: int | None = None


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
    RenameSession,
    ArchiveSession,
    RestoreSession,
    DeleteSession,
    ForkSession,
    SendUserMessage,
    StartTurnIfIdle,
    EditMessage,
    SwitchBranch,
    ResumeSession,
    DismissOutcome,
    WaitForTurn,
    ClearContext,
    CompactContext,
    RestoreToMessage,
    ListQueue,
    EditQueueItem,
    ReorderQueue,
    RemoveQueueItem,
    TakeQueue,
    SwitchModel,
    ChangePermissionTier,
    ChangeSandboxPolicy,
    ChangeWorkingDirectory,
    OpenDialog,
    AnswerDialog,
    AnswerApproval,
    ScheduleWakeup,
    CancelWakeup,
    RequestStop,
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
