"""How plugins are called: in order, with deadlines, and with every fault named."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from session_core import limits
from session_core.ids import MessageId
from session_core.protocols.api import ProtocolBundle, TurnAdditions
from session_core.protocols.contexts import SessionContext
from session_core.protocols.driver import Actions, DriverView, check_actions
from session_core.protocols.execution import Cell, CellResult, Execution
from session_core.protocols.faults import CallbackContextExpired, InputRejected, ProtocolFault, StateNotKeepable
from session_core.protocols.prose import Span, project_text
from session_core.protocols.standard import NativeToolDriver
from session_core.vocabulary.frozen import JsonObject
from tests.session_core.protocols._lifecycle import (
    EXECUTOR,
    FRAME,
    ME,
    SECONDS,
    SESSION,
    call,
    faulty,
    opened,
    said,
)
from tests.session_core.service._protocols import CellDriver, ToyExecutor, Watched, decided, fails, hangs


@pytest.mark.parametrize("callback", [*SESSION, *EXECUTOR, "execute"])
async def test_what_a_callback_raises(callback: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever a callback raises is a fault that names the plugin and the callback, and is logged."""
    protocol = await faulty(callback, fails)
    with caplog.at_level(logging.CRITICAL), pytest.raises(ProtocolFault) as caught:
        await call(protocol, callback)
    name = "restore" if callback == "restore_executor" else callback
    assert (caught.value.plugin, caught.value.callback) == ("watched", name)
    assert caught.value.reason == "ZeroDivisionError: a bug"
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("callback", [*SESSION, *EXECUTOR])
async def test_a_callback_that_hangs(callback: str, autojump_clock: trio.abc.Clock) -> None:
    """A callback that does not come back is ended at its deadline, as a fault."""
    protocol = await faulty(callback, hangs)
    began = trio.current_time()
    with pytest.raises(ProtocolFault) as caught:
        await call(protocol, callback)
    seconds = SECONDS.get(callback, limits.PROTOCOL_CALLBACK_MS / 1000)
    assert trio.current_time() - began == pytest.approx(seconds)
    assert caught.value.reason == f"it took longer than {seconds:g} s"


@pytest.mark.parametrize("callback", [*SESSION, *EXECUTOR, "execute"])
async def test_cancellation_passes(callback: str) -> None:
    """A callback is cancelled with whoever called it, and that is no fault."""
    protocol = await faulty(callback, hangs)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, protocol, callback)
            await wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught


async def test_a_failure_on_the_way_out(autojump_clock: trio.abc.Clock, quiet_log: None) -> None:
    """What fails while a hanging callback is being ended is its fault, whatever it is wrapped in."""

    async def hang_and_fail(*_: object) -> None:
        async def fail_at_the_end() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("on the way out")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_at_the_end)
            nursery.start_soon(trio.sleep_forever)

    protocol = await faulty("appended", hang_and_fail)
    with pytest.raises(ProtocolFault, match="failed in appended: ExceptionGroup"):
        await call(protocol, "appended")


@pytest.mark.parametrize(
    ("callback", "given"),
    [
        ("check_turn_extension", lambda *_: None),
        ("check_turn_extension", lambda *_: TurnAdditions(instructions=3)),  # type: ignore[arg-type]
        ("before_model_call", lambda *_: "go on"),
        ("execute", lambda: "text"),
        ("capture", dict),
    ],
)
async def test_what_a_callback_gives_back(callback: str, given: Callable[..., Any]) -> None:
    """A callback that gives back something else than it should has failed."""
    protocol = await faulty(callback, given)
    with pytest.raises(ProtocolFault, match=f"the protocol watched failed in {callback}: it returned "):
        await call(protocol, callback)


@pytest.mark.parametrize("error", [InputRejected("no"), StateNotKeepable("no"), ProtocolFault("x", "driver", "y")])
@pytest.mark.parametrize("callback", ["initialize", "appended", "execute"])
async def test_errors_that_mean_something_elsewhere(callback: str, error: Exception, quiet_log: None) -> None:
    """An error that means something in one callback is a fault in every other."""

    def act(*_: object) -> None:
        raise error

    with pytest.raises(ProtocolFault) as caught:
        await call(await faulty(callback, act), callback)
    assert (caught.value.plugin, caught.value.callback) == ("watched", callback)


# --- order ------------------------------------------------------------------------------------------------------------


async def test_order_and_counts() -> None:
    """A plugin is initialized once and restored once, whoever needs it first, and both before anything else."""
    factory = Watched()
    protocol = opened(factory)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(protocol.prepare, FRAME, said("a", "b"))
    assert factory.calls == [("build", dict(decided()), True), ("initialize",), ("restore", ("a", "b"))]


