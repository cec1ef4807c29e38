"""The Responses interface: what its events mean."""

import json
from typing import Any

import pytest
from hypothesis import given

from session_core.providers.base import (
    FailureKind,
    ModelFailed,
    ModelFinished,
    ModelRequest,
    ProviderEvent,
    TextChunk,
    ThinkingChunk,
    ToolCallChunk,
    ToolCallOpened,
)
from session_core.providers.openai_responses import ResponsesDecoder, ResponsesOptions, build_request
from session_core.vocabulary.messages import ThinkingPart, Usage
from tests.session_core.providers._contract import check_order, message, said
from tests.session_core.providers._openai import Heard, broken_streams, decode, events_of, heard, parsed
from tests.session_core.providers._recordings import every_cut, recording, recordings, some_and_every_cut


def finished(reason: Any = "end", **usage: Any) -> ModelFinished:
    return ModelFinished(stop_reason=reason, usage=Usage(**usage))


ANSWERS = {
    "text": Heard(
        text="Grüße, 世界 🌍!",
        end=finished(input_tokens=68, output_tokens=11, cache_read_tokens=1280, cache_write_tokens=64),
    ),
    "reasoning_tools": Heard(
        text="Let me look.",
        thinking="**Reading**\n\nI need the file.\n\n**Then**",
        calls=(("read_file", {"path": "a.py"}), ("list_files", {})),
        end=finished("tool_calls", input_tokens=244, output_tokens=90, cache_read_tokens=256),
    ),
    "reasoning_twice": Heard(
        thinking="**Reading**\n\nI need the file.\n\n**Then**",
        calls=(("read_file", {}),),
        end=finished("tool_calls", input_tokens=30, output_tokens=20),
    ),
    "tools_interleaved": Heard(
        calls=(("read_file", {"path": "a"}), ("count_words", {"path": "b"})),
        end=finished("tool_calls", input_tokens=40, output_tokens=30),
    ),
    "refusal": Heard(text="I'm sorry, no.", end=finished("refused", input_tokens=20, output_tokens=7)),
    "incomplete": Heard(text="Once upon a", end=finished("max_tokens", input_tokens=15, output_tokens=3)),
    "filtered": Heard(text="Once upon a", end=finished("refused", input_tokens=15, output_tokens=3)),
    "vllm_reasoning": Heard(text="Done.", thinking="Plain thoughts", end=finished(input_tokens=9, output_tokens=6)),
}
FAILURES: dict[str, tuple[FailureKind, str]] = {
    "failed": ("rate_limited", "Rate limit reached"),
    "error": ("context_too_long", "exceeds the context window"),
    "error_flat": ("overloaded", "failed to generate"),
}


def played(*events: dict[str, Any]) -> list[ProviderEvent]:
    return decode(ResponsesDecoder, *(f"data: {json.dumps(event)}\n\n".encode() for event in events))


def signatures(name: str) -> list[str]:
    events = decode(ResponsesDecoder, recording("openai_responses", name))
    return [event.signature for event in events if isinstance(event, ThinkingChunk) and event.signature is not None]


def items_sent(name: str) -> list[dict[str, Any]]:
    """The reasoning items as the server sent them in its last event."""
    last = events_of(recording("openai_responses", name))[-1]
    (event,) = parsed(last)
    return [item for item in json.loads(event.data)["response"]["output"] if item["type"] == "reasoning"]


COMPLETED = {"type": "response.completed", "response": {"status": "completed"}}


def test_every_recording_is_tested() -> None:
    """No recording lies around unused."""
    assert recordings("openai_responses") == sorted([*ANSWERS, *FAILURES])


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_are_understood(name: str) -> None:
    """Text, thinking, tool calls, the reason of the end and the usage come out as the server meant them."""
    assert heard(decode(ResponsesDecoder, recording("openai_responses", name))) == ANSWERS[name]


