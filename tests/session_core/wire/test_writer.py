"""Tests of session_core.wire.writer."""

from typing import Any

import attrs
import pytest

from session_core.ids import CallId, Cursor, Epoch, MessageId, RequestId, SessionId, TurnId
from session_core.limits import MAX_OPEN_JSON_DEPTH
from session_core.vocabulary.commands import AnswerDialog, CommandRequest, SendUserMessage
from session_core.vocabulary.events import PartDelta, SessionEvent
from session_core.vocabulary.frozen import JsonObject, Rope, Vector, freeze_json
from session_core.vocabulary.messages import (
    ImagePart,
    Message,
    PartialMessage,
    PartialPart,
    TextPart,
    ToolCallPart,
    Usage,
)
from session_core.vocabulary.sessions import SandboxPolicy
from session_core.wire import strict_json, writer

CURSOR = Cursor(epoch=Epoch("run_1"), seq=1)


def nested(levels: int) -> Any:
    plain: Any = ()
    for _ in range(levels - 1):
        plain = (plain,)
    return plain


def call(arguments: JsonObject) -> ToolCallPart:
    return ToolCallPart(call_id=CallId("c"), name="bash", arguments=arguments)


def answer(value: Any) -> AnswerDialog:
    return AnswerDialog(session_id=SessionId("s"), request_id=RequestId("r"), value=value)


def message(*parts: Any) -> Message:
    return Message(message_id=MessageId("m"), parent_id=None, role="assistant", parts=parts, created_at=1)


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        (call(JsonObject({"a": [1, float("nan")]})), "$.arguments.a[1]", strict_json.NO_NUMBER),
        (call(JsonObject({"a": 2**60})), "$.arguments.a", strict_json.TOO_LARGE),
        (call(JsonObject({"a": {7: 1}})), "$.arguments.a", "expected text as a key, got a number"),
        (answer(float("inf")), "$.value", strict_json.NO_NUMBER),
        (answer((1, b"")), "$.value[1]", "expected JSON, got a Python bytes"),
        (answer(nested(MAX_OPEN_JSON_DEPTH + 1)), "$.value" + "[0]" * MAX_OPEN_JSON_DEPTH, strict_json.TOO_DEEP),
        (answer(nested(100_000)), "$.value" + "[0]" * MAX_OPEN_JSON_DEPTH, strict_json.TOO_DEEP),
        (CommandRequest(command=answer(2**60)), "$.command.value", strict_json.TOO_LARGE),
        (attrs.evolve(CURSOR, seq=-(2**60)), "$.seq", strict_json.TOO_LARGE),
        (Vector([CURSOR, attrs.evolve(CURSOR, seq=2**60)]), "$[1].seq", strict_json.TOO_LARGE),
    ],
)
def test_what_is_not_json_is_found(value: object, path: str, reason: str) -> None:
    """A value that holds something without a form in JSON is not written, and the first such thing is named."""
    with pytest.raises(writer.Unwritable):
        writer.write(value)
    error = writer.locate_unwritable(value)
    assert (path, reason) == (error.field, error.reason)


HALF = "half \ud83d"


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (SendUserMessage(session_id=SessionId("s"), text=HALF), "$.text"),
        (SessionEvent(1, 1, None, 1, PartDelta(message_id=MessageId("m"), text=HALF)), "$.event.text"),
        (message(TextPart(text="fine"), TextPart(text=HALF)), "$.parts[1].text"),
        (call(JsonObject({HALF: 1})), "$.arguments"),
        (call(JsonObject({"a": HALF})), "$.arguments.a"),
        (PartialPart(kind="text", text=Rope("fine ").append(HALF)), "$.text"),
    ],
)
def test_half_characters_are_found(value: object, path: str) -> None:
    """Half a surrogate pair is found wherever text can stand."""
    assert path == writer.locate_unwritable(value).field


def test_containers_become_plain() -> None:
    """Vectors and tuples become lists, ropes become text, open JSON becomes dicts and lists."""
    partial = PartialMessage(
        message_id=MessageId("m"),
        parent_id=None,
        turn_id=TurnId("t"),
        model="demo",
        started_at=1,
        parts=(PartialPart(kind="text", text=Rope("a").append("b")),),
    )
    command = SendUserMessage(session_id=SessionId("s"), text="", images=(ImagePart(media_type="image/png", data=""),))

    assert writer.write(partial)["parts"] == [{"type": "partial_part", "kind": "text", "text": "ab", "tool_name": None}]
    assert writer.write(command)["images"] == [{"type": "image_part", "media_type": "image/png", "data": ""}]
    assert writer.write(answer(freeze_json({"a": [1, 2.5, None, True]})))["value"] == {"a": [1, 2.5, None, True]}
    assert writer.write(message())["usage"] is None
    assert writer.write(attrs.evolve(message(), usage=Usage()))["usage"] == writer.write(Usage())
    assert writer.write(SandboxPolicy(writable_roots=("/a", "/b")))["writable_roots"] == ["/a", "/b"]
    assert writer.write((partial,)) == writer.write(Vector([partial])) == [writer.write(partial)]


def test_without_a_fault_the_value_itself_is_to_blame() -> None:
    """Where nothing in particular is wrong, the error says what cannot be written."""
    assert writer.locate_unwritable((TextPart(text=""),)).reason == "a list cannot be written as JSON"
    assert writer.locate_unwritable(TextPart(text="")).reason == "a Python TextPart cannot be written as JSON"
