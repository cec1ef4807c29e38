"""Protocols, and every callback of one called as the service does."""

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from session_core import limits
from session_core.ids import MessageId, SessionId, TurnId
from session_core.protocols.driver import DriverView
from session_core.protocols.execution import Cell, Execution
from session_core.protocols.frames import first_frame
from session_core.protocols.lifecycle import SessionProtocol
from session_core.protocols.options import Materialization
from session_core.providers.base import ModelRequest
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message, TextPart
from session_core.vocabulary.protocols import ProtocolRecord
from session_core.vocabulary.sessions import SandboxPolicy
from tests.session_core.service._protocols import ToyExecutor, Watched, decided, hangs

ME = SessionId("s")
FRAME = first_frame(ME, 0)
EXTENSION = JsonObject({"a": 1})
REQUEST = ModelRequest(model="m", messages=())
EXECUTION = Execution(
    session_id=ME,
    turn_id=TurnId("t"),
    cwd="/",
    sandbox=SandboxPolicy(),
    tools=(),
    call_tool=hangs,  # type: ignore[arg-type]
    report=lambda _text: None,
)


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
    if callback in {"probe", "capture"}:
        await protocol.execute(cell, EXECUTION)
        protocol.executor_current = True
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "initialize": lambda: protocol.prepare(FRAME, said("a")),
        "restore": lambda: protocol.prepare(FRAME, said("a")),
        "appended": lambda: protocol.note_appended(FRAME, "op", ()),
        "apply_extension": lambda: protocol.apply_extension(FRAME, EXTENSION),
        "check_turn_extension": lambda: protocol.check_turn_extension(FRAME, EXTENSION),
        "before_model_call": lambda: protocol.before_model_call(
            lambda lease: protocol._context(FRAME, lease),  # type: ignore[arg-type,return-value]
            REQUEST,
        ),
        "driver": lambda: in_a_task(lambda: protocol.decide("on_code", DriverView())),  # the usual one has none
        "execute": lambda: protocol.execute(cell, EXECUTION),
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
        await protocol.prepare(FRAME, said("a"))
    if callback in SESSION:
        factory.acts[callback] = act
    return protocol
