"""The mailbox: commands wait here, in order, for the one actor that runs them.

An entry is *preparing* or *ready*. It is preparing while hooks are asked about its command, its folder is read or its
session is loaded, in its caller's task, and while it waits for entries ahead of it. Most commands are ready at once.

Rules:
1. Ready commands run one at a time, in the order in which they became ready. `perform` is synchronous, so the actor
   waits only for the next command (law 5 by construction).
2. Changes of a session become ready in the order of arrival. A read waits only for earlier commands of the same client,
   and not for one that a hook is asked about: the hook may have asked a person, who must be able to see the question.
   Example: a hook is asked about client A's prompt. A's next prompt waits, and so does a renaming by client B; A can
   load the session meanwhile. What B loads now waits for B's own renaming.
3. Sessions do not wait for each other; where nothing is preparing, nothing waits. Commands of extensions wait for
   nobody, nor do those that a hook itself sends: the entry ahead may be waiting for them.
4. Each call gets exactly one outcome: the reply, one error, or `ServiceClosed` when the actor has ended.
5. The mailbox is bounded: one entry too many, preparing or ready, is refused with `Overloaded`, and nothing is done.
6. Cancellation: a command that has not started is skipped, and those behind it move up; one that has started is
   complete (rule 1).

A caller that finds the mailbox idle runs its command itself, in the same order and without a trip to the actor: one
task switch. Otherwise it sleeps until the actor wakes it with the outcome.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import Any, Final, NoReturn

import attrs
import outcome
import trio

from session_core import limits
from session_core.errors import Overloaded, ServiceClosed
from session_core.ids import SessionId
from session_core.service.extension_api import extension_of
from session_core.vocabulary.commands import CommandRequest

_hooks_asked: Final[ContextVar[frozenset[SessionId | None]]] = ContextVar("_hooks_asked", default=frozenset())
"""The sessions whose commands hooks are being asked about, in this task or one that started it."""


def begin_work() -> None:
    """Forget that a hook started this task: the commands of independent work wait like any other."""
    _hooks_asked.set(frozenset())


@attrs.define(eq=False, slots=True)
class MailboxEntry:
    """A command on its way; `number` is its place in the order of all calls."""

    request: CommandRequest
    number: int
    caller: trio.lowlevel.Task | None = None
    """Sleeps until the outcome, once the entry is ready."""
    followers: trio.lowlevel.ParkingLot | None = None
    """The callers of those right behind it, while it is preparing."""
    reads_pass: bool = False

    def holds_up(self, later: CommandRequest) -> bool:
        """Return whether a later command of the session must wait until this one is ready."""
        if self.request.client_id == later.client_id and not self.reads_pass:
            return True
        return not self.request.command.reads_only and not later.command.reads_only

    def wake_followers(self) -> None:
        """Wake the callers right behind it, to check whether they still have to wait."""
        if self.followers is not None:
            self.followers.unpark_all()

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
        capacity: Commands that may wait while preparing, and as many that may be ready.
    """

    def __init__(self, perform: Callable[[CommandRequest, int], object], *, capacity: int) -> None:
        self._perform = perform
        self._capacity = capacity
        self._preparing: dict[SessionId | None, dict[MailboxEntry, None]] = {}  # in the order of arrival
        self._preparing_count = 0
        self._ready: deque[MailboxEntry] = deque()
        self._idle_actor = trio.lowlevel.ParkingLot()  # it sleeps here while nothing is ready
        self._caller_runs = False  # one command per tick runs in its caller's task; others wait meanwhile
        self._closed = False
        self.last_number = 0
        self._performed = 0
        self._refused = 0

    # --- preparing ----------------------------------------------------------------------------------------------------

    def must_wait(self, request: CommandRequest) -> bool:
        """Return whether a command has to wait for others before it is ready."""
        return bool(self._preparing) and self._find_ahead(request) is not None

    @contextmanager
    def enter(self, request: CommandRequest) -> Generator[MailboxEntry]:
        """Hold the place of a command that is preparing, within the block or until `call`.

        Raises:
            Overloaded: Too many are preparing already.
        """
        session_id = request.command.session_id
        entry = MailboxEntry(request, self._take_number())
        if session_id is None or _waits_for_nobody(request):
            yield entry
            return
        if self._preparing_count >= self._capacity:
            raise self._count_refusal()
        entry.followers = trio.lowlevel.ParkingLot()
        self._preparing.setdefault(session_id, {})[entry] = None
        self._preparing_count += 1
        try:
            yield entry
        finally:
            self._leave(entry)

    async def wait_for_turn(self, entry: MailboxEntry) -> None:
        """Wait until a preparing entry holds up this one no longer; return at once if none does.

        Raises:
            ServiceClosed: The service has closed meanwhile.
        """
        while not self._closed and (ahead := self._find_ahead(entry.request)) is not None:
            assert ahead.followers is not None
            await ahead.followers.park()
        if self._closed:
            raise ServiceClosed("the service was closed before this command ran")

    @contextmanager
    def while_asking_hooks(self, entry: MailboxEntry) -> Generator[None]:
        """Mark a command while the block asks hooks about it: what they send, and any read, does not wait for it."""
        entry.reads_pass = True
        entry.wake_followers()
        token = _hooks_asked.set(_hooks_asked.get() | {entry.request.command.session_id})
        try:
            yield
        finally:
            _hooks_asked.reset(token)

    def _find_ahead(self, request: CommandRequest) -> MailboxEntry | None:
        """Return the nearest entry that holds up a command: when that one is ready, it looks again."""
        ahead = None
        if not _waits_for_nobody(request):
            for entry in self._preparing.get(request.command.session_id, ()):
                if entry.request is request:
                    break
                if entry.holds_up(request):
                    ahead = entry
        return ahead

    def _leave(self, entry: MailboxEntry) -> None:
        """Let those behind an entry move up: it is ready, or was given up."""
        session_id = entry.request.command.session_id
        places = self._preparing.get(session_id, {})
        if entry in places:
            del places[entry]
            self._preparing_count -= 1
            if not places:
                del self._preparing[session_id]
            entry.wake_followers()

    # --- ready --------------------------------------------------------------------------------------------------------

    async def call(self, request: CommandRequest, entry: MailboxEntry | None = None) -> object:
        """Run a command in its turn and return its reply; `entry` is the place that it has held while preparing."""
        if entry is not None:
            self._leave(entry)
        if self._closed:
            await trio.lowlevel.checkpoint()
            raise ServiceClosed("the service is closed")
        if len(self._ready) + self._caller_runs >= self._capacity:
            await trio.lowlevel.checkpoint()
            raise self._count_refusal()
        if self._idle_actor and not self._caller_runs:
            return await self._run_at_once(request, entry)
        entry = entry or MailboxEntry(request, self._take_number())
        entry.request, entry.caller = request, trio.lowlevel.current_task()
        self._ready.append(entry)
        self._idle_actor.unpark()
        return await trio.lowlevel.wait_task_rescheduled(entry.abandon)

    async def _run_at_once(self, request: CommandRequest, entry: MailboxEntry | None) -> object:
        await trio.lowlevel.checkpoint_if_cancelled()
        number = entry.number if entry is not None else self._take_number()
        self._performed += 1
        self._caller_runs = True
        try:
            return self._perform(request, number)
        finally:
            await trio.lowlevel.cancel_shielded_checkpoint()
            self._caller_runs = False

    def _take_number(self) -> int:
        self.last_number += 1
        return self.last_number

    def _count_refusal(self) -> Overloaded:
        self._refused += 1
        return Overloaded(f"{self._capacity} commands are waiting already; try again in a moment")

    def waiting_requests(self) -> Iterator[CommandRequest]:
        """Return the commands that have not started, ready ones first."""
        ready = (entry.request for entry in self._ready if entry.caller is not None)
        return chain(ready, (entry.request for places in self._preparing.values() for entry in places))

    def statistics(self) -> MailboxStatistics:
        """Return the current counts."""
        return MailboxStatistics(waiting=len(self._ready), performed=self._performed, refused=self._refused)

    # --- the actor ----------------------------------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> NoReturn:
        """Run commands as the actor, until cancelled; those left over then get `ServiceClosed`."""
        task_status.started()
        try:
            while True:
                if not self._ready:
                    await self._idle_actor.park()
                for _ in range(min(len(self._ready), limits.DRAIN_PER_TICK)):
                    self._run_next()
                if self._ready:
                    await trio.lowlevel.checkpoint()
        finally:
            self.close()

    def _run_next(self) -> None:
        entry = self._ready.popleft()
        if entry.caller is not None:
            self._performed += 1
            entry.resolve(outcome.capture(self._perform, entry.request, entry.number))

    def close(self) -> None:
        """Refuse all commands from now on, including the waiting ones."""
        self._closed = True
        for places in self._preparing.values():
            for entry in places:
                entry.wake_followers()
        while self._ready:
            closed = ServiceClosed("the service was closed before this command ran")
            self._ready.popleft().resolve(outcome.Error(closed))


def _waits_for_nobody(request: CommandRequest) -> bool:
    return extension_of(request.client_id) is not None or request.command.session_id in _hooks_asked.get()
