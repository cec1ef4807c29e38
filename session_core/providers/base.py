"""The provider interface: one method that streams events. Failures are events too, never exceptions (law 10)."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

import attrs

from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message, Usage
from session_core.vocabulary.tools import ToolSpec

FailureKind = Literal[
    "rate_limited", "overloaded", "auth", "context_too_long", "network", "malformed", "refused", "internal"
]
RETRYABLE: frozenset[FailureKind] = frozenset({"rate_limited", "overloaded", "network"})


ThinkingEffort = Literal["off", "low", "medium", "high"]
StopReason = Literal["end", "tool_calls", "max_tokens", "refused"]


@attrs.frozen(kw_only=True)
class ModelRequest:
    """The input of a model call.

    Attributes:
        model: The model as sessions name it; the provider knows its own name for it.
        messages: The conversation, oldest first; it may begin with a summary.
        tools: The tools that the model may call.
        system: The system prompt.
        thinking: How much it should reason beforehand, if it can.
        max_output_tokens: The longest answer; by default the model's own limit.
        output_schema: A JSON schema the answer must follow, if the provider can enforce that.
        cache_key: Identifies the conversation in the provider's cache.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    system: str = ""
    thinking: ThinkingEffort = "off"
    max_output_tokens: int | None = None
    output_schema: JsonObject | None = None
    cache_key: str | None = None


@attrs.frozen(kw_only=True)
class TextChunk:
    """A piece of the answer."""

    text: str


@attrs.frozen(kw_only=True)
class ThinkingChunk:
    """A piece of the reasoning; the last one may carry the provider's signature over all of it.

    A signature begins with the kind of provider and a colon, because other kinds cannot use it.
    """

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
    """The answer is complete; nothing follows. An answer cut at its maximum length says `max_tokens`."""

    usage: Usage = Usage()
    stop_reason: StopReason = "end"


@attrs.frozen(kw_only=True)
class ModelFailed:
    """The answer failed; nothing follows.

    Attributes:
        kind: What to do about it; see `RETRYABLE`.
        message: The message for people.
        retry_after_ms: How long the provider asked us to wait.
        most_retries: How many retries make sense, if fewer than usual.
        usage: What the failed call has used, as reported by the provider.
    """

    kind: FailureKind
    message: str
    retry_after_ms: int | None = None
    most_retries: int | None = None
    usage: Usage = Usage()


ProviderEvent = TextChunk | ThinkingChunk | ToolCallOpened | ToolCallChunk | ModelFinished | ModelFailed


class Provider(Protocol):
    """A source of model answers.

    Contract: the iterator ends with exactly one `ModelFinished` or `ModelFailed`; it raises nothing but `Cancelled`;
    leaving the context at any moment closes the connection.
    """

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ProviderEvent]]:
        """Open one model call."""
        ...
