"""Server-sent events are read from bytes however they come."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.providers.sse import SseEvent, SseEventTooLarge, SseParser
from tests.session_core.providers._recordings import chunks, every_cut


def _parse(*pieces: bytes) -> list[SseEvent]:
    parser = SseParser()
    return [event for piece in pieces for event in parser.feed(piece)]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"", []),
        (b"data: a\n\n", [SseEvent(data="a")]),
        (b"data:a\n\n", [SseEvent(data="a")]),
        (b"data:  a\n\n", [SseEvent(data=" a")]),
        (b"event: e\ndata: a\n\n", [SseEvent(event="e", data="a")]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [SseEvent(data="a"), SseEvent(data="b")]),
        (b"data: a\r\rdata: b\r\r", [SseEvent(data="a"), SseEvent(data="b")]),
        (b"data: a\ndata: b\ndata\n\n", [SseEvent(data="a\nb\n")]),
        (b": a comment\ndata: a\n: another\n\n", [SseEvent(data="a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [SseEvent(data="a")]),
        (b"data: \xef\xbb\xbfa\n\n", [SseEvent(data="\ufeffa")]),
        (b"id: 7\nretry: 10\nunknown: x\ndata: a\n\n", [SseEvent(data="a")]),
        (b"event: without data\n\ndata: a\n\n", [SseEvent(data="a")]),
        (b"event: first\nevent: second\ndata: a\n\n", [SseEvent(event="second", data="a")]),
        (b"data: \xff\n\n", [SseEvent(data="\ufffd")]),
        (b"data: a\xe2\x80\xa8b\x0bc\x85d\n\n", [SseEvent(data="a\u2028b\x0bc\ufffdd")]),
        (b"data: never ended", []),
        (b"data: never ended\n", []),
    ],
)
def test_what_a_stream_says(stream: bytes, expected: list[SseEvent]) -> None:
    """Every form of line end, field, comment and mark is read as the standard has it, wherever the bytes are cut."""
    assert expected == _parse(stream)
    assert expected == _parse(*chunks(stream, 1))
    assert all(expected == _parse(*pieces) for pieces in every_cut(stream))


_LINES = st.sampled_from(
    [b"data: x", b"data", b"event: e", b": c", b"", "data: 🌊ü".encode(), b"id: 1", b"\xff", b"data:"]
)
_ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])


@given(lines=st.lists(st.tuples(_LINES, _ENDS), max_size=12), cuts=st.lists(st.integers(0, 200), max_size=6))
def test_cuts_change_nothing(lines: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    """However a stream is cut, the events are the same."""
    stream = b"".join(line + end for line, end in lines)
    places = sorted({0, *(cut for cut in cuts if cut < len(stream)), len(stream)})
    pieces = [stream[start:end] for start, end in pairwise(places)]
    assert _parse(stream) == _parse(*pieces)


@pytest.mark.parametrize(
    "stream",
    [
        b"data: " + b"x" * 100,
        b"x" * 100,
        b": " + b"x" * 100,
        b"data: xxxxxx\n" * 10,
        b"data\n" * 20,
        b"data: " + b"x" * 100 + b"\n\n",
    ],
    ids=["data", "field", "comment", "many lines", "many empty lines", "whole event"],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_large_event_is_refused(stream: bytes, size: int) -> None:
    """An event beyond the bound is refused before it is held, and what was complete before it is not lost."""
    parser = SseParser(max_event_bytes=64)
    found: list[SseEvent] = []

    def feed_all() -> None:
        for piece in chunks(b"data: first\n\n" + stream, size):
            found.extend(parser.feed(piece))

    with pytest.raises(SseEventTooLarge) as refused:
        feed_all()

    assert [SseEvent(data="first")] == [*found, *refused.value.events]


def test_the_bound_is_for_one_event() -> None:
    """Any number of events passes, each within the bound."""
    parser = SseParser(max_event_bytes=16)
    assert 1000 == len(parser.feed(b": comment\ndata: 12345\n\n" * 1000))


@pytest.mark.parametrize("data", ["", "[1]", "7", "{", '{"a": 1} x', "[" * 100_000, "9" * 5000, '"\\ud800"'])
def test_data_that_is_no_object(data: str) -> None:
    """Data that is not a JSON object is told from an object, and nothing is raised."""
    assert SseEvent(data=data).json_object() is None


def test_data_that_is_an_object() -> None:
    """A JSON object is read."""
    assert {"a": [1]} == SseEvent(data='{"a": [1]}').json_object()
