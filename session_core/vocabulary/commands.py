"""Commands: what a client may ask for, in the imperative, each bound to the type of its reply.

`lane` says how a command runs: `mailbox` in order with all others; `beside` at once, ahead of waiting commands (stop
and answers, law 6). `reads_only` commands change nothing, so observers may send them too.
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
    ExtraRight,
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

    @property
    def session_id(self) -> SessionId | None:
        """The session that the command is about; commands with a field of this name say which."""
        return None


# --- sessions ---------------------------------------------------------------------------------------------------------


@checked_value
class CreateSession(Command[replies.CreateSessionReply]):
    """Create a session; omitted fields come from the service's defaults, or from the parent session.

    `protocol` is how its model acts in a turn; it never changes. `options` are the protocol's options under its name:
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
    """Take a snapshot of one session; other readers are not affected.

    `options` states options of its protocol, as in `CreateSession`; if the session has others, the command is refused.
    """

    reads_only: ClassVar[bool] = True
    session_id: SessionId
    options: JsonObject | None = None


@checked_value
class LoadMessages(Command[replies.MessagesReply]):
    """Read older messages: up to `limit` messages right before message number `before` of the session.

    A snapshot holds the newest messages, and its `earlier` says how many came before them; pass that number to page
    backwards. `before` defaults to the end of the conversation.
    """

    reads_only: ClassVar[bool] = True
    session_id: SessionId
    before: int | None = None
    limit: int = 100


@checked_value
class SearchMessages(Command[replies.SearchReply]):
    """Find messages in all sessions that contain all these words."""

    reads_only: ClassVar[bool] = True
    text: str
    limit: int = 20


@checked_value
class ListModels(Command[replies.ListModelsReply]):
    """List the models: those that `SwitchModel` accepts now, and those that are unavailable for some reason.

    Ask for a session, for a folder, or for neither; makes no network requests.
    """

    reads_only: ClassVar[bool] = True
    session_id: SessionId | None = None
    cwd: str | None = None


@checked_value
class FindFiles(Command[replies.FindFilesReply]):
    """Find files and folders beneath a session's working directory whose paths contain these letters in this order.

    Ask for a session, or for the folder of a session that does not exist yet; the default is the service's own folder.
    Files that the project ignores are left out, and so are places that tools do not touch unasked. A query with
    capitals is case-sensitive. The names are at most a few seconds old.
    """

    reads_only: ClassVar[bool] = True
    query: str
    session_id: SessionId | None = None
    cwd: str | None = None
    limit: int = 50


@checked_value
class RenameSession(Command[replies.Acknowledged]):
    """Rename a session."""

    session_id: SessionId
    name: str


@checked_value
class ArchiveSession(Command[replies.Acknowledged]):
    """Archive a session; it must be at rest."""

    session_id: SessionId


@checked_value
class RestoreSession(Command[replies.Acknowledged]):
    """Restore an archived session."""

    session_id: SessionId


@checked_value
class DeleteSession(Command[replies.Acknowledged]):
    """Stop all work in a session and its child sessions, and delete the session for good; the children stay."""

    session_id: SessionId


@checked_value
class ForkSession(Command[replies.CreateSessionReply]):
    """Create a session that continues from a message of this one (by default its head).

    It has the same protocol and the same options; `options` can only change those of the kind host.
    """

    session_id: SessionId
    at_message_id: MessageId | None = None
    name: str | None = None
    options: JsonObject | None = None


@checked_value
class RunShellLine(Command[replies.ShellLineReply]):
    """Run a command that a person has typed (`!line`) in a session at rest; the model of the next turn sees the result.

    It runs like a command of the shell tool: in the sandbox, saved for an undo, shown while it runs, ended by a stop.
    Typing it counts as the approval that a permission mode would ask for. Deny rules still apply, a read-only session
    refuses it, and commands that always need an approval still ask for one. A line that begins with `+network`,
    `+protected` or `+sockets`, or several as `+network,protected`, asks for that beyond the sandbox; commands of git
    such as `git commit` and `git fetch`, which cannot work without, ask by themselves.
    """

    session_id: SessionId
    line: str


