"""Commands about the conversation and its turns: say, edit, switch, resume, wait, clear, compact, go back.

`commands` collects them all.
"""

from typing import ClassVar

from session_core.ids import MessageId, SessionId, TurnId
from session_core.vocabulary import replies
from session_core.vocabulary.argument_checks import checked_value
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import FilePart, ImagePart
from session_core.vocabulary.session_commands import Command
from session_core.vocabulary.sessions import DeliverAs


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
