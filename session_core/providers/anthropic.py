"""Models behind Anthropic's Messages API: `build_request` builds a request, `AnthropicDecoder` decodes the answer.

The API accepts thinking only if it comes back unchanged. So its signature is kept as "anthropic:...", and encrypted
thinking as "anthropic-redacted:...". Thinking from other kinds of providers is dropped.
"""

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import msgspec

from session_core.providers.anthropic_stream import REDACTED, SIGNED, AnthropicDecoder
from session_core.providers.base import ModelRequest, ProviderEvent, ThinkingEffort
from session_core.providers.catalogue import ThinkingAbility
from session_core.providers.conversation import (
    IMAGE_LEFT_OUT,
    ConversationStep,
    ModelStep,
    UserStep,
    own_signature,
    prepare_conversation,
    result_text,
)
from session_core.providers.endpoint import Endpoint
from session_core.providers.http import stream_answer
from session_core.providers.tool_names import ToolNames
from session_core.vocabulary.frozen import thaw_json
from session_core.vocabulary.messages import ImagePart, TextPart, ThinkingPart, ToolCallPart, ToolResultPart

API_VERSION: Final = "2023-06-01"

_BUDGETS: Final[Mapping[ThinkingEffort, int]] = {"low": 4_096, "medium": 12_288, "high": 32_768}
_LEAST_BUDGET: Final = 1_024
_CACHED: Final = {"type": "ephemeral"}
_SCHEMA_IN_WORDS: Final = "Answer with nothing but JSON that follows this schema:\n"


@attrs.frozen(kw_only=True)
class AnthropicOptions:
    """The abilities of a model.

    Attributes:
        max_output_tokens: The longest answer; the API requires this field.
        thinking: Unsupported, limited by a token budget, set by effort, or set by effort and always on.
        structured_output: Whether the API can enforce a JSON schema; if not, the prompt asks for it.
        can_see: Whether the model accepts images; if not, it is told that there was one.
        caching: Whether to mark the parts of the request to cache between calls.
    """

    max_output_tokens: int = 8_192
    thinking: ThinkingAbility = "none"
    structured_output: bool = True
    can_see: bool = True
    caching: bool = True


class AnthropicProvider:
    """Answers from an Anthropic model, or from any server with the same API."""

    def __init__(self, endpoint: Endpoint, model_id: str, *, options: AnthropicOptions = AnthropicOptions()) -> None:  # noqa: B008 - frozen
        self._endpoint = endpoint
        self._model_id = model_id
        self._options = options
        self._path = "/messages" if endpoint.base_url.rstrip("/").endswith("/v1") else "/v1/messages"

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ProviderEvent]]:
        """Call the model; leaving the context at any moment closes the connection."""
        body = encode_body(build_request(request, self._model_id, self._options))
        names = ToolNames(tool.name for tool in request.tools)
        decoder = AnthropicDecoder(names=names.ours, secrets=self._endpoint.secrets)
        headers = {"anthropic-version": API_VERSION}
        async with stream_answer(self._endpoint, self._path, body, decoder, headers, key_header="x-api-key") as events:
            yield events