# --- the conversation and its turns -----------------------------------------------------------------------------------
@checked_value
class SendUserMessage(Command[replies.SendUserMessageReply]):
    """Send a message to the agent: starts a turn if the session is at rest, otherwise queues it as `deliver_as` says.

    `steer` is read between two steps of the running turn, `follow_up` when the turn would otherwise end, `next_turn` at
    the start of the next turn (without starting one). Messages still queued when a turn is stopped or fails stay in the
    queue, visible to people, and are sent with the next turn. With `output_schema` the turn's answer is JSON of that
    shape (the outcome's `output`); such a message needs a session at rest. So does one with an `extension`: any data
    that the session's protocol accepts with a turn.
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
    """Start a turn with this message if the session is at rest; otherwise do nothing and report that."""

    session_id: SessionId
    text: str
    images: tuple[ImagePart, ...] = ()
    files: tuple[FilePart, ...] = ()


@checked_value
class EditMessage(Command[replies.SendUserMessageReply]):
    """Edit an earlier user message: the new version becomes a sibling branch and starts a turn."""

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
    """Resume where a stopped, failed or interrupted turn left off, without a new message."""

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
    """Start a new conversation; the old one stays reachable as a branch. State left behind by code is gone."""

    session_id: SessionId


@checked_value
class CompactContext(Command[replies.Acknowledged]):
    """Compact the conversation into a summary; replies when the compaction has started."""

    session_id: SessionId


@checked_value
class RestoreToMessage(Command[replies.RestoreReply]):
    """Go back to the moment before a message was sent: the conversation, and the files changed since.

    The message must be one of the user's; the default is the newest. Nothing is lost: later messages stay in the tree
    as another branch. If somebody else has changed one of the files meanwhile, nothing is done at all unless `force` is
    set; overwritten content is then saved first. `TakeBackUndo` reverts all of it.
    """

    session_id: SessionId
    message_id: MessageId | None = None
    files: bool = True
    conversation: bool = True
    force: bool = False


@checked_value
class TakeBackUndo(Command[replies.RestoreReply]):
    """Revert a `RestoreToMessage`: its files, and the conversation if that was restored too.

    The default is the newest one that was not reverted yet. The same rules apply to files that somebody else has
    changed since; if the conversation has continued since, that needs `force` too.
    """

    session_id: SessionId
    undo_turn_id: TurnId | None = None
    force: bool = False


# --- extensions -------------------------------------------------------------------------------------------------------


@checked_value
class ListExtensions(Command[replies.ListExtensionsReply]):
    """List the extensions with their state and what they provide."""

    reads_only: ClassVar[bool] = True


@checked_value
class ListCommands(Command[replies.ListCommandsReply]):
    """List the extension commands available now: in a session or a folder, or, if neither is given, everywhere.

    Project extensions of that folder are started first, if they may run.
    """

    reads_only: ClassVar[bool] = True
    session_id: SessionId | None = None
    cwd: str | None = None


@checked_value
class RunCommand(Command[replies.RunCommandReply]):
    """Run an extension command in a session; replies when it is done.

    It runs beside turns and does not make the session busy, so it may send messages and start turns there. Stopping the
    session ends it. If several extensions have a command of this name, the named one runs it, or else the first.
    """

    session_id: SessionId
    name: str
    arguments: str = ""
    extension: str | None = None


@checked_value
class CompleteCommand(Command[replies.CompleteCommandReply]):
    """Complete the arguments of an extension command; an extension that fails to answer offers no completions."""

    reads_only: ClassVar[bool] = True
    session_id: SessionId
    name: str
    partial: str = ""
    extension: str | None = None


@checked_value
class ReloadExtension(Command[replies.Acknowledged]):
    """Replace the process of an extension by a new one; if that fails to start, the old one stays.

    `folder` selects the extension if several folders have one of this name (see `ExtensionInfo`).
    """

    name: str
    folder: str | None = None


@checked_value
class EnableExtension(Command[replies.Acknowledged]):
    """Enable a disabled extension, from now on and after every restart; `folder` as in `ReloadExtension`."""

    name: str
    folder: str | None = None


@checked_value
class DisableExtension(Command[replies.Acknowledged]):
    """Disable an extension, from now on and after every restart; `folder` as in `ReloadExtension`."""

    name: str
    folder: str | None = None


@checked_value
class PressWidgetKey(Command[replies.Acknowledged]):
    """Tell an extension that a key was pressed in its widget; one of its commands may be waiting for that."""

    lane: ClassVar[Lane] = "beside"
    session_id: SessionId
    extension: str
    widget_id: str
    key: str


# --- what extensions do in sessions -----------------------------------------------------------------------------------


@checked_value
class PostMessage(Command[replies.PostMessageReply]):
    """Put a message into the conversation without asking the model for anything.

    While a turn runs it waits like a follow-up and joins the conversation when the turn would end; unlike a follow-up,
    it does not continue the turn.
    """

    session_id: SessionId
    text: str
    role: PostedRole = "assistant"


@checked_value
class AppendEntry(Command[replies.Acknowledged]):
    """Store an entry with the session that is never shown to a model."""

    session_id: SessionId
    entry: JsonObject


@checked_value
class ShowDisplay(Command[replies.Acknowledged]):
    """Display something beside the conversation until it is replaced.

    Omitted fields stay as they were; an empty text or object removes that part. If all three are omitted, everything
    that the caller displays is removed.
    """

    session_id: SessionId
    status: str | None = None
    widget: JsonObject | None = None
    title: str | None = None


@checked_value
class ShowNotice(Command[replies.Acknowledged]):
    """Show a one-time notice to everyone who watches the session."""

    session_id: SessionId
    message: str
    level: NoticeLevel = "info"


@checked_value
class LoginToProvider(Command[replies.Acknowledged]):
    """Log in to a model provider of an extension; its questions are asked in the session.

    Replies when it is done. Stopping the session ends it.
    """

    session_id: SessionId
    provider: str


# --- protocols --------------------------------------------------------------------------------------------------------
@checked_value
class ListProtocols(Command[replies.ListProtocolsReply]):
    """List the protocols, the ways a model can act in a turn; a session keeps the same one for life."""

    reads_only: ClassVar[bool] = True


@checked_value
class AppendMessages(Command[replies.AppendReply]):
    """Append messages to a conversation at rest without asking a model; all of them or none.

    `operation_id` makes retries safe, from any client: the same messages are not added twice, and different messages
    under the same id are refused. With `after`, they are added only if that message is on the path to the current head.
    The session's protocol is notified when they are durable.
    """

    session_id: SessionId
    operation_id: str
    messages: tuple[NewMessage, ...]
    after: MessageId | None = None


@checked_value
class ApplyExtension(Command[replies.Acknowledged]):
    """Pass data to the protocol of a session at rest, outside the conversation; most protocols accept none."""

    session_id: SessionId
    extension: JsonObject


# --- the queue --------------------------------------------------------------------------------------------------------


@checked_value
class ListQueue(Command[replies.QueueReply]):
    """List the queued messages."""

    reads_only: ClassVar[bool] = True
    session_id: SessionId


@checked_value
class EditQueueItem(Command[replies.Acknowledged]):
    """Edit a queued message."""

    session_id: SessionId
    item_id: QueueItemId
    text: str
    images: tuple[ImagePart, ...] = ()


@checked_value
class ReorderQueue(Command[replies.Acknowledged]):
    """Reorder the queued messages; each must be named exactly once."""

    session_id: SessionId
    item_ids: tuple[QueueItemId, ...]


@checked_value
class RemoveQueueItem(Command[replies.Acknowledged]):
    """Remove a queued message."""

    session_id: SessionId
    item_id: QueueItemId


@checked_value
class TakeQueue(Command[replies.QueueReply]):
    """Take queued messages out to edit them again: the named one, or all."""

    session_id: SessionId
    item_id: QueueItemId | None = None


# --- settings ---------------------------------------------------------------------------------------------------------


@checked_value
class SwitchModel(Command[replies.SwitchModelReply]):
    """Switch to another model, or change how much it reasons."""

    session_id: SessionId
    model: str
    thinking: Thinking | None = None


@checked_value
class ChangePermissionMode(Command[replies.Acknowledged]):
    """Change which tools need a person's approval, from the next tool call on."""

    session_id: SessionId
    mode: PermissionMode


