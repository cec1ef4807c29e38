"""The cost of the protocol layer: the same steps through `SessionProtocol`, and without it."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import trio

from bench.measure import Result, best_calls, best_times
from bench.workshop import Workshop, open_workshop
from session_core.ids import SessionId, new_session_id
from session_core.protocols.driver import CheckedActions, DriverCallback, DriverView
from session_core.protocols.lifecycle import SessionProtocol
from session_core.protocols.options import Materialization
from session_core.protocols.standard import NativeToolDriver, StandardProtocol
from session_core.storage.memory import MemoryStore
from session_core.vocabulary.messages import Message
from session_core.vocabulary.protocols import Frame, ProtocolRecord

STEPS = 20  # of a turn; a model call each, and a tool call in all but the last
ROUNDS = 60  # short ones: the shortest of many is hardly affected by other load
CALLS = 5_000


def measure_protocols() -> Result:
    """The checks around the plugin add almost nothing to a turn of native tool calls."""
    return trio.run(_protocols, STEPS, ROUNDS, CALLS)


async def _protocols(steps: int, rounds: int, calls: int) -> Result:
    async with open_workshop(MemoryStore()) as workshop:
        guarded, bare = await best_times(
            rounds, partial(_turn, workshop, steps), partial(_turn, workshop, steps, around=True)
        )
    deciding, directly = _deciding(rounds, calls)
    return Result(
        name="protocols",
        title="CPU of a turn driven through the protocol layer / of the same turn with its driver called directly",
        ratio=guarded / bare,
        target=1.05,
        comparison="at most",
        details={
            "through the protocol layer, ms per step": guarded / steps * 1e3,
            "driver called directly, ms per step": bare / steps * 1e3,
            "one decision through the layer, µs": deciding,
            "one decision directly, µs": directly,
        },
    )


async def _turn(workshop: Workshop, steps: int, *, around: bool = False) -> None:
    """Run a turn in a new session; with `around`, it bypasses the protocol layer."""
    session_id = await workshop.new_session()
    if around:
        go_around(protocol_of(workshop, session_id))
    await workshop.turn(session_id, steps)


def protocol_of(workshop: Workshop, session_id: SessionId) -> SessionProtocol:
    """Return the running protocol of a session."""
    core = workshop.service.core
    return core.protocols.get_protocol(core.session(session_id))


def go_around(protocol: SessionProtocol) -> None:
    """Make turns call the driver directly, as in a loop without protocols."""
    driver = NativeToolDriver()

    def decide(callback: DriverCallback, view: DriverView, *given: object, **named: object) -> CheckedActions:
        *first, last = getattr(driver, callback)(view, *given, **named)
        return tuple(first), last

    async def ready(_frame: Frame, _messages: Callable[[], Awaitable[Sequence[Message]]]) -> None:
        pass

    async def nothing(*_: object) -> None:
        pass

    protocol.decide = decide  # type: ignore[method-assign]
    protocol.prepare = ready  # type: ignore[method-assign, assignment]
    protocol.probe = nothing  # type: ignore[method-assign]
    protocol.capture = nothing  # type: ignore[method-assign, assignment]


def _deciding(rounds: int, calls: int) -> list[float]:
    opening = Materialization(opening="create", session_id=new_session_id())
    protocol, driver = SessionProtocol(StandardProtocol(), ProtocolRecord(), opening), NativeToolDriver()
    view = DriverView(step=1)

    return best_calls(rounds, calls, lambda: protocol.decide("on_results", view), lambda: driver.on_results(view))
