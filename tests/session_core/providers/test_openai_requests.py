"""What the OpenAI interfaces are asked: any conversation becomes a request that they accept."""

import json
from functools import cache
from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import given

from session_core.ids import CallId
from session_core.providers import openai_chat, openai_responses
from session_core.providers.base import ModelRequest
from session_core.providers.openai_chat import DIALECTS, ChatOptions
from session_core.providers.openai_common import encode_body, is_strict
from session_core.providers.openai_responses import ResponsesOptions
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart, Message, ThinkingPart, ToolCallPart, ToolResultPart
from session_core.vocabulary.tools import ToolSpec
from tests.session_core.providers._contract import fewer_examples, message
from tests.session_core.providers._openai import model_requests

NOTHING: dict[str, Any] = {"role": "none", "type": "none"}


@cache
def official_types() -> dict[str, Any]:
    """The types of the official client by name, loaded on first use: they are heavy."""
    from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
    from openai.types.responses import FunctionToolParam, ResponseInputParam
    from pydantic import TypeAdapter

    return {
        "chat": TypeAdapter(list[ChatCompletionMessageParam]),
        "chat tools": TypeAdapter(list[ChatCompletionToolParam]),
        "input": TypeAdapter(ResponseInputParam),
        "input tools": TypeAdapter(list[FunctionToolParam]),
    }


IMAGE = ImagePart(media_type="image/png", data="aGk=")
ADDRESS = "data:image/png;base64,aGk="
CALL = ToolCallPart(call_id=CallId("call_1"), name="look", arguments=JsonObject({"path": "ü"}))
SEEN = ToolResultPart(call_id=CallId("call_1"), name="look", status="success", text="see", images=(IMAGE,))
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


def asked(*messages: Message, **more: Any) -> ModelRequest:
    return ModelRequest(model="m", messages=messages, **more)


def chat(request: ModelRequest, options: ChatOptions = DIALECTS["openai"]) -> dict[str, Any]:
    return openai_chat.build_request(request, "gpt-x", options)


def responses(request: ModelRequest, options: ResponsesOptions | None = None) -> dict[str, Any]:
    return openai_responses.build_request(request, "gpt-x", options or ResponsesOptions())


@fewer_examples
@given(request=model_requests)
def test_any_conversation_is_a_legal_chat(request: ModelRequest) -> None:
    """The roles are in order, each call is answered at once and exactly once, and the SDK's types agree."""
    body = json.loads(encode_body(chat(request, ChatOptions(thinking_field="reasoning_content"))))
    messages = body["messages"]
    official_types()["chat"].validate_python(messages)
    official_types()["chat tools"].validate_python(body.get("tools", []))
    if messages[0]["role"] == "system":
        messages = messages[1:]
    assert messages[0]["role"] == "user"
    assert messages[-1]["role"] in {"user", "tool"}
    waiting: list[str] = []
    for before, each in pairwise([NOTHING, *messages]):
        if each["role"] == "tool":
            assert each["tool_call_id"] == waiting.pop(0)
            continue
        assert waiting == []
        assert each["role"] in {"user", "assistant"}
        assert each["role"] != before["role"]
        waiting = [call["id"] for call in each.get("tool_calls", [])]
        assert each["content"] or waiting
        for call in each.get("tool_calls", []):
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
    assert waiting == []


@fewer_examples
@given(request=model_requests)
def test_any_conversation_is_a_legal_input(request: ModelRequest) -> None:
    """Each call has one output behind it, reasoning is followed by what it led to, and the SDK's types agree."""
    body = json.loads(encode_body(responses(request)))
    official_types()["input"].validate_python(body["input"])
    official_types()["input tools"].validate_python(body.get("tools", []))
    called: list[str] = []
    answered: list[str] = []
    for before, each in pairwise([NOTHING, *body["input"]]):
        if before["type"] == "reasoning":
            assert each["type"] in {"reasoning", "function_call"} or each["role"] == "assistant"
        if each["type"] == "function_call":
            called.append(each["call_id"])
        elif each["type"] == "function_call_output":
            answered.append(each["call_id"])
        else:
            assert sorted(called) == sorted(answered) or each["type"] == "reasoning" or each["role"] == "assistant"
    assert called == answered
    assert len(called) == len(set(called))
    assert body["input"][-1]["type"] != "reasoning"
    assert body["store"] is False


def test_a_whole_chat_request() -> None:
    """All that a request can ask for is in the body, under the names of the interface."""
    request = asked(
        message("user", "what is this?", IMAGE),
        message("assistant", ThinkingPart(text="hm"), "I look.", CALL),
        message("tool", SEEN),
        message("user", "and?"),
        system="Be brief.",
        tools=(ToolSpec(name="look", description="Looks.", parameters=JsonObject({"required": ["path"]})),),
        thinking="high",
        max_output_tokens=99,
        output_schema=JsonObject(CLOSED),
        cache_key="ses_1",
    )
    assert chat(request, attrs.evolve(DIALECTS["openai"], can_think=True, system_role="developer")) == {
        "model": "gpt-x",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "developer", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "what is this?"},
                    {"type": "image_url", "image_url": {"url": ADDRESS}},
                ],
            },
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"path": "ü"}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "see"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "[Images from the result of look, call call_1]"},
                    {"type": "image_url", "image_url": {"url": ADDRESS}},
                    {"type": "text", "text": "and?"},
                ],
            },
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "look",
                    "description": "Looks.",
                    "parameters": {"type": "object", "properties": {}, "required": ["path"]},
                },
            }
        ],
        "max_completion_tokens": 99,
        "reasoning_effort": "high",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": CLOSED, "strict": True},
        },
        "prompt_cache_key": "ses_1",
    }


