"""The Chat Completions interface: what answers of its many servers mean."""

import json
from typing import Any

import pytest
from hypothesis import given

from session_core import limits
from session_core.providers.base import (
    FailureKind,
    ModelFailed,
    ModelFinished,
    ProviderEvent,
    TextChunk,
    ToolCallChunk,
    ToolCallOpened,
)
from session_core.providers.openai_chat_stream import ChatDecoder
from session_core.providers.secrets import Secret
from session_core.vocabulary.messages import Usage
from tests.session_core.providers._contract import calls, check_order, said, thought
from tests.session_core.providers._openai import Heard, broken_streams, decode, events_of, heard, parsed
from tests.session_core.providers._recordings import every_cut, recording, recordings, some_and_every_cut

READ_A = ("read_file", {"path": "a.py"})


def finished(reason: Any = "end", **usage: Any) -> ModelFinished:
    return ModelFinished(stop_reason=reason, usage=Usage(**usage))


ANSWERS = {
    "text": Heard(
        text="Grüße, 世界 🌍!\nSecond line.",
        end=finished(input_tokens=132, output_tokens=11, cache_read_tokens=1280),
    ),
    "tools_parallel": Heard(
        text="Looking.",
        calls=(READ_A, ("list_files", {"path": "src/ü"})),
        end=finished("tool_calls", input_tokens=310, output_tokens=42),
    ),
    "tools_interleaved": Heard(
        calls=(("read_file", {"path": "a"}), ("count_words", {"path": "b"}), ("list_files", {})),
        end=finished("tool_calls", input_tokens=99, output_tokens=31),
    ),
    "refusal": Heard(
        text="I'm sorry, I can't help with that.", end=finished("refused", input_tokens=20, output_tokens=9)
    ),
    "length": Heard(text="Once upon a", end=finished("max_tokens", input_tokens=15, output_tokens=3)),
    "content_filter": Heard(text="Well", end=finished("refused", input_tokens=15, output_tokens=1)),
    "no_done": Heard(text="All there.", end=finished()),
    "ollama_thinking": Heard(
        text="Hello there", thinking="Okay, a greeting.", end=finished(input_tokens=12, output_tokens=9)
    ),
    "ollama_tools": Heard(
        calls=(READ_A, ("list_files", {"path": "."})),
        end=finished("tool_calls", input_tokens=171, output_tokens=40),
    ),
    "ollama_tools_old": Heard(calls=(READ_A, ("read_file", {"path": "b.py"})), end=finished("tool_calls")),
    "vllm_tools": Heard(
        thinking="I need the file.",
        calls=(READ_A,),
        end=finished("tool_calls", input_tokens=32, output_tokens=25, cache_read_tokens=128),
    ),
    "llamacpp_thinking": Heard(
        text="Yes.", thinking="A short one.", end=finished(input_tokens=10, output_tokens=5, cache_read_tokens=7)
    ),
    "llamacpp_tools": Heard(calls=(READ_A,), end=finished("tool_calls", input_tokens=80, output_tokens=14)),
    "openrouter_text": Heard(
        text="Fine day.",
        thinking="Short thought.",
        end=finished(input_tokens=14, output_tokens=12, cache_read_tokens=30),
    ),
    "deepseek_thinking": Heard(
        text="Four", thinking="Two and two.", end=finished(input_tokens=4, output_tokens=8, cache_read_tokens=16)
    ),
}
FAILURES: dict[str, tuple[FailureKind, str]] = {
    "cut": ("network", "before the answer was complete"),
    "error": ("overloaded", "The server had an error"),
    "vllm_error": ("overloaded", "EngineCore"),
    "llamacpp_error": ("context_too_long", "exceeds the available context size"),
    "openrouter_error": ("overloaded", "Provider disconnected"),
}


def chat(*objects: object) -> list[ProviderEvent]:
    """What the decoder makes of a stream of these objects; texts are sent as they are."""
    lines = [each if isinstance(each, str) else json.dumps(each) for each in objects]
    return decode(ChatDecoder, "".join(f"data: {line}\n\n" for line in lines).encode())


def piece(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def tool(name: str | None = None, arguments: Any = None, **more: Any) -> dict[str, Any]:
    return piece(tool_calls=[{**more, "function": {"name": name, "arguments": arguments}}])


def failure(events: list[ProviderEvent]) -> ModelFailed:
    check_order(events)
    assert isinstance(events[-1], ModelFailed)
    return events[-1]


def test_every_recording_is_tested() -> None:
    """No recording lies around unused."""
    assert recordings("openai_chat") == sorted([*ANSWERS, *FAILURES])


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_are_understood(name: str) -> None:
    """Text, thinking, tool calls, the reason of the end and the usage come out as the server meant them."""
    assert heard(decode(ChatDecoder, recording("openai_chat", name))) == ANSWERS[name]


@pytest.mark.parametrize("name", FAILURES)
def test_failures_in_the_midst_of_an_answer_are_told(name: str) -> None:
    """An error object or a missing end is a failure of the right kind, in the server's words."""
    kind, words = FAILURES[name]
    failed = failure(decode(ChatDecoder, recording("openai_chat", name)))
    assert (failed.kind, words in failed.message) == (kind, True)


@some_and_every_cut
@pytest.mark.parametrize("name", recordings("openai_chat"))
def test_where_the_stream_is_cut_into_pieces_does_not_matter(name: str, step: int) -> None:
    """The events are the same event by event, byte by byte, and with each event cut in two anywhere."""
    stream = recording("openai_chat", name)
    whole = decode(ChatDecoder, stream)
    assert decode(ChatDecoder, *events_of(stream)) == whole
    assert decode(ChatDecoder, *(stream[place : place + 1] for place in range(len(stream)))) == whole
    for event in events_of(stream):
        assert {parsed(*halves) for halves in every_cut(event, step)} == {parsed(event)}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_stream_that_ends_early_is_a_failure_or_a_whole_answer(name: str) -> None:
    """A connection that ends anywhere never makes half an answer look like a whole one."""
    stream = recording("openai_chat", name)
    whole = heard(decode(ChatDecoder, stream))
    pieces = events_of(stream)
    for count in range(len(pieces)):
        events = decode(ChatDecoder, *pieces[:count], pieces[count][:-1])
        check_order(events)
        if isinstance(events[-1], ModelFinished):
            assert (said(events), thought(events), tuple(calls(events))) == (whole.text, whole.thinking, whole.calls)
            assert events[-1].stop_reason == whole.end.stop_reason  # type: ignore[union-attr] # it is a finished one
        else:
            assert whole.text.startswith(said(events))


@given(stream=broken_streams("openai_chat"))
def test_whatever_the_server_sends_there_is_exactly_one_end(stream: bytes) -> None:
    """Damaged, shuffled and random bytes never raise, and end in one final event."""
    check_order(decode(ChatDecoder, stream))


def test_the_first_open_call_streams_while_others_wait() -> None:
    """Pieces of the first call come out at once; those of the second when the first can grow no more."""
    decoder = ChatDecoder()
    stream = recording("openai_chat", "tools_interleaved")
    opened, held, live, *_ = (decode_more(decoder, each) for each in events_of(stream))
    assert opened == [ToolCallOpened(name="read_file")]
    assert held == []
    assert live == [ToolCallChunk(text='{"path":')]


def decode_more(decoder: ChatDecoder, chunk: bytes) -> list[ProviderEvent]:
    return [event for each in parsed(chunk) for event in decoder.decode(each)]


@pytest.mark.parametrize(
    "deltas",
    [
        [tool("read_file", "", index=0, id="a"), tool(None, '{"path":"a.py"}', index=0)],
        [tool("read_file", '{"path":', index=0, id="a"), tool("read_file", '"a.py"}', index=0, id="a")],
        [tool("read_file", '{"path":', index=0), tool("read_file", '"a.py"}', index=0)],
        [tool("read_file", {"path": "a.py"})],
        [tool("read_file", '{"path":"a.py"}', id="a")],
        [tool("read_file", '{"path":"a.py"}', index=0, id="")],
        [tool("read_file", '{"path":', id="a"), tool(None, '"a.py"}', id="a")],
        [tool("read_file", '{"path":'), tool(None, '"a.py"}')],
        [tool(None, '{"path":', index=0, id="a"), tool("read_file", '"a.py"}', index=0)],
        [tool("read_file", None, index=0, id="a"), tool("", '{"path":"a.py"}', index=0, id="b")],
        [
            {
                "choices": [
                    {"message": {"tool_calls": [{"function": {"name": "read_file", "arguments": '{"path":"a.py"}'}}]}}
                ]
            }
        ],
    ],
)
def test_a_call_is_understood_however_it_is_sent(deltas: list[dict[str, Any]]) -> None:
    """In pieces or whole, with and without index and id, with its name repeated, late or in an object."""
    assert heard(chat(*deltas, piece("stop"), "[DONE]")) == Heard(calls=(READ_A,), end=finished("tool_calls"))


@pytest.mark.parametrize(
    "more",
    [
        [{"index": 0, "id": "a"}, {"index": 0, "id": "b"}],
        [{"index": 0}, {"index": 0}],
        [{"id": "a"}, {"id": "b"}],
        [{}, {}],
    ],
)
def test_whole_calls_are_kept_apart(more: list[dict[str, Any]]) -> None:
    """Servers that send whole calls may give all of them the index 0, or none, or no id: they are two calls."""
    deltas = [tool("read_file", '{"path":"a.py"}', **each) for each in more]
    assert heard(chat(*deltas, "[DONE]")).calls == (READ_A, READ_A)


def test_text_between_calls_does_not_tear_them() -> None:
    """Text that comes while a call is open waits until the call is whole."""
    events = chat(
        tool("read_file", '{"path":', index=0, id="a"), piece(content="hm"), tool(None, '"a.py"}', index=0), "[DONE]"
    )
    assert heard(events) == Heard(text="hm", calls=(READ_A,), end=finished("tool_calls"))


def test_a_call_without_a_name_is_still_a_call() -> None:
    """The model gets to know that such a tool does not exist, rather than nothing."""
    assert heard(chat(tool(None, "{}", index=0, id="a"), "[DONE]")).calls == (("", {}),)


def test_lists_of_texts_and_thoughts_are_understood() -> None:
    """Some servers send a list where others send a text."""
    content = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "yes"},
    ]
    assert heard(chat(piece(content=content), "[DONE]")) == Heard(text="yes", thinking="hm", end=finished())


