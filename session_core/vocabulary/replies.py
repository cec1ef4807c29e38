"""Replies: the answer to each command. Every reply carries the cursor of the state it describes."""

from typing import Literal

import attrs

from session_core.ids import CallId, ClientId, Cursor, MessageId, QueueItemId, RequestId, SessionId, TurnId, WakeupId
from session_core.vocabulary.extensions import Completion, ExtensionCommand, ExtensionInfo
from session_core.vocabulary.frozen import JsonValue
from session_core.vocabulary.messages import Message, Role
from session_core.vocabulary.models import ListedModel
from session_core.vocabulary.sessions import Decision, QueueItem, StoppedWork, StopScope, TurnOutcome
from session_core.vocabulary.snapshots import SessionSummary


@attrs.frozen(kw_only=True)
class Acknowledged:
    """Done; everything it changed is in the stream up to `cursor`."""

    cursor: Cursor


@attrs.frozen(kw_only=True)
class CreateSessionReply:
    """The new session."""

    session_id: SessionId
    cursor: Cursor


@attrs.frozen(kw_only=True)
class ListSessionsReply:
    """One page of the session list; ask again with `next_page` while it is not empty."""

    sessions: tuple[SessionSummary, ...]
    next_page: str | None
    total: int
    cursor: Cursor


@attrs.frozen(kw_only=True)
class MessagesReply:
    """A run of messages in order of creation; the first one is number `first` of the session, counting from 0."""

    first: int
    messages: tuple[Message, ...]
    cursor: Cursor


@attrs.frozen(kw_only=True)
class SearchHit:
    """A message that was found; `excerpt` is the text around the first match."""

    session_id: SessionId
    session_name: str
    message_id: MessageId
    role: Role
    created_at: int
    excerpt: str


@attrs.frozen(kw_only=True)
class SearchReply:
    """The messages found, best match first."""

    hits: tuple[SearchHit, ...]
    cursor: Cursor


@attrs.frozen(kw_only=True)
class ListModelsReply:
    """The models, in the order of the catalogue, and the default model of new sessions."""

    models: tuple[ListedModel, ...]
    default: str
    cursor: Cursor


@attrs.frozen(kw_only=True)
class FindFilesReply:
    """The paths found, best match first, relative to the working directory; folders end with a slash.

    `truncated` means that there are more matches, or that the folder has more files than are ever searched.
    """

    paths: tuple[str, ...]
    truncated: bool
    cursor: Cursor


@attrs.frozen(kw_only=True)
class SendUserMessageReply:
    """What became of a message: it started a turn, or it waits in the queue."""

    disposition: Literal["started", "queued"]
    cursor: Cursor
    turn_id: TurnId | None = None
    message_id: MessageId | None = None
    queue_item_id: QueueItemId | None = None


@attrs.frozen(kw_only=True)
class StartTurnReply:
    """The turn that was started, or the information that the session is busy and nothing was done."""

    started: bool
    cursor: Cursor
    turn_id: TurnId | None = None
    message_id: MessageId | None = None


@attrs.frozen(kw_only=True)
class ShellLineReply:
    """The command is running: it ends with the turn, and its output is the output of the call."""

    turn_id: TurnId
    call_id: CallId
    cursor: Cursor


@attrs.frozen(kw_only=True)
class WaitForTurnReply:
    """How the turn ended."""

    outcome: TurnOutcome
    cursor: Cursor


@attrs.frozen(kw_only=True)
class RestoredFile:
    """What was done with one file: restored, created again, removed, or left alone with the reason."""

    path: str
    done: Literal["restored", "recreated", "removed", "skipped"]
    why: str = ""


@attrs.frozen(kw_only=True)
class RestoreReply:
    """What was restored, file by file; files that needed no change are not listed.

    Attributes:
        remarks: Remarks for people, such as that not all changes of a command may be known.
        undo_turn_id: What `TakeBackUndo` reverts; None in a service without checkpoints.
        text: The user's message at that point, to be edited.
    """

    files: tuple[RestoredFile, ...]
    remarks: tuple[str, ...]
    undo_turn_id: TurnId | None
    text: str
    cursor: Cursor


