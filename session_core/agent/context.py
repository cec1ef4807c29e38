"""What of the conversation a model gets to see. Pure."""

from session_core.vocabulary.messages import Message


def model_messages(transcript: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages from the newest summary on; interrupted answers stay in, marked as such."""
    for place in range(len(transcript) - 1, -1, -1):
        if transcript[place].role == "summary":
            return transcript[place:]
    return transcript
