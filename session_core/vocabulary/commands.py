"""Commands: what a client may ask for, in the imperative, each bound to the type of its reply.

`lane` says how a command runs: `mailbox` in order with all others; `beside` at once, ahead of whatever waits (stop and
answers, law 6). `reads_only` commands change nothing, so observers may send them too.
"""

from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args

import attrs

from session_core.ids import LOCAL_CLIENT, ClientId, MessageId, QueueItemId, RequestId, SessionId, TurnId, WakeupId
from session_core.vocabulary import replies
from session_core.vocabulary.argument_checks import checked_value
from session_core.vocabulary.extensions import NoticeLevel
from session_core.vocabulary.frozen import JsonObject, JsonValue
from session_core.vocabulary.messages import FilePart, ImagePart, PostedRole
from session_core.vocabulary.protocols import NewMessage
from session_core.vocabulary.sessions import (
    Decision,
    DeliverAs,
    DialogKind,
    PermissionMode,
    QueueOnStop,
    SandboxPolicy,
    StopScope,
    Thinking,
    TurnLimits,
)
from session_core.vocabulary.snapshots import ServiceSnapshot, SessionSnapshot

R_co = TypeVar("R_co", covariant=True)
Lane = Literal["mailbox", "beside"]


@attrs.frozen(slots=True)
class Command(Generic[R_co]):
    """Base of all commands; the type argument is the reply."""

    lane: ClassVar[Lane] = "mailbox"
    reads_only: ClassVar[bool] = False


# --- sessions ---------------------------------------------------------------------------------------------------------


@checked_value
class CreateSession(Command[replies.CreateSessionReply]):
    """Make a session; what is left out comes from the service's defaults, or from the session it works for.

    `protocol` is how its model acts in a turn, for all of its life. `options` are those of the protocol, by its name:
    `{"code": {"cell_seconds": 60}}`.
    """

    name: str | None = None
    cwd: str | None = None
    model: str | None = None
    permission_mode: PermissionMode | None = None
    sandbox: SandboxPolicy | None = None
    thinking: Thinking | None = None
    limits: TurnLimits | None = None
    parent_id: SessionId | None = None
    protocol: str | None = None
    options: JsonObject | None = None


@checked_value
class ListSessions(Command[replies.ListSessionsReply]):
    """List sessions, newest first."""

    reads_only: ClassVar[bool] = True
    limit: int = 50
    page: str | None = None
    search: str | None = None
    archived: bool | None = False
    running: bool | None = None


@checked_value
class LoadService(Command[ServiceSnapshot]):
    """Take a snapshot of all sessions and their activity."""

    reads_only: ClassVar[bool] = True


@checked_value
class LoadSession(Command[SessionSnapshot]):
    """Take a snapshot of one session; takes nothing away from anybody."""

    reads_only: ClassVar[bool] = True
    session_id: SessionId


@checked_value
class LoadMessages(Command[replies.MessagesReply]):
    """Read older messages: up to `limit` that came right before message number `before` of the session.

    A snapshot holds the newest messages and says with `earlier` how many came before those; ask with that number to go
    on backwards. Left out, `before` is the end of the conversation.
    """

    reads_only: ClassVar[bool] = True
    session_id: SessionId
    before: int | None = None
    limit: int = 100


@checked_value
class SearchMessages(Command[replies.SearchReply]):
    """Find messages of all sessions that hold all these words."""

    reads_only: ClassVar[bool] = True
    text: str
    limit: int = 20


@checked_value
class ListModels(Command[replies.ListModelsReply]):
    """List the models: those that `SwitchModel` takes now, and those that something keeps away.

    Ask for a session or for a folder, or for neither; nobody is asked over the network.
    """

    reads_only: ClassVar[bool] = True
    session_id: SessionId | None = None
    cwd: str | None = None


@checked_value
class FindFiles(Command[replies.FindFilesReply]):
    """Find files and folders beneath a session's working directory whose paths hold these letters in this order.

    Ask for a session, or for the folder of one that is yet to begin; for neither, it is the service's own. What the
    project ignores is left out, and so are places that tools do not touch by themselves. A query with capitals is about
    capitals too. Names are a few seconds old at the most.
    """

    reads_only: ClassVar[bool] = True
    query: str
    session_id: SessionId | None = None
    cwd: str | None = None
    limit: int = 50