@pytest.mark.parametrize("name", FAILURES)
def test_failures_in_the_midst_of_an_answer_are_told(name: str) -> None:
    """Both forms of the error event, and a failed response, give the right kind and the server's words."""
    kind, words = FAILURES[name]
    events = decode(ResponsesDecoder, recording("openai_responses", name))
    check_order(events)
    failed = events[-1]
    assert isinstance(failed, ModelFailed)
    assert (failed.kind, words in failed.message) == (kind, True)


@some_and_every_cut
@pytest.mark.parametrize("name", recordings("openai_responses"))
def test_where_the_stream_is_cut_into_pieces_does_not_matter(name: str, step: int) -> None:
    """The events are the same event by event, byte by byte, and with each event cut in two anywhere."""
    stream = recording("openai_responses", name)
    whole = decode(ResponsesDecoder, stream)
    assert decode(ResponsesDecoder, *events_of(stream)) == whole
    assert decode(ResponsesDecoder, *(stream[place : place + 1] for place in range(len(stream)))) == whole
    for event in events_of(stream):
        assert {parsed(*halves) for halves in every_cut(event, step)} == {parsed(event)}


@pytest.mark.parametrize("name", recordings("openai_responses"))
def test_a_stream_that_ends_early_is_a_failure(name: str) -> None:
    """Without its last event no answer is whole, however much of it has come."""
    whole = heard(decode(ResponsesDecoder, recording("openai_responses", name)))
    pieces = events_of(recording("openai_responses", name))
    for count in range(len(pieces)):
        events = decode(ResponsesDecoder, *pieces[:count], pieces[count][:-1])
        check_order(events)
        assert isinstance(events[-1], ModelFailed)
        assert events[-1].kind == "network"
        assert whole.text.startswith(said(events))


@given(stream=broken_streams("openai_responses"))
def test_whatever_the_server_sends_there_is_exactly_one_end(stream: bytes) -> None:
    """Damaged, shuffled and random bytes never raise, and end in one final event."""
    check_order(decode(ResponsesDecoder, stream))


@pytest.mark.parametrize("name", ["reasoning_tools", "reasoning_twice"])
def test_reasoning_items_go_back_as_they_came(name: str) -> None:
    """Id, summary and encrypted content of all items of an answer are in the next request, unchanged and in order."""
    thinking = ThinkingPart(text="", signature=signatures(name)[-1])
    request = ModelRequest(model="m", messages=(message("user", "a"), message("assistant", thinking, "b")))
    sent = [item for item in build_request(request, "m", ResponsesOptions())["input"] if item["type"] == "reasoning"]
    assert sent == items_sent(name)
    assert len(sent) == (1 if name == "reasoning_tools" else 2)


def test_reasoning_that_is_not_encrypted_is_not_kept() -> None:
    """An id alone means nothing to a server that stores nothing."""
    assert signatures("vllm_reasoning") == []


def test_reasoning_is_gathered_only_as_far_as_it_belongs_together() -> None:
    """Thinking before and after a text are two parts, and each carries its own items."""
    items = [{"type": "reasoning", "id": f"rs_{number}", "encrypted_content": "x", "summary": []} for number in (1, 2)]
    events = played(
        {"type": "response.output_item.done", "output_index": 0, "item": items[0]},
        {"type": "response.output_text.delta", "output_index": 1, "delta": "a"},
        {"type": "response.output_item.done", "output_index": 2, "item": items[1]},
        COMPLETED,
    )
    kept = [json.loads((event.signature or "")[7:]) for event in events if isinstance(event, ThinkingChunk)]
    assert kept == [[items[0]], [items[1]]]


def test_a_call_is_out_as_soon_as_it_is_whole() -> None:
    """The next call streams at once when the server has said that the one before is done."""
    pieces = events_of(recording("openai_responses", "reasoning_tools"))
    before_last = decode(ResponsesDecoder, *pieces[:-1])
    assert [event for event in before_last if isinstance(event, ToolCallOpened | ToolCallChunk)] == [
        ToolCallOpened(name="read_file"),
        ToolCallChunk(text='{"pa'),
        ToolCallChunk(text='th":"a.py"}'),
        ToolCallOpened(name="list_files"),
        ToolCallChunk(text="{}"),
    ]