def test_other_choices_are_passed_over() -> None:
    """Only the first choice is ours."""
    other = {"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "yes"}}]}
    assert chat(other, "[DONE]") == [TextChunk(text="yes"), finished()]


def test_the_end_mark_alone_is_an_end() -> None:
    """A server that gives no reason but the end mark has finished; nothing after it counts."""
    assert chat(piece(content="a"), "[DONE]", piece(content="b")) == [TextChunk(text="a"), finished()]


def test_usage_in_every_event_counts_once() -> None:
    """Running totals replace each other, and impossible figures are put right."""
    totals = [
        {
            "choices": [],
            "usage": {"prompt_tokens": 5, "completion_tokens": count, "prompt_tokens_details": {"cached_tokens": 9}},
        }
        for count in (1, 2)
    ]
    assert chat(*totals, "[DONE]") == [finished(output_tokens=2, cache_read_tokens=5)]


@pytest.mark.parametrize(
    ("events", "used"),
    [
        ([{"choices": [{"delta": {}, "usage": {"prompt_tokens": 5}}]}], Usage(input_tokens=5)),
        ([{"choices": [], "x_groq": {"usage": {"prompt_tokens": 5}}}], Usage(input_tokens=5)),
        ([{"usage": {"prompt_tokens": 5}}, {"usage": {"prompt_tokens": 0}}], Usage(input_tokens=5)),
        ([{"usage": {"prompt_tokens": 5}}, {"usage": None}], Usage(input_tokens=5)),
        (
            [
                {
                    "usage": {
                        "prompt_tokens": 5,
                        "completion_tokens": 2,
                        "total_tokens": 17,
                        "completion_tokens_details": {"reasoning_tokens": 10},
                    }
                }
            ],
            Usage(input_tokens=5, output_tokens=12),
        ),
    ],
    ids=["in the choice", "groq", "none at the end", "null at the end", "thinking apart"],
)
def test_usage_is_found_wherever_it_stands(events: list[dict[str, Any]], used: Usage) -> None:
    """Servers tell the usage in the event, in the choice or elsewhere, and some count thinking apart."""
    assert chat(*events, "[DONE]") == [ModelFinished(usage=used)]


def test_a_failure_tells_what_it_has_used() -> None:
    """An error in the midst of an answer comes with what was used until then."""
    found = failure(chat({"usage": {"prompt_tokens": 5}}, {"error": "gone"}))
    assert Usage(input_tokens=5) == found.usage


def test_the_only_call_of_older_servers() -> None:
    """A call that is sent as the only one there can be is a call like any other."""
    pieces = [
        piece(function_call={"name": "read_file", "arguments": '{"pa'}),
        piece(function_call={"arguments": 'th": 1}'}),
    ]
    assert calls(chat(*pieces, piece("function_call"), "[DONE]")) == [("read_file", {"path": 1})]


@pytest.mark.parametrize(
    "usage", [None, [], {"prompt_tokens": "5"}, {"prompt_tokens": -5}, {"prompt_tokens": True}, {"prompt_tokens": 1.5}]
)
def test_odd_usage_counts_as_none(usage: object) -> None:
    """Figures that are no numbers of tokens are 0."""
    assert chat({"choices": [], "usage": usage}, "[DONE]") == [finished()]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"error": "model runner has unexpectedly stopped"}, "overloaded"),
        ({"error": {"message": "slow down", "type": "requests", "code": "rate_limit_exceeded"}}, "rate_limited"),
        ({"error": {"message": "slow down", "code": 429}}, "rate_limited"),
        ({"error": {"message": "slow down", "code": "429"}}, "rate_limited"),
        ({"object": "error", "message": "bad", "type": "BadRequestError", "code": 400}, "refused"),
        ({"error": {"message": "no credits", "code": 402}}, "refused"),
        ({"choices": [{"delta": {}, "error": {"code": 401, "message": "who"}}]}, "auth"),
        (piece("error"), "overloaded"),
        ("no json", "malformed"),
        ([1, 2], "malformed"),
    ],
)
def test_errors_get_the_right_kind(error: object, kind: FailureKind) -> None:
    """A type, a code, a status or a word: whatever the server gives tells whether to try again."""
    assert failure(chat(piece(content="a"), error)).kind == kind


def test_an_event_called_error_is_one() -> None:
    """The name of the event is enough."""
    stream = b'event: error\ndata: {"message": "too many tokens"}\n\n'
    assert failure(decode(ChatDecoder, stream)).kind == "context_too_long"


def test_the_key_is_in_no_message() -> None:
    """A server that repeats the key in an error does not make us show it."""
    error = {"error": {"message": "bad key top-secret-7, or sk-abcdefghijkl"}}
    stream = f"data: {json.dumps(error)}\n\n".encode()
    message = failure(decode(lambda: ChatDecoder([Secret("top-secret-7")]), stream)).message
    assert "bad key" in message
    assert "secret" not in message
    assert "abcdefgh" not in message


def test_endless_calls_end() -> None:
    """A server that opens calls without end, or holds back their names, fails before memory runs out."""
    opened = [tool("a", "", index=number) for number in range(2_000)]
    nameless = [tool(None, "x" * 1_000, index=0) for _ in range(2_000)]
    waiting = [tool("a", "", index=0), *(piece(content="x" * 1_000) for _ in range(2_000))]
    for stream in (opened, nameless, waiting):
        assert failure(chat(*stream)).kind == "malformed"
    assert limits.MAX_ANSWER_CHARS == 1_000_000
