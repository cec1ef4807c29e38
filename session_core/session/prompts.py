"""What people have said themselves, among the messages in the user's place."""

from session_core.session.state import SessionState
from session_core.vocabulary.messages import Message


def is_written_by_person(message: Message) -> bool:
    """Tell whether a person has written this; protocols and extensions put messages in the user's place, too."""
    return message.role == "user" and message.source is None


def newest_prompt(state: SessionState) -> Message | None:
    """Return the newest message of people on the way to the head, as far back as the state reaches."""
    wanted = state.head
    for message in reversed(state.messages):
        if message.message_id == wanted:
            if is_written_by_person(message):
                return message
            wanted = message.parent_id
    return None
