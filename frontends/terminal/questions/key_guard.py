"""When a key may answer a question: never one that was on its way before the question could be read."""

from typing import Final

import attrs

PATIENCE_S: Final = 0.5
"""How long nothing must have been typed into a new question before what is typed counts."""


@attrs.define(eq=False)
class KeyGuard:
    """Tells keys that were meant for a question from those that were typed for something else.

    A key counts once the question is on the screen and `patience_s` have passed without one: whoever is in the middle
    of a word goes on typing, and none of that is an answer.
    """

    patience_s: float = PATIENCE_S
    _quiet_since: float | None = None

    def begin(self) -> None:
        """Another question: nothing counts until it is `drawn`."""
        self._quiet_since = None

    def mark_drawn(self, drawn_at: float) -> None:
        """The question can be read from now on."""
        self._quiet_since = drawn_at

    @property
    def is_drawn(self) -> bool:
        """Whether the question can be read."""
        return self._quiet_since is not None

    def accepts_key(self, typed_at: float) -> bool:
        """Say whether a key was meant for this question; one that was not starts the waiting anew."""
        if self._quiet_since is None:
            return False
        if typed_at - self._quiet_since < self.patience_s:
            self._quiet_since = max(self._quiet_since, typed_at)
            return False
        self._quiet_since = float("-inf")
        return True
