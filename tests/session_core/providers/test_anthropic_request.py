"""What is sent to Anthropic's interface: any conversation becomes a request that its rules accept."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.ids import CallId
from session_core.providers.anthropic import AnthropicOptions, build_request, encode_body
from session_core.providers.base import ModelRequest, ThinkingEffort
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import (
    ImagePart,
    InterruptedPart,
    Message,
    Part,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    ToolStatus,
)
from session_core.vocabulary.tools import ToolSpec
from tests.session_core.providers._contract import fewer_examples, message

PLAIN = AnthropicOptions(caching=False)
CACHED = {"type": "ephemeral"}
PIXEL = ImagePart(media_type="image/png", data="aGk=")
PIXEL_BLOCK = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}


def _request(*messages: Message, **fields: Any) -> ModelRequest:
    return ModelRequest(model="anthropic/claude", messages=messages, **fields)


def _call(name: str = "read_file", id: str = "call_1", **arguments: Any) -> ToolCallPart:
    return ToolCallPart(call_id=CallId(id), name=name, arguments=JsonObject(arguments))


def _result(text: str = "fine", id: str = "call_1", status: ToolStatus = "success", *images: ImagePart) -> Message:
    part = ToolResultPart(call_id=CallId(id), name="read_file", status=status, text=text, images=images)
    return message("tool", part)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _messages(*messages: Message, options: AnthropicOptions = PLAIN) -> Any:
    return build_request(_request(*messages), "claude", options)["messages"]


def test_the_least_request() -> None:
    """A question alone becomes a request with nothing but what is needed."""
    assert {
        "model": "claude-x",
        "max_tokens": 8192,
        "stream": True,
        "messages": [{"role": "user", "content": [_text("hello")]}],
    } == build_request(_request(message("user", "hello")), "claude-x", PLAIN)


def test_a_whole_turn() -> None:
    """Thinking, text, calls and results go back in their order, with our own ids, results before what follows."""
    thinking = ThinkingPart(text="hm", signature="anthropic:SIG=")
    hidden = ThinkingPart(text="", signature="anthropic-redacted:DATA")
    foreign = ThinkingPart(text="elsewhere", signature="openai:rs_1")
    unsigned = ThinkingPart(text="nobody's")
    call = _call(path="a.py")
    assert [
        {"role": "user", "content": [_text("read it"), PIXEL_BLOCK]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "SIG="},
                {"type": "redacted_thinking", "data": "DATA"},
                _text("I read."),
                {"type": "tool_use", "id": "call_1", "name": "read_file", "input": {"path": "a.py"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_1", "content": [_text("fine"), PIXEL_BLOCK]},
                _text("and now?"),
            ],
        },
    ] == _messages(
        message("user", "read it", PIXEL),
        message("assistant", foreign, unsigned, thinking, hidden, "I read.", call),
        _result("fine", "call_1", "success", PIXEL),
        message("user", "and now?"),
    )


def test_a_result_that_failed_holds_text_only() -> None:
    """A failed call is marked as an error, and its images follow after all results, as the interface wants."""
    (_, _, last) = _messages(
        message("user", "go"),
        message("assistant", _call(), _call(id="call_2")),
        _result("broken", "call_1", "error", PIXEL),
        _result("", "call_2"),
    )
    assert [
        {"type": "tool_result", "tool_use_id": "call_1", "content": [_text("Error: broken")], "is_error": True},
        {"type": "tool_result", "tool_use_id": "call_2", "content": [_text("(no output)")]},
        PIXEL_BLOCK,
    ] == last["content"]


def test_a_model_without_eyes_is_told() -> None:
    """Images are replaced by a remark for a model that cannot see."""
    (only,) = _messages(message("user", "look", PIXEL), options=AnthropicOptions(caching=False, can_see=False))
    assert [_text("look"), _text("[There is an image here, which this model cannot see.]")] == only["content"]


def test_four_places_are_marked_for_the_cache() -> None:
    """Tools, system, and the ends of this call and of the one before are marked, and nothing else."""
    tools = tuple(ToolSpec(name=name, description="", parameters=JsonObject()) for name in "ab")
    body = build_request(
        _request(
            message("user", "one"),
            message("assistant", "1"),
            message("user", "two"),
            message("assistant", _call()),
            _result(),
            tools=tools,
            system="be good",
        ),
        "claude",
    )
    assert [{**_text("be good"), "cache_control": CACHED}] == body["system"]
    assert [None, CACHED] == [tool.get("cache_control") for tool in body["tools"]]
    marked = [block.get("cache_control") for each in body["messages"] for block in each["content"]]
    assert [None, None, CACHED, None, CACHED] == marked


def test_tools_are_described() -> None:
    """Tools carry their schema; names are made to fit, and a description that says nothing is left out."""
    schema = JsonObject({"type": "object", "properties": {"q": {"type": "string"}}})
    tools = (
        ToolSpec(name="srv.find", description="Finds.", parameters=schema),
        ToolSpec(name="plain", description=" ", parameters=JsonObject()),
    )
    body = build_request(_request(message("user", "x"), tools=tools), "claude", PLAIN)
    assert [
        {
            "name": "srv_find",
            "description": "Finds.",
            "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}},
        },
        {"name": "plain", "input_schema": {"type": "object"}},
    ] == body["tools"]


def test_calls_of_the_past_keep_their_tools() -> None:
    """A conversation with calls declares their tools although none is on offer, and forbids their use."""
    body = build_request(_request(message("user", "x"), message("assistant", _call()), _result()), "claude", PLAIN)
    assert [{"name": "read_file", "input_schema": {"type": "object"}}] == body["tools"]
    assert {"type": "none"} == body["tool_choice"]


ADAPTIVE = {"type": "adaptive", "display": "summarized"}


@pytest.mark.parametrize(
    ("ability", "effort", "thinking", "output"),
    [
        ("none", "high", None, None),
        ("budget", "off", None, None),
        ("budget", "low", {"type": "enabled", "budget_tokens": 4096}, None),
        ("budget", "medium", {"type": "enabled", "budget_tokens": 12288}, None),
        ("budget", "high", {"type": "enabled", "budget_tokens": 20000}, None),
        ("adaptive", "off", {"type": "disabled"}, None),
        ("adaptive", "medium", ADAPTIVE, {"effort": "medium"}),
        ("always", "off", ADAPTIVE, {"effort": "low"}),
        ("always", "high", ADAPTIVE, {"effort": "high"}),
    ],
)
def test_how_much_to_think(ability: Any, effort: ThinkingEffort, thinking: object, output: object) -> None:
    """The effort is asked for in the way the model understands, and a budget leaves room for the answer."""
    options = AnthropicOptions(max_output_tokens=40_000, thinking=ability, caching=False)
    body = build_request(_request(message("user", "x"), thinking=effort), "claude", options)
    assert (thinking, output) == (body.get("thinking"), body.get("output_config"))


def test_a_short_answer_leaves_no_room_for_a_budget() -> None:
    """Where the longest answer is too short for the least budget, nothing is asked for."""
    options = AnthropicOptions(thinking="budget")
    body = build_request(_request(message("user", "x"), thinking="high", max_output_tokens=1500), "claude", options)
    assert (1500, None) == (body["max_tokens"], body.get("thinking"))


@pytest.mark.parametrize(("signature", "thinks"), [("anthropic:S", True), ("openai:S", False), (None, False)])
def test_no_budget_in_the_midst_of_a_turn_without_thinking(signature: str | None, *, thinks: bool) -> None:
    """A turn that began without the model's own thinking goes on without it, as the interface would refuse."""
    options = AnthropicOptions(thinking="budget")
    asked = _request(
        message("user", "x"),
        message("assistant", ThinkingPart(text="hm", signature=signature), _call()),
        _result(),
        thinking="low",
    )
    assert thinks == ("thinking" in build_request(asked, "claude", options))


