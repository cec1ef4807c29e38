"""Branches of the conversation tree. Pure; messages come in order of creation, so parents precede their children."""

from collections.abc import Iterable

from session_core.ids import MessageId
from session_core.session.state import SessionState
from session_core.vocabulary.messages import Message


def newest_leaf(messages: Iterable[Message], through: MessageId) -> MessageId:
    """Return the newest message that descends from `through`, or `through` itself; it has no children."""
    family, newest = {through}, through
    for message in messages:
        if message.parent_id in family:
            family.add(message.message_id)
            newest = message.message_id
    return newest


def siblings(messages: Iterable[Message], message: Message) -> tuple[Message, ...]:
    """Return the versions of a message, oldest first: all of its role with the same parent, itself included."""
    return tuple(each for each in messages if each.parent_id == message.parent_id and each.role == message.role)


def find_missing_parent(state: SessionState, path: tuple[Message, ...]) -> MessageId | None:
    """Return the message missing at the start of a path of the state; None if the path has all that matters."""
    if not state.earlier or any(message.role == "summary" for message in reversed(path)):
        return None
    return path[0].parent_id if path else state.head
