"""The Chat Completions API: OpenAI's own, and that of Ollama, vLLM, llama.cpp, OpenRouter and many others.

They differ in small ways. Differences in requests are options, with sets of options by server in `DIALECTS`;
differences in answers are handled without configuration.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final, Literal

import attrs

from session_core.providers.base import ModelRequest, ProviderEvent
from session_core.providers.conversation import (
    IMAGE_LEFT_OUT,
    ModelStep,
    UserContent,
    UserStep,
    prepare_conversation,
    result_text,
)
from session_core.providers.endpoint import Endpoint
from session_core.providers.http import stream_answer
from session_core.providers.openai_chat_stream import ChatDecoder
from session_core.providers.openai_common import (
    MAX_CACHE_KEY_CHARS,
    SCHEMA_NAME,
    arguments_text,
    encode_body,
    image_address,
    is_strict,
    tool_parameters,
)
from session_core.providers.tool_names import ToolNames
from session_core.vocabulary.frozen import thaw_json
from session_core.vocabulary.messages import ImagePart, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from session_core.vocabulary.tools import ToolSpec

PATH: Final = "/chat/completions"


@attrs.frozen(kw_only=True)
class ChatOptions:
    """The request options of a server with this API.

    Attributes:
        max_tokens_field: The server's field for the longest answer.
        system_role: The role of the system prompt.
        include_usage: Whether to request token counts; a few servers refuse that.
        can_see: Whether the model accepts images; if not, it is told that there was one.
        can_think: Whether the model accepts `reasoning_effort`.
        effort_when_off: The effort to request when thinking is off; by default the server decides.
        thinking_field: The field for earlier thinking, for servers that want it, such as `reasoning_content`.
        sends_cache_key: Whether the server accepts `prompt_cache_key`; most refuse or ignore it.
    """

    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_tokens"
    system_role: Literal["system", "developer"] = "system"
    include_usage: bool = True
    can_see: bool = True
    can_think: bool = False
    effort_when_off: str | None = None
    thinking_field: Literal["reasoning_content", "reasoning"] | None = None
    sends_cache_key: bool = False


DIALECTS: Final[Mapping[str, ChatOptions]] = MappingProxyType(
    {
        "openai": ChatOptions(max_tokens_field="max_completion_tokens", sends_cache_key=True),
        "openrouter": ChatOptions(can_think=True),
        "ollama": ChatOptions(),
        "vllm": ChatOptions(),
        "llama.cpp": ChatOptions(),
    }
)


class ChatCompletionsProvider:
    """Answers from any server with this API; `endpoint` is its address up to `/chat/completions`."""

    def __init__(self, endpoint: Endpoint, model_id: str, *, options: ChatOptions = DIALECTS["openai"]) -> None:
        self._endpoint = endpoint
        self._model_id = model_id
        self._options = options

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ProviderEvent]]:
        """Call the model; leaving the context at any moment closes the connection."""
        body = encode_body(build_request(request, self._model_id, self._options))
        names = ToolNames(tool.name for tool in request.tools)
        decoder = ChatDecoder(self._endpoint.secrets, names=names.ours)
        async with stream_answer(self._endpoint, PATH, body, decoder) as events:
            yield events


def build_request(request: ModelRequest, model_id: str, options: ChatOptions) -> dict[str, Any]:
    """Return the JSON body of a call."""
    names = ToolNames(tool.name for tool in request.tools)
    body: dict[str, Any] = {"model": model_id, "messages": _build_messages(request, options, names), "stream": True}
    if options.include_usage:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [_build_tool(spec, names) for spec in request.tools]
    if request.max_output_tokens is not None:
        body[options.max_tokens_field] = request.max_output_tokens
    if options.can_think:
        effort = request.thinking if request.thinking != "off" else options.effort_when_off
        if effort is not None:
            body["reasoning_effort"] = effort
    if request.output_schema is not None:
        schema = thaw_json(request.output_schema)
        form = {"name": SCHEMA_NAME, "schema": schema} | ({"strict": True} if is_strict(schema) else {})
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    if options.sends_cache_key and request.cache_key:
        body["prompt_cache_key"] = request.cache_key[:MAX_CACHE_KEY_CHARS]
    return body


def _build_tool(spec: ToolSpec, names: ToolNames) -> dict[str, Any]:
    parameters = tool_parameters(spec.parameters)
    return {
        "type": "function",
        "function": {"name": names.fit(spec.name), "description": spec.description, "parameters": parameters},
    }


def _build_messages(request: ModelRequest, options: ChatOptions, names: ToolNames) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if request.system.strip():
        messages.append({"role": options.system_role, "content": request.system})
    seen: list[UserContent] = []  # images of tool results: this API allows images only in user messages
    for step in prepare_conversation(request.messages, names.fit):
        match step:
            case UserStep():
                messages.append(_build_user_message([*seen, *step.parts], options))
                seen = []
            case ModelStep():
                if seen:
                    messages.append(_build_user_message(seen, options))
                messages.append(_build_assistant_message(step, options))
                messages.extend(_build_tool_message(result) for result in step.results)
                seen = _collect_images(step.results)
    if seen:
        messages.append(_build_user_message(seen, options))
    return messages


def _build_user_message(parts: Iterable[UserContent], options: ChatOptions) -> dict[str, Any]:
    visible_parts = [
        TextPart(text=IMAGE_LEFT_OUT) if isinstance(part, ImagePart) and not options.can_see else part for part in parts
    ]
    texts = [part.text for part in visible_parts if isinstance(part, TextPart)]
    if len(texts) == len(visible_parts):  # every server understands plain text
        return {"role": "user", "content": "\n\n".join(texts)}
    return {"role": "user", "content": [_build_content_part(part) for part in visible_parts]}


def _build_content_part(part: UserContent) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    return {"type": "image_url", "image_url": {"url": image_address(part)}}


def _build_assistant_message(step: ModelStep, options: ChatOptions) -> dict[str, Any]:
    texts = [part.text for part in step.parts if isinstance(part, TextPart)]
    message: dict[str, Any] = {"role": "assistant", "content": "\n\n".join(texts) or None}
    if options.thinking_field is not None:
        thoughts = [part.text for part in step.parts if isinstance(part, ThinkingPart) and part.signature is None]
        if any(thoughts):
            message[options.thinking_field] = "\n\n".join(thoughts)
    calls = [part for part in step.parts if isinstance(part, ToolCallPart)]
    if calls:
        message["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": arguments_text(call.arguments)},
            }
            for call in calls
        ]
    return message


def _build_tool_message(result: ToolResultPart) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": result.call_id, "content": result_text(result)}


def _collect_images(results: Iterable[ToolResultPart]) -> list[UserContent]:
    found: list[UserContent] = []
    for result in results:
        if result.images:
            found.append(TextPart(text=f"[Images from the result of {result.name}, call {result.call_id}]"))
            found.extend(result.images)
    return found
