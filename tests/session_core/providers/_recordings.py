"""Recorded streams of providers, and ways to cut them into pieces."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from session_core.providers.base import ProviderEvent
from session_core.providers.http import Decoder
from session_core.providers.sse import SseParser

_STREAMS = Path(__file__).parents[2] / "fixtures" / "streams"


def recording(kind: str, name: str) -> bytes:
    """The bytes of one recorded stream."""
    return (_STREAMS / kind / f"{name}.sse").read_bytes()


def recordings(kind: str) -> list[str]:
    """The names of all recorded streams of one kind of provider."""
    return sorted(path.stem for path in (_STREAMS / kind).glob("*.sse"))


def every_cut(stream: bytes, step: int = 1) -> Iterator[tuple[bytes, bytes]]:
    """The stream in two pieces, cut at every byte, or at every so many."""
    return ((stream[:place], stream[place:]) for place in range(0, len(stream) + 1, step))


some_and_every_cut = pytest.mark.parametrize("step", [29, pytest.param(1, marks=pytest.mark.slow)])
"""What is costly at every byte is tried at some by default: the parser alone, which knows of bytes, is tried at all."""


def chunks(stream: bytes, size: int) -> list[bytes]:
    """The stream in pieces of one size."""
    return [stream[place : place + size] for place in range(0, len(stream), size)]


def decoded(decoder: Decoder, pieces: Iterable[bytes]) -> list[ProviderEvent]:
    """What a decoder makes of a stream that comes in these pieces and then ends."""
    parser = SseParser()
    found = [event for piece in pieces for sse in parser.feed(piece) for event in decoder.decode(sse)]
    return [*found, *decoder.finish()]
