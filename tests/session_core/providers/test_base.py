"""The values a provider speaks in."""

from typing import get_args

import pytest
from attrs.exceptions import FrozenInstanceError

from session_core.providers.base import RETRYABLE, FailureKind, ModelFailed, ModelFinished, ProviderEvent, TextChunk


def test_what_is_worth_a_retry() -> None:
    """Only failures that pass by themselves are retried."""
    assert {"rate_limited", "overloaded", "network"} == RETRYABLE
    assert set(get_args(FailureKind)) > RETRYABLE


def test_events_are_frozen_values() -> None:
    """Events compare by what they say, can be put in sets and cannot be changed."""
    chunk = TextChunk(text="a")

    assert TextChunk(text="a") == chunk
    assert {chunk, TextChunk(text="a")} == {chunk}
    with pytest.raises(FrozenInstanceError):
        chunk.text = "b"  # type: ignore[misc]


def test_both_ends_are_events() -> None:
    """Success and failure both travel as events."""
    assert {ModelFinished, ModelFailed} < set(get_args(ProviderEvent))
