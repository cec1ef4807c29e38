"""Which of the messages with the user role people have written themselves."""

from session_core.session.state import SessionState
from session_core.vocabulary.messages import Message


def is_written_by_person(message: Message) -> bool:
    """Return whether a person wrote this; protocols and extensions add messages with the user role, too."""
    return message.role == "user" and message.source is None


def newest_prompt(state: SessionState) -> Message | None:
    """Return the newest message by a person on the path to the head, as far back as the state reaches."""
    wanted = state.head
    for message in reversed(state.messages):
        if message.message_id == wanted:
            if is_written_by_person(message):
                return message
            wanted = message.parent_id
    return None
