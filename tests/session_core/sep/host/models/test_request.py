"""What an extension is asked when one of its models is to answer."""

from typing import Any

from session_core.ids import CallId
from session_core.providers.base import ModelRequest
from session_core.sep.host.models.request import complete_params, tool_names
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart, ThinkingPart, ToolCallPart, ToolResultPart
from session_core.vocabulary.tools import ToolSpec
from tests.session_core.providers._contract import message

CONTEXT = {"token": "t", "tier": "command"}
IMAGE = ImagePart(media_type="image/png", data="AAAA")
SCHEMA = JsonObject({"type": "object", "properties": {"path": {"type": "string"}}})


def params(asked: ModelRequest) -> dict[str, Any]:
    return complete_params(asked, request_id="r1", provider="acme", model="large", context=CONTEXT)


def test_the_least_question() -> None:
    """What a request leaves open is left out, so that the provider's own defaults hold."""
    asked = ModelRequest(model="acme/large", messages=(message("user", "hello"),))
    assert params(asked) == {
        "request_id": "r1",
        "provider": "acme",
        "model": "large",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": True,
        "context": CONTEXT,
    }


def test_everything_there_is_to_say() -> None:
    """Tools, thinking, the form of the answer and its length are told where they are known."""
    asked = ModelRequest(
        model="acme/large",
        messages=(message("user", "hello"),),
        system="Be kind.",
        tools=(ToolSpec(name="read_file", description="Read.", parameters=SCHEMA),),
        thinking="high",
        max_output_tokens=100,
        output_schema=JsonObject({"type": "object", "properties": {}, "additionalProperties": False}),
    )
    told = params(asked)
    assert told["messages"] == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hello"}]
    assert told["tools"] == [
        {
            "name": "read_file",
            "description": "Read.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        }
    ]
    assert (told["thinking"], told["max_tokens"]) == ("high", 100)
    assert told["response_format"] == {
        "type": "json_schema",
        "json_schema": {
            "name": "answer",
            "schema": {"type": "object", "properties": {}, "additionalProperties": False},
            "strict": True,
        },
    }


def test_a_whole_conversation() -> None:
    """Calls, their results, thinking and images arrive; what other providers have signed does not."""
    call = ToolCallPart(call_id=CallId("c1"), name="read_file", arguments=JsonObject({"path": "a"}))
    result = ToolResultPart(call_id=CallId("c1"), name="read_file", status="error", text="gone", images=(IMAGE,))
    asked = ModelRequest(
        model="acme/large",
        messages=(
            message("user", "look", IMAGE),
            message(
                "assistant", ThinkingPart(text="own"), ThinkingPart(text="theirs", signature="anthropic:x"), "ok", call
            ),
            message("tool", result),
        ),
    )
    assert params(asked)["messages"] == [
        {"role": "user", "content": "look", "images": [{"url": "data:image/png;base64,AAAA"}]},
        {
            "role": "assistant",
            "content": "ok",
            "reasoning_content": "own",
            "tool_calls": [{"id": "c1", "name": "read_file", "arguments": {"path": "a"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "tool_name": "read_file", "content": "Error: gone"},
        {
            "role": "user",
            "content": "[Images from the results above]",
            "images": [{"url": "data:image/png;base64,AAAA"}],
        },
    ]


def test_names_of_tools_come_back() -> None:
    """Tools whose names no interface takes are told by others, which lead back to them, also where they collide."""
    ours = ["notes.add", "notes_add"]
    asked = ModelRequest(
        model="acme/large",
        messages=(message("user", "hello"),),
        tools=tuple(ToolSpec(name=name, description="", parameters=SCHEMA) for name in ours),
    )
    told = [tool["name"] for tool in params(asked)["tools"]]
    assert not any("." in name for name in told)
    assert [tool_names(asked)[name] for name in told] == ours
