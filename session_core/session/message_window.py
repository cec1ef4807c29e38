"""The window: how much of a long conversation a session's state holds.

Rules:
1. After each added message, a state that holds more than `limits.WINDOW_MESSAGES` messages or `limits.WINDOW_BYTES`
   drops its oldest messages until at most half of each is left. The newest message always stays. The bytes are those
   of `count_window_bytes`: at most what the messages take as JSON, so that they fit into a frame.
2. Messages that come in one event (`MessagesImported`) are added and trimmed one by one, so the window depends only on
   the messages and their order, not on the events that brought them.
3. Branches do not matter, only the order of addition. Ancestors of the head may leave before messages of an inactive
   branch, and the head itself may be outside after a switch to an old branch.

Dropping to a half makes trimming cheap: messages that survive one trim are gone after the next, because by then more
than half a window has been added. No message is copied more than once.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from session_core import limits
from session_core.vocabulary.frozen import Vector
from session_core.vocabulary.messages import Message, count_max_bytes

_ENVELOPE_BYTES: Final = 4_096
"""A message without its parts: its ids, its model and its usage."""


def count_window_bytes(messages: Iterable[Message]) -> int:
    """Return how many bytes these messages take as JSON at most."""
    return sum(count_max_bytes(message.parts) + _ENVELOPE_BYTES for message in messages)


def trim(messages: Vector[Message], size: int) -> tuple[Vector[Message], int, int]:
    """Trim messages of this size; return the rest, the number of messages dropped, and the size of the rest.

    Call this after each added message.
    """
    if len(messages) <= limits.WINDOW_MESSAGES and size <= limits.WINDOW_BYTES:
        return messages, 0, size
    retained = retained_size = 0
    for message in islice(reversed(messages), max(1, limits.WINDOW_MESSAGES // 2)):
        more = retained_size + count_window_bytes((message,))
        if retained and more > limits.WINDOW_BYTES // 2:
            break
        retained, retained_size = retained + 1, more
    dropped = len(messages) - retained
    return Vector(messages[dropped:]) if dropped else messages, dropped, retained_size
