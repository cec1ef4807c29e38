"""Contexts of plugins: of use as long as their callback runs, and no longer."""

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from session_core.ids import Cursor, Epoch, SessionId, TurnId
from session_core.protocols.contexts import (
    BeforeCallContext,
    ChildAnswer,
    DirectAnswer,
    DirectRequest,
    FinishNow,
    Lease,
    Processes,
    ProcessInfo,
    RefuseTurn,
    ReplaceRequest,
    SwitchTo,
    is_before_call,
    open_lease,
)
from session_core.protocols.faults import CallbackContextExpired
from session_core.protocols.frames import first_frame
from session_core.protocols.options import OptionScope
from session_core.providers.base import ModelRequest
from session_core.session.state import SessionState
from session_core.tools.base import TaskRequest
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message, Usage
from session_core.vocabulary.sessions import SandboxPolicy

ANSWER = DirectAnswer(text="yes", model="m", usage=Usage())
ENDED = ProcessInfo(process_id="p", argv=("true",), running=False, exit_code=0)


class Programs:
    """Programs of a turn, as a test has them."""

    def __init__(self) -> None:
        self.signals: list[tuple[str, int]] = []

    async def start(self, argv: Any, *, cwd: str | None = None, env: Any = None) -> str:
        await trio.lowlevel.checkpoint()
        return f"{argv} {cwd} {env}"

    def list(self) -> tuple[ProcessInfo, ...]:
        return (ENDED,)

    async def wait(self, process_id: str) -> ProcessInfo:
        await trio.lowlevel.checkpoint()
        return ENDED

    def signal(self, process_id: str, number: int) -> None:
        self.signals.append((process_id, number))

    async def cancel(self, process_id: str) -> ProcessInfo:
        await trio.lowlevel.checkpoint()
        return ENDED


class Options:
    """Options that can be set without any effect."""

    current = JsonObject({"a": 1})

    def change(self, changes: Mapping[str, Any], scope: OptionScope) -> None:
        pass

    async def wait_until_durable(self) -> None:
        await trio.lowlevel.checkpoint()


OPTIONS = Options()
VIEW = SessionState(session_id=SessionId("s")).snapshot(Cursor(epoch=Epoch("e"), seq=0))


def context_of(lease: Lease, programs: Processes) -> BeforeCallContext:
    """Make a context."""

    async def complete(request: DirectRequest, source: str, key: str) -> DirectAnswer:
        await trio.lowlevel.checkpoint()
        return ANSWER

    async def conversation() -> tuple[Message, ...]:
        await trio.lowlevel.checkpoint()
        return ()

    async def run_child(task: TaskRequest) -> ChildAnswer:
        await trio.lowlevel.checkpoint()
        return ChildAnswer(session_id=SessionId("child"), text=task.prompt)

    return BeforeCallContext(
        session_id=SessionId("s"),
        turn_id=TurnId("t"),
        frame=first_frame(SessionId("s"), 0),
        is_root=True,
        own=OPTIONS,
        step=0,
        usage=Usage(),
        context_tokens=0,
        cwd="/",
        sandbox=SandboxPolicy(),
        tools=(),
        lease=lease,
        complete=complete,
        processes=programs,
        take_view=lambda: VIEW,
        load_conversation=conversation,
        run_child=run_child,
    )


async def everything(context: BeforeCallContext, processes: Processes) -> list[object]:
    """Use all that a context offers; returns what came of each."""
    found: list[object] = []
    uses: tuple[Callable[[], Any], ...] = (
        lambda: context.complete(DirectRequest(messages=()), source="s", key="k"),
        lambda: processes.start(["true"], cwd="/x", env={"A": "b"}),
        lambda: processes.wait("p"),
        lambda: processes.cancel("p"),
        lambda: context.set_options({"a": 2}),
        context.conversation,
        lambda: context.run_child("a title", "a prompt"),
    )
    for use in uses:
        try:
            found.append(await use())
        except CallbackContextExpired as late:
            found.append(late)
    for now in (
        processes.list,
        lambda: processes.signal("p", 15),
        lambda: context.processes,
        lambda: context.options,
        lambda: context.view,
    ):
        try:
            found.append(now())
        except CallbackContextExpired as late:
            found.append(late)
    return found


