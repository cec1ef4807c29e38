"""What tests of a whole service share: a config with a scripted model, and a look at everything that was recorded."""

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import attrs
import trio

from session_core.ids import LOCAL_CLIENT, SessionId
from session_core.service.config import ServiceConfig
from session_core.service.handler_api import Caller, PendingReply
from session_core.service.service import SessionService, open_session_service
from session_core.service.stop import stop
from session_core.storage.memory import MemoryStore
from session_core.testing.checked import WitnessStore, check_laws
from session_core.testing.scripted import ScriptedAnswer, ScriptedProvider
from session_core.vocabulary.commands import RequestStop
from session_core.vocabulary.events import Event, SessionEvent
from session_core.vocabulary.messages import Message
from session_core.vocabulary.sessions import TurnOutcome

E = TypeVar("E")


def trio_now() -> int:
    """Read the clock that autojump moves."""
    return int(trio.current_time() * 1000)


def scripted(*answers: ScriptedAnswer | ScriptedProvider, **settings: Any) -> ServiceConfig:
    """Make a config whose only model "m" plays these answers."""
    first = answers[0] if answers else None
    provider = first if isinstance(first, ScriptedProvider) else ScriptedProvider(*answers)  # type: ignore[arg-type]
    defaults = {"models": {"m": provider}, "tools": (), "cwd": "/", "now": trio_now, "store": MemoryStore()}
    return ServiceConfig(**{**defaults, **settings})


@asynccontextmanager
async def open_with_store(store: WitnessStore, config: ServiceConfig) -> AsyncGenerator[SessionService]:
    """Like `open_checked_service`, with a store of the test's own."""
    async with open_session_service(attrs.evolve(config, store=store)) as service:
        store.core = service._core
        yield service
    check_laws(store)


def recorded(service: SessionService, session_id: SessionId | None = None) -> list[SessionEvent]:
    """Everything that a checked service has recorded, of one session or of all."""
    store = service._core.config.store
    assert isinstance(store, WitnessStore)
    return [event for event in store.seen if session_id is None or event.session_id == session_id]


def trace(service: SessionService, session_id: SessionId) -> list[Event]:
    """The bare events of one session."""
    return [each.event for each in recorded(service, session_id)]


def of_type(service: SessionService, session_id: SessionId, kind: type[E]) -> list[E]:
    """The events of one kind."""
    return [event for event in trace(service, session_id) if isinstance(event, kind)]


@contextmanager
def actor_held(service: SessionService) -> Generator[None]:
    """Keep the sleeping actor from waking up, so that commands stay in the mailbox until the end of the block."""
    mailbox = service._mailbox
    actor, mailbox._idle_actor = mailbox._idle_actor, trio.lowlevel.ParkingLot()
    assert actor
    yield
    mailbox._idle_actor = actor
    actor.unpark()


def stop_in_this_step(service: SessionService, command: RequestStop) -> PendingReply:
    """Stop as `request_stop` does, without the checkpoints around it; nobody waits for the outcome."""
    return stop(service.core, command, Caller(client_id=LOCAL_CLIENT, number=service._mailbox.last_number))


async def until(holds: Callable[[], object]) -> None:
    """Let others work until something holds that no event tells of, such as what a thread or a process has done."""
    with trio.fail_after(60):
        while True:
            if holds():
                return
            await trio.lowlevel.checkpoint()


async def new_session(service: SessionService, **settings: Any) -> SessionId:
    """Create a session and return its id."""
    return (await service.create_session(**settings)).session_id


async def say(service: SessionService, session_id: SessionId, text: str = "hello") -> TurnOutcome:
    """Send a message and wait for the end of the turn."""
    await service.send_user_message(session_id, text)
    return (await service.wait_for_turn(session_id)).outcome


async def transcript(service: SessionService, session_id: SessionId) -> list[tuple[str, str]]:
    """Return the conversation as pairs of role and text."""
    return said((await service.load_session(session_id)).transcript)


def said(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    """Messages as pairs of role and text."""
    return [(message.role, message.text) for message in messages]
