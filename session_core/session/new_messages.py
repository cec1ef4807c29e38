"""Adding messages to a session's state."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from session_core.ids import CallId
from session_core.session.message_window import count_total_chars, trim
from session_core.vocabulary.added_messages import collect_added_messages
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.messages import ToolResultPart, count_message_chars

if TYPE_CHECKING:
    from session_core.session.state import SessionState


def add_messages(
    state: "SessionState", envelope: SessionEvent, results: Mapping[CallId, ToolResultPart] | None = None
) -> None:
    """Add the event's messages one by one and trim the oldest from the window; the last becomes the head."""
    for message in collect_added_messages(envelope.event, results or {}, envelope.at):
        before = count_total_chars(state.messages) if state.window_chars is None else state.window_chars
        state.messages, dropped, state.window_chars = trim(
            state.messages.append(message), before + count_message_chars(message)
        )
        state.earlier += dropped
        state.head = message.message_id
