"""Replies that wait for the disk: one task waits for all of them, so that each caller sleeps only once per command."""

from collections.abc import Callable
from typing import Any, NoReturn

import attrs
import outcome
import trio

from session_core.errors import StorageFailed
from session_core.service.mailbox import Entry
from session_core.storage.base import SessionStore


@attrs.frozen
class Durable:
    """A reply whose effects are durable."""

    reply: object


class Acknowledger:
    """Holds the outcomes of commands that have run until their effects are durable."""

    def __init__(self, store: SessionStore, seq: Callable[[], int]) -> None:
        self._store = store
        self._seq = seq
        self._held: list[tuple[Entry, object]] = []
        self._task: trio.lowlevel.Task | None = None
        self._parked = False

    def hold(self, entry: Entry, reply: object) -> None:
        """Answer a caller as soon as everything recorded so far is durable."""
        self._held.append((entry, reply))
        if self._parked and self._task is not None:
            self._parked = False
            trio.lowlevel.reschedule(self._task)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> NoReturn:
        """Answer callers until cancelled; `finish` answers those that are left."""
        self._task = trio.lowlevel.current_task()
        task_status.started()
        while True:
            if not self._held:
                self._parked = True
                await trio.lowlevel.wait_task_rescheduled(self._abort)
            count = len(self._held)
            try:
                await self._store.wait_durable(self._seq())
            except StorageFailed as failure:
                self._answer(count, failure)
            else:
                self._answer(count, None)

    def _abort(self, _: object) -> trio.lowlevel.Abort:
        self._parked = False
        return trio.lowlevel.Abort.SUCCEEDED

    def finish(self) -> None:
        """Answer everybody who still waits; the store has written all it ever will."""
        self._answer(len(self._held), self._store.failure)

    def _answer(self, count: int, failure: StorageFailed | None) -> None:
        answered, self._held = self._held[:count], self._held[count:]
        for entry, reply in answered:
            result: outcome.Outcome[Any]
            if failure is None:
                result = outcome.Value(Durable(reply))
            else:
                result = outcome.Error(StorageFailed(failure.message))  # one of its own for each: they get tracebacks
            entry.resolve(result)
