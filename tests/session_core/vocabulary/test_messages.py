"""The size of messages: what they take in JSON at most."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.ids import CallId
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import (
    FilePart,
    ImagePart,
    Part,
    Refusal,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    count_max_bytes,
)
from session_core.wire.codec import encode
from tests.strategies import values_of

WORST = "\x01" * 10_000
IMAGE = ImagePart(media_type="image/jpeg", data="QUJD" * 10_000)
NUMBERS = JsonObject({"\x01" * 9: (-1.7976931348623157e308,) * 5_000, "": (None, True, "", JsonObject())})


def with_base64(part: Part) -> Part:
    """Give the images of a random part data that is base64, as all recorded ones have."""
    if isinstance(part, ImagePart):
        return attrs.evolve(part, data="QUJD")
    return attrs.evolve(part, images=(IMAGE,) * len(part.images)) if isinstance(part, ToolResultPart) else part


@given(st.lists(values_of(Part).map(with_base64), max_size=4))
def test_no_message_is_longer_than_counted(parts: list[Part]) -> None:
    """Whatever the parts are, their JSON is no longer than their count says."""
    assert sum(len(encode(part)) for part in parts) <= count_max_bytes(parts)


@pytest.mark.parametrize(
    "part",
    [
        TextPart(text=WORST),
        ThinkingPart(text=WORST, signature=WORST),
        FilePart(name=WORST, text=WORST),
        IMAGE,
        ToolCallPart(call_id=CallId(WORST), name=WORST, arguments=NUMBERS),
        ToolResultPart(
            call_id=CallId(WORST),
            name=WORST,
            status="denied",
            text=WORST,
            images=(IMAGE,) * 3,
            details=NUMBERS,
            refusal=Refusal(by="extension", reason=WORST),
        ),
    ],
    ids=lambda part: type(part).__name__,
)
def test_the_worst_parts_are_counted_closely(part: Part) -> None:
    """Control characters and the longest numbers fit into the count, which is not much more than they take."""
    size = len(encode(part))

    assert 0.6 * count_max_bytes((part,)) < size <= count_max_bytes((part,))
