"""What a model provider is: one method that streams events. Failures are events too, never exceptions (law 10)."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

import attrs

from session_core.vocabulary.messages import Message, Usage
from session_core.vocabulary.tools import ToolSpec

FailureKind = Literal[
    "rate_limited", "overloaded", "auth", "context_too_long", "network", "malformed", "refused", "internal"
]
RETRYABLE: frozenset[FailureKind] = frozenset({"rate_limited", "overloaded", "network"})


@attrs.frozen(kw_only=True)
class ModelRequest:
    """Everything a provider gets to know about a model call."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    system: str = ""


@attrs.frozen(kw_only=True)
class TextChunk:
    """A piece of the answer."""

    text: str


@attrs.frozen(kw_only=True)
class ThinkingChunk:
    """A piece of the reasoning; the last one may carry the provider's signature over all of it."""

    text: str
    signature: str | None = None


@attrs.frozen(kw_only=True)
class ToolCallOpened:
    """The model begins to call a tool; its arguments follow as `ToolCallChunk`s."""

    name: str


@attrs.frozen(kw_only=True)
class ToolCallChunk:
    """A piece of the JSON text of the arguments of the tool call opened last."""

    text: str


@attrs.frozen(kw_only=True)
class ModelFinished:
    """The answer is complete; nothing follows."""

    usage: Usage = Usage()


@attrs.frozen(kw_only=True)
class ModelFailed:
    """The answer failed; nothing follows. `retry_after_ms` is what the provider asked us to wait."""

    kind: FailureKind
    message: str
    retry_after_ms: int | None = None


ProviderEvent = TextChunk | ThinkingChunk | ToolCallOpened | ToolCallChunk | ModelFinished | ModelFailed


class Provider(Protocol):
    """A source of model answers.

    Contract: the iterator ends with exactly one `ModelFinished` or `ModelFailed`; it raises nothing but `Cancelled`;
    leaving the context at any moment closes the connection.
    """

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ProviderEvent]]:
        """Open one model call."""
        ...