async def test_a_context_ends_with_its_callback() -> None:
    """Within the callback everything works; afterwards each use raises, also of what was taken out of the context."""
    programs = Programs()
    with open_lease() as lease:
        context = context_of(lease, programs)
        kept = context.processes
        within = await everything(context, kept)
    child = ChildAnswer(session_id=SessionId("child"), text="a prompt")
    assert within[:9] == [ANSWER, "['true'] /x {'A': 'b'}", ENDED, ENDED, None, (), child, (ENDED,), None]
    assert within[10:] == [OPTIONS.current, VIEW]
    assert programs.signals == [("p", 15)]
    assert [type(each) for each in await everything(context, kept)] == [CallbackContextExpired] * 12
    assert programs.signals == [("p", 15)]


async def test_a_task_that_outlives_its_callback() -> None:
    """A task that goes on after the callback cannot use its context, whenever it tries."""
    async with trio.open_nursery() as nursery:
        gone, found = trio.Event(), []

        async def outlive(context: BeforeCallContext) -> None:
            await gone.wait()
            found.extend(await everything(context, Programs()))

        async def callback() -> None:
            with open_lease() as lease:
                nursery.start_soon(outlive, context_of(lease, Programs()))
                await trio.lowlevel.checkpoint()

        await callback()
        gone.set()
    assert [type(found[0]), type(found[-1])] == [CallbackContextExpired, CallbackContextExpired]


async def test_what_is_under_way_when_a_callback_ends() -> None:
    """What a task that outlives its callback is in the middle of is cancelled, and told to it as too late."""
    late: list[str] = []

    async def outlive(lease: Lease) -> None:
        try:
            await lease.run_work(trio.sleep_forever)
        except CallbackContextExpired:
            late.append("too late")

    async def callback(nursery: trio.Nursery) -> None:
        with open_lease() as lease:
            nursery.start_soon(outlive, lease)
            await wait_all_tasks_blocked()
            assert "done" == await lease.run_work(in_a_moment)

    async with trio.open_nursery() as nursery:
        await callback(nursery)
    assert ["too late"] == late


async def in_a_moment() -> str:
    """Something that can be waited for."""
    await trio.lowlevel.checkpoint()
    return "done"


def test_a_lease_ends_with_a_failure_too() -> None:
    """However a callback ends, its lease is over."""
    with pytest.raises(ZeroDivisionError), open_lease() as lease:
        raise ZeroDivisionError
    with pytest.raises(CallbackContextExpired, match="has ended"):
        lease.check()


REQUEST = ModelRequest(model="m", messages=())
WRONG: tuple[dict[str, Any], ...] = (
    {"messages": "abc"},
    {"messages": ("abc",)},
    {"model": ["m"]},
    {"tools": 7},
    {"max_output_tokens": 0},
)
GOOD = (None, ReplaceRequest(request=REQUEST), SwitchTo(key="k", task="t"), FinishNow(), RefuseTurn(reason=""))
BAD: tuple[Any, ...] = (
    "no",
    REQUEST,
    ReplaceRequest(request=None),  # type: ignore[arg-type]
    SwitchTo(key=" ", task="t"),
    SwitchTo(key="k", task=""),
    SwitchTo(key="k", task=3),  # type: ignore[arg-type]
    FinishNow(text=None),  # type: ignore[arg-type]
    RefuseTurn(reason=4),  # type: ignore[arg-type]
    SwitchTo(key="k", task="t", reason=7),  # type: ignore[arg-type]
    SwitchTo(key="k", task="t", reason="\ud800"),
    *(ReplaceRequest(request=attrs.evolve(REQUEST, **change)) for change in WRONG),
)


def test_what_can_be_decided() -> None:
    """What a plugin decides before a call is one of the few things there are, and says what it must."""
    assert [is_before_call(each) for each in GOOD] == [True] * len(GOOD)
    assert [is_before_call(each) for each in BAD] == [False] * len(BAD)