def encode_body(body: Mapping[str, Any]) -> bytes:
    """Return a request as bytes; lone surrogates, which no API accepts, are replaced."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return json.dumps(body, ensure_ascii=False).encode("utf-8", errors="replace")


def build_request(
    request: ModelRequest,
    model_id: str,
    options: AnthropicOptions = AnthropicOptions(),  # noqa: B008 - frozen
) -> dict[str, Any]:
    """Return the JSON body of a call."""
    names = ToolNames(tool.name for tool in request.tools)
    steps = prepare_conversation(request.messages, names.fit)
    longest = max(1, min(request.max_output_tokens or options.max_output_tokens, options.max_output_tokens))
    body: dict[str, Any] = {"model": model_id, "max_tokens": longest, "stream": True}
    output: dict[str, Any] = {}
    system = request.system
    if request.output_schema is not None:
        schema = thaw_json(request.output_schema)
        if options.structured_output:
            output["format"] = {"type": "json_schema", "schema": _close_objects(schema)}
        else:
            system = f"{system}\n\n{_SCHEMA_IN_WORDS}{json.dumps(schema)}".strip()
    thinking = _build_thinking(request.thinking, options, longest, steps)
    if thinking is not None:
        body["thinking"] = thinking
        if thinking["type"] == "adaptive":
            output["effort"] = "low" if request.thinking == "off" else request.thinking
    if output:
        body["output_config"] = output
    if system.strip():
        body["system"] = [{"type": "text", "text": system}]
    body.update(_build_tools(request, steps, names))
    body["messages"] = _build_messages(steps, options)
    if options.caching:
        _mark_for_cache(body)
    return body


def _build_thinking(
    effort: ThinkingEffort, options: AnthropicOptions, longest: int, steps: tuple[ConversationStep, ...]
) -> dict[str, Any] | None:
    if options.thinking == "none":
        return None
    if options.thinking == "always" or (options.thinking == "adaptive" and effort != "off"):
        return {"type": "adaptive", "display": "summarized"}
    if options.thinking == "adaptive":
        return {"type": "disabled"}
    if effort == "off" or not _can_think_now(steps):
        return None
    budget = min(_BUDGETS[effort], longest // 2)
    return {"type": "enabled", "budget_tokens": budget} if budget >= _LEAST_BUDGET else None


def _can_think_now(steps: tuple[ConversationStep, ...]) -> bool:
    """Return whether thinking is allowed: with a budget, an answer continued after tool results must begin with it."""
    last = steps[-1]
    return not isinstance(last, ModelStep) or _build_thinking_block(last.parts[0]) is not None


def _build_tools(request: ModelRequest, steps: tuple[ConversationStep, ...], names: ToolNames) -> dict[str, Any]:
    tools: dict[str, dict[str, Any]] = {}
    for spec in request.tools:
        tool: dict[str, Any] = {"name": names.fit(spec.name)}
        if spec.description.strip():
            tool["description"] = spec.description
        tool["input_schema"] = {"type": "object", **thaw_json(spec.parameters)}
        tools.setdefault(tool["name"], tool)
    if tools:
        return {"tools": list(tools.values())}
    # The API requires every tool that the conversation calls to be declared, even if none is available any more.
    used = sorted({part.name for step in steps for part in step.parts if isinstance(part, ToolCallPart)})
    if not used:
        return {}
    declared = [{"name": name, "input_schema": {"type": "object"}} for name in used]
    return {"tools": declared, "tool_choice": {"type": "none"}}


def _build_messages(steps: Iterable[ConversationStep], options: AnthropicOptions) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []

    def add_blocks(role: str, blocks: list[dict[str, Any]]) -> None:
        if blocks and messages and messages[-1]["role"] == role:
            messages[-1]["content"].extend(blocks)
        elif blocks:
            messages.append({"role": role, "content": blocks})

    for step in steps:
        if isinstance(step, UserStep):
            add_blocks("user", [_build_user_block(part, options) for part in step.parts])
        else:
            add_blocks(
                "assistant", [block for part in step.parts if (block := _build_assistant_block(part)) is not None]
            )
            add_blocks("user", [_build_result_block(result, options) for result in step.results])
            # The API refuses images in a failed result, so they follow as user content.
            failed_images = [image for result in step.results if result.status != "success" for image in result.images]
            add_blocks("user", [_build_user_block(image, options) for image in failed_images])
    return messages


def _build_user_block(part: TextPart | ImagePart, options: AnthropicOptions) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if not options.can_see:
        return {"type": "text", "text": IMAGE_LEFT_OUT}
    return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": part.data}}


def _build_assistant_block(part: TextPart | ThinkingPart | ToolCallPart) -> dict[str, Any] | None:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ThinkingPart():
            return _build_thinking_block(part)
        case ToolCallPart():
            return {"type": "tool_use", "id": part.call_id, "name": part.name, "input": thaw_json(part.arguments)}


def _build_thinking_block(part: TextPart | ThinkingPart | ToolCallPart) -> dict[str, Any] | None:
    """Return thinking that this API produced as a block, None for everything else."""
    if not isinstance(part, ThinkingPart):
        return None
    if signature := own_signature(part, SIGNED):
        return {"type": "thinking", "thinking": part.text, "signature": signature}
    if data := own_signature(part, REDACTED):
        return {"type": "redacted_thinking", "data": data}
    return None


def _build_result_block(result: ToolResultPart, options: AnthropicOptions) -> dict[str, Any]:
    succeeded = result.status == "success"
    content = [{"type": "text", "text": result_text(result)}]
    if succeeded:
        content = content if result.text.strip() or not result.images else []
        content += [_build_user_block(image, options) for image in result.images]
    block = {"type": "tool_result", "tool_use_id": result.call_id, "content": content}
    return block if succeeded else {**block, "is_error": True}


def _mark_for_cache(body: dict[str, Any]) -> None:
    """Set at most four cache marks: after the tools, the system prompt, and the last two user messages."""
    for blocks in (body.get("tools"), body.get("system")):
        if blocks:
            blocks[-1]["cache_control"] = _CACHED
    for message in [each for each in body["messages"] if each["role"] == "user"][-2:]:
        message["content"][-1]["cache_control"] = _CACHED


def _close_objects(schema: Any) -> Any:
    """Return a schema in which no object allows additional properties, as the API requires."""
    if isinstance(schema, list):
        return [_close_objects(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = dict(schema)
    for key in ("properties", "$defs", "definitions"):
        if isinstance(closed.get(key), dict):
            closed[key] = {name: _close_objects(each) for name, each in closed[key].items()}
    for key in ("items", "anyOf", "allOf", "oneOf"):
        if key in closed:
            closed[key] = _close_objects(closed[key])
    if closed.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed
