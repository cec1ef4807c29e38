"""The conformance suite of protocols: what every `ProtocolFactory` must do, however it runs a turn.

    async def test_it_is_a_protocol() -> None:
        await check_protocol(PlanFirst, script=(text("1. look\\n2. tell"), text("There are 4.")))

    @pytest.mark.parametrize("name", [name for name, _ in PROTOCOL_CHECKS])
    async def test_one_by_one(name: str) -> None:
        await dict(PROTOCOL_CHECKS)[name](ProtocolSubject(make=PlanFirst))

The real service runs the protocol, with a store in memory and a scripted model. `script` is what a model says in a turn
that shows the purpose of the protocol; a model that says plain text is always tried. A protocol with an executor needs
a few lines of code in its language, unless that is Python (`CellSamples`).

A failing check raises `AssertionError` with a sentence that states the broken promise. If the protocol itself raised,
that exception is the cause. A check that does not apply, because the protocol has no such part, says so in the report.
Each check has two minutes; only code that never yields control cannot be ended.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from inspect import iscoroutinefunction
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

import attrs
import trio

from session_core.errors import SessionCoreError
from session_core.foreign_faults import FOREIGN_FAULTS, flatten_group, must_propagate
from session_core.protocols.api import ProtocolFactory
from session_core.protocols.faults import StateNotKeepable
from session_core.protocols.registry import find_factory_problem
from session_core.testing import check_protocol_code as code
from session_core.testing import check_protocol_turns as turns
from session_core.testing import check_protocol_values as values
from session_core.testing.check_protocol_world import PLAIN
from session_core.testing.check_protocol_world import CellSamples as CellSamples
from session_core.testing.check_protocol_world import ProtocolSubject as ProtocolSubject
from session_core.testing.scripted import ScriptedAnswer
from session_core.vocabulary.frozen import JsonObject

# Run one check; it always ends, as passed, skipped, or a broken promise.
PATIENCE_S: Final = 120.0
"""The time limit of one check; a callback has ten seconds, a cell as long as its executor allows."""
_GRACE_S: Final = 15.0
"""How long it may take to end after that; then shielded waits are no longer shielded."""


async def run_guarded(check: Callable[[ProtocolSubject], Awaitable[object]], subject: ProtocolSubject) -> object:
    """Run a check.

    Raises:
        AssertionError: A promise was broken, or the protocol raised an exception or took too long.

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
                if must_propagate(fault):
                    raise
                faults.append(fault)
        nursery.cancel_scope.cancel(reason="the check is over")
    if faults:
        raise _as_broken_promise(faults[0]) from faults[0]
    if not found:
        raise AssertionError(f"no check takes longer than {PATIENCE_S:g} seconds")
    return found[0]


def _as_broken_promise(fault: BaseException) -> AssertionError:
    """Describe what an exception means for the protocol; an assertion already says it."""
    leaves = flatten_group(fault)
    one = next((each for each in leaves if isinstance(each, AssertionError)), leaves[0])
    match one:
        case AssertionError():
            return AssertionError(*one.args)
        case SessionCoreError():
            return AssertionError(f"commands that work with other protocols are not refused: {one}")
        case StateNotKeepable():
            return AssertionError(f"the state that a sample cell leaves can be saved: {one}")
        case _:
            return AssertionError(f"no callback raises an unexpected exception: {type(one).__name__}: {one}")


async def _unshield_late(task: trio.lowlevel.Task, around: trio.CancelScope) -> None:
    """Let an abandoned check be cancelled for good: nothing else ends a shielded wait.

    Scopes outside `around` belong to the caller, and stay as they are.
    """
    await trio.sleep(PATIENCE_S + _GRACE_S)
    while True:
        for each in _tasks_below(task):
            status: Any = each._cancel_status  # noqa: SLF001 - there is no other way to reach it
            while status is not None and status._scope is not around:  # noqa: SLF001
                status._scope.shield = False  # noqa: SLF001
                status = status._parent  # noqa: SLF001
        await trio.sleep(_GRACE_S)


