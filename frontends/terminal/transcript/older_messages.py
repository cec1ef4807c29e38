"""The messages from before a session's window: those that left it while it was viewed, and those that were loaded.

Rules:
1. They end where the window begins, without a gap; so their number tells the index of their first one.
2. Messages that leave the window are kept up to a bound; then the oldest go. The same bound limits loading.
3. A page that no longer fits when it arrives, because something has changed meanwhile, is discarded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import session_core as sc

MOST_MESSAGES: Final = 8_192
"""Eight windows: days of work, and still quick to draw."""
MOST_CHARS: Final = 32_000_000


class OlderMessages:
    """Keeps the older messages, oldest first, in a list that others read."""

    def __init__(self, messages: list[sc.Message]) -> None:
        self._messages = messages
        self._chars = sum(map(_size_of, messages))

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another page."""
        return len(self._messages) >= MOST_MESSAGES or self._chars >= MOST_CHARS

    def first_index(self, state: sc.SessionState) -> int:
        """Return the index of the oldest known message in the session, counted from 0."""
        return state.earlier - len(self._messages)

    def take_from_window(self, messages: Sequence[sc.Message], earlier: int, state: sc.SessionState) -> bool:
        """Take the messages that left the window, which held these and started at `earlier`; True if some were dropped.

        If the old window does not reach the new one, there would be a gap, so nothing is kept.
        """
        moved = state.earlier - earlier
        if moved == 0:
            return False
        if not 0 < moved <= len(messages) or (moved < len(messages) and not _begins_with(state, messages[moved])):
            self._messages.clear()
            self._chars = 0
            return True
        departed = messages[:moved]
        self._messages.extend(departed)
        self._chars += sum(map(_size_of, departed))
        return self._shrink()

    def take(self, reply: sc.replies.MessagesReply, state: sc.SessionState) -> bool:
        """Prepend a page; False if it does not belong there."""
        if reply.first + len(reply.messages) != self.first_index(state):
            return False
        self._messages[:0] = reply.messages
        self._chars += sum(map(_size_of, reply.messages))
        return True

    def _shrink(self) -> bool:
        count, chars = len(self._messages), self._chars
        gone = 0
        while gone < count and (count - gone > MOST_MESSAGES or chars > MOST_CHARS):
            chars -= _size_of(self._messages[gone])
            gone += 1
        del self._messages[:gone]
        self._chars = chars
        return gone > 0


def _begins_with(state: sc.SessionState, message: sc.Message) -> bool:
    return bool(state.messages) and state.messages[0].message_id == message.message_id


def _size_of(message: sc.Message) -> int:
    """Return the approximate number of characters in a message."""
    return sum(len(getattr(part, "text", "")) + len(getattr(part, "data", "")) for part in message.parts)
