"""Applies what extensions register while they run, in order per extension.

Checking hundreds of schemas takes a good part of a second, during which the service could do nothing else. So a large
update is checked in a thread, and later updates and requests of the same extension wait for it. A small update with
none before it applies at once.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import attrs
import msgspec
import trio

from session_core import limits
from session_core.sep.host.calls.notifications import ExtensionSender, HostView, log_remark
from session_core.sep.host.registrations import RegistrationsInvalid, merge_update
from session_core.sep.protocol.fields import InvalidDocumentField

REGISTER: Final = "registry/update"
"""The method, which may come as a notification or as a request."""
_LEAST_SIZE: Final = 1_024
"""The size that the smallest update counts as: even an empty one takes some space and time while it waits."""


@attrs.define(eq=False, kw_only=True)
class _Update:
    """One update; afterwards, `failure` is what was wrong with it, and `answered` whether a caller is told."""

    extension: ExtensionSender
    generation: int
    params: Mapping[str, Any]
    size: int
    answered: bool
    done: trio.Event = attrs.field(factory=trio.Event)
    failure: InvalidDocumentField | RegistrationsInvalid | None = None


class RegistryUpdater:
    """The updates of all extensions; `run` it beside them. Until it runs, every update applies at once."""

    def __init__(self, host: HostView) -> None:
        self._host = host
        self._waiting: dict[str, deque[_Update]] = {}
        self._sizes: dict[str, int] = {}  # of all waiting updates, per extension
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Check large updates until cancelled; updates that still wait then are dropped."""
        try:
            async with trio.open_nursery() as self._nursery:
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None
            for updates in self._waiting.values():
                for update in updates:
                    update.done.set()
            self._waiting.clear()
            self._sizes.clear()

    def submit(self, extension: ExtensionSender, generation: int, params: Mapping[str, Any]) -> None:
        """Queue an update without waiting for it; errors go to the extension's log."""
        try:
            self._take(extension, generation, params, answered=False)
        except (InvalidDocumentField, RegistrationsInvalid) as wrong:
            _log_rejection(self._host, extension, wrong)

    async def submit_and_wait(self, extension: ExtensionSender, generation: int, params: Mapping[str, Any]) -> None:
        """Queue an update and wait until it has been applied.

        Raises:
            RegistrationsInvalid: Something in it is wrong; nothing has changed.
            InvalidDocumentField: The process does not speak for the extension, or registers too much at once.

        Cancellation: the update is applied all the same.
        """
        update = self._take(extension, generation, params, answered=True)
        if update is None:
            await trio.lowlevel.checkpoint()
            return
        await update.done.wait()
        if update.failure is not None:
            raise update.failure

    async def wait_settled(self, name: str) -> None:
        """Wait until everything that an extension has registered so far has been applied."""
        if waiting := self._waiting.get(name):
            await waiting[-1].done.wait()

    def _take(
        self, extension: ExtensionSender, generation: int, params: Mapping[str, Any], *, answered: bool
    ) -> _Update | None:
        """Apply an update now, or queue it."""
        size = size_in_bytes(params)
        waiting = self._waiting.get(extension.name)
        if self._nursery is None or (not waiting and size <= limits.EXTENSION_REGISTERS_AT_ONCE):
            _check_speaker(extension, generation)
            self._host.registry_updated(extension.name, merge_update(extension.registrations, params))
            return None
        size = max(size, _LEAST_SIZE)
        before = self._sizes.get(extension.name, 0)
        if before + size > limits.MAX_EXTENSION_REGISTERS:
            most = limits.MAX_EXTENSION_REGISTERS
            raise InvalidDocumentField("", f"more than {most:,} bytes are registered at once, which is the limit")
        update = _Update(extension=extension, generation=generation, params=params, size=size, answered=answered)
        self._sizes[extension.name] = before + size
        if waiting is None:
            self._waiting[extension.name] = deque([update])
            self._nursery.start_soon(self._work, extension.name)
        else:
            waiting.append(update)
        return update

    async def _work(self, name: str) -> None:
        waiting = self._waiting[name]
        while waiting:
            update = waiting[0]
            try:
                await self._check(update)
            except (InvalidDocumentField, RegistrationsInvalid) as wrong:
                update.failure = wrong
                if not update.answered:
                    _log_rejection(self._host, update.extension, wrong)
            waiting.popleft()
            self._sizes[name] -= update.size
            update.done.set()
        del self._waiting[name], self._sizes[name]

    async def _check(self, update: _Update) -> None:
        extension = update.extension
        _check_speaker(extension, update.generation)
        found = await trio.to_thread.run_sync(
            merge_update, extension.registrations, update.params, abandon_on_cancel=True
        )
        _check_speaker(extension, update.generation)  # another process may have taken over meanwhile
        self._host.registry_updated(extension.name, found)


def size_in_bytes(params: Mapping[str, Any]) -> int:
    """Return the size of a message; one that cannot be encoded counts as large, and is rejected later."""
    try:
        return len(msgspec.json.encode(params))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return limits.EXTENSION_REGISTERS_AT_ONCE + 1


def _check_speaker(extension: ExtensionSender, generation: int) -> None:
    if generation != extension.generation:
        raise InvalidDocumentField("", "only the running process of an extension registers anything")


def _log_rejection(
    host: HostView, extension: ExtensionSender, wrong: InvalidDocumentField | RegistrationsInvalid
) -> None:
    log_remark(host, extension, f"{REGISTER} was ignored: {wrong}")
