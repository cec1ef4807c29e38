"""The answers of Anthropic's interface mean the same however they arrive."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from session_core.providers.anthropic_stream import AnthropicDecoder
from session_core.providers.base import (
    ModelFailed,
    ModelFinished,
    ProviderEvent,
    TextChunk,
    ThinkingChunk,
    ToolCallChunk,
    ToolCallOpened,
)
from session_core.providers.secrets import Secret
from session_core.providers.sse import SseEvent
from session_core.vocabulary.messages import Usage
from tests.session_core.providers._contract import calls, check_order, fewer_examples, said
from tests.session_core.providers._recordings import (
    chunks,
    decoded,
    every_cut,
    recording,
    recordings,
    some_and_every_cut,
)

NAMES = recordings("anthropic")

EXPECTED: dict[str, list[ProviderEvent]] = {
    "text": [
        TextChunk(text="Grüße"),
        TextChunk(text=" aus dem Süden: 🌊"),
        TextChunk(text="\n\nDone."),
        ModelFinished(usage=Usage(input_tokens=21, output_tokens=14)),
    ],
    "parallel_tools": [
        TextChunk(text="I look at"),
        TextChunk(text=" both files."),
        ToolCallOpened(name="read_file"),
        ToolCallChunk(text='{"path": "a'),
        ToolCallChunk(text='.py"}'),
        ToolCallOpened(name="read_file"),
        ToolCallChunk(text='{"pat'),
        ToolCallChunk(text='h": "bücher.md"'),
        ToolCallChunk(text=', "limit": 20}'),
        ToolCallOpened(name="list_files"),
        ToolCallChunk(text="{}"),
        ModelFinished(usage=Usage(input_tokens=512, output_tokens=141), stop_reason="tool_calls"),
    ],
    "thinking": [
        ThinkingChunk(text="The user asks for 12 times 12."),
        ThinkingChunk(text=" That is 144."),
        ThinkingChunk(text="", signature="anthropic:EqQBCkYIBxgCKkBvR2m0Zk9xd3RzL2V4YW1wbGU+/w=="),
        TextChunk(text="144"),
        TextChunk(text="."),
        ModelFinished(usage=Usage(input_tokens=88, output_tokens=63)),
    ],
    "redacted_thinking": [
        ThinkingChunk(text="First I look."),
        ThinkingChunk(text="", signature="anthropic:EuYBCkYIBhgCKkDfirst=="),
        ThinkingChunk(
            text="",
            signature="anthropic-redacted:EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIwxtE3rAFBa8cr3qpP",
        ),
        TextChunk(text="Found it."),
        ToolCallOpened(name="read_file"),
        ToolCallChunk(text='{"path":"x"}'),
        ModelFinished(usage=Usage(input_tokens=90, output_tokens=77), stop_reason="tool_calls"),
    ],
    "refusal": [
        TextChunk(text="I can"),
        ModelFinished(usage=Usage(input_tokens=40, output_tokens=4), stop_reason="refused"),
    ],
    "max_tokens": [
        TextChunk(text="Here is the file:"),
        ToolCallOpened(name="write_file"),
        ToolCallChunk(text='{"path": "long.txt", "text": "aaaa'),
        ModelFinished(usage=Usage(input_tokens=30, output_tokens=64), stop_reason="max_tokens"),
    ],
    "error_midway": [
        TextChunk(text="I was just"),
        ModelFailed(
            kind="overloaded",
            message="The provider is overloaded or has a fault: Overloaded",
            usage=Usage(input_tokens=25, output_tokens=1),
        ),
    ],
    "cache_usage": [
        TextChunk(text="Cached."),
        ModelFinished(
            usage=Usage(input_tokens=4, output_tokens=5, cache_read_tokens=18043, cache_write_tokens=248),
        ),
    ],
}


def test_every_recording_is_expected() -> None:
    """No recorded stream is forgotten by the tests."""
    assert sorted(EXPECTED) == NAMES


@some_and_every_cut
@pytest.mark.parametrize("name", NAMES)
def test_what_a_recording_means(name: str, step: int) -> None:
    """A recorded stream gives exactly these events, whether it comes whole, byte by byte, or cut anywhere."""
    stream = recording("anthropic", name)
    assert EXPECTED[name] == decoded(AnthropicDecoder(), [stream])
    check_order(EXPECTED[name])
    assert all(EXPECTED[name] == decoded(AnthropicDecoder(), chunks(stream, size)) for size in (1, 7, 64))
    assert all(EXPECTED[name] == decoded(AnthropicDecoder(), pieces) for pieces in every_cut(stream, step))


@some_and_every_cut
@pytest.mark.parametrize("name", NAMES)
def test_a_stream_that_ends_anywhere_ends_once(name: str, step: int) -> None:
    """Wherever a stream breaks off there is one last event, and what came before it is a beginning of the whole."""
    for start, _ in every_cut(recording("anthropic", name), step):
        events = decoded(AnthropicDecoder(), [start])
        check_order(events)
        last = events[-1]
        assert events == EXPECTED[name] or isinstance(last, ModelFailed | ModelFinished)
        if isinstance(last, ModelFailed) and events != EXPECTED[name]:
            assert "network" == last.kind
            assert events[:-1] == EXPECTED[name][: len(events) - 1]


def _event(**fields: Any) -> SseEvent:
    return SseEvent(event=fields.get("type", ""), data=json.dumps(fields))


def _take(*events: SseEvent, decoder: AnthropicDecoder | None = None) -> list[ProviderEvent]:
    decoder = decoder or AnthropicDecoder()
    return [found for event in events for found in decoder.decode(event)]


OPEN_TEXT = _event(type="content_block_start", index=0, content_block={"type": "text", "text": ""})
OPEN_TOOL = _event(type="content_block_start", index=0, content_block={"type": "tool_use", "name": "t", "input": {}})


@pytest.mark.parametrize(
    "events",
    [
        [SseEvent(event="message_start", data="{")],
        [SseEvent(data="[1]")],
        [_event(type="content_block_start", content_block={"type": "text"})],
        [_event(type="content_block_start", index=0, content_block={"type": "tool_use", "name": ""})],
        [_event(type="content_block_start", index=0, content_block={"type": "text", "text": 7})],
        [_event(type="content_block_delta", index=0, delta={"type": "text_delta", "text": "x"})],
        [OPEN_TEXT, _event(type="content_block_delta", index=1, delta={"type": "text_delta", "text": "x"})],
        [
            OPEN_TEXT,
            _event(type="content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": "{"}),
        ],
        [OPEN_TEXT, _event(type="content_block_delta", index=0, delta={"type": "text_delta", "text": 7})],
    ],
)
def test_nonsense_is_told(events: list[SseEvent]) -> None:
    """An event that makes no sense where it came ends the answer as malformed."""
    found = _take(*events, _event(type="message_stop"))
    assert 1 == len(found)
    assert isinstance(found[0], ModelFailed)
    assert "malformed" == found[0].kind


def test_what_is_not_known_is_passed_over() -> None:
    """New events, parts and pieces of the interface do no harm."""
    found = _take(
        SseEvent(event="ping", data="not JSON"),
        _event(type="something_new", x=1),
        _event(type="content_block_start", index=0, content_block={"type": "server_tool_use", "name": "search"}),
        _event(type="content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": "{}"}),
        OPEN_TEXT,
        _event(type="content_block_delta", index=0, delta={"type": "citations_delta", "citation": {}}),
        _event(type="content_block_delta", index=0, delta={"type": "text_delta", "text": "a\ud83d"}),
        _event(type="message_delta", delta={"stop_reason": "something_new"}, usage={"output_tokens": -3}),
        _event(type="message_stop"),
        _event(type="message_stop"),
    )
    assert [TextChunk(text="a\ufffd"), ModelFinished()] == found


def test_what_servers_of_the_same_kind_do_otherwise() -> None:
    """Parts that begin before the last one has ended, nulls, arguments as an object and another end are understood."""
    found = _take(
        OPEN_TEXT,
        _event(type="content_block_delta", index=0, delta={"type": "text_delta", "text": "a"}),
        _event(type="content_block_delta", index=0, delta={"type": "text_delta", "text": None}),
        _event(type="content_block_start", index=1, content_block={"type": "tool_use", "name": "t", "input": None}),
        _event(type="content_block_stop", index=0),
        _event(type="content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": {"q": 1}}),
        _event(type="content_block_stop", index=1),
        _event(type="message_delta", delta={"stop_reason": "tool_use"}),
        SseEvent(data="[DONE]"),
    )
    end = ModelFinished(stop_reason="tool_calls")
    assert [TextChunk(text="a"), ToolCallOpened(name="t"), ToolCallChunk(text='{"q": 1}'), end] == found


def test_an_end_mark_without_an_end_is_none() -> None:
    """A mark of the other interface ends nothing that the model has not ended."""
    (found,) = _take(SseEvent(data="[DONE]"))
    assert isinstance(found, ModelFailed)


def test_figures_never_shrink() -> None:
    """Figures that come twice count once, and none at the end does not wipe out those of the beginning."""
    found = _take(
        _event(type="message_start", message={"usage": {"input_tokens": 9, "output_tokens": 1}}),
        _event(type="message_delta", delta={}, usage={"input_tokens": 0, "output_tokens": 4}),
        _event(type="message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 4}),
        _event(type="message_stop"),
    )
    assert [ModelFinished(usage=Usage(input_tokens=9, output_tokens=4))] == found


def test_a_failure_tells_what_it_has_used() -> None:
    """An error without a type, or the end of the line, comes with what was used until then."""
    begun = _event(type="message_start", message={"usage": {"input_tokens": 9}})
    (error,) = _take(begun, SseEvent(data='{"error": {"message": "no"}}'))
    decoder = AnthropicDecoder()
    assert [] == _take(begun, decoder=decoder)
    (cut,) = decoder.finish()
    for found in (error, cut):
        assert isinstance(found, ModelFailed)
        assert Usage(input_tokens=9) == found.usage


def test_an_end_that_was_announced_is_an_end() -> None:
    """A stream that ends right after the model said why it stopped is complete."""
    decoder = AnthropicDecoder()
    _take(OPEN_TOOL, _event(type="message_delta", delta={"stop_reason": "tool_use"}, usage={}), decoder=decoder)
    assert [ToolCallChunk(text="{}"), ModelFinished(stop_reason="tool_calls")] == decoder.finish()
    assert [] == decoder.finish()


def test_arguments_that_come_all_at_once() -> None:
    """A call whose arguments stand in its opening is complete too, and is called by our name for the tool."""
    opening = {"type": "tool_use", "name": "srv_find", "input": {"q": "x"}}
    found = _take(
        _event(type="content_block_start", index=0, content_block=opening),
        _event(type="message_stop"),
        decoder=AnthropicDecoder(names={"srv_find": "srv.find"}),
    )
    assert [("srv.find", {"q": "x"})] == calls(found)
    assert ModelFinished(stop_reason="tool_calls") == found[-1]


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        ("overloaded_error", "overloaded"),
        ("api_error", "overloaded"),
        ("rate_limit_error", "rate_limited"),
        ("authentication_error", "auth"),
        ("permission_error", "auth"),
        ("request_too_large", "context_too_long"),
        ("invalid_request_error", "refused"),
        ("not_found_error", "refused"),
        ("something_new", "overloaded"),
    ],
)
def test_errors_in_a_stream(type_: str, kind: str) -> None:
    """An error event is told by its kind, and keys in its text are masked."""
    message = "no sk-ant-api03-abcdef and no my-own-password"
    error = _event(type="error", error={"type": type_, "message": message})
    (found,) = _take(error, decoder=AnthropicDecoder(secrets=[Secret("my-own-password")]))
    assert isinstance(found, ModelFailed)
    assert kind == found.kind
    assert found.message.endswith(": no *** and no ***")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_TYPES = st.sampled_from(
    ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "ping", "x"]
)
_BLOCKS = st.sampled_from(["text", "thinking", "redacted_thinking", "tool_use", "other"])
_DELTAS = st.sampled_from(["text_delta", "thinking_delta", "signature_delta", "input_json_delta", "other"])
_FIELDS = st.sampled_from(["text", "thinking", "signature", "data", "name", "input", "partial_json"])
_PLAUSIBLE = st.fixed_dictionaries(
    {"type": _TYPES},
    optional={
        "index": st.integers(0, 1) | _JSON,
        "content_block": st.fixed_dictionaries({"type": _BLOCKS, "name": st.just("t")}) | _JSON,
        "delta": st.dictionaries(_FIELDS, st.text(max_size=3)).flatmap(
            lambda fields: _DELTAS.map(lambda kind: {**fields, "type": kind})
        )
        | _JSON,
        "usage": _JSON,
        "message": _JSON,
    },
)


@fewer_examples
@given(st.lists(_PLAUSIBLE | _JSON, max_size=12))
@example(
    [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}},
        {"type": "content_block_stop", "index": []},
    ]
)
def test_any_events_end_once(items: list[Any]) -> None:
    """Whatever the events say, nothing is raised and there is exactly one last event, in legal order."""
    decoder = AnthropicDecoder()
    events = [SseEvent(data=json.dumps(item)) for item in items]
    found = [*_take(*events, decoder=decoder), *decoder.finish()]
    check_order(found)
    assert isinstance(said(found), str)
