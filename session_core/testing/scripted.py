"""A provider and a tool that do exactly what a test tells them to.

An answer is a sequence of items: events to send, functions that make one from the request, and the markers below, which
control the timing. Each model call uses up one answer, in order.
"""

import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import attrs
import trio

from session_core.providers.base import (
    FailureKind,
    ModelFailed,
    ModelFinished,
    ModelRequest,
    ProviderEvent,
    TextChunk,
    ThinkingChunk,
    ToolCallChunk,
    ToolCallOpened,
)
from session_core.tools.base import ToolContext, ToolOutput
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Usage
from session_core.vocabulary.tools import Effect, ToolSpec


@attrs.frozen
class Pause:
    """Wait here until the test calls `provider.release(name)`; released once means released for good."""

    name: str


@attrs.frozen
class Hang:
    """Wait here forever, as a dead connection does."""


@attrs.frozen
class TaskSwitch:
    """Let other tasks run once."""


@attrs.frozen
class Forever:
    """Send this text again and again, and never end."""

    text: str


Marker = Pause | Hang | TaskSwitch | Forever
ScriptItem = ProviderEvent | Marker | Callable[[ModelRequest], ProviderEvent]
ScriptedAnswer = Sequence[ScriptItem] | Marker | Callable[[ModelRequest], Sequence[ScriptItem]]


class ScriptedProvider:
    """A provider that plays its answers one by one, and then says that the script is over.

    Answers are played as written, so a test can also break the contract: leave out the end, or continue after it.
    """

    def __init__(self, *answers: ScriptedAnswer) -> None:
        self.requests: list[ModelRequest] = []
        self._answers = deque(answers)
        self._reached: dict[str, trio.Event] = {}
        self._released: dict[str, trio.Event] = {}

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ProviderEvent]]:
        """Play the next answer."""
        self.requests.append(request)
        answer: ScriptedAnswer = self._answers.popleft() if self._answers else text("(script is over)")
        async with aclosing(self._play(_items(answer, request), request)) as events:
            yield events

    def release(self, name: str) -> None:
        """Release all tasks that wait at this pause, now or later."""
        self._released.setdefault(name, trio.Event()).set()

    async def wait_for_pause(self, name: str) -> None:
        """Wait until an answer has reached this pause."""
        await self._reached.setdefault(name, trio.Event()).wait()

    async def _play(self, items: Sequence[ScriptItem], request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        for item in items:
            match item:
                case Pause(name=name):
                    self._reached.setdefault(name, trio.Event()).set()
                    await self._released.setdefault(name, trio.Event()).wait()
                case Hang():
                    await trio.sleep_forever()
                case TaskSwitch():
                    await trio.lowlevel.checkpoint()
                case Forever(text=endless):
                    while True:
                        await trio.lowlevel.checkpoint()
                        yield TextChunk(text=endless)
                case _:
                    yield item(request) if callable(item) else item


def _items(answer: ScriptedAnswer, request: ModelRequest) -> Sequence[ScriptItem]:
    if isinstance(answer, Marker):
        return (answer,)
    return answer(request) if callable(answer) else answer


def text(*chunks: str, thinking: str = "", usage: Usage | None = None) -> tuple[ScriptItem, ...]:
    """Make an answer of these chunks."""
    thoughts = (ThinkingChunk(text=thinking),) if thinking else ()
    return (*thoughts, *(TextChunk(text=chunk) for chunk in chunks), ModelFinished(usage=usage or Usage()))


def tool_call(name: str, arguments: Mapping[str, Any] | str = "{}") -> tuple[ScriptItem, ...]:
    """Make an answer that calls one tool; arguments given as text are sent as they are, broken JSON included."""
    return tool_calls((name, arguments))


def tool_calls(*calls: tuple[str, Mapping[str, Any] | str]) -> tuple[ScriptItem, ...]:
    """Make an answer that calls several tools in one step."""
    return (*(item for call in calls for item in _call_items(*call)), ModelFinished())


def failure(kind: FailureKind, message: str = "it failed", retry_after_ms: int | None = None) -> tuple[ScriptItem, ...]:
    """Make an answer that fails."""
    return (ModelFailed(kind=kind, message=message, retry_after_ms=retry_after_ms),)


def _call_items(name: str, arguments: Mapping[str, Any] | str) -> Iterable[ScriptItem]:
    yield ToolCallOpened(name=name)
    yield ToolCallChunk(text=arguments if isinstance(arguments, str) else json.dumps(dict(arguments)))


ToolRun = Callable[[JsonObject, ToolContext], Awaitable[ToolOutput | str]]


class ScriptedTool:
    """A tool that runs an async function, returns a fixed string, or raises a fixed exception; it records its calls."""

    def __init__(
        self,
        name: str,
        *,
        effects: Iterable[Effect] = ("read",),
        run: ToolRun | str | BaseException = "done",
    ) -> None:
        self.spec = ToolSpec(name=name, description=f"The scripted tool {name}.", parameters=JsonObject(_ANY_OBJECT))
        self.effects = frozenset(effects)
        self.calls: list[JsonObject] = []
        self._run = run

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Do what the script says; cancelling it cancels the script's function."""
        self.calls.append(arguments)
        await trio.lowlevel.checkpoint()
        if isinstance(self._run, BaseException):
            raise self._run
        result = self._run if isinstance(self._run, str) else await self._run(arguments, context)
        return ToolOutput(text=result) if isinstance(result, str) else result


_ANY_OBJECT = {"type": "object"}
