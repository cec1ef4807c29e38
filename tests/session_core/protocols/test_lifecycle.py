"""How plugins are called: in order, with deadlines, and with every fault named."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from session_core import limits
from session_core.ids import MessageId, SessionId
from session_core.protocols.api import ProtocolBundle, TurnAdditions
from session_core.protocols.contexts import SessionContext
from session_core.protocols.driver import DriverView, checked_actions
from session_core.protocols.execution import Cell, Execution
from session_core.protocols.faults import ContextExpired, ExtensionRejected, ProtocolFault, StateNotKeepable
from session_core.protocols.frames import first_frame
from session_core.protocols.lifecycle import SessionProtocol
from session_core.protocols.options import Materialization
from session_core.protocols.prose import Span, project
from session_core.protocols.standard import NativeToolDriver
from session_core.providers.base import ModelRequest
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message, TextPart
from session_core.vocabulary.protocols import ProtocolRecord
from tests.session_core.service._protocols import CellDriver, ToyExecutor, Watched, decided, fails, hangs

ME = SessionId("s")
FRAME = first_frame(ME, 0)
EXTENSION = JsonObject({"a": 1})
REQUEST = ModelRequest(model="m", messages=())


def said(*texts: str) -> Callable[[], Awaitable[tuple[Message, ...]]]:
    """A conversation whose messages have their texts for ids."""

    async def conversation() -> tuple[Message, ...]:
        await trio.lowlevel.checkpoint()
        return tuple(
            Message(message_id=MessageId(text), parent_id=None, role="user", parts=(TextPart(text=text),), created_at=0)
            for text in texts
        )

    return conversation


def opened(factory: Watched) -> SessionProtocol:
    """Build a protocol as for a new session."""
    record = ProtocolRecord(name=factory.id, options=decided())
    return SessionProtocol(factory, record, Materialization(opening="create", session_id=ME))


async def in_a_task(decide: Callable[[], object]) -> object:
    """Wait for something that does not wait."""
    await trio.lowlevel.checkpoint()
    return decide()


async def call(protocol: SessionProtocol, callback: str) -> object:
    """Have one callback called as the service does."""
    cell = Cell(language="toy", code="x")
    execution = cast("Execution", None)  # the toy does not look at it
    if callback in {"probe", "capture"}:
        await protocol.execute(cell, execution)
        protocol.executor_current = True
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "initialize": lambda: protocol.ready(FRAME, said("a")),
        "restore": lambda: protocol.ready(FRAME, said("a")),
        "appended": lambda: protocol.appended(FRAME, "op", ()),
        "apply_extension": lambda: protocol.apply_extension(FRAME, EXTENSION),
        "check_turn_extension": lambda: protocol.check_turn_extension(FRAME, EXTENSION),
        "before_model_call": lambda: protocol.before_model_call(
            lambda lease: SessionContext(session_id=ME, frame=FRAME, lease=lease),  # type: ignore[arg-type,return-value]
            REQUEST,
        ),
        "driver": lambda: in_a_task(lambda: protocol.decide(fails, DriverView())),  # type: ignore[arg-type]
        "execute": lambda: protocol.execute(cell, execution),
        "probe": protocol.probe,
        "capture": protocol.capture,
        "restore_executor": lambda: protocol.restore_executor(None),
    }
    return await calls[callback]()


SESSION = ("initialize", "restore", "appended", "apply_extension", "check_turn_extension", "before_model_call")
EXECUTOR = ("probe", "capture", "restore_executor")
SECONDS = {
    "before_model_call": limits.PROTOCOL_BEFORE_CALL_MS / 1000,
    **dict.fromkeys(EXECUTOR, limits.PROTOCOL_CAPTURE_MS / 1000),
}


async def faulty(callback: str, act: Callable[..., Any]) -> SessionProtocol:
    """Have a protocol that works until now, and does this in one callback from now on."""
    name = "restore" if callback == "restore_executor" else callback
    executor = ToyExecutor(**{name: act} if callback in {*EXECUTOR, "execute"} else {})
    factory = Watched(executor=executor)
    protocol = opened(factory)
    if callback not in {"initialize", "restore"}:
        await protocol.ready(FRAME, said("a"))
    if callback in SESSION:
        factory.acts[callback] = act
    return protocol


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
    with pytest.raises(ProtocolFault, match=f"the protocol watched failed in {callback}: it gave back no"):
        await call(protocol, callback)


@pytest.mark.parametrize("error", [ExtensionRejected("no"), StateNotKeepable("no"), ProtocolFault("x", "driver", "y")])
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
            nursery.start_soon(protocol.ready, FRAME, said("a", "b"))
    assert factory.calls == [("build", dict(decided()), True), ("initialize",), ("restore", ("a", "b"))]


@pytest.mark.parametrize("callback", [*SESSION[1:], "driver"])
async def test_restored_again_after_a_fault(callback: str, quiet_log: None) -> None:
    """After a fault in any callback the plugin is restored before its next use, and not initialized again."""
    driver = NativeToolDriver()
    factory = Watched(driver=driver)
    protocol = opened(factory)
    await protocol.ready(FRAME, said("a"))
    if callback == "restore":
        protocol.invalidate()
    factory.acts[callback] = fails
    with pytest.raises(ProtocolFault):
        await call(protocol, callback)
    factory.acts.clear()
    factory.calls.clear()
    await protocol.appended(FRAME, "op", ())
    assert factory.calls == []  # it will find what was appended in the conversation
    await protocol.ready(FRAME, said("a", "b"))
    await protocol.ready(FRAME, said("a", "b"))
    assert factory.calls == [("restore", ("a", "b"))]


async def test_initialized_again_if_that_failed(quiet_log: None) -> None:
    """What failed in `initialize` is tried again, as the plugin has not seen the session yet."""
    factory = Watched(initialize=fails)
    protocol = opened(factory)
    with pytest.raises(ProtocolFault):
        await protocol.ready(FRAME, said())
    factory.acts.clear()
    await protocol.ready(FRAME, said())
    assert factory.names() == ["build", "initialize", "initialize", "restore"]


async def test_a_conversation_that_goes_another_way() -> None:
    """A plugin goes on with a conversation that goes on, and is restored for one that does not follow from its own."""
    factory = Watched()
    protocol = opened(factory)
    await protocol.ready(FRAME, said("a"))
    protocol.turn_ended(MessageId("b"))
    await protocol.ready(FRAME, said("a", "b", "c"))
    assert factory.names() == ["build", "initialize", "restore"]
    await protocol.ready(FRAME, said("a", "x"))
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
    await protocol.ready(FRAME, said())
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
    await protocol.ready(FRAME, said())
    assert [context.session_id for context in kept] == [ME, ME]
    for context in kept:
        with pytest.raises(ContextExpired):
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


def test_building_and_telling_that_fail(quiet_log: None) -> None:
    """Faults of what is called without waiting are named as well; a reply that breaks the rules is one."""
    with pytest.raises(ProtocolFault, match="failed in build: ZeroDivisionError"):
        opened(Watched(build=fails))
    with pytest.raises(ProtocolFault, match="failed in instructions: ZeroDivisionError"):
        opened(Watched(instructions=fails)).instructions(())  # type: ignore[arg-type]
    with pytest.raises(ProtocolFault, match="failed in instructions: they are not text"):
        opened(Watched(instructions=lambda _: 3)).instructions(())  # type: ignore[arg-type,return-value]
    with pytest.raises(ProtocolFault, match="failed in driver: the driver did not say"):
        opened(Watched()).decide(lambda *_: (), DriverView())
    assert opened(Watched()).instructions(()) == ""
    assert opened(Watched()).decide(lambda driver, view: driver.on_start(view), DriverView()) == checked_actions(
        NativeToolDriver().on_start(DriverView())
    )


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
        Prose(close=lambda: (("text", None),)),
    ],
)
def test_a_projector_that_fails(prose: Prose) -> None:
    """A projector that raises, or divides answers into nonsense, is a fault of its protocol."""
    guarded = opened(Watched(prose=prose)).prose
    assert guarded is not None
    with pytest.raises(ProtocolFault, match="the protocol watched failed in prose"):
        project(guarded, "text")


def test_a_projector_that_works() -> None:
    """A projector is passed through as it is; without one nothing is divided."""
    guarded = opened(Watched(prose=Prose(close=lambda: (("code", "x"),)))).prose
    assert guarded is not None
    assert project(guarded, "text") == (("text", "text"), ("code", "x"))
    assert opened(Watched()).prose is None


async def test_code_in_another_language() -> None:
    """A cell in a language that the executor does not run, and any cell without an executor, is a fault."""
    protocol = opened(Watched(driver=CellDriver(), executor=ToyExecutor()))
    cell = Cell(language="rust", code="x")
    with pytest.raises(ProtocolFault, match="failed in execute: its executor runs toy, not rust"):
        await protocol.execute(cell, None)  # type: ignore[arg-type]
    with pytest.raises(ProtocolFault, match="failed in execute: it has no executor, and wants code run"):
        await opened(Watched(driver=CellDriver())).execute(cell, None)  # type: ignore[arg-type]