@pytest.mark.parametrize("callback", [*SESSION[1:], "driver"])
async def test_restored_again_after_a_fault(callback: str, quiet_log: None) -> None:
    """After a fault in any callback the plugin is restored before its next use, and not initialized again."""
    driver = NativeToolDriver()
    factory = Watched(driver=driver)
    protocol = opened(factory)
    await protocol.prepare(FRAME, said("a"))
    if callback == "restore":
        protocol.invalidate()
    factory.acts[callback] = fails
    with pytest.raises(ProtocolFault):
        await call(protocol, callback)
    factory.acts.clear()
    factory.calls.clear()
    await protocol.note_appended(FRAME, "op", ())
    assert factory.calls == []  # it will find what was appended in the conversation
    await protocol.prepare(FRAME, said("a", "b"))
    await protocol.prepare(FRAME, said("a", "b"))
    assert factory.calls == [("restore", ("a", "b"))]


async def test_initialized_again_if_that_failed(quiet_log: None) -> None:
    """What failed in `initialize` is tried again, as the plugin has not seen the session yet."""
    factory = Watched(initialize=fails)
    protocol = opened(factory)
    with pytest.raises(ProtocolFault):
        await protocol.prepare(FRAME, said())
    factory.acts.clear()
    await protocol.prepare(FRAME, said())
    assert factory.names() == ["build", "initialize", "initialize", "restore"]


async def test_a_conversation_that_goes_another_way() -> None:
    """A plugin goes on with a conversation that goes on, and is restored for one that does not follow from its own."""
    factory = Watched()
    protocol = opened(factory)
    await protocol.prepare(FRAME, said("a"))
    protocol.note_turn_end(MessageId("b"))
    await protocol.prepare(FRAME, said("a", "b", "c"))
    assert factory.names() == ["build", "initialize", "restore"]
    await protocol.prepare(FRAME, said("a", "x"))
    assert factory.calls[3:] == [("restore", ("a", "x"))]


async def test_callbacks_come_one_after_the_other() -> None:
    """No callback about the session begins while another one runs, whoever asks."""
    running: list[str] = []

    async def alone(*_: object) -> TurnAdditions:
        running.append("x")
        assert running == ["x"]
        await wait_all_tasks_blocked()
        running.remove("x")
        return TurnAdditions()

    factory = Watched(appended=alone, apply_extension=alone, check_turn_extension=alone)
    protocol = opened(factory)
    await protocol.prepare(FRAME, said())
    async with trio.open_nursery() as nursery:
        for callback in ("appended", "apply_extension", "check_turn_extension"):
            nursery.start_soon(call, protocol, callback)
    assert sorted(factory.names()[3:]) == ["appended", "apply_extension", "check_turn_extension"]


async def test_a_context_that_was_kept() -> None:
    """A context that a plugin keeps is of no use after its callback."""
    kept: list[SessionContext] = []

    def keep(context: SessionContext, *_: object) -> None:
        context.check()
        kept.append(context)

    protocol = opened(Watched(initialize=keep, restore=keep))
    await protocol.prepare(FRAME, said())
    assert [context.session_id for context in kept] == [ME, ME]
    for context in kept:
        with pytest.raises(CallbackContextExpired):
            context.check()


# --- what is called at once -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "built",
    [
        None,
        NativeToolDriver(),
        ProtocolBundle(driver=None),  # type: ignore[arg-type]
        ProtocolBundle(driver=NativeToolDriver(), session=object()),  # type: ignore[arg-type]
        ProtocolBundle(driver=NativeToolDriver(), executor=object()),  # type: ignore[arg-type]
    ],
)
def test_what_is_built(built: Any) -> None:
    """What a factory builds is looked at before anything is made of it."""
    with pytest.raises(ProtocolFault, match="the protocol watched failed in build: it"):
        opened(Watched(build=lambda _: built))


class Silent(NativeToolDriver):
    """A driver that asks for nothing."""

    def on_start(self, view: DriverView) -> Actions:
        return ()