@attrs.frozen(kw_only=True)
class QueueReply:
    """The messages concerned: those waiting (list) or those taken out (take)."""

    items: tuple[QueueItem, ...]
    cursor: Cursor


@attrs.frozen(kw_only=True)
class SwitchModelReply:
    """When the new model takes over: at once, or with the next model call of the running turn."""

    effective: Literal["now", "next_model_call"]
    cursor: Cursor


@attrs.frozen(kw_only=True)
class ScheduleWakeupReply:
    """The wake-up that was armed."""

    wakeup_id: WakeupId
    due_at: int
    cursor: Cursor


@attrs.frozen(kw_only=True)
class AnswerReply:
    """Whether this answer won; if not, `decision` or `value` and `by` describe the answer that did."""

    request_id: RequestId
    accepted: bool
    cursor: Cursor
    decision: Decision | None = None
    value: JsonValue = None
    by: ClientId | None = None


@attrs.frozen(kw_only=True)
class DialogReply:
    """The person's answer; `value` is empty when the dialog was dismissed or timed out."""

    request_id: RequestId
    answered: bool
    cursor: Cursor
    value: JsonValue = None
    by: ClientId | None = None


@attrs.frozen(kw_only=True)
class StopOutcome:
    """The actual outcome of a stop.

    `result` is `stopped` when running work was ended, `nothing_running` when there was none, and `still_stopping`
    when some work did not end within the time the stop waits; its cancellation continues. `withheld` counts commands
    that were already in transit when the stop came and would have started work: messages wait in the queue instead,
    other commands are refused.
    """

    session_id: SessionId
    scope: StopScope
    result: Literal["stopped", "nothing_running", "still_stopping"]
    cursor: Cursor
    ended: tuple[StoppedWork, ...] = ()
    survived: tuple[StoppedWork, ...] = ()
    kept: tuple[QueueItem, ...] = ()
    returned: tuple[QueueItem, ...] = ()
    withheld: int = 0


@attrs.frozen(kw_only=True)
class ListExtensionsReply:
    """The extensions, in the order in which they are called."""

    extensions: tuple[ExtensionInfo, ...]
    cursor: Cursor


@attrs.frozen(kw_only=True)
class ListCommandsReply:
    """The commands of all extensions available now; a name refers to the first command that has it."""

    commands: tuple[ExtensionCommand, ...]
    cursor: Cursor


@attrs.frozen(kw_only=True)
class RunCommandReply:
    """The command is done; `content` is the extension's result."""

    content: str
    cursor: Cursor


@attrs.frozen(kw_only=True)
class CompleteCommandReply:
    """The possible completions of the arguments."""

    completions: tuple[Completion, ...]
    cursor: Cursor


@attrs.frozen(kw_only=True)
class PostMessageReply:
    """What became of a message: it is part of the conversation, or it waits in the queue."""

    disposition: Literal["added", "queued"]
    cursor: Cursor
    message_id: MessageId | None = None
    queue_item_id: QueueItemId | None = None


@attrs.frozen(kw_only=True)
class ErrorReply:
    """A command that was not executed; `code` is stable, `message` is for people."""

    code: str
    message: str
    field: str | None = None


@attrs.frozen(kw_only=True)
class ListProtocolsReply:
    """The names of the protocols, and the default one."""

    protocols: tuple[str, ...]
    default: str
    cursor: Cursor


@attrs.frozen(kw_only=True)
class AppendReply:
    """What became of messages to be appended to a conversation.

    `replayed` means that this operation was already done before; `stale_branch` that nothing was done, because the
    message they were to follow is not on the path to the current head.
    """

    outcome: Literal["appended", "replayed", "stale_branch"]
    message_ids: tuple[MessageId, ...]
    cursor: Cursor
