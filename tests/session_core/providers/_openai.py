"""What the tests of the OpenAI interfaces share: recordings, the answers in them, and random conversations."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import attrs
from hypothesis import strategies as st

from session_core.ids import CallId, MessageId
from session_core.providers.base import ModelFailed, ModelFinished, ModelRequest, ProviderEvent
from session_core.providers.http import Decoder
from session_core.providers.sse import SseEvent, SseParser
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import (
    FilePart,
    ImagePart,
    InterruptedPart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from session_core.vocabulary.tools import ToolSpec
from tests.session_core.providers._contract import calls, check_order, said, thought
from tests.session_core.providers._recordings import decoded, recording, recordings
from tests.strategies import values_of


def decode(make: Callable[[], Decoder], *pieces: bytes) -> list[ProviderEvent]:
    """What a new decoder makes of a stream that comes in these pieces and then ends."""
    return decoded(make(), pieces)


def parsed(*pieces: bytes) -> tuple[SseEvent, ...]:
    """The events that a decoder gets to see: only the parser before it knows of bytes."""
    parser = SseParser()
    return tuple(event for piece in pieces for event in parser.feed(piece))


def events_of(stream: bytes) -> list[bytes]:
    """The stream in its events."""
    return [piece for piece in re.split(rb"(?<=\n\n)", stream) if piece]


@attrs.frozen(kw_only=True)
class Heard:
    """An answer as a reader has it in the end."""

    text: str = ""
    thinking: str = ""
    calls: tuple[tuple[str, Any], ...] = ()
    end: ModelFinished | ModelFailed


def heard(events: list[ProviderEvent]) -> Heard:
    check_order(events)
    end = events[-1]
    assert isinstance(end, ModelFinished | ModelFailed)
    found = tuple(calls(events)) if isinstance(end, ModelFinished) else ()
    return Heard(text=said(events), thinking=thought(events), calls=found, end=end)


_call_ids = st.sampled_from(["call_1", "call_2", "call_3", "", "ü b", "x" * 60, "x" * 61]).map(CallId)
_names = st.sampled_from(["read_file", "list_files", "", "no such tool!", "y" * 80])
_words = st.text(max_size=6) | st.sampled_from(["hello", " \n", "\ud800"])
_images = st.just(ImagePart(media_type="image/png", data="aGk="))
_signatures = st.none() | st.sampled_from(
    [
        "openai:[]",
        "openai:{",
        "anthropic:abc",
        'openai:[{"type":"reasoning","id":"rs_1","summary":[]}]',
        "openai:" + "[" * 9_999,
    ]
)
_arguments = st.sampled_from([JsonObject(), JsonObject({"path": "ü", "deep": {"list": [1, None, 0.5]}})])
_parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(TextPart, text=_words),
    st.builds(ThinkingPart, text=_words, signature=_signatures),
    _images,
    st.builds(FilePart, name=_words, text=_words),
    st.builds(ToolCallPart, call_id=_call_ids, name=_names, arguments=_arguments),
    st.builds(
        ToolResultPart,
        call_id=_call_ids,
        name=_names,
        status=st.sampled_from(["success", "error", "denied", "cancelled", "interrupted"]),
        text=_words,
        images=st.lists(_images, max_size=2).map(tuple),
    ),
    values_of(InterruptedPart),
)
conversations: st.SearchStrategy[tuple[Message, ...]] = st.lists(
    st.builds(
        Message,
        message_id=st.just(MessageId("msg_1")),
        parent_id=st.none(),
        role=st.sampled_from(["user", "assistant", "assistant", "tool", "summary"]),
        parts=st.lists(_parts, max_size=5).map(tuple),
        created_at=st.just(0),
    ),
    max_size=8,
).map(tuple)
"""Any messages in any order: far more than a session can bring about, so that nothing it brings about is forgotten."""

model_requests: st.SearchStrategy[ModelRequest] = st.builds(
    ModelRequest,
    model=st.just("m"),
    messages=conversations,
    tools=st.lists(st.builds(ToolSpec, name=_names, description=_words, parameters=_arguments), max_size=2).map(tuple),
    system=_words,
    thinking=st.sampled_from(["off", "low", "medium", "high"]),
    max_output_tokens=st.none() | st.integers(1, 9_999),
    output_schema=st.none() | st.just(JsonObject({"type": "object"})),
    cache_key=st.none() | st.just("k" * 99),
)


def broken_streams(kind: str) -> st.SearchStrategy[bytes]:
    """Recordings with bytes lost, added and changed, and plain rubbish."""
    whole = st.sampled_from(recordings(kind)).map(lambda name: recording(kind, name))
    places = st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 40), st.binary(max_size=12)), max_size=4)
    shuffled = whole.flatmap(lambda stream: st.permutations(events_of(stream)).map(b"".join))
    return st.one_of(st.binary(), st.builds(_damage, whole, places), shuffled)


def _damage(stream: bytes, places: Iterable[tuple[int, int, bytes]]) -> bytes:
    for place, lost, added in places:
        place %= len(stream) + 1
        stream = stream[:place] + added + stream[place + lost :]
    return stream