def test_building_and_telling_that_fail(quiet_log: None) -> None:
    """Faults of what is called without waiting are named as well; a reply that breaks the rules is one."""
    with pytest.raises(ProtocolFault, match="failed in build: ZeroDivisionError"):
        opened(Watched(build=fails))
    with pytest.raises(ProtocolFault, match="failed in instructions: ZeroDivisionError"):
        opened(Watched(instructions=fails)).instructions(())  # type: ignore[arg-type]
    with pytest.raises(ProtocolFault, match="failed in instructions: they are not text"):
        opened(Watched(instructions=lambda _: 3)).instructions(())  # type: ignore[arg-type,return-value]
    with pytest.raises(ProtocolFault, match=r"failed in driver: the driver did not say .* an empty tuple.*in on_start"):
        opened(Watched(driver=Silent())).decide("on_start", DriverView())
    assert opened(Watched()).instructions(()) == ""
    expected = check_actions(NativeToolDriver().on_start(DriverView()))
    assert opened(Watched()).decide("on_start", DriverView()) == expected


class Prose:
    """A projector that does what it is told."""

    def __init__(self, open_: Any = None, feed: Any = None, close: Any = None) -> None:
        self._open, self._feed, self._close = open_, feed, close

    def open(self) -> Any:
        return self if self._open is None else self._open()

    def feed(self, text: str) -> tuple[Span, ...]:
        found: tuple[Span, ...] = (("text", text),) if self._feed is None else self._feed()
        return found

    def close(self) -> tuple[Span, ...]:
        found: tuple[Span, ...] = () if self._close is None else self._close()
        return found


@pytest.mark.parametrize(
    "prose",
    [
        Prose(open_=fails),
        Prose(open_=lambda: 3),
        Prose(feed=fails),
        Prose(close=fails),
        Prose(feed=lambda: None),
        Prose(feed=lambda: (("other", "x"),)),
        Prose(feed=lambda: ((["text"], "x"),)),
        Prose(close=lambda: (("text", None),)),
    ],
)
def test_a_projector_that_fails(prose: Prose) -> None:
    """A projector that raises, or divides answers into nonsense, is a fault of its protocol."""
    guarded = opened(Watched(prose=prose)).prose
    assert guarded is not None
    with pytest.raises(ProtocolFault, match="the protocol watched failed in prose"):
        project_text(guarded, "text")


def test_a_projector_that_works() -> None:
    """A projector divides answers as it likes; without one nothing is divided."""
    divided = Prose(feed=lambda: (("text", "te"),), close=lambda: (("code", "xt"),))
    guarded = opened(Watched(prose=divided)).prose
    assert guarded is not None
    assert project_text(guarded, "text") == (("text", "te"), ("code", "xt"))
    assert opened(Watched()).prose is None


async def test_code_in_another_language() -> None:
    """A cell in a language that the executor does not run, and any cell without an executor, is a fault."""
    protocol = opened(Watched(driver=CellDriver(), executor=ToyExecutor()))
    cell = Cell(language="rust", code="x")
    with pytest.raises(ProtocolFault, match="failed in execute: its executor runs toy, not rust"):
        await protocol.execute(cell, None)  # type: ignore[arg-type]
    with pytest.raises(ProtocolFault, match="failed in execute: it asked to run code, but has no executor"):
        await opened(Watched(driver=CellDriver())).execute(cell, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("spans", [(("text", "other"),), (("text", "answer!"),), (("code", "ans"),)])
def test_a_projector_that_makes_up_or_loses_text(spans: tuple[Span, ...]) -> None:
    """What a projector tells is the answer, all of it and nothing else, or it has failed."""
    guarded = opened(Watched(prose=Prose(feed=lambda: spans))).prose
    assert guarded is not None
    with pytest.raises(ProtocolFault, match=r"text that differs from the answer|it lost a part"):
        project_text(guarded, "answer")


async def test_tools_are_called_while_the_cell_runs() -> None:
    """An executor that keeps what it was given can call no tool after its cell."""
    kept: list[Execution] = []

    class Keeping(ToyExecutor):
        async def execute(self, cell: Cell, execution: Execution) -> CellResult:
            kept.append(execution)
            return await super().execute(cell, execution)

    await call(opened(Watched(driver=CellDriver(), executor=Keeping())), "execute")
    with pytest.raises(CallbackContextExpired):
        await kept[0].call_tool("t", JsonObject())


class Leaving(BaseException):
    """An error that is no `Exception`."""


@pytest.mark.parametrize("callback", ["initialize", "before_model_call", "execute", "capture"])
async def test_errors_of_any_kind(callback: str, quiet_log: None) -> None:
    """Whatever a plugin raises is its own fault, also what is no `Exception`."""

    def leave(*_: object) -> None:
        raise Leaving("now")

    protocol = await faulty(callback, leave)
    with pytest.raises(ProtocolFault, match=f"failed in {callback}: Leaving: now"):
        await call(protocol, callback)
