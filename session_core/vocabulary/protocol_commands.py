"""Commands about protocols: which there are, what they are given, and putting messages into a conversation.

`commands` collects them all.
"""

from typing import ClassVar

from session_core.ids import MessageId, SessionId
from session_core.vocabulary import replies
from session_core.vocabulary.argument_checks import checked_value
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.protocols import NewMessage
from session_core.vocabulary.session_commands import Command


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