def _tasks_below(task: trio.lowlevel.Task) -> Iterator[trio.lowlevel.Task]:
    yield task
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            yield from _tasks_below(child)


# --- check protocol ---------------------------------------------------------------------------------------------------

ProtocolCheck = Callable[[ProtocolSubject], Awaitable[str | None]]
"""Raises `AssertionError`, or returns why the check does not apply, or None."""


def _guard(check: Callable[[ProtocolSubject], Awaitable[object]]) -> ProtocolCheck:
    async def run(subject: ProtocolSubject) -> str | None:
        skipped = await run_guarded(check, subject)
        return skipped if isinstance(skipped, str) else None

    return run


PROTOCOL_CHECKS: tuple[tuple[str, ProtocolCheck], ...] = tuple(
    (name, _guard(check))
    for module in (values, turns, code)
    for name, check in vars(module).items()
    if iscoroutinefunction(check) and check.__module__ == module.__name__ and not name.startswith("_")
)
"""Every check with its name, for test runners that run them one by one: the public coroutines of these modules."""


@attrs.frozen(kw_only=True)
class ProtocolReport:
    """The result of the checks.

    Attributes:
        protocol: The id of the protocol.
        passed: The names of the checks that passed.
        skipped: The checks that did not apply, with the reason.
    """

    protocol: str
    passed: tuple[str, ...]
    skipped: Mapping[str, str]


async def check_protocol(
    factory: ProtocolFactory | Callable[[], ProtocolFactory],
    *,
    script: Sequence[ScriptedAnswer] = (PLAIN,),
    options: JsonObject | None = None,
    cells: CellSamples | None = None,
    seed: int = 0,
) -> ProtocolReport:
    """Run all checks.

    Args:
        factory: The protocol. A class, or a function that makes one, is called for each service, as in a program that
            starts again: then nothing can hide in the factory.
        script: What a model says in one turn that shows the purpose of the protocol; the turn must complete.
        options: Options of the created sessions.
        cells: Code to try the executor with; for Python there are built-in samples.
        seed: The seed of the random views that the driver gets.

    Raises:
        AssertionError: A promise was broken; a note names the check.
    """
    make = _maker(factory)
    protocol = _make_factory(make).id
    assert cells is None or isinstance(cells, CellSamples), f"cells must be CellSamples, not {type(cells).__name__}"
    passed: list[str] = []
    skipped: dict[str, str] = {}
    with TemporaryDirectory() as place:
        subject = ProtocolSubject(
            make=make, script=tuple(script), options=options or JsonObject(), cells=cells, cwd=place, seed=seed
        )
        for name, check in PROTOCOL_CHECKS:
            try:
                reason = await check(subject)
            except Exception as error:
                error.add_note(f"in the check {name}")
                raise
            if reason is None:
                passed.append(name)
            else:
                skipped[name] = reason
    return ProtocolReport(protocol=protocol, passed=tuple(passed), skipped=skipped)


def _maker(factory: Any) -> Callable[[], ProtocolFactory]:
    if isinstance(factory, ProtocolFactory):
        return lambda: factory
    assert callable(factory), (
        f"a protocol is a ProtocolFactory, or a function that makes one, not a {type(factory).__name__}"
    )
    return cast(Callable[[], ProtocolFactory], factory)


def _make_factory(make: Callable[[], object]) -> ProtocolFactory:
    """Make a factory, to check that this works."""
    try:
        factory = make()
    except FOREIGN_FAULTS as error:
        if must_propagate(error):
            raise
        raise AssertionError(f"a protocol can be made: {type(error).__name__}: {error}") from error
    assert isinstance(factory, ProtocolFactory), f"a protocol is a ProtocolFactory, not a {type(factory).__name__}"
    assert (problem := find_factory_problem(factory)) is None, f"a protocol says what it is: it {problem}"
    return factory