def test_an_answer_that_follows_a_schema() -> None:
    """The schema goes to the interface with its objects closed, or into words for a model that knows no schemas."""
    inner = {"type": "object", "properties": {"type": {"type": "string"}}, "additionalProperties": True}
    schema = JsonObject(
        {"type": "object", "properties": {"all": {"type": "array", "items": {"anyOf": [inner, {"type": "object"}]}}}}
    )
    asked = _request(message("user", "x"), output_schema=schema, system="Be good.")
    format_ = build_request(asked, "claude", PLAIN)["output_config"]["format"]
    assert "json_schema" == format_["type"]
    assert {
        "type": "object",
        "properties": {
            "all": {"type": "array", "items": {"anyOf": [inner, {"type": "object", "additionalProperties": False}]}}
        },
        "additionalProperties": False,
    } == format_["schema"]
    in_words = build_request(asked, "claude", AnthropicOptions(structured_output=False, caching=False))
    assert "output_config" not in in_words
    assert in_words["system"][0]["text"].startswith("Be good.\n\nAnswer with nothing but JSON")


def test_halves_of_characters_are_replaced() -> None:
    """Text that no file could hold does not break a request."""
    body = json.loads(encode_body(build_request(_request(message("user", "a\ud800b ü")), "claude", PLAIN)))
    assert "a?b ü" == body["messages"][0]["content"][0]["text"]


