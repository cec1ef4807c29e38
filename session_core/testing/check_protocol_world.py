"""The basis of the protocol checks: the protocol under test, services around it, and simulated crashes.

The real service runs the protocols, with a store in memory and a scripted model. The checks compare requests to the
model, because a protocol has no other effect on the outside.
"""

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager

import attrs
import trio

from session_core.ids import SessionId, new_session_id
from session_core.protocols.api import ProtocolBundle, ProtocolFactory
from session_core.protocols.contexts import BuildContext, Lease
from session_core.protocols.faults import OptionsInvalid, ProtocolFault
from session_core.protocols.lifecycle import SessionProtocol
from session_core.protocols.options import Materialization, resolve_options
from session_core.providers.base import ModelRequest
from session_core.service.config import ServiceConfig
from session_core.service.service import SessionService, open_session_service
from session_core.storage.memory import MemoryStore
from session_core.testing.scripted import ScriptedAnswer, ScriptedProvider, ScriptedTool, text
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Part, Role
from session_core.vocabulary.protocols import ProtocolRecord
from session_core.vocabulary.sessions import TurnLimits, TurnOutcome

MOST_STEPS = 64
"""Model calls after which a turn counts as endless."""
TOOL = ScriptedTool("look")
"""The tool that the models of checked sessions have."""
PLAIN = text("Done.")


@attrs.frozen(kw_only=True)
class CellSamples:
    """Code for an executor, in its own language.

    Attributes:
        keeps: Leaves something behind.
        shows: Prints what `defines` has left behind; if that is missing, it fails or prints something else.
        endless: Does not end on its own, and changes nothing; None skips the checks that need it.
    """

    defines: str
    shows: str
    endless: str | None = None


PYTHON_CELLS = CellSamples(
    defines="kept = list(range(1000))", shows="print(sum(kept))", endless="while True:\n    pass"
)


@attrs.frozen(kw_only=True)
class ProtocolSubject:
    """A protocol under test.

    Attributes:
        make: Makes its factory, a new one for each service, as in a program that starts again.
        script: What a model says in one turn that shows the purpose of the protocol.
        options: Options of the created sessions.
        cells: Code to try its executor with, if it has one; for Python there are built-in samples.
        cwd: Where that code runs.
        seed: The seed of the random views that its driver gets.
    """

    make: Callable[[], ProtocolFactory]
    script: tuple[ScriptedAnswer, ...] = (PLAIN,)
    options: JsonObject = attrs.field(factory=JsonObject)
    cells: CellSamples | None = None
    cwd: str = "/"
    seed: int = 0

    def build(self) -> ProtocolBundle:
        """Build what one session gets, the same way as the service."""
        factory = self.make()
        opening = Materialization(opening="create", session_id=new_session_id())
        try:
            options = resolve_options(factory.id, factory.options, None, self.options, opening)
            record = ProtocolRecord(name=factory.id, version=factory.version, options=options)
            return SessionProtocol(factory, record, opening).bundle
        except (OptionsInvalid, ProtocolFault) as fault:
            raise AssertionError(f"a session with this protocol can be made: {fault}") from fault


class RenamedProtocol(ProtocolFactory):
    """The protocol under test under another name, so a built-in protocol can be checked next to itself."""

    def __init__(self, inner: ProtocolFactory) -> None:
        self._inner = inner
        self.id = f"{inner.id}-under-check"
        self.version = inner.version
        self.options = inner.options

    def build(self, context: BuildContext) -> ProtocolBundle:
        """Delegate."""
        return self._inner.build(context)

    def upgrade(self, version: int, recorded: JsonObject) -> JsonObject:
        """Delegate."""
        return self._inner.upgrade(version, recorded)

    async def aclose(self) -> None:
        """Delegate."""
        await self._inner.aclose()


@attrs.frozen(eq=False)
class ProtocolWorld:
    """A service with the protocol under test, its model, and its store."""

    service: SessionService
    model: ScriptedProvider
    store: MemoryStore
    subject: ProtocolSubject
    protocol: str

    async def new_session(self, parent_id: SessionId | None = None) -> SessionId:
        """Create a session; a child inherits its options from its parent."""
        options = JsonObject({self.protocol: self.subject.options}) if parent_id is None else None
        return (await self.service.create_session(parent_id=parent_id, options=options)).session_id

    async def play_turn(self, session_id: SessionId, said: str = "Go.") -> TurnOutcome:
        """Run a turn; the protocol must not fail in it."""
        sent = await self.service.send_user_message(session_id, said)
        outcome = (await self.service.wait_for_turn(session_id, sent.turn_id)).outcome
        self.check_faultless(session_id, outcome)
        return outcome

    def check_faultless(self, session_id: SessionId, outcome: TurnOutcome) -> None:
        """Fail if the protocol failed in this turn, or outside of it."""
        mark = f"the protocol {self.protocol} failed in"
        assert mark not in (outcome.error or ""), f"the protocol does not fail in a turn: {outcome.error}"
        for each in self.store.events_of(session_id):
            if isinstance(each.event, ev.ProtocolFailed):
                description = f"{each.event.callback}: {each.event.reason}"
                raise AssertionError(f"the protocol does not fail beside a turn: {description}")


@attrs.frozen
class RequestContent:
    """A request without the ids and times of its messages, which differ in every run."""

    system: str
    tools: tuple[str, ...]
    output_schema: JsonObject | None
    messages: tuple[tuple[Role, tuple[Part, ...]], ...]


def extract_content(request: ModelRequest) -> RequestContent:
    """Reduce a request to its content."""
    messages = tuple((message.role, message.parts) for message in request.messages)
    return RequestContent(request.system, tuple(tool.name for tool in request.tools), request.output_schema, messages)


@asynccontextmanager
async def open_world(
    subject: ProtocolSubject, *answers: ScriptedAnswer, store: MemoryStore | None = None
) -> AsyncGenerator[ProtocolWorld]:
    """Run a service with the protocol; its model gives these answers and then, for a while, says that it is done."""
    protocol = RenamedProtocol(subject.make())
    model = ScriptedProvider(*answers, *[PLAIN] * (4 * MOST_STEPS))
    store = store or MemoryStore()
    config = ServiceConfig(
        models={"m": model},
        tools=(ScriptedTool(TOOL.spec.name),),
        protocols=(protocol,),
        protocol=protocol.id,
        store=store,
        cwd=subject.cwd,
        system_prompt="You are being checked.",
        turn_limits=TurnLimits(steps=MOST_STEPS),
    )
    async with open_session_service(config) as service:
        yield ProtocolWorld(service, model, store, subject, protocol.id)


def copy_store(store: MemoryStore) -> MemoryStore:
    """Return what a crash would leave at this moment, as a store to continue from."""
    twin = MemoryStore()
    twin._events = {key: list(events) for key, events in store._events.items()}  # noqa: SLF001 - a test may look inside
    twin._unfinished = {key: list(events) for key, events in store._unfinished.items()}  # noqa: SLF001
    twin._leaves = {key: dict(leaves) for key, leaves in store._leaves.items()}  # noqa: SLF001
    twin._summaries = {each.session_id: each for each in store._list()}  # noqa: SLF001
    return twin


@contextmanager
def record_late_uses() -> Generator[list[str]]:
    """Record every use of a context after its callback, wherever it comes from."""
    late: list[str] = []
    check = Lease.check

    def noting(lease: Lease) -> None:
        if lease.over:
            late.append(trio.lowlevel.current_task().name)
        check(lease)

    Lease.check = noting  # type: ignore[method-assign, assignment]
    try:
        yield late
    finally:
        Lease.check = check  # type: ignore[method-assign]
