"""Reading answers of extensions: pieces and results in every combination."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core import limits
from session_core.providers.base import ModelFailed, ModelFinished, ProviderEvent, TextChunk
from session_core.sep.host.models.answer import AnswerDecoder
from session_core.vocabulary.messages import Usage
from tests.session_core.providers._contract import calls, check_order, said, thought

LIST = {"id": "c1", "name": "list_files", "arguments": {"path": ".", "deep": True}}
READ = {"id": "c2", "name": "read_file", "arguments": {"path": "a"}}


def decoded(deltas: list[Any], result: Any, names: dict[str, str] | None = None) -> list[ProviderEvent]:
    decoder = AnswerDecoder(names or {})
    events = [event for delta in deltas for event in decoder.take_delta(delta)] + decoder.take_result(result)
    check_order(events)
    return events


def streamed(index: int, call: dict[str, Any], *, pieces: int = 2) -> list[dict[str, Any]]:
    text = json.dumps(call["arguments"])
    cuts = [len(text) * place // pieces for place in range(pieces + 1)]
    return [
        {"type": "ToolCallStart", "index": index, "id": call["id"], "name": call["name"]},
        *(
            {"type": "ToolCallArgumentsDelta", "index": index, "arguments_chunk": text[start:end]}
            for start, end in itertools.pairwise(cuts)
        ),
    ]


def test_a_result_alone_is_a_whole_answer() -> None:
    """An extension that streams nothing is understood from its result: thinking, text, calls, usage, reason."""
    events = decoded(
        [],
        {
            "content": "Hi",
            "reasoning_content": "Hm",
            "tool_calls": [LIST, {**READ, "arguments": '{"path": "a"}'}],
            "finish_reason": "stop",
            "usage": {"prompt_tokens": 7, "completion_tokens": 2},
            "resolved_model": "large-2026",
            "of_the_future": 1,
        },
    )
    assert (thought(events), said(events)) == ("Hm", "Hi")
    assert calls(events) == [("list_files", LIST["arguments"]), ("read_file", {"path": "a"})]
    assert events[-1] == ModelFinished(usage=Usage(input_tokens=7, output_tokens=2), stop_reason="tool_calls")


@pytest.mark.parametrize(
    ("told", "content", "expected"),
    [
        (["Hel", "lo"], "Hello", "Hello"),
        (["Hel"], "Hello", "Hello"),
        (["Hello"], "", "Hello"),
        (["Hello"], "Another", "Hello"),
        ([], "Hello", "Hello"),
    ],
)
def test_text_is_told_once(told: list[str], content: str, expected: str) -> None:
    """A result completes the text that was streamed, repeats nothing of it, and takes nothing back."""
    events = decoded([{"type": "Delta", "content": each} for each in told], {"content": content})
    assert said(events) == expected


@pytest.mark.parametrize(
    "repeated",
    [
        [LIST, READ],
        [{**LIST, "id": "other"}, {**READ, "id": "another"}],
        [{**READ, "id": ""}, {**LIST, "arguments": '{"deep":true,"path":"."}'}],
        [{"name": "list_files", "arguments": LIST["arguments"]}, READ],
        [],
        None,
        "odd",
    ],
)
def test_streamed_calls_are_told_once(repeated: Any) -> None:
    """Calls that the result repeats, with the same ids, others or none, in any order, are called once."""
    deltas = [*streamed(0, LIST), *streamed(1, READ)]
    events = decoded(deltas, {"tool_calls": repeated, "finish_reason": "tool_calls"})
    assert calls(events) == [("list_files", LIST["arguments"]), ("read_file", READ["arguments"])]


def test_calls_that_only_look_alike_are_both_called() -> None:
    """The result may add calls: another of the same tool, or the same one a second time."""
    again = {**LIST, "id": "c3"}
    events = decoded(streamed(0, LIST), {"tool_calls": [LIST, again, {**LIST, "id": "c4", "arguments": {}}]})
    assert [arguments for _, arguments in calls(events)] == [LIST["arguments"], LIST["arguments"], {}]


def test_arguments_may_come_with_the_result() -> None:
    """A call whose beginning was streamed gets its arguments from the result."""
    events = decoded([{"type": "ToolCallStart", "index": 0, "id": "c1", "name": "list_files"}], {"tool_calls": [LIST]})
    assert calls(events) == [("list_files", LIST["arguments"])]


def test_pieces_of_calls_may_be_mixed() -> None:
    """Pieces of several calls that come in turn are put together by their index."""
    first, second = streamed(0, LIST), streamed(1, READ)
    mixed = [each for pair in zip(first, second, strict=True) for each in pair]
    assert calls(decoded(mixed, {})) == [("list_files", LIST["arguments"]), ("read_file", READ["arguments"])]


def test_one_index_for_all_calls() -> None:
    """Extensions that call every index 0 are told apart by the ids of their calls; a repeated start opens nothing."""
    deltas = [*streamed(0, LIST), *streamed(0, READ)]
    deltas.insert(1, deltas[0])
    assert calls(decoded(deltas, {})) == [("list_files", LIST["arguments"]), ("read_file", READ["arguments"])]


def test_tools_get_their_own_names_back() -> None:
    """A tool is called by our name for it, whatever the extension was told."""
    names = {"notes_add": "notes.add"}
    call = {"id": "c1", "name": "notes_add", "arguments": {}}
    assert calls(decoded(streamed(0, call), {"tool_calls": [call]}, names)) == [("notes.add", {})]
    assert calls(decoded([], {"tool_calls": [call]}, names)) == [("notes.add", {})]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("stop", "end"),
        ("end_turn", "end"),
        ("", "end"),
        ("length", "max_tokens"),
        ("max_tokens", "max_tokens"),
        ("content_filter", "refused"),
    ],
)
def test_reasons(reason: str, expected: str) -> None:
    """Why the model stopped is understood from the result, or else from the last piece."""
    assert decoded([], {"content": "x", "finish_reason": reason})[-1] == ModelFinished(stop_reason=expected)  # type: ignore[arg-type]
    assert decoded([{"type": "Done", "finish_reason": reason}], {"content": "x"})[-1] == ModelFinished(
        stop_reason=expected  # type: ignore[arg-type]
    )


def test_usage_is_never_taken_back() -> None:
    """Usage is a sum so far: the largest counts, and cached tokens are told apart."""
    events = decoded(
        [
            {"type": "Usage", "prompt_tokens": 10, "completion_tokens": 1, "cached_tokens": 4},
            {"type": "Usage", "prompt_tokens": 10, "completion_tokens": 9, "cached_tokens": 4},
        ],
        {"content": "x", "usage": {"prompt_tokens": 0}},
    )
    assert events[-1] == ModelFinished(usage=Usage(input_tokens=6, output_tokens=9, cache_read_tokens=4))
    total = decoded([], {"content": "x", "usage": {"total_tokens": 12, "completion_tokens": 2}})
    assert total[-1] == ModelFinished(usage=Usage(input_tokens=10, output_tokens=2))


@pytest.mark.parametrize("result", [None, "text", [], 5])
def test_what_is_no_result_is_a_failure(result: Any) -> None:
    """A result that is no object is a failure, not an empty answer."""
    (failure,) = decoded([], result)
    assert isinstance(failure, ModelFailed)
    assert failure.kind == "malformed"


def test_an_error_as_reason_is_a_failure() -> None:
    """A model that stopped because of an error has failed."""
    *_, failure = decoded([{"type": "Delta", "content": "x"}], {"finish_reason": "error"})
    assert isinstance(failure, ModelFailed)


@pytest.mark.parametrize(
    "delta",
    [
        {"type": "Delta", "content": "x" * 1_000},
        {"type": "ToolCallStart", "index": 0, "id": "c", "name": "x" * 1_000},
        {"type": "ToolCallArgumentsDelta", "index": 0, "arguments_chunk": "x" * 1_000},
    ],
)
def test_nothing_is_endless(delta: dict[str, Any]) -> None:
    """However an answer goes on for ever, it ends with a failure before it is much larger than an answer can be."""
    decoder = AnswerDecoder({})
    decoder.take_delta({"type": "ToolCallStart", "index": 0, "id": "c", "name": "first"})
    for number in range(limits.MAX_ANSWER_CHARS // 1_000 + 2):
        events = decoder.take_delta({**delta, "id": f"c{number}"})
        if decoder.ended:
            assert isinstance(events[-1], ModelFailed)
            break
    assert decoder.ended
    assert decoder.take_delta(delta) == decoder.take_result({}) == decoder.finish() == []


def test_thousands_of_tiny_parts_end() -> None:
    """Text and thinking in turn, a letter at a time, count for more than letters."""
    decoder = AnswerDecoder({})
    for number in range(20_000):
        decoder.take_delta({"type": "Delta" if number % 2 else "Reasoning", "content": "x"})
    assert decoder.ended


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
pieces = st.fixed_dictionaries(
    {"type": st.sampled_from(["Delta", "Reasoning", "ToolCallStart", "ToolCallArgumentsDelta", "Usage", "Done", "?"])},
    optional=dict.fromkeys(
        ("content", "index", "id", "name", "arguments_chunk", "finish_reason", "prompt_tokens"), json_values
    ),
)
results = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("content", "reasoning_content", "tool_calls", "finish_reason", "usage"), json_values),
)


@given(st.lists(pieces | json_values, max_size=12), results | json_values)
def test_anything_is_survived(deltas: list[Any], result: Any) -> None:
    """Whatever an extension sends, the answer has exactly one end, and every piece of a call follows its opening."""
    assert decoded(deltas, result)


@given(st.lists(st.text(min_size=1, max_size=5), max_size=6), st.integers(0, 30))
def test_text_arrives_however_it_is_cut(texts: list[str], cut: int) -> None:
    """Streamed in any pieces, up to anywhere, and completed by the result, the text is the same."""
    whole = "".join(texts)
    deltas = [{"type": "Delta", "content": each} for each in texts][:cut]
    events = decoded(deltas, {"content": whole})
    assert said(events) == whole
    assert all(event.text for event in events if isinstance(event, TextChunk))
