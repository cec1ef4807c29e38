"""The model's answer, put together from chunks and cleaned at the border."""

import pytest

from session_core.agent.streamed_answer import AnswerInProgress, read_arguments, replace_surrogates
from session_core.ids import MessageId, TurnId
from session_core.providers.base import ProviderEvent, TextChunk, ThinkingChunk, ToolCallChunk, ToolCallOpened
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import Event
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message, TextPart, ThinkingPart, ToolCallPart, Usage
from session_core.wire.codec import encode

MESSAGE = MessageId("msg_1")


def put_together(*chunks: ProviderEvent) -> tuple[AnswerInProgress, list[Event], Message]:
    answer = AnswerInProgress(message_id=MESSAGE, parent_id=None, turn_id=TurnId("turn_1"), model="m")
    events = [event for chunk in chunks for event in answer.add_chunk(chunk)]
    return answer, events, answer.build_message(usage=Usage(output_tokens=3), now=7)


def test_chunks_become_parts() -> None:
    """Chunks of one kind in a row are one part, and every part and piece is told as it comes."""
    _, events, message = put_together(
        ThinkingChunk(text="h"),
        ThinkingChunk(text="m", signature="s"),
        TextChunk(text="a"),
        TextChunk(text=""),
        TextChunk(text="b"),
        ToolCallOpened(name="t"),
        ToolCallChunk(text='{"a":'),
        ToolCallChunk(text="1}"),
        TextChunk(text="c"),
    )
    thought, said, call, more = message.parts
    assert (ThinkingPart(text="hm", signature="s"), TextPart(text="ab"), TextPart(text="c")) == (thought, said, more)
    assert isinstance(call, ToolCallPart)
    assert ("t", JsonObject({"a": 1})) == (call.name, call.arguments)
    assert (Usage(output_tokens=3), 7, "m", MESSAGE) == (
        message.usage,
        message.created_at,
        message.model,
        message.message_id,
    )
    kinds = [event.kind if isinstance(event, ev.PartStarted) else getattr(event, "text", None) for event in events]
    assert ["thinking", "h", "m", "text", "a", "b", "tool_call", '{"a":', "1}", "text", "c"] == kinds


def test_calls_have_ids_of_their_own() -> None:
    """Two calls of the same tool in one answer can be told apart."""
    _, _, message = put_together(ToolCallOpened(name="t"), ToolCallOpened(name="t"))
    first, second = message.tool_calls
    assert first.call_id != second.call_id


def test_a_name_that_no_tool_has_is_cut() -> None:
    """A name longer than any tool's is cut, since each call shows it several times."""
    _, _, message = put_together(ToolCallOpened(name="t" * 10_000))
    assert ["t" * 200] == [call.name for call in message.tool_calls]


def test_arguments_without_a_call_are_dropped() -> None:
    """Pieces of arguments that belong to no call change nothing."""
    _, events, message = put_together(ToolCallChunk(text="{}"), TextChunk(text="a"), ToolCallChunk(text="{}"))
    assert (TextPart(text="a"),) == message.parts
    assert 2 == len(events)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '"a"',
        "null",
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": "\\ud800"}',
        '{"\\ud800": 1}',
        '{"a": 99999999999999999999}',
        '{"a": ' + "[" * 100 + "]" * 100 + "}",
        "[" * 100_000,
        '{"a": ' + "9" * 5_000 + "}",
    ],
    ids=range(12),
)
def test_arguments_that_cannot_be_used(text: str) -> None:
    """Arguments that are no JSON object, or that no reader could be sent, are noted as malformed and replaced."""
    assert read_arguments(text) is None
    answer, _, message = put_together(ToolCallOpened(name="t"), ToolCallChunk(text=text))
    (call,) = message.tool_calls
    assert {call.call_id} == answer.malformed
    assert JsonObject() == call.arguments


def test_no_arguments_are_an_empty_object() -> None:
    """A call without any text of arguments is a call without arguments."""
    assert JsonObject() == read_arguments(" \n")


def test_everything_a_provider_says_can_be_encoded() -> None:
    """Half characters are replaced wherever a provider may put them."""
    half = "x\ud800y"
    _, events, message = put_together(
        ThinkingChunk(text=half, signature=half),
        TextChunk(text=half),
        ToolCallOpened(name=half),
        ToolCallChunk(text=half),
    )
    encode(message)
    assert "x?y" == replace_surrogates(half)
    assert all("\ud800" not in repr(event) for event in events)
    assert "grün" == replace_surrogates("grün")
