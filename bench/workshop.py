"""A service whose sessions work on command: its model writes a text and calls a tool, for a given number of steps."""

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager

import attrs
import trio

from bench.measure import collector_off
from bench.store_material import PIECE
from session_core.ids import SessionId
from session_core.providers.base import (
    ModelFinished,
    ModelRequest,
    ProviderEvent,
    TextChunk,
    ToolCallChunk,
    ToolCallOpened,
)
from session_core.providers.catalogue import ModelInfo
from session_core.service.config import ServiceConfig
from session_core.service.service import SessionService, open_session_service
from session_core.storage.base import SessionStore
from session_core.testing.scripted import ScriptedTool

OUTPUT = "a line of some file, as a tool shows it\n" * 50
PIECES = 5  # of the text of an answer


class StepModel:
    """A model that writes a text and calls a tool until a session's steps are used up, and then only writes a text.

    It distinguishes sessions by the name of their conversation.
    """

    def __init__(self) -> None:
        self.steps_left: dict[str | None, int] = {}
        self.calls = 0
        self.longest_request = 0

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncGenerator[ProviderEvent, None]]:
        """Answer one model call."""
        self.calls += 1
        self.longest_request = max(self.longest_request, len(request.messages))
        left = self.steps_left[request.cache_key] = self.steps_left.get(request.cache_key, 0) - 1
        async with aclosing(self._answer(last=left <= 0)) as answer:
            yield answer

    async def _answer(self, *, last: bool) -> AsyncGenerator[ProviderEvent, None]:
        for _ in range(PIECES):
            await trio.lowlevel.checkpoint()
            yield TextChunk(text=PIECE)
        if not last:
            yield ToolCallOpened(name="look")
            yield ToolCallChunk(text="{}")
        yield ModelFinished()


@attrs.frozen
class Spent:
    """Time spent, in seconds: wall-clock time, and CPU time of all threads."""

    wall: float = 0
    cpu: float = 0

    def plus(self, other: "Spent") -> "Spent":
        """Return the sum of both."""
        return Spent(self.wall + other.wall, self.cpu + other.cpu)


def least(spent: Sequence[Spent]) -> Spent:
    """Return the shortest of each: noise only ever adds time."""
    return Spent(min(each.wall for each in spent), min(each.cpu for each in spent))


@attrs.frozen
class Workshop:
    """A service whose sessions work for a given number of steps."""

    service: SessionService
    model: StepModel

    async def new_session(self) -> SessionId:
        """Make a session."""
        return (await self.service.create_session()).session_id

    async def work(self, session_id: SessionId, steps: int) -> Spent:
        """Run one turn of a session and return its time."""
        with collector_off():
            wall, cpu = time.perf_counter(), time.process_time()
            await self.turn(session_id, steps)
            return Spent(time.perf_counter() - wall, time.process_time() - cpu)

    async def turn(self, session_id: SessionId, steps: int) -> None:
        """Run one turn without measuring it."""
        self.model.steps_left[session_id] = steps
        sent = await self.service.send_user_message(session_id, "Go on.")
        await self.service.wait_for_turn(session_id, sent.turn_id)


@asynccontextmanager
async def open_workshop(store: SessionStore, infos: Mapping[str, ModelInfo] | None = None) -> AsyncGenerator[Workshop]:
    """Run a service on a store; its one model is called `m`, and its tool only reads, so it needs no approval."""
    model, tool = StepModel(), ScriptedTool("look", run=OUTPUT)
    config = ServiceConfig(models={"m": model}, tools=(tool,), store=store, cwd="/", model_infos=infos or {})
    async with open_session_service(config) as service:
        yield Workshop(service, model)
