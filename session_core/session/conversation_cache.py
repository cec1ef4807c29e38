"""The conversation that a model was shown last, so that the next step only has to add what is new.

It reaches further back than the state, whose window holds the newest messages only; reading the rest from the store
takes long, and is done once for as long as the session is in memory.
"""

from session_core import limits
from session_core.session.message_window import chars_in
from session_core.session.state import SessionState
from session_core.vocabulary.messages import Message, size_of


class KnownPath:
    """The messages that lead to a message, from the newest summary on."""

    def __init__(self) -> None:
        self._messages: tuple[Message, ...] = ()
        self.chars = 0
        """The size of all its messages."""

    def newer(self, state: SessionState) -> tuple[Message, ...] | None:
        """Return the messages on the way from the end of this path to the head; None when it does not lead there."""
        if not self._messages:
            return None
        known, wanted = self._messages[-1].message_id, state.head
        path: list[Message] = []
        for message in reversed(state.messages):
            if wanted == known:
                break
            if message.message_id == wanted:
                path.append(message)
                wanted = message.parent_id
        return tuple(reversed(path)) if wanted == known else None

    def begin(self, path: tuple[Message, ...]) -> tuple[Message, ...]:
        """Start anew with a path; returns what of it a model gets to see."""
        first = next((place for place, message in enumerate(path) if message.role != "tool"), len(path))
        self._messages, self.chars = (), 0
        return self.extend(path[first:])  # no model could place results whose calls are further back

    def extend(self, newer: tuple[Message, ...]) -> tuple[Message, ...]:
        """Go on with these messages; returns the whole path."""
        for count, message in enumerate(reversed(newer), start=1):
            if message.role == "summary":
                self._messages, self.chars, newer = (), 0, newer[-count:]
                break
        self._messages += newer
        self.chars += chars_in(newer)
        if self.chars > limits.WINDOW_CHARS * 3 // 2:  # as much as a full window and what is read before it
            self._shorten()
        return self._messages

    def _shorten(self) -> None:
        first = 0
        while self.chars > limits.WINDOW_CHARS and first < len(self._messages) - 1:
            self.chars -= size_of(self._messages[first])
            first += 1
        self.begin(self._messages[first:])
