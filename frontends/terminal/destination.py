"""The destination of a message, fixed at the key press.

Rules:
1. Anything slow gets its target passed in and looks nowhere else: the user may view another session by then.
2. Everything typed before a session exists shares one target, and so begins one session, not several.
3. Until the list of sessions has loaded, the target is undecided; messages wait for the decision.
"""

from __future__ import annotations

import anyio
import attrs

import session_core as sc
from frontends.terminal.feeds import NOT_YET, PATIENCE_S
from frontends.terminal.options import NewSession


@attrs.define(eq=False)
class MessageTarget:
    """A session, or a new one that its first message creates.

    Attributes:
        new: The settings of the new session; for an existing session, its folder and model.
        session_id: None until the session exists.
        creation_lock: Held while the session is created or its initial settings change.
        decision: Set once the target is known; None if it is known from the start.
        refused: Why nothing may be sent here.
    """

    new: NewSession
    session_id: sc.SessionId | None = None
    creation_lock: anyio.Lock = attrs.field(factory=anyio.Lock)
    decision: anyio.Event | None = None
    refused: str | None = None

    @classmethod
    def create_undecided(cls, new: NewSession) -> MessageTarget:
        """Return a target that the list of sessions will decide."""
        return cls(new, decision=anyio.Event())

    def decide(self, found: sc.SessionSummary | None, refused: str | None = None) -> None:
        """Decide the target: this session, a new one, or none that accepts messages."""
        if found is not None:
            self.session_id = found.session_id
            self.new = NewSession(cwd=found.cwd, model=found.model)
        self.refused = refused
        if self.decision is not None:
            self.decision.set()

    async def wait_decided(self) -> None:
        """Wait until the target is decided.

        Raises:
            Disconnected: It takes too long.
            InvalidInput: The target accepts no messages.
        """
        if self.decision is not None:
            with anyio.move_on_after(PATIENCE_S):
                await self.decision.wait()
            if not self.decision.is_set():
                raise sc.Disconnected(NOT_YET)
        if self.refused is not None:
            raise sc.InvalidInput(self.refused, field="session_id")

    def is_same(self, other: MessageTarget) -> bool:
        """Return whether both targets are the same session, existing or new."""
        return self is other or (self.session_id is not None and self.session_id == other.session_id)
