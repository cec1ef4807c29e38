"""Playing one check of a protocol so that it ends, and ends as what it is: passed, left out, or a promise broken."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import trio

from session_core.errors import SessionCoreError
from session_core.foreign_faults import FOREIGN_FAULTS, passes_through
from session_core.protocols.faults import StateNotKeepable
from session_core.testing.check_protocol_world import ProtocolSubject

PATIENCE_S: Final = 120.0
"""How long one check may take; a callback has ten seconds, a cell as long as its executor gives it."""
_GRACE_S: Final = 15.0
"""How long it may take to end after that; then waits that shield themselves are not shielded any more."""


async def guarded(check: Callable[[ProtocolSubject], Awaitable[object]], subject: ProtocolSubject) -> object:
    """Play a check.

    Raises:
        AssertionError: A promise was broken, or the protocol raised something, or took too long.

    Cancellation: the check is cancelled.
    """
    found: list[object] = []
    faults: list[BaseException] = []

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_unshield_late, trio.lowlevel.current_task(), nursery.cancel_scope)
        with trio.move_on_after(PATIENCE_S):
            try:
                found.append(await check(subject))
            except FOREIGN_FAULTS as fault:
                if passes_through(fault):
                    raise
                faults.append(fault)
        nursery.cancel_scope.cancel(reason="the check is over")
    if faults:
        raise _as_broken_promise(faults[0]) from faults[0]
    if not found:
        raise AssertionError(f"nothing takes longer than {PATIENCE_S:g} seconds")
    return found[0]


def _as_broken_promise(fault: BaseException) -> AssertionError:
    """Say what a fault means for the protocol; an assertion says it itself."""
    one = next((each for each in _flat(fault) if isinstance(each, AssertionError)), next(_flat(fault)))
    match one:
        case AssertionError():
            return AssertionError(*one.args)
        case SessionCoreError():
            return AssertionError(f"no session is refused what those of other protocols get: {one}")
        case StateNotKeepable():
            return AssertionError(f"what a cell of the samples leaves behind can be kept: {one}")
        case _:
            return AssertionError(f"nothing raises what the service does not expect: {type(one).__name__}: {one}")


def _flat(fault: BaseException) -> Iterator[BaseException]:
    if isinstance(fault, BaseExceptionGroup):
        for each in fault.exceptions:
            yield from _flat(each)
    else:
        yield fault


async def _unshield_late(task: trio.lowlevel.Task, around: trio.CancelScope) -> None:
    """Let a check that was given up be cancelled for good: nothing else ends a wait that shields itself.

    What is outside of the scope `around` it belongs to the caller, and stays as it is.
    """
    await trio.sleep(PATIENCE_S + _GRACE_S)
    while True:
        for each in _tasks_below(task):
            status: Any = each._cancel_status  # noqa: SLF001 - there is no other way to it
            while status is not None and status._scope is not around:  # noqa: SLF001
                status._scope.shield = False  # noqa: SLF001
                status = status._parent  # noqa: SLF001
        await trio.sleep(_GRACE_S)


def _tasks_below(task: trio.lowlevel.Task) -> Iterator[trio.lowlevel.Task]:
    yield task
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            yield from _tasks_below(child)
