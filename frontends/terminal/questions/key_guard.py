"""Decides which keys may answer a question: none that was pressed before the question could be read."""

from typing import Final

import attrs

PATIENCE_S: Final = 0.5
"""Seconds without typing before keys count as an answer to a new question."""


@attrs.define(eq=False)
class KeyGuard:
    """Tells keys meant for a question from those typed for something else.

    A key counts once the question is on screen and `patience_s` have passed without a key: a user in the
    middle of a word keeps typing, and none of that is an answer.
    """

    patience_s: float = PATIENCE_S
    _quiet_since: float | None = None

    def begin(self) -> None:
        """Start with another question: no key counts until `mark_drawn`."""
        self._quiet_since = None

    def mark_drawn(self, drawn_at: float) -> None:
        """Record that the question can be read from now on."""
        self._quiet_since = drawn_at

    @property
    def is_drawn(self) -> bool:
        """Whether the question can be read."""
        return self._quiet_since is not None

    def accepts_key(self, typed_at: float) -> bool:
        """Return whether a key was meant for this question; one that was not restarts the wait."""
        if self._quiet_since is None:
            return False
        if typed_at - self._quiet_since < self.patience_s:
            self._quiet_since = max(self._quiet_since, typed_at)
            return False
        self._quiet_since = float("-inf")
        return True
