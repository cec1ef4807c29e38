"""The window: how much of a long conversation a session's state holds.

Rules:
1. After each added message, a state that holds more than `limits.WINDOW_MESSAGES` messages or `limits.WINDOW_CHARS`
   characters drops its oldest messages until at most half of each is left. The newest message always stays.
2. Messages that come in one event (`MessagesImported`) are added and trimmed one by one, so the window depends only on
   the messages and their order, not on the events that brought them.
3. Branches do not matter, only the order of addition. Ancestors of the head may leave before messages of an inactive
   branch, and the head itself may be outside after a switch to an old branch.

Dropping to a half makes trimming cheap: messages that survive one trim are gone after the next, because by then more
than half a window has been added. No message is copied more than once.
"""

from collections.abc import Iterable
from itertools import islice

from session_core import limits
from session_core.vocabulary.frozen import Vector
from session_core.vocabulary.messages import Message, count_message_chars


def count_total_chars(messages: Iterable[Message]) -> int:
    """Return the total size of these messages."""
    return sum(map(count_message_chars, messages))


def trim(messages: Vector[Message], chars: int) -> tuple[Vector[Message], int, int]:
    """Trim messages of `chars` characters; return the rest, the number of messages dropped, and the rest's characters.

    Call this after each added message.
    """
    if len(messages) <= limits.WINDOW_MESSAGES and chars <= limits.WINDOW_CHARS:
        return messages, 0, chars
    retained, retained_chars = 0, 0
    for message in islice(reversed(messages), max(1, limits.WINDOW_MESSAGES // 2)):
        more = retained_chars + count_message_chars(message)
        if retained and more > limits.WINDOW_CHARS // 2:
            break
        retained, retained_chars = retained + 1, more
    dropped = len(messages) - retained
    return Vector(messages[dropped:]) if dropped else messages, dropped, retained_chars
