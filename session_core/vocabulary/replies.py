"""Replies: what each command answers. Every reply carries the cursor of the state it speaks of."""

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
    """What was found, best first."""

    hits: tuple[SearchHit, ...]
    cursor: Cursor


@attrs.frozen(kw_only=True)
class ListModelsReply:
    """The models, in the order of the catalogue, and the one of new sessions that name none."""

    models: tuple[ListedModel, ...]
    default: str
    cursor: Cursor


@attrs.frozen(kw_only=True)
class FindFilesReply:
    """What was found, best first, relative to the working directory; folders end with a slash.

    `truncated` says that more would fit, or that there was more to look at than is ever looked at.
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
    """Either the turn that was started, or word that the session is busy and nothing was done."""

    started: bool
    cursor: Cursor
    turn_id: TurnId | None = None
    message_id: MessageId | None = None


@attrs.frozen(kw_only=True)
class ShellLineReply:
    """The command runs: its end is that of the turn, and its output is that of the call."""

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
    """What was done with one file: its old content is back, it was made anew, it went, or it was left alone and why."""

    path: str
    done: Literal["restored", "recreated", "removed", "skipped"]
    why: str = ""


@attrs.frozen(kw_only=True)
class RestoreReply:
    """What was brought back, file by file; files that are as they should be are not named.

    Attributes:
        remarks: What people should know beside that, such as that a command's changes may not all be known.
        undo_turn_id: What `TakeBackUndo` takes back; none in a service without checkpoints.
        text: What the user had said there, to be said differently.
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
    """Since when the new model answers: at once, or from the next model call of the running turn on."""

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
    """Whether this answer won; if not, `decision` or `value` and `by` tell which answer did."""

    request_id: RequestId
    accepted: bool
    cursor: Cursor
    decision: Decision | None = None
    value: JsonValue = None
    by: ClientId | None = None


@attrs.frozen(kw_only=True)
class DialogReply:
    """What the person said; `value` is empty when the dialog was dismissed or timed out."""

    request_id: RequestId
    answered: bool
    cursor: Cursor
    value: JsonValue = None
    by: ClientId | None = None


@attrs.frozen(kw_only=True)
class StopOutcome:
    """The truth about a stop.

    `result` is `stopped` when running work was ended, `nothing_running` when there was none, and `still_stopping`
    when something has not let go within the time the stop waits; it goes on being cancelled. `withheld` counts
    commands that were already on their way when the stop came and would have started something: messages wait in the
    queue instead, other commands are refused.
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
    """The extensions, in the order in which they are asked."""

    extensions: tuple[ExtensionInfo, ...]
    cursor: Cursor


@attrs.frozen(kw_only=True)
class ListCommandsReply:
    """The commands of all extensions that are there now; the first of a name is the one that is meant by it."""

    commands: tuple[ExtensionCommand, ...]
    cursor: Cursor


@attrs.frozen(kw_only=True)
class RunCommandReply:
    """The command is done; `content` is what the extension has to say."""

    content: str
    cursor: Cursor


@attrs.frozen(kw_only=True)
class CompleteCommandReply:
    """How the arguments could go on."""

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
    """A command that was not carried out; `code` is stable, `message` is for people."""

    code: str
    message: str
    field: str | None = None


@attrs.frozen(kw_only=True)
class ListProtocolsReply:
    """The protocols by name, and the one of sessions that name none."""

    protocols: tuple[str, ...]
    default: str
    cursor: Cursor


@attrs.frozen(kw_only=True)
class AppendReply:
    """What became of messages that were to be put into a conversation.

    `replayed` means that this operation had done it before; `stale_branch` that nothing was done, as the message they
    were to follow is not on the way to the present end.
    """

    outcome: Literal["appended", "replayed", "stale_branch"]
    message_ids: tuple[MessageId, ...]
    cursor: Cursor