_SIGNATURES = st.sampled_from([None, "anthropic:S", "anthropic-redacted:D", "openai:x", "anthropic:"])
_IDS = st.sampled_from(["call_1", "call_2", "wei rd/id"]).map(CallId)
_TEXTS = st.sampled_from(["", " ", "a", "long text"])
_PARTS: st.SearchStrategy[Part] = st.one_of(
    _TEXTS.map(lambda text: TextPart(text=text)),
    st.builds(ThinkingPart, text=_TEXTS, signature=_SIGNATURES),
    st.just(PIXEL),
    st.builds(ToolCallPart, call_id=_IDS, name=st.sampled_from(["t", "bad name", ""]), arguments=st.just(JsonObject())),
    st.builds(
        ToolResultPart,
        call_id=_IDS,
        name=st.just("t"),
        status=st.sampled_from(["success", "error", "denied", "cancelled", "interrupted"]),
        text=_TEXTS,
        images=st.sampled_from([(), (PIXEL,)]),
    ),
    st.builds(InterruptedPart, reason=st.sampled_from(["stopped", "failed", "interrupted"])),
)
_ROLES: st.SearchStrategy[Role] = st.sampled_from(["user", "assistant", "tool", "summary"])
_MESSAGES = st.builds(lambda role, parts: message(role, *parts), _ROLES, st.lists(_PARTS, max_size=4))


@fewer_examples
@given(
    messages=st.lists(_MESSAGES, max_size=8),
    ability=st.sampled_from(["none", "budget", "adaptive", "always"]),
    effort=st.sampled_from(["off", "low", "high"]),
)
def test_any_conversation_is_legal(messages: list[Message], ability: Any, effort: ThinkingEffort) -> None:
    """Whatever was said and done, roles alternate, nothing is empty, each call is answered once, right after it."""
    options = AnthropicOptions(max_output_tokens=64_000, thinking=ability)
    body = json.loads(encode_body(build_request(_request(*messages, thinking=effort), "claude", options)))
    roles = [each["role"] for each in body["messages"]]
    assert ["user", "assistant"] * (len(roles) // 2) + ["user"] == roles
    waiting: list[str] = []
    used: set[str] = set()
    for each in body["messages"]:
        blocks = each["content"]
        results = [block for block in blocks if block["type"] == "tool_result"]
        assert blocks
        assert results == blocks[: len(results)]
        assert waiting == [block["tool_use_id"] for block in results]
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert not used & set(waiting)
        used |= set(waiting)
        for block in [*blocks, *(inner for result in results for inner in result["content"])]:
            assert block.get("text", "x").strip()
            assert "cache_control" not in block or block["type"] not in {"thinking", "redacted_thinking"}
        assert all(
            len({inner["type"] for inner in result["content"]} - {"text"}) == 0
            for result in results
            if "is_error" in result
        )
        if each["role"] == "assistant":
            assert "thinking" not in blocks[-1]["type"]
    assert 4 >= json.dumps(body).count('"cache_control"')
    assert not used or body["tools"]
