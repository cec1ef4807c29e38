"""What of the conversation a model gets to see."""

from session_core.agent.context import model_messages
from session_core.ids import MessageId
from session_core.vocabulary.messages import Message


def test_what_the_model_sees() -> None:
    """The conversation from the newest summary on, or all of it when there is none."""
    roles = ("user", "summary", "user", "summary", "user")
    messages = tuple(
        Message(message_id=MessageId(str(place)), parent_id=None, role=role, parts=(), created_at=0)  # type: ignore[arg-type]
        for place, role in enumerate(roles)
    )
    assert messages[3:] == model_messages(messages)
    assert messages[:1] == model_messages(messages[:1])
    assert () == model_messages(())