@checked_value
class ChangeSandboxPolicy(Command[replies.Acknowledged]):
    """Change the confinement of tools, from the next tool call on."""

    session_id: SessionId
    policy: SandboxPolicy


@checked_value
class ChangeWorkingDirectory(Command[replies.Acknowledged]):
    """Change the directory in which tools work, from the next tool call on."""

    session_id: SessionId
    cwd: str


@checked_value
class ChangeTurnLimits(Command[replies.Acknowledged]):
    """Change what one turn may use, including the running turn; omitted limits no longer apply.

    While a session works as a subagent of another one, it shares the tokens and the money of that session's turn.
    """

    session_id: SessionId
    limits: TurnLimits


# --- requests to people, wake-ups, stop -------------------------------------------------------------------------------


@checked_value
class OpenDialog(Command[replies.DialogReply]):
    """Ask the people who watch the session; replies when somebody has answered or time is up.

    `default` is the initial value of an input. `extension` is the extension on whose behalf the question is asked.
    `to` is the one client to ask; the default is all. `turn_id` is the turn that waits for the answer, if it runs.
    `rights` is what a yes would give beyond the sandbox: not every client may give that.
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
    rights: tuple[ExtraRight, ...] = ()


@checked_value
class AnswerDialog(Command[replies.AnswerReply]):
    """Answer a dialog; the first answer wins."""

    lane: ClassVar[Lane] = "beside"
    session_id: SessionId
    request_id: RequestId
    value: JsonValue = None


@checked_value
class AnswerApproval(Command[replies.AnswerReply]):
    """Allow or deny a tool call; the first answer wins.

    `fingerprint` must be that of the approval that was shown: an answer to anything else is refused. `message` tells
    the model why the call was denied, or what to do instead.
    """

    lane: ClassVar[Lane] = "beside"
    session_id: SessionId
    request_id: RequestId
    decision: Decision
    fingerprint: str | None = None
    message: str = ""


@checked_value
class ScheduleWakeup(Command[replies.ScheduleWakeupReply]):
    """Schedule a message to be delivered after a delay."""

    session_id: SessionId
    delay_ms: int
    text: str


@checked_value
class CancelWakeup(Command[replies.Acknowledged]):
    """Cancel a scheduled message."""

    session_id: SessionId
    wakeup_id: WakeupId


@checked_value
class RequestStop(Command[replies.StopOutcome]):
    """Stop a session's turn now (`turn`), its child sessions' turns too (`subtree`), or all it has (`session`)."""

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
    """A command in transit, with its sender and the key that makes a retry safe."""

    command: Command[Any]
    client_id: ClientId = LOCAL_CLIENT
    idempotency_key: str | None = None
