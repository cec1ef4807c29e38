"""Calling a model of an extension: its function returns the answer, or is a generator whose pieces are streamed."""

import inspect
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import attrs

from session_core.sep.sdk.answers import Answer, TokenUsage, ToolCall
from session_core.sep.sdk.contexts import CompletionRequest, ProviderContext
from session_core.sep.sdk.link import call


@attrs.frozen
class Reasoning:
    """A piece of a model's reasoning, yielded by the function of a provider."""

    text: str


Piece = str | Reasoning | ToolCall | TokenUsage


async def complete(ctx: ProviderContext, function: Callable[..., Any], request: CompletionRequest) -> Answer:
    """Call the model, stream its pieces, and return the complete answer.

    Raises:
        TypeError: The function returned or yielded something else.
    """
    if inspect.isasyncgenfunction(function):
        return await _stream(ctx, function(ctx, request))
    returned = await call(function, ctx, request)
    if isinstance(returned, str):
        return Answer(content=returned)
    if isinstance(returned, Answer):
        return returned
    raise TypeError(f"a provider must return text or an Answer, not a {type(returned).__name__}")


async def _stream(ctx: ProviderContext, pieces: AsyncGenerator[Piece]) -> Answer:
    text: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    usage: TokenUsage | None = None
    async with aclosing(pieces):
        async for piece in pieces:
            match piece:
                case str():
                    text.append(piece)
                    await ctx.delta(piece)
                case Reasoning():
                    thoughts.append(piece.text)
                    await ctx.reasoning(piece.text)
                case ToolCall():
                    calls.append(piece)
                    await ctx.tool_call(piece, json.dumps(dict(piece.arguments)))
                case TokenUsage():
                    usage = piece
                    await ctx.usage(piece)
                case _:
                    raise TypeError(f"a provider must yield text, Reasoning, ToolCall or TokenUsage, not {piece!r}")
    return Answer(
        content="".join(text),
        reasoning="".join(thoughts) or None,
        tool_calls=tuple(calls),
        usage=usage,
        finish_reason="tool_calls" if calls else "stop",
    )