def test_items_without_pieces_are_understood() -> None:
    """A server may send each item whole, when it is done."""
    items: list[dict[str, Any]] = [
        {"type": "message", "content": [{"type": "output_text", "text": "hi"}]},
        {"type": "function_call", "name": "read_file", "arguments": '{"path":"a"}'},
        {"type": "web_search_call", "id": "ws_1"},
    ]
    done = [
        {"type": "response.output_item.done", "output_index": place, "item": item} for place, item in enumerate(items)
    ]
    assert played(*done, COMPLETED) == [
        TextChunk(text="hi"),
        ToolCallOpened(name="read_file"),
        ToolCallChunk(text='{"path":"a"}'),
        finished("tool_calls"),
    ]


@pytest.mark.parametrize(
    "events",
    [
        [{"type": "response.output_item.done", "item": {"type": "function_call", "name": "t", "arguments": {"a": 1}}}],
        [
            {"type": "response.output_item.added", "item": {"type": "function_call", "name": "t"}},
            {"type": "response.function_call_arguments.done", "arguments": '{"a": 1}'},
            {"type": "response.output_item.done", "item": {"type": "function_call", "arguments": '{"a": 1}'}},
        ],
        [
            {
                "type": "response.done",
                "response": {
                    "status": "completed",
                    "output": [
                        {"type": "reasoning", "id": "r"},
                        {"type": "function_call", "name": "t", "arguments": '{"a": 1}'},
                    ],
                },
            }
        ],
    ],
    ids=["an object", "whole", "at the end only"],
)
def test_calls_are_understood_however_they_are_sent(events: list[dict[str, Any]]) -> None:
    """Arguments may come as an object, whole, or with everything else at the end; they count once."""
    found = played(*events, COMPLETED)
    assert found == [ToolCallOpened(name="t"), ToolCallChunk(text='{"a": 1}'), finished("tool_calls")]


def test_a_failure_tells_what_it_has_used() -> None:
    """An answer that failed comes with what was used until then."""
    (found,) = played({"type": "response.failed", "response": {"usage": {"input_tokens": 7}, "error": {}}})
    assert isinstance(found, ModelFailed)
    assert Usage(input_tokens=7) == found.usage


def test_events_of_other_kinds_are_passed_over() -> None:
    """What is not asked for, or not known yet, does no harm; the end mark of the other interface neither."""
    other = {"type": "response.audio.delta", "delta": "x"}
    events = decode(ResponsesDecoder, f"data: {json.dumps(other)}\n\ndata: [DONE]\n\n".encode(), _line(COMPLETED))
    assert events == [finished()]


def _line(event: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(event)}\n\n".encode()


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"type": "response.failed", "response": {"error": {"code": "server_error", "message": "x"}}}, "overloaded"),
        ({"type": "response.failed", "response": None}, "overloaded"),
        ({"type": "response.cancelled", "response": {}}, "overloaded"),
        ({"error": {"code": "invalid_api_key", "message": "x"}}, "auth"),
        ({"type": "error", "error": {"code": "insufficient_quota", "type": "insufficient_quota"}}, "refused"),
    ],
)
def test_errors_get_the_right_kind(event: dict[str, Any], kind: FailureKind) -> None:
    """Whatever form an error has, its code tells whether to try again."""
    events = played(event)
    assert isinstance(events[-1], ModelFailed)
    assert events[-1].kind == kind
    assert len(events) == 1


def test_endless_calls_end() -> None:
    """A server that opens calls without end fails before memory runs out."""
    item = {"type": "function_call", "name": "a"}
    events = played(
        *({"type": "response.output_item.added", "output_index": place, "item": item} for place in range(2_000))
    )
    assert isinstance(events[-1], ModelFailed)
    assert events[-1].kind == "malformed"
