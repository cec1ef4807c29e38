"""The mailbox: commands wait here, in order, for the one actor that runs them.

Rules:
1. Commands run in the order of `call`, one at a time. `perform` is synchronous, so the actor waits only for the next
   command (law 5 by construction).
2. Each call gets exactly one outcome: the reply, one error, or `ServiceClosed` when the actor has ended.
3. The mailbox is bounded: one command too many is refused with `Overloaded`, and nothing is done.
4. Cancellation: a command that has not started is skipped; one that has started is complete (rule 1).

A caller that finds the mailbox empty runs its command itself, in the same order and without a trip to the actor: one
task switch. Otherwise it sleeps until the actor wakes it with the outcome: two task switches, no other objects.
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, NoReturn

import attrs
import outcome
import trio

from session_core import limits
from session_core.errors import Overloaded, ServiceClosed, StorageFailed
from session_core.service.session_queues import SessionQueues
from session_core.storage.base import SessionStore
from session_core.vocabulary.commands import CommandRequest


@attrs.define(eq=False, slots=True)
class MailboxEntry:
    """A waiting command; `number` is its place in the order of all calls."""

    request: CommandRequest
    number: int
    caller: trio.lowlevel.Task | None

    def abandon(self, _: object) -> trio.lowlevel.Abort:
        """Release a cancelled caller."""
        self.caller = None
        return trio.lowlevel.Abort.SUCCEEDED

    def resolve(self, result: outcome.Outcome[Any]) -> None:
        """Wake the caller, if it still waits, with the outcome."""
        if self.caller is not None:
            caller, self.caller = self.caller, None
            trio.lowlevel.reschedule(caller, result)


@attrs.frozen(kw_only=True)
class MailboxStatistics:
    """Counts for people and tests."""

    waiting: int
    performed: int
    refused: int


class Mailbox:
    """A bounded queue of commands, drained by `run`.

    Args:
        perform: Runs a command, synchronously.
        capacity: Commands that may wait.
        hold: Takes over answering the caller, for replies that are not due yet; returns whether it did.
    """

    def __init__(
        self,
        perform: Callable[[CommandRequest, int], object],
        *,
        capacity: int,
        hold: Callable[[MailboxEntry, object], bool] = lambda _entry, _reply: False,
    ) -> None:
        self._perform = perform
        self._hold = hold
        self._capacity = capacity
        self.queues = SessionQueues(capacity)
        """The queues of commands that must wait before they enter the mailbox."""
        self._entries: deque[MailboxEntry] = deque()
        self._actor: trio.lowlevel.Task | None = None
        self._actor_parked = False
        self._caller_runs = False  # one command per tick runs in its caller's task; others wait meanwhile
        self._closed = False
        self.last_number = 0
        self._performed = 0
        self._refused = 0

    def take_number(self) -> int:
        """Reserve the next place in the order of all calls, for a command that will come later."""
        self.last_number += 1
        return self.last_number

    async def call(self, request: CommandRequest, number: int | None = None) -> object:
        """Put a command into the mailbox and wait for its reply; `number` is its place, if it has reserved one."""
        if self._closed:
            await trio.lowlevel.checkpoint()
            msg = "the service is closed"
            raise ServiceClosed(msg)
        if len(self._entries) + self._caller_runs >= self._capacity:
            self._refused += 1
            await trio.lowlevel.checkpoint()
            msg = f"{self._capacity} commands are waiting already; try again in a moment"
            raise Overloaded(msg)
        if self._actor_parked and not self._caller_runs:
            return await self._run_at_once(request, number)
        entry = MailboxEntry(request, number or self.take_number(), trio.lowlevel.current_task())
        self._entries.append(entry)
        if self._actor_parked and self._actor is not None:
            self._actor_parked = False
            trio.lowlevel.reschedule(self._actor)
        return await trio.lowlevel.wait_task_rescheduled(entry.abandon)

    async def _run_at_once(self, request: CommandRequest, number: int | None) -> object:
        await trio.lowlevel.checkpoint_if_cancelled()
        number = number or self.take_number()
        self._performed += 1
        self._caller_runs = True
        try:
            return self._perform(request, number)
        finally:
            await trio.lowlevel.cancel_shielded_checkpoint()
            self._caller_runs = False

    def waiting_requests(self) -> Iterator[CommandRequest]:
        """Return the waiting commands, including those before the mailbox."""
        inside = (entry.request for entry in self._entries if entry.caller is not None)
        return chain(inside, self.queues.waiting_requests())

    def statistics(self) -> MailboxStatistics:
        """Return the current counts."""
        return MailboxStatistics(waiting=len(self._entries), performed=self._performed, refused=self._refused)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> NoReturn:
        """Run commands as the actor, until cancelled; those left over then get `ServiceClosed`."""
        self._actor = trio.lowlevel.current_task()
        task_status.started()
        try:
            while True:
                if not self._entries:
                    self._actor_parked = True
                    await trio.lowlevel.wait_task_rescheduled(self._abort_actor)
                for _ in range(min(len(self._entries), limits.DRAIN_PER_TICK)):
                    self._run_next()
                if self._entries:
                    await trio.lowlevel.checkpoint()
        finally:
            self.close()

    def _run_next(self) -> None:
        entry = self._entries.popleft()
        if entry.caller is None:
            return
        self._performed += 1
        result = outcome.capture(self._perform, entry.request, entry.number)
        if isinstance(result, outcome.Error) or not self._hold(entry, result.value):
            entry.resolve(result)

    def _abort_actor(self, _: object) -> trio.lowlevel.Abort:
        self._actor_parked = False
        return trio.lowlevel.Abort.SUCCEEDED

    def close(self) -> None:
        """Refuse all commands from now on, including the waiting ones."""
        self._closed = True
        self.queues.close()
        while self._entries:
            closed = ServiceClosed("the service was closed before this command ran")
            self._entries.popleft().resolve(outcome.Error(closed))


# --- replies that wait for the disk -----------------------------------------------------------------------------------
# One task waits for all of them: each caller sleeps only once per command.


@attrs.frozen
class DurableReply:
    """A reply whose effects are durable."""

    reply: object


class Acknowledger:
    """Holds the outcomes of commands that have run until their effects are durable."""

    def __init__(self, store: SessionStore, seq: Callable[[], int]) -> None:
        self._store = store
        self._seq = seq
        self._held: list[tuple[MailboxEntry, object]] = []
        self._task: trio.lowlevel.Task | None = None
        self._parked = False

    def hold(self, entry: MailboxEntry, reply: object) -> None:
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
        """Answer all callers that still wait; the store has written all it ever will."""
        self._answer(len(self._held), self._store.failure)

    def _answer(self, count: int, failure: StorageFailed | None) -> None:
        answered, self._held = self._held[:count], self._held[count:]
        for entry, reply in answered:
            result: outcome.Outcome[Any]
            if failure is None:
                result = outcome.Value(DurableReply(reply))
            else:
                result = outcome.Error(StorageFailed(failure.message))  # one per caller: errors get tracebacks
            entry.resolve(result)
