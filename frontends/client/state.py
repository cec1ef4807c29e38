"""The state of a client's connection, for display."""

import logging
from collections.abc import Callable
from typing import Literal

import attrs

import session_core as sc
from frontends.client.change_signal import ChangeSignal

log = logging.getLogger(__name__)

Phase = Literal["connecting", "connected", "lost", "ended"]


@attrs.frozen(kw_only=True)
class ConnectionState:
    """The state of a client's connection.

    Attributes:
        phase: `connecting` before the first connection, `connected`, `lost` while it reconnects, `ended` for good.
        reason: Why it is lost or has ended, in a sentence.
        attempt: The number of attempts since the last connection.
        welcome: The server's last welcome.
    """

    phase: Phase = "connecting"
    reason: str = ""
    attempt: int = 0
    welcome: sc.wire.Welcome | None = None


StateHandler = Callable[[ConnectionState], object]
"""Called at each change; must not block."""


class StateBoard:
    """Holds the state, and reports each change, also by `changed`."""

    def __init__(self, on_state: StateHandler | None) -> None:
        self.current = ConnectionState()
        self._on_state = on_state
        self.changed = ChangeSignal()

    def show(self, state: ConnectionState) -> None:
        """Set a new state."""
        if state == self.current:
            return
        self.current = state
        self.changed.notify()
        if self._on_state is None:
            return
        try:
            self._on_state(state)
        except Exception:
            log.exception("the handler of the connection's state failed")
