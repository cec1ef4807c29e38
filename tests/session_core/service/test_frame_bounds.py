"""Every event that a service records fits into a frame: the longest that its bounds let through, at six bytes each."""

from typing import Any

import attrs
import pytest

from session_core import limits
from session_core.agent.tool_results import build_result, check_output, limit_result
from session_core.ids import CallId, MessageId, QueueItemId, SessionId, TurnId
from session_core.service.validation import queue_item, user_parts
from session_core.tools.base import ToolOutput
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import (
    FilePart,
    ImagePart,
    Message,
    Refusal,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    Usage,
)
from session_core.vocabulary.sessions import TurnOutcome
from session_core.wire.codec import encode

WORST = "\x01"
"""No character takes more in JSON."""
CALL = ToolCallPart(call_id=CallId("call_1"), name="t", arguments=JsonObject())
IMAGES = (ImagePart(media_type="image/jpeg", data="QUJD" * (limits.MAX_MESSAGE_CHARS // 4)),)
NAME = WORST * limits.MAX_NAME_CHARS
MOST_USED: dict[str, Any] = {each.name: limits.MAX_INTEGER for each in attrs.fields(Usage) if each.type is int}

PARTS = user_parts("x" + WORST * (limits.MAX_TEXT_CHARS - 1), (), (FilePart(name="f", text=WORST * 999_999),))
PICTURES = (ImagePart(media_type="image/jpeg", data="QUJD" * 1_600_000),)
PARTS_WITH_PICTURE = user_parts("x" * 1_000, PICTURES, (FilePart(name="f", text=WORST * limits.MAX_TEXT_CHARS),))


def message(*parts: object) -> Message:
    return Message(
        message_id=MessageId("msg_" + "x" * 26),
        parent_id=MessageId("msg_" + "x" * 26),
        role="user",
        parts=parts,  # type: ignore[arg-type]
        created_at=limits.MAX_INTEGER,
        turn_id=TurnId("turn_" + "x" * 26),
        model=NAME,
        usage=Usage(**MOST_USED),
        source=NAME,
        queue_item_id=QueueItemId("item_" + "x" * 26),
    )


def worst_result() -> ev.ToolCallFinished:
    output = ToolOutput(
        text=WORST * limits.MAX_TOOL_OUTPUT_CHARS,
        images=IMAGES,
        details=JsonObject({"x": WORST * ((limits.MAX_MESSAGE_CHARS - 8) // 6)}),
    )
    check_output(output)
    return ev.ToolCallFinished(result=limit_result(build_result(CALL, "success", output.text, output)))


WORST_EVENTS: dict[str, ev.Event] = {
    "message": ev.MessageAdded(message=message(*PARTS)),
    "message with a picture": ev.MessageAdded(message=message(*PARTS_WITH_PICTURE)),
    "queued": ev.MessageQueued(item=queue_item(PARTS, "next_turn", 1, None)),
    "answer": ev.MessageCompleted(message=message(TextPart(text=WORST * limits.MAX_ANSWER_CHARS))),
    "signed answer": ev.MessageCompleted(
        message=message(ThinkingPart(text="", signature=WORST * limits.MAX_ANSWER_CHARS))
    ),
    "result": worst_result(),
    "denial": ev.ToolCallFinished(
        result=build_result(CALL, "denied", WORST * 200_000, refusal=Refusal(by="extension", reason=WORST * 200_000))
    ),
    "output": ev.TurnEnded(
        outcome=TurnOutcome(
            turn_id=TurnId("turn_1"),
            status="completed",
            error=WORST * limits.MAX_ERROR_CHARS,
            final_text=WORST * limits.MAX_FINAL_TEXT_CHARS,
            output="x" * (limits.MAX_OUTPUT_BYTES - 2),
        )
    ),
    "delta": ev.PartDelta(message_id=MessageId("msg_1"), text=WORST * limits.MAX_TEXT_CHARS),
    "live output": ev.ToolOutputDelta(call_id=CallId("call_1"), text=WORST * limits.MAX_TEXT_CHARS),
}


@pytest.mark.parametrize("kind", WORST_EVENTS)
def test_the_worst_event_fits(kind: str) -> None:
    """The longest event of each kind fits into a frame, with room for the envelope of a feed."""
    event = ev.SessionEvent(
        limits.MAX_INTEGER, limits.MAX_INTEGER, SessionId("ses_" + "x" * 26), limits.MAX_INTEGER, WORST_EVENTS[kind]
    )

    assert len(encode(event)) + 4_096 <= limits.MAX_FRAME_BYTES


def test_what_an_extension_makes_too_large_is_left_out() -> None:
    """Details that no frame could hold are left out of a result, which says so; others stay."""
    whole = build_result(CALL, "error", "failed")
    small, large = JsonObject({"a": 1}), JsonObject({"a": "x" * limits.MAX_MESSAGE_CHARS})

    assert attrs.evolve(whole, details=small) == limit_result(attrs.evolve(whole, details=small))
    assert attrs.evolve(whole, text="failed\n[its details were too large, and are left out]") == limit_result(
        attrs.evolve(whole, details=large)
    )