@checked_value
class RenameSession(Command[replies.Acknowledged]):
    """Give a session another name."""

    session_id: SessionId
    name: str


@checked_value
class ArchiveSession(Command[replies.Acknowledged]):
    """Put a session away; it must be at rest."""

    session_id: SessionId


@checked_value
class RestoreSession(Command[replies.Acknowledged]):
    """Bring an archived session back."""

    session_id: SessionId


@checked_value
class DeleteSession(Command[replies.Acknowledged]):
    """Stop whatever runs in a session and its child sessions, and remove it for good; the children stay."""

    session_id: SessionId


@checked_value
class ForkSession(Command[replies.CreateSessionReply]):
    """Make a new session that continues from a message of this one (its head if none is named).

    It has the same protocol, with the same options but for those that `options` names.
    """

    session_id: SessionId
    at_message_id: MessageId | None = None
    name: str | None = None
    options: JsonObject | None = None


@checked_value
class RunShellLine(Command[replies.ShellLineReply]):
    """Run a command that a person has typed (`!line`), in a session at rest; the next turn's model sees what it did.

    It runs as the shell tool runs commands: in the sandbox, kept for an undo, shown while it runs, ended by a stop.
    That a person typed it is the yes that a mode would ask for. Rules that deny it count, a read-only session refuses
    it, and what must always be asked for is.
    """

    session_id: SessionId
    line: str


# --- the conversation and its turns -----------------------------------------------------------------------------------
# `commands` collects them all.
@checked_value
class SendUserMessage(Command[replies.SendUserMessageReply]):
    """Say something to the agent: starts a turn when the session is at rest, else waits as `deliver_as` says.

    `steer` is read between two steps of the running turn, `follow_up` when it would otherwise end, `next_turn` at the
    start of the next turn (and starts none by itself). What still waits when a turn is stopped or fails stays in the
    queue, for people to see, and goes out with the next turn. With `output_schema` the turn's answer is JSON of that
    shape (the outcome's `output`); such a message needs a session at rest. So does one with an `extension`: anything
    that the session's protocol takes with a turn.
    """

    session_id: SessionId
    text: str
    images: tuple[ImagePart, ...] = ()
    files: tuple[FilePart, ...] = ()
    deliver_as: DeliverAs = "follow_up"
    output_schema: JsonObject | None = None
    extension: JsonObject | None = None


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
    """Start the conversation afresh; the old one stays reachable as a branch. What code had left behind is gone."""

    session_id: SessionId


@checked_value
class CompactContext(Command[replies.Acknowledged]):
    """Replace the conversation by a summary of it; replies when that has begun."""

    session_id: SessionId


@checked_value
class RestoreToMessage(Command[replies.RestoreReply]):
    """Go back to the moment before a message was said: the conversation, and the files that were changed since.

    The message is one the user said; left out, the newest one. Nothing is lost: what came after stays in the tree as
    another branch. If somebody else has changed one of the files meanwhile, nothing is done at all, unless `force` says
    otherwise; what is overwritten then is saved first. `TakeBackUndo` takes all of it back.
    """

    session_id: SessionId
    message_id: MessageId | None = None
    files: bool = True
    conversation: bool = True
    force: bool = False


@checked_value
class TakeBackUndo(Command[replies.RestoreReply]):
    """Take back what a `RestoreToMessage` has done: its files, and the conversation if that had gone back.

    Left out, the newest one that was not taken back yet. The same rules hold for files that somebody else has changed
    since; when the conversation has gone on since, that needs `force` too.
    """

    session_id: SessionId
    undo_turn_id: TurnId | None = None
    force: bool = False


# --- extensions -------------------------------------------------------------------------------------------------------
# `commands` collects them all.


@checked_value
class ListExtensions(Command[replies.ListExtensionsReply]):
    """List the extensions, with how they are and what they bring."""

    reads_only: ClassVar[bool] = True


@checked_value
class ListCommands(Command[replies.ListCommandsReply]):
    """List what people can have extensions do now: in a session or a folder, or, when none is named, everywhere.

    Extensions of the project in that folder are started before, if they may run.
    """

    reads_only: ClassVar[bool] = True
    session_id: SessionId | None = None
    cwd: str | None = None


