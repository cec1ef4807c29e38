"""Messages that deliver themselves later: one task that sleeps until the next one is due."""

from collections.abc import Callable
from typing import NoReturn

import trio

from session_core.ids import SessionId, WakeupId

LONGEST_NAP_S = 30.0  # look at the wall clock at least this often: it may have been set


class WakeupClock:
    """Calls `fire` when a wake-up is due, in the order of their times."""

    def __init__(self, now: Callable[[], int], fire: Callable[[SessionId, WakeupId], None]) -> None:
        self._now = now
        self._fire = fire
        self._due: dict[WakeupId, tuple[int, WakeupId, SessionId]] = {}
        self._changed = trio.Event()

    def arm(self, session_id: SessionId, wakeup_id: WakeupId, due_at: int) -> None:
        """Add a wake-up."""
        self._due[wakeup_id] = (due_at, wakeup_id, session_id)
        self._changed.set()

    def disarm(self, wakeup_id: WakeupId) -> None:
        """Take a wake-up away, if it is still there."""
        self._due.pop(wakeup_id, None)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> NoReturn:
        """Sleep and fire until cancelled."""
        task_status.started()
        while True:
            now = self._now()
            for _, wakeup_id, session_id in sorted(due for due in self._due.values() if due[0] <= now):
                del self._due[wakeup_id]
                self._fire(session_id, wakeup_id)
            self._changed = trio.Event()
            next_due = min((due_at for due_at, _, _ in self._due.values()), default=None)
            nap = LONGEST_NAP_S if next_due is None else (next_due - now) / 1000
            with trio.move_on_after(min(max(nap, 0.0), LONGEST_NAP_S)):
                await self._changed.wait()
