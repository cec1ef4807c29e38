"""How a client is connected, for those who show it."""

import logging
from collections.abc import Callable
from typing import Literal

import attrs

import session_core as sc
from frontends.client.change_signal import Pulse

log = logging.getLogger(__name__)

Phase = Literal["connecting", "connected", "lost", "ended"]


@attrs.frozen(kw_only=True)
class ConnectionState:
    """How a client is connected.

    Attributes:
        phase: `connecting` before the first time, `connected`, `lost` while it tries again, `ended` for good.
        reason: Why it is lost or has ended, in a sentence.
        attempt: How often it has tried since it was connected last.
        welcome: What the server has said of itself, the last time.
    """

    phase: Phase = "connecting"
    reason: str = ""
    attempt: int = 0
    welcome: sc.Welcome | None = None


StateHandler = Callable[[ConnectionState], object]
"""Hears of each change; must not wait."""


class StateBoard:
    """Shows the state, and tells of each change."""

    def __init__(self, hear: StateHandler | None) -> None:
        self.current = ConnectionState()
        self._hear = hear
        self._changed = Pulse()

    def show(self, state: ConnectionState) -> None:
        """Take note of a change."""
        if state == self.current:
            return
        self.current = state
        self._changed.beat()
        if self._hear is None:
            return
        try:
            self._hear(state)
        except Exception:
            log.exception("the function that hears of the connection's state has failed")

    async def wait_for_change(self) -> None:
        """Wait for the next change."""
        await self._changed.wait()
