"""A protocol that notes every call and does what a test says, and an executor of the same kind."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from inspect import isawaitable
from typing import Any

import attrs
import trio

from session_core.ids import SessionId
from session_core.protocols.api import ProtocolBundle, ProtocolFactory, ProtocolSession, TurnAdditions
from session_core.protocols.contexts import BeforeCall, BeforeCallContext, BuildContext, SessionContext
from session_core.protocols.driver import Actions, AskModel, Driver, DriverView, ExecuteCode
from session_core.protocols.execution import Cell, CellResult, CodeExecutor, Execution, KeptState, StateCapture
from session_core.protocols.options import option
from session_core.protocols.prose import ProseProjector
from session_core.protocols.standard import NativeToolDriver
from session_core.providers.base import ModelRequest
from session_core.service.service import SessionService, open_session_service
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import text
from session_core.tools.base import Tool
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message
from session_core.vocabulary.protocols import ExecutorState
from session_core.vocabulary.tools import ToolSpec
from tests.session_core.service._helpers import scripted

Act = Callable[..., Any]
"""What a callback does; it may be async."""
Call = tuple[Any, ...]
"""The name of a callback, and what is worth comparing of what it was given."""


@attrs.frozen(kw_only=True)
class WatchedOptions:
    """One option of each kind."""

    dialect: str = option(default="root", child_default="child", inherit=False)
    shape: str = option(default="plain")
    budget: int = option(default=1, kind="host")


class WatchedSession(ProtocolSession):
    """Notes its calls, then does what it was told."""

    def __init__(self, calls: list[Call], acts: Mapping[str, Act]) -> None:
        self._calls = calls
        self._acts = acts

    async def initialize(self, context: SessionContext) -> None:
        await self._did("initialize", (), context)

    async def restore(self, context: SessionContext, messages: Sequence[Message]) -> None:
        await self._did("restore", (texts(messages),), context, messages)

    async def appended(self, context: SessionContext, operation_id: str, messages: Sequence[Message]) -> None:
        await self._did("appended", (operation_id, texts(messages)), context, operation_id, messages)

    async def apply_extension(self, context: SessionContext, extension: JsonObject) -> None:
        if "apply_extension" not in self._acts:
            await super().apply_extension(context, extension)
        await self._did("apply_extension", (dict(extension),), context, extension)

    async def check_turn_extension(self, context: SessionContext, extension: JsonObject) -> TurnAdditions:
        found: Any = await self._did("check_turn_extension", (dict(extension),), context, extension)
        return found if "check_turn_extension" in self._acts else TurnAdditions()

    async def before_model_call(self, context: BeforeCallContext, request: ModelRequest) -> BeforeCall:
        decided: BeforeCall = await self._did("before_model_call", (context.frame.key,), context, request)
        return decided

    async def _did(self, callback: str, noted: Call, *given: Any) -> Any:
        self._calls.append((callback, *noted))
        await trio.lowlevel.checkpoint()
        act = self._acts.get(callback)
        found = act(*given) if act is not None else None
        return await found if isawaitable(found) else found


class Watched(ProtocolFactory):
    """Builds such sessions; `calls` has those of all of them, in their order."""

    id = "watched"
    options: type = WatchedOptions

    def __init__(
        self,
        *,
        driver: Driver | None = None,
        executor: CodeExecutor | None = None,
        prose: ProseProjector | None = None,
        tools: tuple[Tool, ...] = (),
        instructions: Callable[[Sequence[ToolSpec]], str] | None = None,
        build: Act | None = None,
        close: Act | None = None,
        **acts: Act,
    ) -> None:
        self.calls: list[Call] = []
        self.acts: dict[str, Act] = dict(acts)
        self._driver = driver or NativeToolDriver()
        self._build = build
        self._close = close
        self._parts: dict[str, Any] = {
            "executor": executor,
            "prose": prose,
            "tools": tools,
            "instructions": instructions,
        }

    def build(self, context: BuildContext) -> ProtocolBundle:
        self.calls.append(("build", dict(context.options), context.is_root))
        if self._build is not None:
            built: ProtocolBundle = self._build(context)
            return built
        return ProtocolBundle(driver=self._driver, session=WatchedSession(self.calls, self.acts), **self._parts)

    async def aclose(self) -> None:
        self.calls.append(("aclose",))
        if self._close is not None:
            await self._close()

    def names(self) -> list[str]:
        """Return the names of the calls so far, without what they were given."""
        return [call[0] for call in self.calls]

    def settings(self) -> dict[str, Any]:
        """Return the settings of a service whose sessions have this protocol."""
        return {"protocols": (self,), "protocol": self.id}


def decided(dialect: str = "root", shape: str = "plain", budget: int = 1) -> JsonObject:
    """Return options as they are recorded."""
    return JsonObject({"dialect": dialect, "shape": shape, "budget": budget})


def stated(**options: Any) -> JsonObject:
    """Return options as a command states them."""
    return JsonObject({"watched": options})


def texts(messages: Sequence[Message]) -> tuple[str, ...]:
    """Return what messages say."""
    return tuple(message.text for message in messages)


def fails(*_: Any) -> None:
    """A callback with a bug."""
    raise ZeroDivisionError("a bug")


async def hangs(*_: Any) -> None:
    """A callback that does not come back."""
    await trio.sleep_forever()


class CellDriver(NativeToolDriver):
    """Has every answer run that says `run ...`, and goes on until one does not."""

    def __init__(self, language: str = "toy") -> None:
        self._language = language

    def on_answer(self, view: DriverView) -> Actions:
        said = view.answer.text if view.answer is not None else ""
        if said.startswith("run "):
            return (ExecuteCode(language=self._language, code=said.removeprefix("run ")),)
        return super().on_answer(view)

    def on_code(self, view: DriverView) -> Actions:
        return (AskModel(),)


class ToyExecutor(CodeExecutor):
    """Remembers the cells that it was given; `acts` take the place of what it does."""

    engine = "toy"
    language = "toy"

    def __init__(self, **acts: Act) -> None:
        self.acts = acts
        self.cells: list[str] = []
        self.known: list[str] = []
        self.restored: list[int | None] = []

    async def execute(self, cell: Cell, execution: Execution) -> CellResult:
        self.cells.append(cell.code)
        result: CellResult = await self._did("execute", CellResult(output=f"did {cell.code}"))
        return result

    @property
    def dirty(self) -> bool:
        return self.cells != self.known

    async def probe(self) -> None:
        await self._did("probe", None)

    async def capture(self) -> StateCapture:
        root = JsonObject({"cells": list(self.cells)})
        usual = StateCapture(state=ExecutorState(engine="toy", version=1, root=root))
        capture: StateCapture = await self._did("capture", usual)
        return capture

    def acknowledge(self, capture: StateCapture) -> None:
        self.known = list(self.cells)
        if "acknowledge" in self.acts:
            self.acts["acknowledge"]()

    def abort(self, capture: StateCapture) -> None:
        self.known = []

    async def restore(self, saved: KeptState | None) -> None:
        cells: Any = () if saved is None else saved.state.root["cells"]
        self.cells, self.known = list(cells), list(cells)
        self.restored.append(None if saved is None else len(cells))
        await self._did("restore", None)

    async def aclose(self) -> None:
        await self._did("aclose", None)

    async def _did(self, callback: str, usual: Any) -> Any:
        await trio.lowlevel.checkpoint()
        if callback not in self.acts:
            return usual
        found: Awaitable[Any] | Any = self.acts[callback]()
        return await found if isawaitable(found) else found


@attrs.frozen
class WaitingTurn:
    """A turn whose protocol waits before its model call until `done`, while a test uses its context."""

    service: SessionService
    session_id: SessionId
    context: BeforeCallContext
    done: trio.Event


@asynccontextmanager
async def waiting_turn(factory: Watched) -> AsyncGenerator[WaitingTurn]:
    """Open a checked service with such a turn in a root session; children do not wait."""
    ready, done, found = trio.Event(), trio.Event(), list[BeforeCallContext]()

    async def wait(context: BeforeCallContext, _: ModelRequest) -> None:
        if context.is_root:
            found.append(context)
            ready.set()
            await done.wait()

    factory.acts["before_model_call"] = wait
    async with open_checked_service(scripted(*[text("ok")] * 2, **factory.settings())) as service:
        session_id = (await service.create_session()).session_id
        await service.send_user_message(session_id, "go")
        await ready.wait()
        yield WaitingTurn(service, session_id, found[0], done)


@asynccontextmanager
async def serving(store: Any, factory: Watched, **settings: Any) -> AsyncGenerator[SessionService]:
    """Open a service whose sessions have this protocol."""
    settings = {**factory.settings(), **settings}
    async with open_session_service(scripted(text("fine"), text("fine"), store=store, **settings)) as service:
        yield service
