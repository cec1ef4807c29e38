"""Where something goes that was typed: taken when the key is pressed, and handed on.

Rules:
1. Whatever takes time is given its target and looks nowhere else: by then people may look at another session.
2. All that is typed before there is a session shares one target, so that it begins one session and not several.
3. Before the list of sessions is there, nobody knows which one is meant: what is typed then waits for that.
"""

from __future__ import annotations

import anyio
import attrs

import session_core as sc
from frontends.terminal.feeds import NOT_YET, PATIENCE_S
from frontends.terminal.options import NewSession


@attrs.define(eq=False)
class MessageTarget:
    """A session, or the one that the first words to it begin.

    Attributes:
        new: What it begins with; of a session that is there already, its folder and model.
        session_id: None while there is none.
        making: Held by whoever makes the session or changes what it begins with.
        decision: Set as soon as it is known what this is; none if that is known from the start.
        refused: Why nothing may go here.
    """

    new: NewSession
    session_id: sc.SessionId | None = None
    creation_lock: anyio.Lock = attrs.field(factory=anyio.Lock)
    decision: anyio.Event | None = None
    refused: str | None = None

    @classmethod
    def create_undecided(cls, new: NewSession) -> MessageTarget:
        """Return a target of which the list of sessions will tell what it is."""
        return cls(new, decision=anyio.Event())

    def decide(self, found: sc.SessionSummary | None, refused: str | None = None) -> None:
        """Say what it is: this session, none yet, or nothing that anything may go to."""
        if found is not None:
            self.session_id = found.session_id
            self.new = NewSession(cwd=found.cwd, model=found.model)
        self.refused = refused
        if self.decision is not None:
            self.decision.set()

    async def wait_decided(self) -> None:
        """Wait until it is known what it is.

        Raises:
            Disconnected: It takes too long.
            InvalidInput: It is nothing that anything may go to.
        """
        if self.decision is not None:
            with anyio.move_on_after(PATIENCE_S):
                await self.decision.wait()
            if not self.decision.is_set():
                raise sc.Disconnected(NOT_YET)
        if self.refused is not None:
            raise sc.InvalidInput(self.refused, field="session_id")

    def is_same(self, other: MessageTarget) -> bool:
        """Tell whether both are one session, or the beginning of one."""
        return self is other or (self.session_id is not None and self.session_id == other.session_id)
