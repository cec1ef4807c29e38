"""Models whose size and price tests can set."""

from typing import Any

from session_core.providers.base import ModelFinished
from session_core.providers.catalogue import ModelInfo, Prices
from session_core.testing.scripted import ScriptItem, tool_call
from session_core.vocabulary.messages import Usage

PRICES = Prices(input=1_000_000, output=2_000_000, cache_read=0, cache_write=0)
"""One and two millionths of a dollar per token."""


def info(**facts: Any) -> dict[str, ModelInfo]:
    """What is known of the model "m"."""
    return {"m": ModelInfo(**{"name": "m", "provider": "p", "api_id": "m", **facts})}


def used(tokens: int) -> Usage:
    """What an answer has used."""
    return Usage(input_tokens=tokens)


def calling(name: str, tokens: int) -> tuple[ScriptItem, ...]:
    """An answer that calls a tool and has used so many tokens."""
    return (*tool_call(name)[:-1], ModelFinished(usage=used(tokens)))