@checked_value
class RunCommand(Command[replies.RunCommandReply]):
    """Have an extension do something in a session; replies when it is done.

    It runs beside turns: the session is not busy with it, so that it may send messages and start turns there. A stop of
    the session ends it. Of several extensions with a command of this name, the first one does it, or the named one.
    """

    session_id: SessionId
    name: str
    arguments: str = ""
    extension: str | None = None


@checked_value
class CompleteCommand(Command[replies.CompleteCommandReply]):
    """Ask how the arguments of a command could go on; an extension that fails to answer knows none."""

    reads_only: ClassVar[bool] = True
    session_id: SessionId
    name: str
    partial: str = ""
    extension: str | None = None


@checked_value
class ReloadExtension(Command[replies.Acknowledged]):
    """Let a new process of an extension take over from the old one; if it fails to start, the old one stays.

    `folder` tells which one is meant, where several folders have one of this name (see `ExtensionInfo`).
    """

    name: str
    folder: str | None = None


@checked_value
class EnableExtension(Command[replies.Acknowledged]):
    """Use an extension again that was disabled, from now on and after every restart; `folder` as in a reload."""

    name: str
    folder: str | None = None


@checked_value
class DisableExtension(Command[replies.Acknowledged]):
    """Use an extension no longer, from now on and after every restart; `folder` as in a reload."""

    name: str
    folder: str | None = None


@checked_value
class PressWidgetKey(Command[replies.Acknowledged]):
    """Tell an extension that a key was pressed in a widget it shows; a command may be waiting for just that."""

    lane: ClassVar[Lane] = "beside"
    session_id: SessionId
    extension: str
    widget_id: str
    key: str


# --- what extensions do in sessions -----------------------------------------------------------------------------------


@checked_value
class PostMessage(Command[replies.PostMessageReply]):
    """Put a message into the conversation without asking the model for anything.

    While a turn runs it waits like a follow-up, and joins the conversation when the turn would end; unlike a follow-up
    it does not make the turn go on.
    """

    session_id: SessionId
    text: str
    role: PostedRole = "assistant"


@checked_value
class AppendEntry(Command[replies.Acknowledged]):
    """Keep something with the session that no model is ever shown."""

    session_id: SessionId
    entry: JsonObject


@checked_value
class ShowDisplay(Command[replies.Acknowledged]):
    """Show something beside the conversation, until something else is shown.

    What is left out stays as it was; an empty text or object takes it away. When all three are left out, nothing of
    the caller is shown any more.
    """

    session_id: SessionId
    status: str | None = None
    widget: JsonObject | None = None
    title: str | None = None


@checked_value
class ShowNotice(Command[replies.Acknowledged]):
    """Tell whoever watches the session something, once."""

    session_id: SessionId
    message: str
    level: NoticeLevel = "info"


@checked_value
class LoginToProvider(Command[replies.Acknowledged]):
    """Log in to a provider of models that an extension brings; its questions are asked in the session.

    Replies when it is done. A stop of the session ends it.
    """

    session_id: SessionId
    provider: str


# --- protocols --------------------------------------------------------------------------------------------------------
# `commands` collects them all.
@checked_value
class ListProtocols(Command[replies.ListProtocolsReply]):
    """List the ways in which models can act in a turn; a session has one for all of its life."""

    reads_only: ClassVar[bool] = True


@checked_value
class AppendMessages(Command[replies.AppendReply]):
    """Put messages at the end of a conversation at rest, without asking any model; all of them or none.

    `operation_id` makes it safe to send again, by whomever: the same messages are not added twice, and other messages
    under the same id are refused. With `after`, they are only added if that message is on the way to the present end.
    The session's protocol is told when they are durable.
    """

    session_id: SessionId
    operation_id: str
    messages: tuple[NewMessage, ...]
    after: MessageId | None = None


@checked_value
class ApplyExtension(Command[replies.Acknowledged]):
    """Give the protocol of a session at rest something beside the conversation; most protocols take nothing."""

    session_id: SessionId
    extension: JsonObject


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
class ChangePermissionMode(Command[replies.Acknowledged]):
    """Change which tools need a person's yes, from the next tool call on."""

    session_id: SessionId
    mode: PermissionMode


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
    ChangePermissionMode,
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