def test_a_whole_responses_request() -> None:
    """All that a request can ask for is in the body, by the interface's names; reasoning goes back unchanged."""
    kept = ThinkingPart(text="summary", signature="openai:" + json.dumps([REASONING]))
    foreign = ThinkingPart(text="foreign", signature="anthropic:abc")
    request = asked(
        message("user", "what is this?", IMAGE),
        message("assistant", foreign, kept, "I look.", CALL),
        message("tool", SEEN),
        message("assistant", "A cat."),
        message("user", "sure?"),
        system="Be brief.",
        tools=(ToolSpec(name="look", description="Looks.", parameters=JsonObject()),),
        thinking="low",
        max_output_tokens=1,
        output_schema=JsonObject({"type": "object"}),
        cache_key="k" * 70,
    )
    assert responses(request) == {
        "model": "gpt-x",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "instructions": "Be brief.",
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "what is this?"},
                    {"type": "input_image", "image_url": ADDRESS, "detail": "auto"},
                ],
            },
            REASONING,
            {"type": "message", "role": "assistant", "content": "I look."},
            {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"path": "ü"}'},
            {
                "type": "function_call_output",
                "call_id": "call_1",
                "output": [
                    {"type": "input_text", "text": "see"},
                    {"type": "input_image", "image_url": ADDRESS, "detail": "auto"},
                ],
            },
            {"type": "message", "role": "assistant", "content": "A cat."},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "sure?"}]},
        ],
        "tools": [
            {
                "type": "function",
                "name": "look",
                "description": "Looks.",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            }
        ],
        "max_output_tokens": 16,
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "answer", "schema": {"type": "object"}, "strict": False}},
        "prompt_cache_key": "k" * 64,
    }


def test_local_servers_are_asked_plainly() -> None:
    """What only some servers know is left out for the others, and texts are plain texts."""
    request = asked(message("user", "a"), message("user", "b"), thinking="high", max_output_tokens=5, cache_key="ses_1")
    assert chat(request, DIALECTS["llama.cpp"]) == {
        "model": "gpt-x",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "a\n\nb"}],
        "max_tokens": 5,
    }
    assert "stream_options" not in chat(request, ChatOptions(include_usage=False))


def test_models_that_cannot_see_are_told_of_images() -> None:
    """An image becomes a remark."""
    request = asked(message("user", "see", IMAGE), message("assistant", CALL), message("tool", SEEN))
    assert chat(request, ChatOptions(can_see=False))["messages"][0]["content"].startswith("see\n\n[There is an image")
    blind = responses(request, ResponsesOptions(can_see=False))["input"]
    assert ADDRESS not in json.dumps(blind)


@pytest.mark.parametrize(("off", "expected"), [(None, None), ("none", "none")])
def test_no_thinking_is_asked_for_as_the_model_wants_it(off: str | None, expected: str | None) -> None:
    """Without thinking the effort is left out, or named as the model names it."""
    request = asked(message("user", "a"))
    assert chat(request, ChatOptions(can_think=True, effort_when_off=off)).get("reasoning_effort") == expected
    reasoning = responses(request, ResponsesOptions(effort_when_off=off)).get("reasoning", {})
    assert reasoning.get("effort") == expected
    plain = responses(request, ResponsesOptions(can_think=False))
    assert not {"reasoning", "include"} & set(plain)


def test_thinking_goes_back_where_it_is_wanted() -> None:
    """Own thinking is sent back under the name the server uses; that of other kinds of providers is not."""
    spoken = message("assistant", ThinkingPart(text="mine"), ThinkingPart(text="not", signature="openai:[]"), "yes")
    request = asked(message("user", "a"), spoken, message("user", "b"))
    sent = chat(request, ChatOptions(thinking_field="reasoning_content"))["messages"][1]
    assert sent == {"role": "assistant", "content": "yes", "reasoning_content": "mine"}
    assert chat(request)["messages"][1] == {"role": "assistant", "content": "yes"}


def test_failed_calls_are_told_as_failed() -> None:
    """Neither interface can mark a result as an error, so its text does."""
    denied = attrs.evolve(SEEN, status="denied", text="the user said no", images=())
    request = asked(message("user", "go"), message("assistant", CALL), message("tool", denied))
    assert chat(request)["messages"][-1]["content"] == "Not allowed: the user said no"
    assert responses(request)["input"][-1]["output"] == "Not allowed: the user said no"


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (CLOSED, True),
        ({"type": "array", "items": CLOSED}, True),
        ({"type": "string"}, True),
        ({"type": "object"}, False),
        (CLOSED | {"required": []}, False),
        (CLOSED | {"required": "a"}, False),
        (CLOSED | {"properties": []}, False),
        (CLOSED | {"additionalProperties": True}, False),
        ({"anyOf": [CLOSED, {"properties": {"b": {}}}]}, False),
    ],
)
def test_strictness_is_asked_for_only_where_it_is_possible(schema: dict[str, Any], *, strict: bool) -> None:
    """A schema with an open object or an optional property would be refused if it had to be strict."""
    assert is_strict(schema) is strict


def test_what_cannot_be_encoded_is_replaced() -> None:
    """Half of a surrogate pair does not keep the rest from being sent."""
    assert json.loads(encode_body({"a": "x\ud800y"})) == {"a": "x?y"}
