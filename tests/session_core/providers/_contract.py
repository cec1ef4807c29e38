"""What the tests of providers share: short ways to build a conversation, and the contract every provider keeps."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import trio
from hypothesis import settings

from session_core.ids import CallId, MessageId, TurnId
from session_core.providers.base import (
    ModelFailed,
    ModelFinished,
    ModelRequest,
    Provider,
    ProviderEvent,
    TextChunk,
    ThinkingChunk,
    ToolCallChunk,
    ToolCallOpened,
)
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message, Part, Role, TextPart, ToolResultPart, ToolStatus
from session_core.vocabulary.tools import ToolSpec

fewer_examples = settings(max_examples=max(30, settings().max_examples // 3))
"""For tests with a costly example, such as a whole conversation: a third of what the profile says."""

ALL_TOOLS = ("list_files", "read_file", "count_words")


def message(role: Role, *parts: Part | str, turn: str | None = "turn_1", id: str = "msg_1") -> Message:
    return Message(
        message_id=MessageId(id),
        parent_id=None,
        role=role,
        parts=tuple(TextPart(text=part) if isinstance(part, str) else part for part in parts),
        created_at=0,
        turn_id=None if turn is None else TurnId(turn),
    )


def result(text: str, *, name: str = "list_files", status: ToolStatus = "success") -> Message:
    return message("tool", ToolResultPart(call_id=CallId("call_1"), name=name, status=status, text=text))


def request(*messages: Message | str, tools: Iterable[str] = ALL_TOOLS) -> ModelRequest:
    specs = tuple(ToolSpec(name=name, description="", parameters=JsonObject()) for name in tools)
    told = tuple(message("user", each) if isinstance(each, str) else each for each in messages)
    return ModelRequest(model="demo", messages=told, tools=specs)


async def collect(provider: Provider, asked: ModelRequest) -> list[ProviderEvent]:
    async with provider.stream(asked) as events:
        return [event async for event in events]


def said(events: Iterable[ProviderEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextChunk))


def thought(events: Iterable[ProviderEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, ThinkingChunk))


def calls(events: Iterable[ProviderEvent]) -> list[tuple[str, dict[str, Any]]]:
    """The tool calls put together from their pieces."""
    found: list[tuple[str, str]] = []
    for event in events:
        if isinstance(event, ToolCallOpened):
            found.append((event.name, ""))
        elif isinstance(event, ToolCallChunk):
            name, so_far = found.pop()
            found.append((name, so_far + event.text))
    return [(name, json.loads(arguments)) for name, arguments in found]


def check_order(events: list[ProviderEvent]) -> None:
    """Exactly one end, at the end; every piece of a call follows its opening."""
    assert isinstance(events[-1], ModelFinished | ModelFailed)
    assert not any(isinstance(event, ModelFinished | ModelFailed) for event in events[:-1])
    for before, event in zip([None, *events], events, strict=False):
        if isinstance(event, ToolCallChunk):
            assert isinstance(before, ToolCallOpened | ToolCallChunk)


async def check_abandoning(make: Callable[[], Provider], asked: ModelRequest) -> None:
    """Leave after every number of events, and find the iterator ended and the provider fit for the next call."""
    provider = make()
    whole = await collect(provider, asked)
    for count in range(len(whole)):
        got: list[ProviderEvent] = []
        async with provider.stream(asked) as events:
            while len(got) < count:
                got.append(await anext(events))
        assert whole[:count] == got
        assert [] == [event async for event in events]
    assert whole == await collect(provider, asked)


async def check_cancelling(make: Callable[[], Provider], asked: ModelRequest) -> int:
    """Cancel before the start and at every checkpoint in turn; return how many checkpoints there were."""
    whole = await collect(make(), asked)
    for count in range(10_000):
        got: list[ProviderEvent] = []
        with trio.CancelScope() as scope:
            with _cancel_at_checkpoint(count, scope):
                async with make().stream(asked) as events:
                    async for event in events:
                        got.append(event)  # noqa: PERF401 - what came before the cancel is kept
        assert whole[: len(got)] == got
        if not scope.cancelled_caught:
            assert whole == got
            return max(0, count - 1)
    raise AssertionError("it never ends")


class _cancel_at_checkpoint(trio.abc.Instrument):  # noqa: N801 - used like a function
    """Cancel the scope when the present task comes to its nth checkpoint; the zeroth is before everything."""

    def __init__(self, count: int, scope: trio.CancelScope) -> None:
        self._left = count
        self._scope = scope
        self._task = trio.lowlevel.current_task()

    def __enter__(self) -> None:
        if self._left == 0:
            self._scope.cancel()
        trio.lowlevel.add_instrument(self)

    def __exit__(self, *error: object) -> None:
        trio.lowlevel.remove_instrument(self)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._left -= 1
            if self._left == 0:
                self._scope.cancel()
